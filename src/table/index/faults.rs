//! Where bringing rows into an index can be ended as if by a kill, for tests. Only in builds with the feature `faults`.
//!
//! Owns: the names of the points. Promises: nothing happens unless the environment variable `TIDELINE_FAULT` names one.
//! Must not: be in a release.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A point between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// The next rows to look at were read.
    Found,
    /// Their write is queued; nobody waits for it any more.
    Submitted,
    /// It is on disk.
    Brought,
    /// All rows of all partitions are in, and nobody knows it yet.
    Through,
    /// The table says that the index is complete.
    Complete,
}

impl Point {
    /// Ends the process here if the environment names the point, at the arrival that it names: `backfill_brought:3`.
    pub(super) fn reached(self) {
        static NAMED: OnceLock<Option<(String, AtomicU32)>> = OnceLock::new();
        if !cfg!(feature = "faults") {
            return;
        }
        let named = NAMED.get_or_init(|| {
            let text = std::env::var("TIDELINE_FAULT").ok()?;
            let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
            Some((name.to_owned(), AtomicU32::new(count.parse().ok()?)))
        });
        if let Some((name, countdown)) = named
            && name == self.name()
            && countdown.fetch_sub(1, Ordering::SeqCst) == 1
        {
            std::process::abort();
        }
    }

    fn name(self) -> &'static str {
        match self {
            Point::Found => "backfill_found",
            Point::Submitted => "backfill_submitted",
            Point::Brought => "backfill_brought",
            Point::Through => "backfill_through",
            Point::Complete => "backfill_complete",
        }
    }
}
