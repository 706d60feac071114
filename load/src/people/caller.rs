//! A caller: asks until it is answered, whatever happens to the connection.
//!
//! Owns: a connection, and for whom it asks. Promises: a call is repeated after a lost connection and after a refusal
//! that allows it; so what is asked must be safe to repeat. Must not: hide any other refusal.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Crowd;
use crate::exit::Stop;
use crate::rpc::{CallError, Client, Refusal};
use crate::trial::wait;

pub(super) struct Caller<'a> {
    crowd: &'a Crowd,
    client: Option<Client>,
    /// The nick that the connection is of; `None` = a back end.
    user: Option<usize>,
    heard: Instant,
}

/// Why there is no answer.
pub(super) enum Failed {
    /// The server said no, and for good.
    Refused(Refusal),
    Stop(Stop),
}

impl From<Stop> for Failed {
    fn from(stop: Stop) -> Failed {
        Failed::Stop(stop)
    }
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Stop {
        match failed {
            Failed::Refused(refusal) => Stop::Unreachable(format!("refused: {refusal}")),
            Failed::Stop(stop) => stop,
        }
    }
}

impl<'a> Caller<'a> {
    pub(super) fn new(crowd: &'a Crowd) -> Caller<'a> {
        Caller {
            crowd,
            client: None,
            user: None,
            heard: Instant::now(),
        }
    }

    /// Asks for a nick, or for a back end; a caller that asked for a nick can't be a back end any more.
    pub(super) async fn ask<R: DeserializeOwned>(
        &mut self,
        user: Option<usize>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, Failed> {
        self.heard = Instant::now();
        loop {
            let error = match self.once(user, method, params).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            match &error {
                CallError::Refused(refusal) if may_repeat(refusal) => {
                    self.crowd.count("refusals", 1);
                    let pause = refusal.data.retry_after_ms.unwrap_or(0).min(1_000);
                    sleep(Duration::from_millis(pause)).await;
                }
                CallError::Refused(refusal) => return Err(Failed::Refused(refusal.clone())),
                CallError::Lost(_) => {
                    self.client = None;
                    self.crowd.count("reconnects", 1);
                }
            }
            wait(self.heard, &error).await?;
        }
    }

    pub(super) fn name_of(&self, nick: usize) -> &'a str {
        &self.crowd.plan.nicks[nick]
    }

    async fn once<R: DeserializeOwned>(
        &mut self,
        user: Option<usize>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CallError> {
        let client = match &mut self.client {
            Some(client) => client,
            none => {
                self.user = None;
                none.insert(Client::open(&self.crowd.run.url).await?)
            }
        };
        if user != self.user
            && let Some(nick) = user
        {
            client.become_user(&json!({ "user": self.crowd.plan.nicks[nick] }));
            self.user = user;
        }
        client.call(method, params).await
    }
}

/// Whether a refusal allows the same call again.
pub(super) fn may_repeat(refusal: &Refusal) -> bool {
    refusal.data.retry || refusal.data.reason == "outcome_unknown"
}
