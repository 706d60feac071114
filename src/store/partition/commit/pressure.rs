//! How far flush, compaction, or a split or merge are behind the writers, as one word that every writer looks at.
//!
//! Owns: its states and their numbers. Promises: a number and its state are the same. Must not: decide when which holds
//! (the flusher does, and a split or merge).

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// How far behind the writers' followers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Pressure {
    #[default]
    None,
    /// By this many steps: the writer waits a little before each batch.
    Slow(u16),
    /// Too far: new jobs hear `busy`.
    Busy,
    /// There is no space for them.
    Full,
}

/// The pressure on one partition's writers: from its flusher, and from a split or merge.
#[derive(Default)]
pub(in super::super) struct Pressures {
    /// [`Pressure`] as a number.
    behind: AtomicU32,
    /// Steps.
    slowed_down: AtomicU16,
}

impl Pressures {
    pub(in super::super) fn get(&self) -> Pressure {
        let behind = Pressure::from_number(self.behind.load(Ordering::Relaxed));
        behind.at_least(self.slowed_down.load(Ordering::Relaxed))
    }

    /// Says how far flush and compaction are behind.
    pub(in super::super) fn set(&self, behind: Pressure) {
        self.behind.store(behind.number(), Ordering::Relaxed);
    }

    /// Slows the writer down by so many steps at least; 0 = no more.
    pub(in super::super) fn slow_down(&self, steps: u16) {
        self.slowed_down.store(steps, Ordering::Relaxed);
    }
}

const PRESSURE_BUSY: u32 = u32::MAX;
const PRESSURE_FULL: u32 = u32::MAX - 1;

impl Pressure {
    /// The same, but at least so many steps slow; 0 = as it is.
    fn at_least(self, steps: u16) -> Pressure {
        match self {
            Pressure::None if steps > 0 => Pressure::Slow(steps),
            Pressure::Slow(own) => Pressure::Slow(own.max(steps)),
            own => own,
        }
    }

    fn number(self) -> u32 {
        match self {
            Pressure::None => 0,
            Pressure::Slow(steps) => u32::from(steps),
            Pressure::Busy => PRESSURE_BUSY,
            Pressure::Full => PRESSURE_FULL,
        }
    }

    fn from_number(number: u32) -> Pressure {
        match number {
            0 => Pressure::None,
            PRESSURE_BUSY => Pressure::Busy,
            PRESSURE_FULL => Pressure::Full,
            steps => Pressure::Slow(u16::try_from(steps).unwrap_or(u16::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_partitions_slows_down_and_lifts_nothing() {
        let pressures = Pressures::default();
        for (behind, slowed_down, both) in [
            (Pressure::None, 0, Pressure::None),
            (Pressure::None, 3, Pressure::Slow(3)),
            (Pressure::Slow(5), 3, Pressure::Slow(5)),
            (Pressure::Slow(2), 3, Pressure::Slow(3)),
            (Pressure::Busy, 3, Pressure::Busy),
            (Pressure::Full, 3, Pressure::Full),
        ] {
            pressures.set(behind);
            pressures.slow_down(slowed_down);
            assert_eq!(pressures.get(), both);
        }
    }
}
