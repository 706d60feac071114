//! A set of keys that a server publishes.
//!
//! Owns: when it is fetched, and the set that counts. Promises: one fetch at a time, for all callers that wait; for
//! keys that are not in the set at most one in 10 s, whatever is shown; a fetch that fails leaves the set as it was,
//! also one from elsewhere that counted before; no more than 256 KiB and 5 s, and no redirect. Must not: verify.

use std::collections::HashSet;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Uri;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::super::verify_token::{TokenKeys, TokenRules};
use super::jwks;
use super::jwks::{Origin, SET_BYTES_MAX};
use crate::http_client;
use crate::http_client::Http;
use tideline_base::metrics::Metrics;

/// The server, and what it has given.
pub(in super::super) struct JwksUrl {
    url: Uri,
    http: Http<Empty<Bytes>>,
    rules: Arc<TokenRules>,
    /// IDs of keys that the configuration has.
    taken: Vec<String>,
    set: ArcSwapOption<Set>,
    /// How many fetches have ended, well or not.
    ended: AtomicU64,
    /// Held by the one fetch that runs; when the last one for a key that was not there began.
    turn: Mutex<Option<Instant>>,
    metrics: Arc<Metrics>,
}

struct Set {
    published: Published,
    keys: TokenKeys,
}

/// A set as it was published.
#[derive(Clone, PartialEq)]
pub(in super::super) struct Published {
    pub(in super::super) bytes: Bytes,
    /// The server that has given it; `None` = it was a file.
    pub(in super::super) from: Option<Uri>,
}

/// How long a fetch may take.
const FETCH_TIME_MAX: Duration = Duration::from_secs(5);
/// Between two fetches for keys that are not there.
const UNKNOWN_REST: Duration = Duration::from_secs(10);

impl JwksUrl {
    /// `before`: what counts until a set has come, whoever published it. `Err` = the system's certificates can't be
    /// read.
    pub(in super::super) fn new(
        url: Uri,
        rules: &Arc<TokenRules>,
        fixed: &TokenKeys,
        before: Option<Published>,
        metrics: &Arc<Metrics>,
    ) -> std::io::Result<JwksUrl> {
        let made = JwksUrl {
            http: http_client::client()?,
            rules: Arc::clone(rules),
            taken: fixed.ids().map(str::to_owned).collect(),
            set: ArcSwapOption::empty(),
            ended: AtomicU64::new(0),
            turn: Mutex::default(),
            metrics: Arc::clone(metrics),
            url,
        };
        if let Some(before) = before {
            // It was taken before.
            let _ = made.take(before);
        }
        Ok(made)
    }

    /// What counts now.
    pub(in super::super) fn published(&self) -> Option<Published> {
        self.set.load().as_ref().map(|set| set.published.clone())
    }

    /// Whether a set of this server counts, and not one of before.
    pub(in super::super) fn has_come(&self) -> bool {
        let set = self.set.load();
        set.as_ref().is_some_and(|set| self.gave(&set.published))
    }

    fn gave(&self, published: &Published) -> bool {
        published.from.as_ref() == Some(&self.url)
    }

    /// What `look` finds in the keys, if a set was ever fetched.
    pub(in super::super) fn with<R>(&self, look: impl FnOnce(Option<&TokenKeys>) -> R) -> R {
        look(self.set.load().as_ref().map(|set| &set.keys))
    }

    /// Fetches the set; whether it came.
    pub(in super::super) async fn refresh(&self) -> bool {
        let _turn = self.turn.lock().await;
        self.fetch().await
    }

    /// Whether a fetch for a key that is not there would be made or waited for now.
    pub(in super::super) fn would_ask(&self) -> bool {
        match self.turn.try_lock() {
            Ok(turn) => turn.is_none_or(|at| at.elapsed() >= UNKNOWN_REST),
            Err(_) => true,
        }
    }

    /// Fetches the set for a key that is not in it, or waits for a fetch that runs.
    pub(in super::super) async fn ask(&self) {
        let ended = self.ended.load(Ordering::Acquire);
        let mut turn = self.turn.lock().await;
        let is_new = self.ended.load(Ordering::Acquire) != ended;
        if is_new || turn.is_some_and(|at| at.elapsed() < UNKNOWN_REST) {
            return;
        }
        *turn = Some(Instant::now());
        self.fetch().await;
    }

    async fn fetch(&self) -> bool {
        let fetched = timeout(FETCH_TIME_MAX, self.get()).await;
        let fetched = fetched.unwrap_or_else(|_| Err("no answer within 5 s".to_owned()));
        let from = Some(self.url.clone());
        let taken = fetched.and_then(|bytes| self.take(Published { bytes, from }));
        let result = if taken.is_ok() { "ok" } else { "failed" };
        self.metrics.access.jwks_fetches.of(&[result]).increment(1);
        if let Err(why) = &taken {
            let has_keys = self.set.load().is_some();
            tracing::error!(url = %self.url, why, has_keys, "the set of keys can't be fetched; the one before counts");
        }
        self.ended.fetch_add(1, Ordering::Release);
        taken.is_ok()
    }

    async fn get(&self) -> Result<Bytes, String> {
        let answer = self.http.get(self.url.clone()).await;
        let answer = answer.map_err(|error| match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })?;
        if answer.status() != hyper::StatusCode::OK {
            return Err(format!("answered {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), SET_BYTES_MAX).collect();
        let body = body.await.map_err(|error| error.to_string())?;
        Ok(body.to_bytes())
    }

    fn take(&self, published: Published) -> Result<(), String> {
        let taken: HashSet<&str> = self.taken.iter().map(String::as_str).collect();
        let origin = match published.from {
            Some(_) => Origin::Url,
            None => Origin::File,
        };
        let (keys, passed_over) = jwks::parse(&published.bytes, origin, &taken)?;
        if self
            .set
            .load()
            .as_ref()
            .is_none_or(|set| set.published != published)
        {
            for why in passed_over {
                tracing::warn!(url = %self.url, why, "a key does not count");
            }
            let what = match self.gave(&published) {
                true => "a new set of keys counts",
                false => "the keys of before count until a set has come",
            };
            tracing::info!(url = %self.url, keys = keys.len(), "{what}");
        }
        self.metrics.access.jwks_keys.count(keys.len() as u64);
        let keys = TokenKeys::new(&self.rules, keys);
        self.set.store(Some(Arc::new(Set { published, keys })));
        Ok(())
    }
}
