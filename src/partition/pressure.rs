//! How far flush and compaction are behind, as one word that every writer looks at.
//!
//! Owns: its states and their numbers. Promises: a number and its state are the same. Must not: decide when which holds
//! (the flusher does).

/// How far flush and compaction are behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    None,
    /// By this many steps: the writer waits a little before each batch.
    Slow(u16),
    /// Too far: new jobs hear `busy`.
    Busy,
    /// There is no space for them.
    Full,
}

const PRESSURE_BUSY: u32 = u32::MAX;
const PRESSURE_FULL: u32 = u32::MAX - 1;

impl Pressure {
    pub(super) fn number(self) -> u32 {
        match self {
            Pressure::None => 0,
            Pressure::Slow(steps) => u32::from(steps),
            Pressure::Busy => PRESSURE_BUSY,
            Pressure::Full => PRESSURE_FULL,
        }
    }

    pub(super) fn from_number(number: u32) -> Pressure {
        match number {
            0 => Pressure::None,
            PRESSURE_BUSY => Pressure::Busy,
            PRESSURE_FULL => Pressure::Full,
            steps => Pressure::Slow(u16::try_from(steps).unwrap_or(u16::MAX)),
        }
    }
}
