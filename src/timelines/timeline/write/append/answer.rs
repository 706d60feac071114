//! What an append is answered, and what its trace is kept for.
//!
//! Owns: the answers of messages until the batch is committed. Must not: write.

use super::super::super::Appended;
use super::super::super::traces::Told;
use super::{Prepared, PreparedMessage};

/// What the writer says of a message.
#[derive(Clone, Copy, Default)]
pub(super) struct Answer {
    pub(super) sequence: u64,
    pub(super) timestamp: u64,
    pub(super) duplicate: bool,
    pub(super) scheduled: Option<u64>,
    /// `None` = it does not grow.
    pub(super) parts: Option<u64>,
}

impl Prepared {
    /// Called before the batch can be read, so that its readers find the trace.
    pub(super) fn keep_trace(&self) {
        let Some((trace, traces)) = &self.trace else {
            return;
        };
        let Ok(timeline) = self.name.text() else {
            return;
        };
        let new = self.messages.iter().filter(|one| !one.answer.duplicate);
        let told = new.map(|one| Told {
            sequence: one.answer.sequence,
            timestamp: one.answer.timestamp,
            message_id: &one.message_id,
        });
        traces.keep(&timeline, *trace, told);
    }

    /// What became of the messages, once it has run and its batch is committed.
    pub(in super::super::super) fn appended(self) -> Vec<Appended> {
        let appended = |message: PreparedMessage| Appended {
            sequence: message.answer.sequence,
            timestamp: message.answer.timestamp,
            message_id: message.message_id,
            duplicate: message.answer.duplicate,
            scheduled: message.answer.scheduled,
            parts: message.answer.parts,
        };
        self.messages.into_iter().map(appended).collect()
    }
}
