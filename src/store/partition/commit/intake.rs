//! Which writes a partition still takes while it is about to end, or closes.
//!
//! Owns: [`Intake`]. Promises: while it is open it costs a write one load; an intake that was closed for good never
//! opens again. Must not: know what is in the queue.

use std::sync::atomic::{AtomicU8, Ordering};

use super::super::{Purpose, StoreError};

/// A partition's intake.
#[derive(Default)]
pub(in super::super) struct Intake(AtomicU8);

/// How far it is open. The numbers are what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Opening {
    /// For everybody.
    Open = 0,
    /// Only for what is derived from changes: the partition is about to end, and that must be written before.
    Derives = 1,
    /// For nobody: it ends.
    Sealed = 2,
}

/// For nobody, for good: the process closes it.
const CLOSED: u8 = 3;

impl Intake {
    /// Lets a write in, or says why not.
    pub(in super::super) fn admit(&self, purpose: Purpose) -> Result<(), StoreError> {
        match self.0.load(Ordering::SeqCst) {
            0 => Ok(()),
            1 if matches!(purpose, Purpose::Derives | Purpose::LetsGo) => Ok(()),
            CLOSED => Err(StoreError::ShuttingDown),
            // Soon another partition owns its keys, or this one opens again: a repeated write will find out.
            _ => Err(StoreError::Busy),
        }
    }

    /// Opens it as far as that, unless it is closed for good.
    pub(in super::super) fn set(&self, opening: Opening) {
        let open = |now: u8| (now != CLOSED).then_some(opening as u8);
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, open);
    }

    /// Whether it was closed for good.
    pub(in super::super) fn is_closed(&self) -> bool {
        self.0.load(Ordering::SeqCst) == CLOSED
    }

    /// Closes it for good; `false` if it was.
    pub(in super::super) fn close(&self) -> bool {
        self.0.swap(CLOSED, Ordering::SeqCst) != CLOSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intake_lets_in_what_it_is_open_for() {
        let intake = Intake::default();
        let lets_in = |purpose| intake.admit(purpose).is_ok();
        let all = [
            Purpose::Adds,
            Purpose::MakesRoom,
            Purpose::Derives,
            Purpose::LetsGo,
        ];
        for (opening, expected) in [
            (Opening::Derives, [false, false, true, true]),
            (Opening::Sealed, [false; 4]),
            (Opening::Open, [true; 4]),
        ] {
            intake.set(opening);
            assert_eq!(all.map(lets_in), expected, "{opening:?}");
        }
        intake.set(Opening::Sealed);
        assert_eq!(intake.admit(Purpose::Adds), Err(StoreError::Busy));
        assert!(intake.close() && !intake.close());
        intake.set(Opening::Open);
        assert_eq!(intake.admit(Purpose::Adds), Err(StoreError::ShuttingDown));
    }
}
