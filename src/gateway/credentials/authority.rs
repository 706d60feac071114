//! Whether a credential counts, now.
//!
//! Owns: the keys that tokens are verified with, the API keys and the revocations, as they are in force. Promises: what
//! is shown is decided without a wait, but for keys that are still to be fetched; a key that was revoked or has left
//! its set counts no more from the moment that the call for it is answered. Must not: know sessions.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::timeout;

use super::api_key::{self, ApiKey, KeyRefused, is_right};
use super::credential::{Credential, Refused, Shown, Source};
use super::keys::files::{Loaded, TokenSources};
use super::keys::jwks_url::{JwksUrl, Published};
use super::stored::{StoredCredentials, StoredError};
use super::verify_token::{self, Named, Signed, TokenKeys, is_user};
use tideline_base::clock::Clock;
use tideline_base::metrics::Metrics;
use tideline_model::access::{Identity, Who};

/// Everything by which credentials are judged. One for each server that has `[auth]`.
pub struct Authority {
    tokens: ArcSwap<Tokens>,
    pub(super) keys: ArcSwap<HashMap<Arc<str>, Arc<ApiKey>>>,
    /// Users' tokens from before these times, ms, do not count.
    pub(super) revoked: RwLock<HashMap<String, u64>>,
    pub(super) stored: StoredCredentials,
    /// One change of keys at a time.
    pub(super) changing: Mutex<()>,
    /// Rises whenever a credential that counted may count no more.
    version: watch::Sender<u64>,
    reloaded: Notify,
    pub(super) clock: Arc<Clock>,
    pub(super) metrics: Arc<Metrics>,
}

struct Tokens {
    sources: TokenSources,
    leeway_ms: u64,
    fixed: TokenKeys,
    /// The JWKS among the files; its keys are in `fixed`.
    of_file: Option<Bytes>,
    url: Option<JwksUrl>,
}

/// Why credentials can't be looked after.
#[derive(Debug)]
pub enum CredentialError {
    /// Keys of the configuration; one line for the operator.
    Keys(String),
    /// Rows or secrets.
    Stored(StoredError),
    /// A key that makes no sense.
    Refused(KeyRefused),
}

impl std::fmt::Display for CredentialError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CredentialError::Keys(why) => out.write_str(why),
            CredentialError::Stored(error) => write!(out, "API keys: {error}"),
            CredentialError::Refused(refused) => write!(out, "{}: {}", refused.field, refused.why),
        }
    }
}

impl std::error::Error for CredentialError {}

impl From<StoredError> for CredentialError {
    fn from(error: StoredError) -> CredentialError {
        CredentialError::Stored(error)
    }
}

/// After a failed fetch.
const RETRY: Duration = Duration::from_secs(10);

impl Authority {
    /// Reads keys and revocations.
    pub async fn open(
        sources: &TokenSources,
        stored: StoredCredentials,
        clock: &Arc<Clock>,
        metrics: &Arc<Metrics>,
    ) -> Result<Authority, CredentialError> {
        let tokens = Tokens::load(sources, None, metrics).map_err(CredentialError::Keys)?;
        let authority = Authority {
            tokens: ArcSwap::from_pointee(tokens),
            keys: ArcSwap::default(),
            revoked: RwLock::default(),
            stored,
            changing: Mutex::default(),
            version: watch::Sender::new(0),
            reloaded: Notify::new(),
            clock: Arc::clone(clock),
            metrics: Arc::clone(metrics),
        };
        authority.read_again().await?;
        Ok(authority)
    }

    /// Fetches the set of keys again and again, until it is dropped.
    pub async fn run(&self) {
        loop {
            let tokens = self.tokens.load_full();
            let Some(url) = &tokens.url else {
                self.reloaded.notified().await;
                continue;
            };
            let rest = match url.refresh().await {
                true => tokens.sources.jwks_refresh,
                false => tokens.sources.jwks_refresh.min(RETRY),
            };
            self.changed();
            // The timeout is the usual end of the wait: the next fetch is due.
            let _ = timeout(rest, self.reloaded.notified()).await;
        }
    }

    /// Takes other keys and rules for tokens; with an error everything stays as it was.
    pub fn reload(&self, sources: &TokenSources) -> Result<(), String> {
        let before = self.tokens.load_full();
        let tokens = Tokens::load(sources, Some(&before), &self.metrics)?;
        self.tokens.store(Arc::new(tokens));
        self.reloaded.notify_one();
        self.changed();
        Ok(())
    }

    /// Judges what a client shows.
    pub fn verify(&self, shown: Shown<'_>) -> Result<Credential, Refused> {
        let bearer = shown.bearer.ok_or(Refused::Missing)?;
        let judged = if bearer.starts_with(api_key::MARK) {
            self.verify_key(bearer, shown)
        } else {
            self.verify_token(bearer, shown)
        };
        let by = if bearer.starts_with(api_key::MARK) {
            "key"
        } else {
            "token"
        };
        self.count(by, &judged);
        judged
    }

