//! API keys: what back ends show.
//!
//! Owns: their text, `tl_ID_SECRET`, and what is known of one. Promises: a secret has 256 random bits, is compared in
//! constant time by its hash, and is in no message, log or debug text; of a key that is not there as much is done as of
//! one that is. Must not: store one.

use std::fmt;
use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use tideline_model::access::{Grants, Pattern};

/// What the text of a key begins with.
pub(super) const MARK: &str = "tl_";
const ID_SYMBOLS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const SECRET_SYMBOLS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const ID_BYTES: usize = 12;
const SECRET_BYTES: usize = 43;
const NAME_BYTES_MAX: usize = 64;
const CERTIFICATE_BYTES_MAX: usize = 253;
/// Patterns of users that a key may act for.
pub const ACT_AS_MAX: usize = 64;

/// The hash of a key's secret. It need not be a slow one, as 256 bits can't be guessed; and a slow one would let
/// callers with wrong keys make work.
pub(super) type SecretHash = [u8; 32];

/// The secret of a key, to be given out once or to be signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret(String);

/// Without the secret.
impl fmt::Debug for KeySecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeySecret")
    }
}

impl KeySecret {
    /// The secret itself. Every place that asks for it is a place where it could get out.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// From a file of the server's own.
    pub(super) fn read(text: &str) -> Option<KeySecret> {
        is_of(text, SECRET_BYTES, SECRET_SYMBOLS).then(|| KeySecret(text.to_owned()))
    }

    pub(super) fn hash(&self) -> SecretHash {
        Sha256::digest(&self.0).into()
    }

    /// The key as its owner gets it.
    #[must_use]
    pub fn key(&self, id: &str) -> String {
        format!("{MARK}{id}_{}", self.0)
    }
}

/// What is asked of a new key.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// Its name; several may share one.
    pub name: String,
    /// What it may do.
    pub rights: Grants,
    /// Users that it may act for: names, or prefixes and `*`.
    pub act_as: Vec<String>,
    /// Tablestore's requests are signed with it, so its secret is kept.
    pub signing: bool,
    /// It counts only on connections that have shown a certificate of this DNS name.
    pub certificate: Option<String>,
}

/// A key that exists.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Its ID.
    pub id: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it may do.
    pub rights: Arc<Grants>,
    /// Users that it may act for.
    pub act_as: Vec<Pattern>,
    /// Of a key that requests are signed with.
    pub signing: bool,
    /// See [`NewKey::certificate`].
    pub certificate: Option<String>,
    /// When it was made, ms.
    pub created_at: u64,
    pub(super) hash: SecretHash,
    /// `None` also of a signing key whose file is gone.
    pub(super) secret: Option<KeySecret>,
    /// The secret as its row has it for the other nodes of a cluster.
    pub(super) sealed: Option<Box<[u8]>>,
}

/// Why a key can't be made. The path and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRefused {
    /// The parameter.
    pub field: &'static str,
    /// What it must be.
    pub why: String,
}

impl NewKey {
    /// A key with a new ID and secret.
    pub fn make(self, now_ms: u64) -> Result<(ApiKey, KeySecret), KeyRefused> {
        let refuse = |field, why: &str| {
            let why = why.to_owned();
            Err(KeyRefused { field, why })
        };
        let name = &self.name;
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_fit) {
            return refuse("name", "1 to 64 letters, digits, '.', '_' and '-'");
        }
        if self.act_as.len() > ACT_AS_MAX {
            return refuse("act_as", "at most 64 patterns");
        }
        let act_as = self.act_as.iter().map(|text| user_pattern(text));
        let Some(act_as) = act_as.collect::<Option<Vec<Pattern>>>() else {
            return refuse("act_as", "each a user, or a prefix and *");
        };
        if let Some(name) = &self.certificate
            && !is_dns_name(name)
        {
            return refuse("certificate", "a DNS name like \"shop.example.org\"");
        }
        let random = |symbols, length| random(symbols, length).ok_or(());
        let drawn = || {
            Ok::<_, ()>((
                random(ID_SYMBOLS, ID_BYTES)?,
                random(SECRET_SYMBOLS, SECRET_BYTES)?,
            ))
        };
        let Ok((id, secret)) = drawn() else {
            return refuse("name", "the system gives no random numbers");
        };
        let secret = KeySecret(secret);
        let key = ApiKey {
            id: id.into(),
            name: self.name.into(),
            rights: Arc::new(self.rights),
            act_as,
            signing: self.signing,
            certificate: self.certificate,
            created_at: now_ms,
            hash: secret.hash(),
            secret: self.signing.then(|| secret.clone()),
            sealed: None,
        };
        Ok((key, secret))
    }
}

impl ApiKey {
    /// Whether it may act for a user.
    pub(super) fn acts_for(&self, user: &str) -> bool {
        let mut patterns = self.act_as.iter();
        patterns.any(|pattern| pattern.matches(user.as_bytes(), None))
    }
}

