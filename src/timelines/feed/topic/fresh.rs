//! Fresh messages, kept for a while so that subscribers need not read them back from the store.
//!
//! Owns: one group of consecutive messages with its encoded forms. Promises: a group is encoded at most once in
//! each form. Must not: be changed after it was made: an edit removes the group, and readers find
//! the newest form in the store.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;

use crate::timeline::Message;
use tideline_model::Value;

/// How many different forms of a push there can be, in all dialects together.
pub const FORMS_MAX: usize = 15;

/// Consecutive messages that one batch appended to one timeline.
#[derive(Debug)]
pub struct Fresh {
    /// Of the timeline.
    pub epoch: Arc<str>,
    /// In order, without holes; at least one.
    pub messages: Vec<Message>,
    /// The timeline's head after the batch.
    pub head: u64,
    /// When the first of them expires, ms.
    expires_at: Option<u64>,
    /// The group that ends just before it.
    before: Weak<Fresh>,
    frames: [OnceLock<Bytes>; FORMS_MAX],
}

impl Fresh {
    fn new(
        epoch: Arc<str>,
        messages: Vec<Message>,
        head: u64,
        newest: Option<&Arc<Fresh>>,
    ) -> Fresh {
        let first = messages.first().map(|message| message.sequence);
        let before = newest.filter(|fresh| Some(fresh.last() + 1) == first);
        let expires_at = messages
            .iter()
            .filter_map(|message| message.expires_at)
            .min();
        Fresh {
            epoch,
            expires_at,
            messages,
            head,
            before: before.map(Arc::downgrade).unwrap_or_default(),
            frames: Default::default(),
        }
    }

    /// Sequence of the first message.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.messages.first().map_or(0, |message| message.sequence)
    }

    /// Sequence of the last message.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.messages.last().map_or(0, |message| message.sequence)
    }

    /// The group that ends just before this one, if it is kept still. A reader that was sent it has its messages as
    /// they are there.
    #[must_use]
    pub fn before(&self) -> Option<Arc<Fresh>> {
        self.before.upgrade()
    }

    /// The push frame in a form (a number below [`FORMS_MAX`]), made by `encode` for the first reader.
    pub fn frame(&self, form: usize, encode: impl FnOnce(&Fresh) -> Bytes) -> Bytes {
        self.frames[form].get_or_init(|| encode(self)).clone()
    }

    /// Whether one of the messages may not be shown any more.
    pub(in super::super) fn has_expired(&self, now_ms: impl Fn() -> u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now_ms())
    }

    /// About what the group holds in memory, one encoded form included.
    pub(in super::super) fn weight(&self) -> usize {
        size_of::<Fresh>()
            + self
                .messages
                .iter()
                .map(|message| 2 * weight(message))
                .sum::<usize>()
    }
}

/// Splits what a batch appended into groups that make handy frames; `newest` is the one before them.
pub(in super::super) fn group(
    epoch: &Arc<str>,
    messages: Vec<Message>,
    head: u64,
    newest: Option<&Arc<Fresh>>,
) -> Vec<Arc<Fresh>> {
    let mut groups: Vec<Arc<Fresh>> = Vec::new();
    let add = |groups: &mut Vec<Arc<Fresh>>, full| {
        let newest = groups.last().or(newest);
        let group = Fresh::new(Arc::clone(epoch), full, head, newest);
        groups.push(Arc::new(group));
    };
    let mut current: Vec<Message> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let size = weight(&message);
        // A message in another form than the one it was appended in, or a hole, is for the store to tell.
        let follows = current
            .last()
            .is_none_or(|last| last.sequence + 1 == message.sequence);
        if !current.is_empty()
            && (!follows || current.len() >= GROUP_MESSAGES_MAX || bytes + size > GROUP_BYTES_MAX)
        {
            let full = std::mem::take(&mut current);
            add(&mut groups, full);
            bytes = 0;
        }
        bytes += size;
        current.push(message);
    }
    if !current.is_empty() {
        add(&mut groups, current);
    }
    groups
}

const GROUP_MESSAGES_MAX: usize = 100;
const GROUP_BYTES_MAX: usize = 64 << 10;

fn weight(message: &Message) -> usize {
    let columns = message.entry.as_deref().unwrap_or_default();
    let entry: usize = columns
        .iter()
        .map(|(name, value)| {
            name.len()
                + 16
                + match value {
                    Value::String(text) | Value::Json(text) => text.len(),
                    Value::Binary(bytes) => bytes.len(),
                    _ => 8,
                }
        })
        .sum();
    128 + message.message_id.len() + message.sender.len() + entry
}
