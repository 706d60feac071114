//! Where a split or merge can be ended as if by a kill, for tests. Only in builds with the feature `faults`.
//!
//! Owns: the names of the points. Promises: nothing happens unless the environment variable `TIDELINE_FAULT` names one.
//! Must not: be in a release.

use tideline_base::faults;

/// A point between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The directory says what is being made.
    Announced,
    /// The new partitions have everything that was there at the beginning.
    Loaded,
    /// Calls wait.
    Paused,
    /// The ending partitions take no more writes.
    Sealed,
    /// The new partitions have all rows.
    Brought,
    /// Their logs and marks are written.
    Made,
    /// They are open.
    Opened,
    /// The directory says that they are in force.
    Counted,
    /// They are served.
    Served,
    /// Calls go on.
    Resumed,
    /// What was left of the ended partitions is cleared away.
    Cleared,
}

impl Point {
    /// Ends the process here if the environment names the point, at the arrival that it names: `reshape_sealed:2`.
    pub fn reached(self) {
        faults::reached(self.name());
    }

    fn name(self) -> &'static str {
        match self {
            Point::Announced => "reshape_announced",
            Point::Loaded => "reshape_loaded",
            Point::Paused => "reshape_paused",
            Point::Sealed => "reshape_sealed",
            Point::Brought => "reshape_brought",
            Point::Made => "reshape_made",
            Point::Opened => "reshape_opened",
            Point::Counted => "reshape_counted",
            Point::Served => "reshape_served",
            Point::Resumed => "reshape_resumed",
            Point::Cleared => "reshape_cleared",
        }
    }
}