    pub(super) fn count(&self, by: &'static str, judged: &Result<Credential, Refused>) {
        let result = judged.as_ref().map_or_else(|why| why.label(), |_| "ok");
        let judged = &self.metrics.access.credentials;
        judged.of(&[by, result]).increment(1);
    }

    /// The same, after a fetch of the keys if the token names one that is not there.
    pub async fn verify_fetching(&self, shown: Shown<'_>) -> Result<Credential, Refused> {
        if let Some(bearer) = shown.bearer.filter(|bearer| self.lacks_key(bearer)) {
            self.fetch_for(bearer).await;
        }
        self.verify(shown)
    }

    /// Whether a token names a key that is not there, and a fetch may bring it.
    pub fn lacks_key(&self, bearer: &str) -> bool {
        let tokens = self.tokens.load();
        let Some(url) = &tokens.url else { return false };
        if bearer.starts_with(api_key::MARK) {
            return false;
        }
        let Ok(named) = Named::of(bearer) else {
            return false;
        };
        let is_known = |keys: &TokenKeys| keys.knows(&named);
        !is_known(&tokens.fixed) && !url.with(|keys| keys.is_some_and(is_known)) && url.would_ask()
    }

    /// Fetches the keys for a token that [`Authority::lacks_key`]; once for all callers that wait.
    pub async fn fetch_for(&self, bearer: &str) {
        let tokens = self.tokens.load_full();
        if let Some(url) = tokens.url.as_ref().filter(|_| self.lacks_key(bearer)) {
            url.ask().await;
            self.changed();
        }
    }

    fn verify_token(&self, bearer: &str, shown: Shown<'_>) -> Result<Credential, Refused> {
        let tokens = self.tokens.load();
        let named = Named::of(bearer)?;
        let now = self.clock.now_ms();
        let token = tokens.by_keys(&named, |keys| {
            verify_token::verify(keys, &named, bearer, now)
        })?;
        let credential = Credential {
            expires_at: Some(token.expires_at),
            ends_at: Some(token.expires_at.saturating_add(tokens.leeway_ms)),
            identity: Arc::new(token.identity),
            source: Source::Token {
                key: token.key,
                issued_at: token.issued_at,
            },
        };
        let user = credential.identity.user();
        if self.is_revoked(user, token.issued_at) {
            return Err(Refused::Revoked);
        }
        if shown.user.is_some() && shown.user != user {
            return Err(Refused::OtherUser);
        }
        Ok(credential)
    }

    /// Verifies the signature of a token of the Centrifuge dialect, which need not say what `verify_token` asks for.
    pub(super) fn signed_token(&self, named: &Named, bearer: &str) -> Result<Signed, Refused> {
        let tokens = self.tokens.load();
        tokens.by_keys(named, |keys| {
            verify_token::verify_signed(keys, named, bearer)
        })
    }

    fn verify_key(&self, bearer: &str, shown: Shown<'_>) -> Result<Credential, Refused> {
        let (id, secret) = api_key::parts(bearer).ok_or(Refused::Malformed)?;
        let keys = self.keys.load();
        let known = keys.get(id);
        let is_right = is_right(known.map(AsRef::as_ref), &secret);
        let Some(key) = known.filter(|_| is_right) else {
            return Err(match known {
                Some(_) => Refused::Signature,
                None => Refused::UnknownKey,
            });
        };
        self.acting(key, shown)
    }

    /// The credential of a key whose secret was proved.
    pub(super) fn acting(&self, key: &ApiKey, shown: Shown<'_>) -> Result<Credential, Refused> {
        if let Some(name) = &key.certificate {
            let mut names = shown.certificates.iter();
            if !names.any(|shown| shown.eq_ignore_ascii_case(name)) {
                return Err(Refused::Certificate);
            }
        }
        if let Some(user) = shown.user
            && !(is_user(user) && key.acts_for(user))
        {
            return Err(Refused::OtherUser);
        }
        Ok(credential_of(key, shown.user))
    }

    /// The same credential, acting for a user.
    pub fn acting_for(&self, credential: &Credential, user: &str) -> Result<Credential, Refused> {
        let Who::Key { id, .. } = &credential.identity.who else {
            let is_own = credential.identity.user() == Some(user);
            return match is_own {
                true => Ok(credential.clone()),
                false => Err(Refused::OtherUser),
            };
        };
        let keys = self.keys.load();
        let key = keys.get(id).ok_or(Refused::Revoked)?;
        if !(is_user(user) && key.acts_for(user)) {
            return Err(Refused::OtherUser);
        }
        Ok(credential_of(key, Some(user)))
    }

