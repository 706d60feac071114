//! When the next work of a partition is due, from its writer to its timer.
//!
//! Owns: the clock of the timelines, an alarm for each partition, and what was heard there. Promises: a due row that a
//! closure writes is noted here with its batch, so that the timer wakes in time and reads no view from before that
//! batch; noting costs nothing where no row is written. Must not: know what is due.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, Position};
use tideline_table::{Each, Partitions};

use super::super::growth::Heard;

/// The clock, and the alarms of all partitions.
pub(in crate::timeline) struct Time {
    clock: Arc<Clock>,
    /// When writes began to be taken here, by the steady clock.
    began_ms: u64,
    alarms: Each<Alarm>,
    heard: Each<Heard>,
}

impl Time {
    pub(in crate::timeline) fn new(clock: Arc<Clock>, partitions: &Partitions) -> Time {
        Time {
            began_ms: clock.steady_ms(),
            clock,
            alarms: Each::new(partitions, |_, _| Alarm::default()),
            heard: Each::new(partitions, |_, _| Heard::default()),
        }
    }

    /// For how long writes have been taken here: since the start, or since this node owns the log.
    pub(in crate::timeline) fn served_ms(&self) -> u64 {
        self.clock.steady_ms().saturating_sub(self.began_ms)
    }

    pub(in crate::timeline) fn alarm(&self, partition: PartitionId) -> Arc<Alarm> {
        self.alarms.of(partition)
    }

    /// When open messages of a partition were heard.
    pub(in crate::timeline) fn heard(&self, partition: PartitionId) -> Arc<Heard> {
        self.heard.of(partition)
    }
}

impl Deref for Time {
    type Target = Clock;

    fn deref(&self) -> &Clock {
        &self.clock
    }
}

/// Wakes the timer of one partition.
#[derive(Default)]
pub(in crate::timeline) struct Alarm {
    state: Mutex<State>,
    bell: Notify,
}

/// What was noted since the timer looked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::timeline) struct Noted {
    /// The earliest time; `u64::MAX` = nothing was noted.
    pub(in crate::timeline) at_ms: u64,
    /// The newest batch with a due row. It may not be on disk yet.
    pub(in crate::timeline) position: Position,
}

const NOTHING: Noted = Noted {
    at_ms: u64::MAX,
    position: Position::ZERO,
};

struct State {
    noted: Noted,
    /// When the timer wakes by itself.
    wakes_at_ms: u64,
}

impl Default for State {
    fn default() -> State {
        State {
            noted: NOTHING,
            wakes_at_ms: u64::MAX,
        }
    }
}

impl Alarm {
    /// A closure writes a due row into the batch `position`.
    pub(in crate::timeline) fn note(&self, at_ms: u64, position: Position) {
        let mut state = self.state();
        state.noted.at_ms = state.noted.at_ms.min(at_ms);
        state.noted.position = state.noted.position.max(position);
        if at_ms < state.wakes_at_ms {
            state.wakes_at_ms = at_ms;
            self.bell.notify_one();
        }
    }

    /// Takes what was noted.
    pub(super) fn take(&self) -> Noted {
        std::mem::replace(&mut self.state().noted, NOTHING)
    }

    /// The timer is going to sleep until `at_ms`; what is noted from now on, or was noted since [`Alarm::take`], and is
    /// due earlier rings.
    pub(super) fn arm(&self, at_ms: u64) {
        let mut state = self.state();
        state.wakes_at_ms = at_ms;
        if state.noted.at_ms < at_ms {
            self.bell.notify_one();
        }
    }

    /// Waits for the bell. Cancel-safe.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// A panic elsewhere leaves no half-done state: a few numbers.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn what_is_due_earlier_rings_whenever_it_was_noted() {
        let alarm = Alarm::default();
        assert_eq!(alarm.take(), NOTHING);
        alarm.arm(100);
        assert!(alarm.rung().now_or_never().is_none());
        alarm.note(100, Position(3));
        assert!(
            alarm.rung().now_or_never().is_none(),
            "it wakes then anyway"
        );
        alarm.note(99, Position(2));
        assert!(alarm.rung().now_or_never().is_some());
        let noted = alarm.take();
        assert_eq!((noted.at_ms, noted.position), (99, Position(3)));
        // Between taking and arming.
        alarm.note(98, Position(4));
        let _ = alarm.rung().now_or_never();
        alarm.arm(99);
        assert!(alarm.rung().now_or_never().is_some());
    }
}
