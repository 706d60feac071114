//! Texts that a client brings back and must not read.
//!
//! Owns: the key that they are sealed with, made anew at each start. Promises: a sealed text tells neither its content
//! nor its length, and one that this process has not sealed is refused. Must not: be stored.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

/// What a sealed text begins with: no name of a user's begins with it.
pub const SEALED: &str = "$next/";
/// All that is sealed is as long.
const CONTENT_BYTES: usize = 256;

static KEY: LazyLock<LessSafeKey> = LazyLock::new(|| {
    let key = UnboundKey::new(&AES_256_GCM, &random::<32>()).expect("a key of 32 bytes");
    LessSafeKey::new(key)
});

pub(super) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the system gives random bytes");
    bytes
}

/// Seals a name, which has at most 255 bytes.
#[must_use]
pub fn seal(name: &str) -> String {
    let mut content = name.as_bytes().to_vec();
    // The first byte behind the name ends it: no name has this one.
    content.push(0xff);
    content.resize(CONTENT_BYTES.max(content.len()), 0);
    let nonce = random::<NONCE_LEN>();
    let sealed = KEY.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::empty(),
        &mut content,
    );
    sealed.expect("far below what a key may seal");
    format!(
        "{SEALED}{}",
        URL_SAFE_NO_PAD.encode([&nonce[..], &content].concat())
    )
}

/// What was sealed; `None` = nothing that this process has sealed.
#[must_use]
pub fn unseal(text: &str) -> Option<String> {
    let sealed = URL_SAFE_NO_PAD.decode(text.strip_prefix(SEALED)?).ok()?;
    let (nonce, content) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut content = content.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let content = KEY.open_in_place(nonce, Aad::empty(), &mut content).ok()?;
    let end = content.iter().position(|byte| *byte == 0xff)?;
    String::from_utf8(content[..end].to_vec()).ok()
}

/// Seals a token of one search: it is opened only with the same `of`, the caller and all that they asked for. Its
/// length tells that of the token in steps of 256 bytes.
#[must_use]
pub fn seal_for(token: &[u8], of: &[u8]) -> String {
    let length = u32::try_from(token.len()).unwrap_or(u32::MAX);
    let mut content = [&length.to_be_bytes()[..], token].concat();
    content.resize(content.len().next_multiple_of(CONTENT_BYTES), 0);
    let nonce = random::<NONCE_LEN>();
    let sealed = KEY.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(of),
        &mut content,
    );
    sealed.expect("far below what a key may seal");
    URL_SAFE_NO_PAD.encode([&nonce[..], &content].concat())
}

/// The token that was sealed; `None` = nothing that this process has sealed for this.
#[must_use]
pub fn unseal_for(text: &str, of: &[u8]) -> Option<Vec<u8>> {
    let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (nonce, content) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut content = content.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let content = KEY.open_in_place(nonce, Aad::from(of), &mut content).ok()?;
    let (length, content) = content.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    Some(content.get(..length)?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_comes_back_and_tells_nothing() {
        for name in ["", "room/1", &"é".repeat(127), &"x".repeat(255)] {
            let sealed = seal(name);
            assert_eq!(unseal(&sealed).as_deref(), Some(name));
            assert_eq!(sealed.len(), seal("a").len());
            assert_ne!(sealed, seal(name), "another nonce");
            let (head, last) = sealed.split_at(sealed.len() - 2);
            let other = if last == "AA" { "BA" } else { "AA" };
            assert_eq!(unseal(&format!("{head}{other}")), None);
        }
        for wrong in ["", "room/1", SEALED, "$next/AAAA", "$next/!"] {
            assert_eq!(unseal(wrong), None);
        }
    }

    #[test]
    fn a_token_is_opened_for_what_it_was_sealed_for_alone() {
        for token in [&b""[..], b"x", &[7; 3_000]] {
            let sealed = seal_for(token, b"ada, tide");
            assert_eq!(unseal_for(&sealed, b"ada, tide").as_deref(), Some(token));
            assert_eq!(unseal_for(&sealed, b"ben, tide"), None);
            assert_ne!(sealed, seal_for(token, b"ada, tide"));
            let at = sealed.len() / 2;
            let other = if &sealed[at..=at] == "A" { "B" } else { "A" };
            let changed = format!("{}{other}{}", &sealed[..at], &sealed[at + 1..]);
            assert_eq!(unseal_for(&changed, b"ada, tide"), None);
        }
        assert_eq!(
            seal_for(&[1; 10], b"").len(),
            seal_for(&[1; 200], b"").len()
        );
        assert_eq!(unseal_for("", b""), None);
        assert_eq!(unseal_for("$next/AAAA", b""), None);
    }
}
