//! What searches hold in memory.
//!
//! Owns: how many bytes one may hold. Promises: what a search has taken counts for its caller, in steps, and is given
//! back when the search ends, whatever its end is. Must not: count what the engine needs for itself, which no request
//! makes larger.

use std::sync::{Mutex, PoisonError};

use tideline_base::bounds;

/// Bytes of one search.
pub(crate) const OF_ONE_MAX: usize = 64 << 20;
/// What is asked of the caller's share at a time.
const STEP: usize = 16 << 10;

/// Why a search ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// It asks for more than one may hold.
    Own,
    /// Others, or others of its caller, hold too much at the moment.
    All,
    /// It makes more groups than this, which is what one may.
    Groups(usize),
    /// A text of the index can't be read.
    Damaged,
}

/// What one search holds.
#[derive(Debug)]
pub(crate) struct Share(Mutex<Held>);

#[derive(Debug)]
struct Held {
    own: usize,
    /// Of the caller's, a multiple of [`STEP`].
    counted: usize,
    of_caller: bounds::Share,
    /// Why the search ends, once it does.
    short: Option<Short>,
}

impl Share {
    /// For a search that begins.
    pub(crate) fn new(of_caller: bounds::Share) -> Share {
        Share(Mutex::new(Held {
            own: 0,
            counted: 0,
            of_caller,
            short: None,
        }))
    }

    /// More by so many bytes, if they may be held; if not, the search ends.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Short> {
        let taken = self.change(|own| own.saturating_add(bytes));
        if let Err(short) = taken {
            self.end(short);
        }
        taken
    }

    /// The search ends for a reason that the part of it that knows it can't return.
    pub(crate) fn end(&self, why: Short) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.short.get_or_insert(why);
    }

    /// Why the search ends.
    pub(crate) fn short(&self) -> Option<Short> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.short
    }

    /// Less by so many.
    pub(crate) fn give(&self, bytes: usize) {
        let _ = self.change(|own| own.saturating_sub(bytes));
    }

    fn change(&self, to: impl FnOnce(usize) -> usize) -> Result<(), Short> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.own = to(held.own);
        if held.own > OF_ONE_MAX {
            return Err(Short::Own);
        }
        let counted = held.own.next_multiple_of(STEP);
        if counted != held.counted {
            if !held.of_caller.resize(counted) {
                held.of_caller.bound().refuse();
                return Err(Short::All);
            }
            held.counted = counted;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tideline_base::bounds::{Bounds, Costs, Holder, Resource};
    use tideline_base::metrics::Metrics;

    use super::*;

    #[test]
    fn a_search_gets_what_one_may_hold_and_what_others_leave() {
        // One caller has half of it.
        let bounds = Bounds::new(|_| 256 << 20, 50, Costs::UNBOUNDED, &Metrics::default());
        let all = bounds.of(Resource::SearchBytes);
        let of = |caller| Share::new(all.share(Some(Holder(caller))));
        let (one, other) = (of(1), of(1));
        assert_eq!(one.take(OF_ONE_MAX), Ok(()));
        assert_eq!(other.take(OF_ONE_MAX), Ok(()));
        assert_eq!(of(1).take(1), Err(Short::All));
        assert_eq!(of(2).take(1), Ok(()));
        assert_eq!(one.take(1), Err(Short::Own));
        one.give(STEP + 1);
        assert_eq!(of(1).take(1), Ok(()));
        drop((one, other));
        let all = (0..4).map(of).map(|one| (one.take(OF_ONE_MAX), one));
        assert!(
            all.collect::<Vec<_>>()
                .iter()
                .all(|(taken, _)| taken.is_ok())
        );
    }
}