    /// Whether a credential that counted still does. Time is not looked at.
    #[must_use]
    pub fn still_counts(&self, credential: &Credential) -> bool {
        match (&credential.source, &credential.identity.who) {
            (Source::Token { key, issued_at }, _) => {
                let tokens = self.tokens.load();
                let in_set =
                    |url: &JwksUrl| url.with(|keys| keys.is_some_and(|keys| keys.has(key)));
                let has_key = tokens.fixed.has(key) || tokens.url.as_ref().is_some_and(in_set);
                has_key && !self.is_revoked(credential.identity.user(), *issued_at)
            }
            (Source::Client { issued_at }, _) => {
                !self.is_revoked(credential.identity.user(), *issued_at)
            }
            (Source::Key, Who::Key { id, .. }) => self.keys.load().contains_key(id),
            (Source::Key, _) => false,
        }
    }

    /// Whether a key was revoked, or a user's tokens from this time, ms, were.
    #[must_use]
    pub fn has_withdrawn(&self, identity: &Identity, issued_at: Option<u64>) -> bool {
        match identity.key() {
            Some(id) => !self.keys.load().contains_key(id),
            None => self.is_revoked(identity.user(), issued_at),
        }
    }

    pub(super) fn is_revoked(&self, user: Option<&str>, issued_at: Option<u64>) -> bool {
        let revoked = self.revoked.read().unwrap_or_else(PoisonError::into_inner);
        let before = user.and_then(|user| revoked.get(user));
        // A token that does not say when it was issued is an old one.
        before.is_some_and(|before| issued_at.is_none_or(|at| at < *before))
    }

    /// Rises whenever a credential that counted may count no more.
    #[must_use]
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(super) fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

impl Tokens {
    /// Verifies by the keys that a token may name.
    fn by_keys<T>(
        &self,
        named: &Named,
        verify: impl Fn(&[&TokenKeys]) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let Some(url) = &self.url else {
            return verify(&[&self.fixed]);
        };
        // Whether another key has its name or algorithm is not known before a set has come.
        let is_open = !url.has_come() && (named.key.is_none() || !self.fixed.knows(named));
        url.with(|keys| match keys {
            Some(keys) => {
                verify(&[&self.fixed, keys]).map_err(|why| match is_open && why.is_about_keys() {
                    true => Refused::Unavailable,
                    false => why,
                })
            }
            None if is_open => Err(Refused::Unavailable),
            None => verify(&[&self.fixed]),
        })
    }

    /// What counts under other settings until a set was fetched: the one before, or that of a file in whose place a URL
    /// comes.
    fn kept(&self, sources: &TokenSources) -> Option<Published> {
        let fetched = self.url.as_ref().and_then(JwksUrl::published);
        let of_file = || self.of_file.clone().filter(|_| self.url.is_none());
        let kept = fetched.or_else(|| of_file().map(|bytes| Published { bytes, from: None }));
        kept.filter(|set| set.from.is_some() || sources.jwks_file.is_none())
    }

    fn load(
        sources: &TokenSources,
        before: Option<&Tokens>,
        metrics: &Arc<Metrics>,
    ) -> Result<Tokens, String> {
        let Loaded { rules, fixed, set } = sources.load()?;
        let kept = before.and_then(|before| before.kept(sources));
        let url = sources.jwks_url.clone();
        let url = url.map(|url| JwksUrl::new(url, &rules, &fixed, kept, metrics));
        let url = url
            .transpose()
            .map_err(|error| format!("the system's certificates: {error}"))?;
        Ok(Tokens {
            sources: sources.clone(),
            leeway_ms: rules.leeway_s.saturating_mul(1_000),
            fixed,
            of_file: set,
            url,
        })
    }
}

fn credential_of(key: &ApiKey, user: Option<&str>) -> Credential {
    let identity = Identity {
        who: Who::Key {
            id: Arc::clone(&key.id),
            name: Arc::clone(&key.name),
        },
        for_user: user.map(Arc::from),
        grants: Arc::clone(&key.rights),
    };
    Credential {
        identity: Arc::new(identity),
        expires_at: None,
        ends_at: None,
        source: Source::Key,
    }
}

/// What a credential says of its key, for the log: the ID of an API key, or a token's `kid`. Of others nothing, for it
/// might be the secret itself.
#[must_use]
pub fn named(bearer: &str) -> Option<String> {
    let name = match bearer.starts_with(api_key::MARK) {
        true => api_key::parts(bearer).map(|(id, _)| id.to_owned()),
        false => Named::of(bearer).ok()?.key,
    };
    name.filter(|name| name.len() <= NAMED_BYTES_MAX)
}

const NAMED_BYTES_MAX: usize = 64;
