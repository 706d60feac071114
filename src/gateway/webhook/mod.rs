//! Webhooks: the server follows changes itself, and posts them to somebody else's HTTP server.
//!
//! Owns: a task per webhook, whether its receiver takes what it is sent, and its dead letters. Promises: each change is
//! posted at least once, those of one timeline or row in order; a webhook's place is a named cursor that moves after
//! the receiver has taken the changes, so a restart repeats what was not taken; what is not taken in time becomes a
//! dead letter, and delivery goes on. Must not: make the JSON, or show a secret.

pub(super) mod dead;
mod post;
mod runner;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tideline_base::clock::Clock;
use tideline_base::metrics::{self, Metrics};
pub use tideline_model::server::Failing;
use tideline_table::{FollowError, Followed, Partitions, Tables, WEBHOOK};
use tideline_timelines::feed::Changes;
use tideline_timelines::timeline::Timelines;

use crate::http_client;
pub use dead::DeadLetter;
use dead::DeadLetters;
use post::Receiver;

/// A webhook as it is configured.
#[derive(Clone)]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// Where it posts.
    pub url: Uri,
    /// What it signs with, as its owner wrote it.
    pub secret: String,
    /// Whose changes.
    pub followed: Followed,
    /// Changes of one POST at most.
    pub changes_max: usize,
    /// For an answer.
    pub timeout: Duration,
    /// Between two attempts at most.
    pub retry_max: Duration,
    /// After so long without success changes become a dead letter.
    pub give_up: Duration,
}

/// Without the secret.
impl fmt::Debug for Webhook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Webhook({} to {})", self.name, shown(&self.url))
    }
}

/// Makes the body of a POST of changes; the text is the table's name, if they are of one.
pub type Encode = fn(&Changes, &str) -> Bytes;

/// All webhooks. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    hooks: Arc<[Arc<Hook>]>,
    tables: Tables,
    stop: CancellationToken,
}

/// A running webhook.
struct Hook {
    webhook: Webhook,
    receiver: Receiver,
    tables: Tables,
    timelines: Timelines,
    dead: DeadLetters,
    encode: Encode,
    clock: Arc<Clock>,
    figures: metrics::Webhook,
    failing: Mutex<Option<Failing>>,
    /// How often its place was set from outside; held while the place is moved.
    turns: tokio::sync::Mutex<u64>,
    /// Its place was set, or a dead letter is to be replayed.
    poke: Notify,
}

/// How a webhook is doing.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Where it posts, without what may be secret in it.
    pub url: String,
    /// Whose changes.
    pub followed: Followed,
    /// Behind what the receiver has taken; `None` = it has not begun.
    pub position: Option<String>,
    /// Commits that it has not passed, and when the first of them was, ms.
    pub lag: (u64, Option<u64>),
    /// `None` = the receiver takes what it is sent.
    pub failing: Option<Failing>,
    /// Dead letters.
    pub dead: u64,
}

/// What is to be posted again.
#[derive(Clone, Debug)]
pub enum Replay {
    /// Everything behind a position.
    Position(String),
    /// A dead letter.
    Dead(u64),
}

/// Why a call about a webhook is refused.
#[derive(Clone, Debug)]
pub enum WebhookError {
    /// There is no such webhook.
    NotFound,
    /// It has no such dead letter.
    DeadLetterNotFound,
    /// Its place can't be read or moved.
    Follow(FollowError),
}

impl From<FollowError> for WebhookError {
    fn from(error: FollowError) -> WebhookError {
        WebhookError::Follow(error)
    }
}

