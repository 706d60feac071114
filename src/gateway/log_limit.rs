//! Lines of the log that any client can cause.
//!
//! Owns: how often such a line is logged. Promises: of each cause so many a minute, the first ones at once, with how
//! many were left out before; what is remembered is bounded. Must not: know what the line says.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The turns of one kind of line, for each of its causes.
#[derive(Debug)]
pub(super) struct LogLimit<K = ()> {
    per_minute: u32,
    /// Causes for which there is no room share `None`.
    causes: Mutex<HashMap<Option<K>, Minute>>,
}

#[derive(Debug, Default)]
struct Minute {
    began: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Minute {
    fn is_over(&self) -> bool {
        self.began.is_none_or(|at| at.elapsed() >= MINUTE)
    }
}

impl<K: Eq + Hash> LogLimit<K> {
    /// So many lines a minute for each cause.
    pub(super) fn new(per_minute: u32) -> LogLimit<K> {
        let causes = Mutex::default();
        LogLimit { per_minute, causes }
    }

    /// Counts; if it is to be said, how many were left out since the last time.
    pub(super) fn turn_of(&self, cause: K) -> Option<u64> {
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cause = Some(cause);
        if causes.len() >= REMEMBERED_MAX && !causes.contains_key(&cause) {
            causes.retain(|_, minute| !minute.is_over());
            cause = cause.filter(|_| causes.len() < REMEMBERED_MAX);
        }
        let minute = causes.entry(cause).or_default();
        if minute.is_over() {
            (minute.began, minute.said) = (Some(Instant::now()), 0);
        }
        if minute.said == self.per_minute {
            minute.left_out += 1;
            return None;
        }
        minute.said += 1;
        Some(std::mem::take(&mut minute.left_out))
    }
}

impl LogLimit {
    /// The same of a line with one cause: how many there were since the last time, this one included.
    pub(super) fn turn(&self) -> Option<u64> {
        self.turn_of(()).map(|left_out| left_out + 1)
    }
}

/// One line a minute.
impl<K: Eq + Hash> Default for LogLimit<K> {
    fn default() -> LogLimit<K> {
        LogLimit::new(1)
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// Causes that are remembered.
const REMEMBERED_MAX: usize = if cfg!(test) { 3 } else { 10_000 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_lines_and_strangers_hide_none_of_them() {
        let limit = LogLimit::new(2);
        assert_eq!(
            [limit.turn_of(1), limit.turn_of(1), limit.turn_of(1)],
            [Some(0), Some(0), None]
        );
        assert_eq!(
            [limit.turn_of(2), limit.turn_of(3), limit.turn_of(4)],
            [Some(0); 3]
        );
        // There is no room for more than three: these share the lines of one.
        assert_eq!([limit.turn_of(5), limit.turn_of(6)], [Some(0), None]);
        assert_eq!(limit.turn_of(2), Some(0), "a known one keeps its own");
        assert_eq!(limit.causes.lock().unwrap().len(), 4);
        for minute in limit.causes.lock().unwrap().values_mut() {
            minute.began = Instant::now().checked_sub(MINUTE);
        }
        assert_eq!(limit.turn_of(1), Some(1), "with what was left out");
        assert_eq!(limit.turn_of(7), Some(0));
        let one = LogLimit::default();
        assert_eq!([one.turn(), one.turn()], [Some(1), None]);
    }
}
