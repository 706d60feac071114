//! The places of connections, and which connection gives one up when all are taken.
//!
//! Owns: which connections are open, and whose they are. A connection is a stranger's until a credential of it counted;
//! where there is no `[auth]`, until it has asked for something that is no page. Promises: never more places than the
//! bound; when all are taken, the stranger that has been there longest leaves, else the oldest connection of the caller
//! that has most, if that is above a caller's share; so a caller with a credential gets in, whatever strangers and one
//! other caller do. Must not: close a socket; its task does.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use tideline_base::bounds::{Bound, Holder, Share};

/// The places of all connections.
#[derive(Debug)]
pub(in super::super) struct Seats {
    bound: Arc<Bound>,
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    next: u64,
    strangers: BTreeMap<u64, CancellationToken>,
    known: HashMap<Option<Holder>, BTreeMap<u64, CancellationToken>>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(in super::super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    holder: Mutex<Known>,
    /// It is to leave.
    pub(in super::super) leaves: CancellationToken,
    /// For the figures.
    _counted: Share,
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Stranger,
    /// `None` = of nobody in particular, where nobody is asked.
    As(Option<Holder>),
}

impl Seats {
    pub(in super::super) fn new(bound: &Arc<Bound>) -> Arc<Seats> {
        Seats::of(bound, bound.max)
    }

    /// Half of them: each connection may need another one to another node.
    pub(in super::super) fn half(bound: &Arc<Bound>) -> Arc<Seats> {
        Seats::of(bound, (bound.max / 2).max(1))
    }

    fn of(bound: &Arc<Bound>, max: usize) -> Arc<Seats> {
        Arc::new(Seats {
            bound: Arc::clone(bound),
            max,
            taken: Mutex::default(),
        })
    }

    /// A place for a stranger; `None` = all are taken, and nobody has to leave.
    pub(in super::super) fn enter(self: &Arc<Seats>) -> Option<Seat> {
        let mut counted = self.bound.share(None);
        let leaves = CancellationToken::new();
        let mut taken = self.taken();
        let left = match taken.count < self.max {
            true => None,
            false => Some(taken.one_who_leaves(self.bound.share_max)?),
        };
        taken.count += 1;
        taken.next += 1;
        let number = taken.next;
        taken.strangers.insert(number, leaves.clone());
        drop(taken);
        if let Some(left) = left {
            self.bound.refuse();
            left.cancel();
        }
        // Connections that leave are still there for a moment.
        counted.force(1);
        Some(Seat {
            seats: Arc::clone(self),
            number,
            holder: Mutex::new(Known::Stranger),
            leaves,
            _counted: counted,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Takes the place of a connection that has to leave.
    fn one_who_leaves(&mut self, share_max: usize) -> Option<CancellationToken> {
        let left = match self.strangers.pop_first() {
            Some((_, stranger)) => Some(stranger),
            None => {
                let of_callers = self.known.iter_mut().filter(|(of, _)| of.is_some());
                let (_, most) = of_callers.max_by_key(|(_, seats)| seats.len())?;
                match most.len() > share_max {
                    true => most.pop_first().map(|(_, oldest)| oldest),
                    false => None,
                }
            }
        };
        self.count -= usize::from(left.is_some());
        left
    }

    /// Takes out a connection that is there.
    fn remove(&mut self, number: u64, known: Known) -> Option<CancellationToken> {
        match known {
            Known::Stranger => self.strangers.remove(&number),
            Known::As(holder) => {
                let of_holder = self.known.get_mut(&holder)?;
                let removed = of_holder.remove(&number);
                if of_holder.is_empty() {
                    self.known.remove(&holder);
                }
                removed
            }
        }
    }
}

impl Seat {
    /// A credential of the connection counted, or there is no need for one: it is this caller's now.
    pub(in super::super) fn is_of(&self, holder: Option<Holder>) {
        let mut known = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        // Mostly it is the same caller again: with a key for several users it is the key.
        if *known == Known::As(holder) {
            return;
        }
        let mut taken = self.seats.taken();
        // One that was asked to leave has no place any more.
        if let Some(leaves) = taken.remove(self.number, *known) {
            let of_holder = taken.known.entry(holder).or_default();
            of_holder.insert(self.number, leaves);
            *known = Known::As(holder);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let known = *self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = self.seats.taken();
        if taken.remove(self.number, known).is_some() {
            taken.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tideline_base::bounds::{Bounds, Costs, Resource};
    use tideline_base::metrics::Metrics;

    #[test]
    fn strangers_leave_first_then_the_caller_above_its_share() {
        let bounds = Bounds::new(|_| 8, 25, Costs::UNBOUNDED, &Metrics::default());
        let seats = Seats::new(bounds.of(Resource::Connections));
        let (ann, ben) = (Some(Holder(1)), Some(Holder(2)));
        let mut all: Vec<Seat> = (0..8).map(|_| seats.enter().unwrap()).collect();
        for seat in &all[1..6] {
            seat.is_of(ann);
        }
        let of_ben = seats.enter().unwrap();
        of_ben.is_of(ben);
        let gone = |all: &[Seat]| -> Vec<bool> {
            all.iter().map(|seat| seat.leaves.is_cancelled()).collect()
        };
        let first = [true, false, false, false, false, false, false, false];
        assert_eq!(gone(&all), first, "the stranger who came first");
        all[0].is_of(ben);
        let known = |_| {
            let seat = seats.enter().unwrap();
            seat.is_of(None);
            seat
        };
        let two: Vec<Seat> = (0..2).map(known).collect();
        assert_eq!(gone(&all[6..]), [true, true], "then the other two");
        // Ann has five of eight, and may have two.
        let more: Vec<Seat> = (0..3).map(known).collect();
        assert_eq!(gone(&all[1..6]), [true, true, true, false, false]);
        assert!(seats.enter().is_none(), "nobody is above a share");
        assert!(!of_ben.leaves.is_cancelled());
        all.clear();
        assert_eq!(seats.taken().count, 6);
        assert!(seats.enter().is_some());
        drop((of_ben, two, more));
        let taken = seats.taken();
        assert!(taken.count == 0 && taken.known.is_empty() && taken.strangers.is_empty());
    }
}