impl Webhooks {
    /// Starts them on the current runtime. `Err` = the system's certificates can't be read.
    pub fn start(
        webhooks: Vec<Webhook>,
        (partitions, tables, timelines): (&Partitions, &Tables, &Timelines),
        encode: Encode,
        clock: &Arc<Clock>,
        metrics: &Metrics,
        tasks: &TaskTracker,
    ) -> io::Result<Webhooks> {
        let stop = CancellationToken::new();
        let mut hooks = Vec::new();
        if !webhooks.is_empty() {
            let http = Arc::new(http_client::client()?);
            for webhook in webhooks {
                let hook = Arc::new(Hook {
                    receiver: Receiver {
                        http: Arc::clone(&http),
                        url: webhook.url.clone(),
                        secret: post::secret(&webhook.secret),
                        timeout: webhook.timeout,
                    },
                    tables: tables.clone(),
                    timelines: timelines.clone(),
                    dead: DeadLetters {
                        partitions: partitions.clone(),
                        webhook: webhook.name.clone(),
                    },
                    encode,
                    clock: Arc::clone(clock),
                    figures: metrics.webhook(&webhook.name),
                    failing: Mutex::default(),
                    turns: tokio::sync::Mutex::default(),
                    poke: Notify::new(),
                    webhook,
                });
                let (running, stopped) = (Arc::clone(&hook), stop.clone());
                tasks.spawn(async move {
                    stopped.run_until_cancelled(running.run()).await;
                });
                hooks.push(hook);
            }
        }
        Ok(Webhooks {
            hooks: hooks.into(),
            tables: tables.clone(),
            stop,
        })
    }

    /// Ends them; the next start goes on.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// How all are doing, in the order of the configuration.
    pub async fn list(&self) -> Result<Vec<Status>, WebhookError> {
        let cursors = self.tables.all_cursors().await.map_err(FollowError::from)?;
        let mut all = Vec::new();
        for hook in &*self.hooks {
            let name = hook.cursor();
            let cursor = cursors.iter().find(|cursor| cursor.name == name);
            let lag = match cursor {
                Some(cursor) => self.tables.lag(&cursor.followed, &cursor.places).await,
                None => Ok((0, None)),
            };
            all.push(Status {
                name: hook.webhook.name.clone(),
                url: shown(&hook.webhook.url),
                followed: hook.webhook.followed.clone(),
                position: cursor.map(|cursor| self.tables.position_text(&cursor.places)),
                lag: lag.map_err(FollowError::from)?,
                failing: hook.failing(),
                dead: hook.dead.count().await?,
            });
        }
        Ok(all)
    }

    /// Dead letters of a webhook above a number.
    pub async fn dead(
        &self,
        name: &str,
        above: u64,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, WebhookError> {
        let mut letters = self.hook(name)?.dead.list(above, false, limit).await?;
        for DeadLetter { from, to, .. } in &mut letters {
            (*from, *to) = (
                self.tables.sealed_position(from),
                self.tables.sealed_position(to),
            );
        }
        Ok(letters)
    }

    /// Has changes posted again.
    pub async fn replay(&self, name: &str, what: Replay) -> Result<(), WebhookError> {
        let hook = self.hook(name)?;
        match what {
            Replay::Position(position) => {
                let places = self.tables.read_position(&position)?;
                let mut turns = hook.turns.lock().await;
                let cursor = hook.cursor();
                hook.tables.commit_cursor(&cursor, places, true).await?;
                *turns += 1;
            }
            Replay::Dead(number) => {
                let marked = hook.dead.change(number, |letter| {
                    Some(DeadLetter {
                        replaying: true,
                        ..letter
                    })
                });
                if !marked.await? {
                    return Err(WebhookError::DeadLetterNotFound);
                }
            }
        }
        hook.poke.notify_one();
        Ok(())
    }

    fn hook(&self, name: &str) -> Result<&Arc<Hook>, WebhookError> {
        let hook = self.hooks.iter().find(|hook| hook.webhook.name == name);
        hook.ok_or(WebhookError::NotFound)
    }
}

impl Hook {
    fn cursor(&self) -> String {
        format!("{WEBHOOK}{}", self.webhook.name)
    }

    fn failing(&self) -> Option<Failing> {
        let failing = self.failing.lock();
        failing.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_failing(&self, failing: Option<Failing>) {
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = failing;
    }
}

/// A URL without its query, which may hold a key.
fn shown(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let authority = url.authority().map_or("", |authority| authority.as_str());
    format!("{scheme}://{authority}{}", url.path())
}
