//! What searches hold in memory.
//!
//! Owns: how many bytes one may hold, and all together. Promises: what a search has taken is given back when it ends,
//! whatever its end is. Must not: count what the engine needs for itself, which no request makes larger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of one search.
pub(crate) const OF_ONE_MAX: usize = 64 << 20;

/// What all searches hold.
#[derive(Debug)]
pub(crate) struct Memory {
    max: usize,
    used: AtomicUsize,
}

/// Which bound a search has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// It asks for more than one may hold.
    Own,
    /// Others hold too much at the moment.
    All,
}

/// What one search holds.
#[derive(Debug)]
pub(crate) struct Share {
    all: Arc<Memory>,
    own: AtomicUsize,
}

impl Memory {
    pub(crate) fn new(max: usize) -> Memory {
        Memory {
            max,
            used: AtomicUsize::new(0),
        }
    }

    /// Bytes that are held.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// For a search that begins.
    pub(crate) fn share(self: &Arc<Memory>) -> Share {
        Share {
            all: Arc::clone(self),
            own: AtomicUsize::new(0),
        }
    }
}

impl Share {
    /// More by so many bytes, if they may be held; they count also if not: the search ends then.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Short> {
        let own = self.own.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = self.all.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match () {
            () if own > OF_ONE_MAX => Err(Short::Own),
            () if all > self.all.max => Err(Short::All),
            () => Ok(()),
        }
    }

    /// Less by so many.
    pub(super) fn give(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let own = *self.own.get_mut();
        self.all.used.fetch_sub(own, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_gets_what_one_may_hold_and_what_others_leave() {
        let all = Arc::new(Memory::new(OF_ONE_MAX + 10));
        let (one, other) = (all.share(), all.share());
        assert_eq!(one.take(OF_ONE_MAX), Ok(()));
        assert_eq!(other.take(11), Err(Short::All));
        drop(other);
        assert_eq!(all.share().take(10), Ok(()));
        assert_eq!(one.take(1), Err(Short::Own));
        one.give(2);
        assert_eq!(one.take(1), Ok(()));
        drop(one);
        assert_eq!(all.used(), 0);
    }
}
