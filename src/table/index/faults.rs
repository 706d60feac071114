//! Where bringing rows into an index can be ended as if by a kill, and a promise of it that can be broken, for tests.
//! Only in builds with the feature `faults`.
//!
//! Owns: the names of the points and of the control. Promises: nothing happens unless the environment variable
//! `TIDELINE_FAULT` names one. Must not: be in a release.

use tideline_base::faults;

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
        faults::reached(self.name());
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

/// The control: a slice's place is written in a batch before the one that has its rows.
pub(super) fn writes_place_first() -> bool {
    faults::is_named("backfill_place_first")
}
