//! What a room's publisher sends, and what every subscriber must get.
//!
//! Owns: the timeline, the messages as they were sent. Promises: a push that passes `compare` is, in every part, what
//! was sent. Must not: be in the way of the pushes that are not compared.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::exit::Stop;
use crate::random::Random;
use crate::rpc::{Message, request};

/// What is sent, and what must come.
pub(super) struct Subject {
    pub(super) url: String,
    pub(super) timeline: String,
    pub(super) epoch: String,
    pub(super) entry: Value,
}

#[derive(Deserialize)]
struct Pushed {
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    timeline: String,
    epoch: String,
    messages: Vec<Message>,
    head: u64,
}

impl Subject {
    pub(super) fn new(url: &str, timeline: &str, epoch: &str, size: usize, seed: u64) -> Subject {
        Subject {
            url: url.to_owned(),
            timeline: timeline.to_owned(),
            epoch: epoch.to_owned(),
            entry: json!({ "text": Random::new(seed).text(size) }),
        }
    }

    /// The request that appends message `number`.
    pub(super) fn append(&self, number: u64) -> Result<String, Stop> {
        #[derive(Serialize)]
        struct One<'a> {
            timeline: &'a str,
            message_id: &'a str,
            entry: &'a Value,
        }
        let params = One {
            timeline: &self.timeline,
            message_id: &message_id(number),
            entry: &self.entry,
        };
        request(number, "message.append", params).map_err(|error| Stop::Own(error.to_string()))
    }

    /// Whether a push is, in every part, messages `first..=last` as they were sent.
    pub(super) fn compare(&self, text: &[u8], first: u64, last: u64) -> Result<(), String> {
        let push: Pushed = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let Params {
            timeline,
            epoch,
            messages,
            head,
        } = push.params;
        if (&timeline, &epoch) != (&self.timeline, &self.epoch) || head < last {
            return Err(format!("{timeline}, epoch {epoch}, head {head}"));
        }
        if !messages.iter().map(|one| one.sequence).eq(first..=last) {
            return Err(format!("not {first} to {last}"));
        }
        let odd = messages.iter().find(|one| {
            one.message_id != message_id(one.sequence) || one.entry.as_ref() != Some(&self.entry)
        });
        odd.map_or(Ok(()), |one| {
            Err(format!("{} was not sent so", one.sequence))
        })
    }
}

/// The client's ID of message `number`: the timeline is the run's own, so it needs no more.
pub(super) fn message_id(number: u64) -> String {
    format!("m-{number}")
}
