//! When open messages were heard last, by the steady clock: the system's may have been set since.
//!
//! Owns: this memory, of each partition. Promises: it is no row's copy, so it stays when a batch is taken back or the
//! writer forgets what it remembers of rows; a bound keeps it small, and what was heard longest ago goes first. Must
//! not: be the only one who knows; of what is not here the rows say it, by the system's clock.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

/// Times by the steady clock, ms, by the keys of messages.
#[derive(Default)]
pub(in crate::timeline) struct Heard(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    newer: HashMap<Box<[u8]>, u64, RandomState>,
    older: HashMap<Box<[u8]>, u64, RandomState>,
}

impl Heard {
    /// A part came just now, or the message became open.
    pub(super) fn note(&self, key: &[u8], steady_ms: u64) {
        let mut all = self.lock();
        if let Some(known) = all.newer.get_mut(key) {
            *known = steady_ms;
            return;
        }
        if all.newer.len() >= NEWER_MAX {
            all.older = std::mem::take(&mut all.newer);
        }
        all.newer.insert(key.into(), steady_ms);
    }

    /// When that was; `None` = not since this process began, or long ago.
    pub(super) fn of(&self, key: &[u8]) -> Option<u64> {
        let all = self.lock();
        let found = all.newer.get(key).or_else(|| all.older.get(key));
        found.copied()
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // Changed in single steps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Twice as many are 4 MiB a partition. Tests forget often.
const NEWER_MAX: usize = if cfg!(test) { 2 } else { 1 << 14 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_longest_ago_goes_first() {
        let heard = Heard::default();
        for (at, key) in [b"a", b"b", b"a", b"c"].into_iter().enumerate() {
            heard.note(key, at as u64);
        }
        let of = |keys: [&[u8; 1]; 4]| keys.map(|key| heard.of(key));
        assert_eq!(
            of([b"a", b"b", b"c", b"d"]),
            [Some(2), Some(1), Some(3), None]
        );
        heard.note(b"a", 4);
        heard.note(b"d", 5);
        assert_eq!(
            of([b"a", b"b", b"c", b"d"]),
            [Some(4), None, Some(3), Some(5)]
        );
    }
}
