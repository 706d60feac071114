//! How far flush, compaction, or a split or merge are behind the writers, as one word that every writer looks at.
//!
//! Owns: its states and their numbers. Promises: a number and its state are the same. Must not: decide which of them
//! holds; the flusher does, and a split or merge.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// How far behind the writers' followers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum FlushLag {
    #[default]
    None,
    /// By this many steps: the writer waits a little before each batch.
    Slow(u16),
    /// Too far: new jobs hear `busy`.
    Busy,
    /// There is no space for them.
    Full,
}

/// What slows down the writers of one partition: the lag of its flusher, and a split or merge.
#[derive(Default)]
pub(in super::super) struct FlushLags {
    /// [`FlushLag`] as a number.
    behind: AtomicU32,
    /// Steps.
    slowed_down: AtomicU16,
}

impl FlushLags {
    pub(in super::super) fn get(&self) -> FlushLag {
        let behind = FlushLag::from_number(self.behind.load(Ordering::Relaxed));
        behind.at_least(self.slowed_down.load(Ordering::Relaxed))
    }

    /// Says how far flush and compaction are behind.
    pub(in super::super) fn set(&self, behind: FlushLag) {
        self.behind.store(behind.number(), Ordering::Relaxed);
    }

    /// Slows the writer down by so many steps at least; 0 = no more.
    pub(in super::super) fn slow_down(&self, steps: u16) {
        self.slowed_down.store(steps, Ordering::Relaxed);
    }
}

const BUSY: u32 = u32::MAX;
const FULL: u32 = u32::MAX - 1;

impl FlushLag {
    /// The same, but at least so many steps slow; 0 = as it is.
    fn at_least(self, steps: u16) -> FlushLag {
        match self {
            FlushLag::None if steps > 0 => FlushLag::Slow(steps),
            FlushLag::Slow(own) => FlushLag::Slow(own.max(steps)),
            own => own,
        }
    }

    fn number(self) -> u32 {
        match self {
            FlushLag::None => 0,
            FlushLag::Slow(steps) => u32::from(steps),
            FlushLag::Busy => BUSY,
            FlushLag::Full => FULL,
        }
    }

    fn from_number(number: u32) -> FlushLag {
        match number {
            0 => FlushLag::None,
            BUSY => FlushLag::Busy,
            FULL => FlushLag::Full,
            steps => FlushLag::Slow(u16::try_from(steps).unwrap_or(u16::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_partitions_slows_down_and_lifts_nothing() {
        let lags = FlushLags::default();
        for (behind, slowed_down, both) in [
            (FlushLag::None, 0, FlushLag::None),
            (FlushLag::None, 3, FlushLag::Slow(3)),
            (FlushLag::Slow(5), 3, FlushLag::Slow(5)),
            (FlushLag::Slow(2), 3, FlushLag::Slow(3)),
            (FlushLag::Busy, 3, FlushLag::Busy),
            (FlushLag::Full, 3, FlushLag::Full),
        ] {
            lags.set(behind);
            lags.slow_down(slowed_down);
            assert_eq!(lags.get(), both);
        }
    }
}
