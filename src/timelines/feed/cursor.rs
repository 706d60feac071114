//! A cursor into one timeline, and what can come next for it.
//!
//! Owns: the position of a reader, and the page that it reads. Promises: a page is encoded at most once in each form.
//! Must not: know the reader, or what is in the log.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::topic::fresh::{FORMS_MAX, Fresh};
use super::topic::grown::Grown;
use crate::timeline::Changed;

/// The position of a reader.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Of the timeline.
    pub epoch: Arc<str>,
    /// Everything up to this was delivered.
    pub sequence: u64,
    /// Every change up to this was delivered.
    pub change: u64,
    /// The newest meta that was sent.
    pub(super) meta_version: u64,
    /// The topic's doubt that was settled with the store.
    pub(super) doubt: u64,
    /// Another epoch that is in the log and that the store did not confirm.
    pub(super) foreign: Option<Arc<str>>,
    /// Its user may read messages from this sequence on; 0 = all.
    pub(super) floor: u64,
    /// Its user's right to read was checked when [`super::topic::readers::Readers::turn`] was this.
    pub(super) turn: u32,
    /// The last page ended early: there is more in the store, whatever the log says.
    pub(super) more: bool,
    /// Its user may read as a member only, as their role says: each change of it concerns them.
    pub(super) by_role: bool,
    /// Its user's right to read has to be looked at before anything newer goes out.
    pub(super) unsure: bool,
}

impl Cursor {
    /// A cursor without a position yet, with what its topic knows so far.
    pub(super) fn begin(doubt: u64, turn: u32, meta_version: u64) -> Cursor {
        Cursor {
            epoch: Arc::from(""),
            sequence: 0,
            change: 0,
            // The making of a timeline is version 1 and no news to a subscriber.
            meta_version: meta_version.max(1),
            doubt,
            foreign: None,
            floor: 0,
            turn,
            more: false,
            by_role: false,
            unsure: false,
        }
    }

    #[cfg(test)]
    pub(super) fn at(epoch: &str, sequence: u64, change: u64) -> Cursor {
        Cursor {
            epoch: Arc::from(epoch),
            sequence,
            change,
            meta_version: 1,
            doubt: 0,
            foreign: None,
            floor: 0,
            turn: 0,
            more: false,
            by_role: false,
            unsure: false,
        }
    }

    /// The cursor behind what a `resume` has returned.
    #[must_use]
    pub fn resumed(mut self, changed: &Changed) -> Cursor {
        self.epoch = Arc::from(changed.head.epoch.as_str());
        // What its user does not see is behind it.
        let floor = changed.admission.floor;
        self.sequence = changed.position.max(floor.saturating_sub(1));
        self.change = match changed.changed {
            Some(_) => changed.change_position,
            // Changes before now were not asked for; those from now on are sent.
            None => changed.head.change_head,
        };
        self.floor = floor;
        self.more = changed.more && !tideline_base::faults::is_named("rest_forgotten");
        self
    }
}

/// What comes next for a cursor.
#[derive(Debug)]
pub enum Next {
    /// Nothing: wait for the mailbox.
    CaughtUp,
    /// Fresh messages, from the cursor on.
    Fresh(Arc<Fresh>),
    /// The store has to be asked.
    Read {
        /// The doubt that this read settles.
        doubt: u64,
        /// The number of changes of readers that it takes into account.
        turn: u32,
        /// The epoch that this read checks.
        foreign: Option<Arc<str>>,
    },
    /// The meta has changed.
    Meta,
    /// Parts of an open message.
    Grown(Arc<Grown>),
    /// The store has to be asked for parts of an open message.
    ReadParts {
        /// Which message.
        sequence: u64,
        /// How many parts the reader has.
        after: u64,
        /// The doubt that this read settles.
        doubt: u64,
    },
}

/// A page that was read from the store, shared by all readers at the same position.
#[derive(Debug)]
pub struct Page {
    /// What the store returned.
    pub changed: Changed,
    /// The change number that the readers were at before.
    pub since: u64,
    frames: [OnceLock<Arc<[PageFrame]>>; FORMS_MAX],
}

/// A push of a page, and where a reader is behind it.
#[derive(Clone, Debug)]
pub struct PageFrame {
    /// The push, encoded.
    pub push: Bytes,
    /// The sequence up to which everything was delivered then.
    pub sequence: u64,
    /// The same of changes.
    pub change: u64,
}

impl Page {
    pub(super) fn new(changed: Changed, since: u64) -> Page {
        Page {
            changed,
            since,
            frames: Default::default(),
        }
    }

    /// The push frames in a form, made by `encode` for the first reader.
    pub fn frames(
        &self,
        form: usize,
        encode: impl FnOnce(&Page) -> Vec<PageFrame>,
    ) -> Arc<[PageFrame]> {
        Arc::clone(self.frames[form].get_or_init(|| encode(self).into()))
    }
}

/// What a page of the store depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageKey {
    pub(super) epoch: Arc<str>,
    pub(super) sequence: u64,
    pub(super) change: u64,
    /// The reader's own.
    pub(super) floor: u64,
}
