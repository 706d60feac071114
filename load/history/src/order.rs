//! Sequences that should follow each other.
//!
//! Owns: what each one is that does not. Promises: what comes late is reordered and no gap; what never comes is a gap.
//! Must not: keep more than [`GAPS_MAX`] gaps.

use crate::report::Anomaly;

/// More gaps are not told from what comes late.
const GAPS_MAX: usize = 1_000;

/// How far a reader of sequences is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// The next one that is due.
    pub(crate) next: u64,
    /// First and last of what was left out.
    gaps: Vec<(u64, u64)>,
}

impl Order {
    /// Begins with this one.
    pub(crate) fn from(next: u64) -> Order {
        let gaps = Vec::new();
        Order { next, gaps }
    }

    /// One comes: what is wrong with it by itself, if anything.
    pub(crate) fn step(&mut self, sequence: u64) -> Option<Anomaly> {
        if sequence >= self.next {
            if sequence > self.next && self.gaps.len() < GAPS_MAX {
                self.gaps.push((self.next, sequence - 1));
            }
            self.next = sequence.saturating_add(1);
            return None;
        }
        let holds = |gap: &(u64, u64)| gap.0 <= sequence && sequence <= gap.1;
        let Some(at) = self.gaps.iter().position(holds) else {
            return Some(Anomaly::Duplicate);
        };
        let (first, last) = self.gaps.swap_remove(at);
        let parts = [(first, sequence - 1), (sequence + 1, last)];
        self.gaps
            .extend(parts.iter().filter(|(first, last)| first <= last));
        Some(Anomaly::Reordered)
    }

    /// What never came up to `last`, as first and last of each.
    pub(crate) fn missing(mut self, last: u64) -> Vec<(u64, u64)> {
        if self.next <= last {
            self.gaps.push((self.next, last));
        }
        self.gaps.sort_unstable();
        self.gaps
    }
}
