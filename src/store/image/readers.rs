//! Which snapshots are open, and since when.
//!
//! Owns: one entry per living snapshot. Promises: an entry goes with its snapshot, also by a panic; costs a short lock
//! at its begin and end. Must not: keep a transaction alive or end one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The open snapshots of one image.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// By order of beginning: the transaction that is read, and since when.
    readers: BTreeMap<u64, (u64, Instant)>,
}

/// One open snapshot's entry.
#[derive(Debug)]
pub(super) struct Reader {
    number: u64,
    of: Arc<Readers>,
}

/// What LMDB's readers and pages look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReaderFigures {
    /// Open snapshots.
    pub readers: usize,
    /// How long the oldest has been open.
    pub oldest_age: Duration,
    /// Transactions committed since what the oldest sees.
    pub oldest_behind: u64,
    /// Bytes of pages that hold nothing.
    pub free_bytes: u64,
}

impl Readers {
    /// Enters a snapshot of a transaction.
    pub(super) fn begin(readers: &Arc<Readers>, transaction: u64) -> Reader {
        let mut open = readers.lock();
        let number = open.next;
        open.next += 1;
        open.readers.insert(number, (transaction, Instant::now()));
        drop(open);
        let of = Arc::clone(readers);
        Reader { number, of }
    }

    /// As of the last committed transaction.
    pub(super) fn figures(&self, last: u64, free_bytes: u64) -> ReaderFigures {
        let open = self.lock();
        let oldest = open.readers.values().next();
        ReaderFigures {
            readers: open.readers.len(),
            oldest_age: oldest.map_or(Duration::ZERO, |(_, since)| since.elapsed()),
            oldest_behind: oldest.map_or(0, |(seen, _)| last.saturating_sub(*seen)),
            free_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Changed in single steps: a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.of.lock().readers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_counts_until_it_ends() {
        let readers = Arc::new(Readers::default());
        let old = Readers::begin(&readers, 5);
        let young = Readers::begin(&readers, 8);
        let seen = |last| {
            let figures = readers.figures(last, 0);
            (figures.readers, figures.oldest_behind)
        };
        assert_eq!(seen(9), (2, 4));
        drop(old);
        assert_eq!(seen(9), (1, 1));
        drop(young);
        assert_eq!(seen(9), (0, 0));
    }
}
