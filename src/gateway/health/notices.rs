//! What is wrong now, and since when.
//!
//! Owns: how long a trouble has lasted, and how much of what should not happen has happened lately. Promises: a trouble
//! that comes and goes within the time that its rule gives it is not reported; one that lasts keeps the time at which
//! it was first seen. Must not: know a metric; `rules.rs` does.

use std::collections::HashMap;

pub use tideline_model::server::{Notice, Severity};

/// A trouble that a rule sees at this moment.
pub(super) struct Found {
    /// Which one; what is the same trouble at the next look has the same.
    pub(super) key: String,
    pub(super) severity: Severity,
    /// Reported once it has lasted so long.
    pub(super) after_s: u64,
    /// When it began, if that is known better.
    pub(super) since: Option<u64>,
    pub(super) what: String,
    pub(super) advice: String,
}

impl Found {
    /// Reported once it has lasted so long.
    pub(super) fn new(
        key: String,
        severity: Severity,
        after_s: u64,
        what: String,
        advice: &str,
    ) -> Found {
        Found {
            key,
            severity,
            after_s,
            since: None,
            what,
            advice: advice.to_owned(),
        }
    }
}

/// A figure that should not rise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rise {
    /// What it was before it began to.
    base: f64,
    value: f64,
    /// When it began to.
    pub(super) since: u64,
    last: u64,
}

impl Rise {
    /// By how much.
    pub(super) fn by(&self) -> f64 {
        self.value - self.base
    }
}

/// What there was at earlier looks.
#[derive(Default)]
pub(super) struct Memory {
    /// Troubles by key, with when they were first seen.
    seen: HashMap<String, u64>,
    rises: HashMap<String, Rise>,
}

impl Memory {
    /// Looks at a counter. `Some` = it has risen within the last `window_s`.
    pub(super) fn rise(&mut self, key: &str, value: f64, window_s: u64, now: u64) -> Option<Rise> {
        let is_recent =
            |rise: &Rise| rise.last != 0 && now.saturating_sub(rise.last) < window_s * 1000;
        if !self.rises.contains_key(key) {
            self.rises.insert(key.to_owned(), Rise::default());
        }
        let rise = self.rises.get_mut(key)?;
        let was_recent = is_recent(rise);
        if value > rise.value {
            if !was_recent {
                (rise.base, rise.since) = (rise.value, now);
            }
            (rise.value, rise.last) = (value, now);
        }
        is_recent(rise).then_some(*rise)
    }

    /// When a counter rose last; 0 = it has not.
    pub(super) fn rose_at(&mut self, key: &str, value: f64, now: u64) -> u64 {
        self.rise(key, value, 0, now);
        self.rises.get(key).map_or(0, |rise| rise.last)
    }

    /// What of this is to be reported, the worst first, then the oldest.
    pub(super) fn told(&mut self, found: Vec<Found>, now: u64) -> Vec<Notice> {
        let mut seen = HashMap::new();
        let mut told = Vec::new();
        for one in found {
            let since = self.seen.get(&one.key).copied().unwrap_or(now);
            seen.insert(one.key, since);
            if now.saturating_sub(since) >= one.after_s * 1000 {
                told.push(Notice {
                    severity: one.severity,
                    since: one.since.unwrap_or(since),
                    what: one.what,
                    advice: one.advice,
                });
            }
        }
        self.seen = seen;
        told.sort_by_key(|notice| (notice.severity, notice.since));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(key: &str, severity: Severity, after_s: u64) -> Found {
        Found::new(key.to_owned(), severity, after_s, key.to_owned(), "")
    }

    #[test]
    fn a_trouble_is_told_once_it_lasts_and_keeps_its_beginning() {
        let mut memory = Memory::default();
        let mut look = |now, keys: &[&str]| {
            let found = keys.iter().map(|key| found(key, Severity::Warning, 10));
            let told = memory.told(found.collect(), now);
            told.into_iter()
                .map(|notice| (notice.what, notice.since))
                .collect::<Vec<_>>()
        };
        assert_eq!(look(1_000, &["a"]), []);
        assert_eq!(look(10_999, &["a"]), []);
        assert_eq!(look(11_000, &["a", "b"]), [("a".to_owned(), 1_000)]);
        assert_eq!(look(12_000, &["b"]), []);
        // It had gone away meanwhile.
        assert_eq!(look(13_000, &["a", "b"]), []);
        assert_eq!(look(21_000, &["a", "b"]), [("b".to_owned(), 11_000)]);
    }

    #[test]
    fn the_worst_comes_first() {
        let mut memory = Memory::default();
        memory.told(vec![found("old", Severity::Warning, 0)], 1);
        let found = [Severity::Info, Severity::Warning, Severity::Critical]
            .map(|one| found(&format!("{one:?}"), one, 0));
        let mut found: Vec<_> = found.into();
        found.push(self::found("old", Severity::Warning, 0));
        let told = memory.told(found, 2);
        let told: Vec<_> = told.iter().map(|notice| &notice.what[..]).collect();
        assert_eq!(told, ["Critical", "old", "Warning", "Info"]);
    }

    #[test]
    fn a_rise_is_recent_for_its_window_and_counts_from_its_beginning() {
        let mut memory = Memory::default();
        assert_eq!(memory.rise("a", 0.0, 300, 1_000), None);
        let rise = memory.rise("a", 4.0, 300, 2_000).unwrap();
        assert_eq!((rise.by(), rise.since), (4.0, 2_000));
        let rise = memory.rise("a", 6.0, 300, 200_000).unwrap();
        assert_eq!((rise.by(), rise.since), (6.0, 2_000));
        assert_eq!(memory.rise("a", 6.0, 300, 500_000), None);
        let rise = memory.rise("a", 7.0, 300, 501_000).unwrap();
        assert_eq!((rise.by(), rise.since), (1.0, 501_000));
        assert_eq!(memory.rose_at("a", 7.0, 600_000), 501_000);
        assert_eq!(memory.rose_at("b", 0.0, 600_000), 0);
    }
}
