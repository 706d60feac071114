//! When a search has to be done.
//!
//! Owns: the look at the clock. Promises: it costs next to nothing, so that whatever goes through many terms, rows or
//! points asks at each of them; once it is over, it is over for all parts of the search. Must not: decide what a search
//! does then.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

/// See the top.
#[derive(Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    steps: AtomicU32,
    is_over: AtomicBool,
}

/// Steps between two looks at the clock.
const LOOK_EVERY: u32 = 1_024;

impl Deadline {
    pub(crate) fn new(at: Instant) -> Deadline {
        Deadline {
            at,
            steps: AtomicU32::new(1),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether it is over. What a part of the search finds from then on does not count.
    pub(crate) fn is_over(&self) -> bool {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        if steps.is_multiple_of(LOOK_EVERY) && Instant::now() > self.at {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.was_over()
    }

    /// Whether somebody has found that it is over.
    pub(crate) fn was_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