/// A pattern of users. They have no segments, so there is no `{user}` in it.
pub(super) fn user_pattern(text: &str) -> Option<Pattern> {
    let fits = !text.starts_with('$') && !text.contains(['{', '}']);
    fits.then(|| Pattern::parse(text).ok()).flatten()
}

/// ID and secret of a key's text; `None` if it has not the form of one.
pub(super) fn parts(text: &str) -> Option<(&str, KeySecret)> {
    let (id, secret) = text.strip_prefix(MARK)?.split_once('_')?;
    let id = is_id(id).then_some(id)?;
    Some((id, KeySecret::read(secret)?))
}

/// Whether a text can be a key's ID.
pub(super) fn is_id(text: &str) -> bool {
    is_of(text, ID_BYTES, ID_SYMBOLS)
}

/// Whether a secret is that of a key. Without a key the same is done, and it is not.
pub(super) fn is_right(key: Option<&ApiKey>, secret: &KeySecret) -> bool {
    let nobody = [0; 32];
    let expected = key.map_or(&nobody, |key| &key.hash);
    let is_same: bool = secret.hash().ct_eq(expected).into();
    is_same && key.is_some()
}

fn is_of(text: &str, length: usize, symbols: &[u8]) -> bool {
    text.len() == length && text.bytes().all(|byte| symbols.contains(&byte))
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(is_fit)
    };
    name.len() <= CERTIFICATE_BYTES_MAX && name.split('.').all(is_label)
}

/// A text of random symbols, each as likely as any other.
fn random(symbols: &[u8], length: usize) -> Option<String> {
    let source = SystemRandom::new();
    // A byte from here on would make the first symbols likelier.
    let end = 256 - 256 % symbols.len();
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0; 64];
        source.fill(&mut bytes).ok()?;
        let fit = bytes.iter().map(|byte| usize::from(*byte));
        let fit = fit.filter(|byte| *byte < end).take(length - text.len());
        text.extend(fit.map(|byte| char::from(symbols[byte % symbols.len()])));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> Result<(ApiKey, KeySecret), KeyRefused> {
        let asked = NewKey {
            name: name.to_owned(),
            act_as: vec!["shop-*".to_owned(), "ann".to_owned()],
            ..NewKey::default()
        };
        asked.make(7)
    }

    #[test]
    fn a_key_is_known_by_its_id_and_its_secret() {
        let (key, secret) = made("shop.back_end-1").unwrap();
        let text = secret.key(&key.id);
        assert_eq!(text.len(), 3 + 12 + 1 + 43);
        let (id, shown) = parts(&text).unwrap();
        assert_eq!(id, &*key.id);
        assert!(is_right(Some(&key), &shown));
        let (other, of_other) = made("shop.back_end-1").unwrap();
        assert_ne!(other.id, key.id);
        assert!(!is_right(Some(&key), &of_other));
        assert!(!is_right(None, &shown));
        assert!(!format!("{key:?} {secret:?}").contains(secret.reveal()));
        for (user, expected) in [
            ("shop-1", true),
            ("shop-", true),
            ("shop", false),
            ("ann", true),
            ("anna", false),
            ("$key/shop", false),
        ] {
            assert_eq!(key.acts_for(user), expected, "{user}");
        }
    }

    #[test]
    fn what_has_not_the_form_of_a_key_is_none() {
        let (key, secret) = made("a").unwrap();
        let text = secret.key(&key.id);
        for changed in [
            text[1..].to_owned(),
            format!("{text}a"),
            text[..text.len() - 1].to_owned(),
            text.replace("tl_", "tl-"),
            text.replace("tl_", "TL_"),
            text.replacen(
                &*key.id,
                &key.id
                    .to_uppercase()
                    .replace(|one: char| one.is_ascii_digit(), "A"),
                1,
            ),
            format!(" {text}"),
            format!("{}!", &text[..text.len() - 1]),
        ] {
            assert!(parts(&changed).is_none(), "{changed}");
        }
    }

    #[test]
    fn a_key_that_makes_no_sense_is_refused() {
        for name in ["", "a b", "$a", &"x".repeat(65)] {
            assert_eq!(made(name).unwrap_err().field, "name");
        }
        let refused = |asked: NewKey| {
            let name = "a".to_owned();
            NewKey { name, ..asked }.make(0).unwrap_err().field
        };
        for act_as in ["", "a*b", "$*", "$inbox/ann", "{user}"] {
            let act_as = vec![act_as.to_owned()];
            assert_eq!(
                refused(NewKey {
                    act_as,
                    ..NewKey::default()
                }),
                "act_as"
            );
        }
        for certificate in ["", "a..b", "*.example.org", "a b"] {
            let certificate = Some(certificate.to_owned());
            assert_eq!(
                refused(NewKey {
                    certificate,
                    ..NewKey::default()
                }),
                "certificate"
            );
        }
    }

    #[test]
    fn each_symbol_is_drawn() {
        let text = random(ID_SYMBOLS, 4_096).unwrap();
        for symbol in ID_SYMBOLS {
            let count = text.bytes().filter(|byte| byte == symbol).count();
            assert!((40..250).contains(&count), "{count}");
        }
    }
}
