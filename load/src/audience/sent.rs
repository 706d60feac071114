//! Messages that were sent and are not done yet.
//!
//! Owns: messages, and which message has which number of a timeline. Promises: what is forgotten keeps its number.
//! Must not: judge what comes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::time::Instant;

/// A message.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) timeline: usize,
    pub(super) scheduled: Instant,
    pub(super) answered: bool,
    /// Followers that it has not reached.
    pub(super) left: u64,
}

impl Sent {
    /// It is answered, and every follower has it.
    pub(super) fn is_done(&self) -> bool {
        self.answered && self.left == 0
    }
}

/// What is numbered from 1 on. The first ones are forgotten when they are done, so that a run may be long.
#[derive(Default)]
pub(super) struct Log<T> {
    pub(super) forgotten: usize,
    pub(super) kept: VecDeque<T>,
}

impl<T> Log<T> {
    pub(super) fn len(&self) -> usize {
        self.forgotten + self.kept.len()
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.kept.get_mut(number.checked_sub(self.forgotten + 1)?)
    }

    pub(super) fn forget(&mut self, mut done: impl FnMut(&T) -> bool) {
        while self.kept.front().is_some_and(&mut done) {
            self.kept.pop_front();
            self.forgotten += 1;
        }
    }
}

/// One timeline.
#[derive(Default)]
pub(super) struct Written {
    pub(super) followers: u64,
    pub(super) sent: Cell<u64>,
    /// Of these, acknowledged.
    pub(super) length: Cell<u64>,
    /// Which message has which number; 0 as long as that is not known.
    pub(super) numbers: RefCell<Log<usize>>,
}
