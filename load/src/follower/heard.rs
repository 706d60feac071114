//! What comes to a follower: events, and the messages in them.
//!
//! Owns: the ways to read the messages of a reply or a push. Promises: the messages of a push are parsed only when they
//! are asked for. Must not: check their order, which the follower has done.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::push::{self, Notification};
use crate::rpc::{Answer, Refusal};

/// A server that shuts down says so.
const DRAINING: &[u8] = br#"{"jsonrpc":"2.0","method":"draining""#;

/// What came.
pub enum Event<'a> {
    /// A subscription began.
    Joined {
        /// Of which timeline.
        timeline: usize,
        /// The position that was asked with.
        after: u64,
        /// The timeline's last number.
        head: u64,
    },
    /// Messages, from a reply (behind its `Joined`) or from a push.
    Heard(&'a Heard<'a>),
    /// A subscription or its end was refused; there is none now. The caller may ask again.
    Refused(usize, &'a Refusal),
    /// The answer to the caller's own request, whose number was [`super::OWN`] + this.
    Answered(u64, &'a Answer<'a>, Instant),
    /// Something that is neither a reply nor messages.
    Other(&'a [u8]),
}

impl Event<'_> {
    /// What a caller makes of an event that it does not know: what it did not ask for is a fault.
    ///
    /// # Errors
    ///
    /// The fault.
    pub fn expected(&self) -> Result<(), String> {
        match self {
            Event::Joined { .. } | Event::Heard(_) => Ok(()),
            Event::Refused(_, refusal) => Err(format!("refused: {refusal}")),
            Event::Answered(..) => Err("an answer to what was not asked".into()),
            Event::Other(_) => Err("neither a reply nor messages".into()),
        }
    }

    /// Whether the server says that it shuts down.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self, Event::Other(text) if text.starts_with(DRAINING))
    }
}

/// Messages of one timeline that came together.
pub struct Heard<'a> {
    /// Which.
    pub timeline: usize,
    /// The position before.
    pub after: u64,
    /// Number of the first one.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Commit time of the first one, ms.
    pub timestamp: u64,
    /// They are all those from `after` to `last`. If not, the follower has entered the fault.
    pub in_order: bool,
    /// When they came: read once for all that came together.
    pub now: Instant,
    pub(super) origin: Origin<'a>,
}

pub(super) enum Origin<'a> {
    Reply(Vec<Message<'a>>),
    Push(&'a [u8]),
}

/// A message, whole.
#[derive(Clone, Debug, Deserialize)]
pub struct Message<'a> {
    /// Its number.
    pub sequence: u64,
    /// Commit time, ms.
    pub timestamp: u64,
    /// The client's or the server's.
    #[serde(borrow)]
    pub message_id: Cow<'a, str>,
    /// The user that appended it.
    pub sender: Option<String>,
    /// Absent on a tombstone.
    #[serde(borrow)]
    pub entry: Option<&'a RawValue>,
}

impl<'a> Heard<'a> {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u64 {
        match &self.origin {
            Origin::Reply(messages) => messages.len() as u64,
            Origin::Push(_) => (self.last + 1).saturating_sub(self.first),
        }
    }

    /// They came live, not as the first of what a subscription resumed with.
    #[must_use]
    pub fn live(&self) -> bool {
        matches!(self.origin, Origin::Push(_))
    }

    /// The messages, parsed whole: a push costs a parser.
    ///
    /// # Errors
    ///
    /// A message lacks something.
    pub fn messages(&self) -> Result<Cow<'_, [Message<'a>]>, String> {
        match &self.origin {
            Origin::Reply(messages) => Ok(Cow::Borrowed(messages)),
            Origin::Push(text) => {
                let parsed = Notification::parse(text).map_err(|odd| odd.to_string())?;
                Ok(Cow::Owned(parsed.params.messages))
            }
        }
    }

    /// Hands the ID of each message to `each`, in order.
    ///
    /// # Errors
    ///
    /// As `messages`.
    pub fn ids(&self, mut each: impl FnMut(&str)) -> Result<(), String> {
        if let Origin::Push(text) = self.origin
            && push::ids(text, &mut each).is_some()
        {
            return Ok(());
        }
        let messages = self.messages()?;
        messages
            .iter()
            .for_each(|message| each(&message.message_id));
        Ok(())
    }
}
