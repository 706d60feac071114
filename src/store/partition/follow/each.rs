//! What a layer keeps for each partition, made when it is first asked for.
//!
//! Owns: [`Each`]. Promises: an element is made once, and is the same for all callers, so a partition that is born
//! later needs no registration; to ask for one that is there takes no lock; those of partitions that are gone go when
//! the next one is made. Must not: know what it keeps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};

use super::super::Partitions;
use tideline_base::ids::PartitionId;

/// One `T` for each partition that is asked for.
pub struct Each<T> {
    partitions: Partitions,
    make: Make<T>,
    made: ArcSwap<Made<T>>,
    making: Mutex<()>,
}

type Make<T> = Box<dyn Fn(&Partitions, PartitionId) -> T + Send + Sync>;

/// What there is, by partition.
type Made<T> = BTreeMap<PartitionId, Arc<T>>;

impl<T> Each<T> {
    /// None yet; `make` makes one.
    pub fn new(
        partitions: &Partitions,
        make: impl Fn(&Partitions, PartitionId) -> T + Send + Sync + 'static,
    ) -> Each<T> {
        Each {
            partitions: partitions.clone(),
            make: Box::new(make),
            made: ArcSwap::default(),
            making: Mutex::default(),
        }
    }

    /// That of a partition.
    pub fn of(&self, partition: PartitionId) -> Arc<T> {
        let known = self.made.load().get(&partition).cloned();
        known.unwrap_or_else(|| self.make(partition))
    }

    /// Those that somebody has asked for.
    pub fn made(&self) -> Guard<Arc<Made<T>>> {
        self.made.load()
    }

    fn make(&self, partition: PartitionId) -> Arc<T> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.made.load();
        if let Some(one) = made.get(&partition) {
            return Arc::clone(one);
        }
        let one = Arc::new((self.make)(&self.partitions, partition));
        let live = self.partitions.ids();
        let live = live.filter_map(|id| Some((id, Arc::clone(made.get(&id)?))));
        let mut made: Made<T> = live.collect();
        made.insert(partition, Arc::clone(&one));
        self.made.store(Arc::new(made));
        one
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::partition::Options;
    use crate::partition::tests::ToyRules;
    use tideline_base::clock::Clock;

    #[test]
    fn one_is_made_for_each_partition_however_many_ask() {
        let home = tempfile::tempdir().unwrap();
        let options = Options {
            partitions: 3,
            ..Options::default()
        };
        let (rules, clock) = (Arc::new(ToyRules), Arc::new(Clock::fixed(1)));
        let partitions = Partitions::open(home.path(), options, rules, clock).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let made = Arc::clone(&count);
        let each = Each::new(&partitions, move |_, id| {
            made.fetch_add(1, Ordering::SeqCst);
            id
        });
        assert!(each.made().is_empty());
        std::thread::scope(|scope| {
            for turn in 0..8 {
                let (each, ids) = (&each, partitions.ids().skip(turn % 2));
                scope.spawn(move || ids.for_each(|id| assert_eq!(*each.of(id), id)));
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 3);
        let ids: Vec<_> = partitions.ids().collect();
        assert_eq!(each.made().keys().copied().collect::<Vec<_>>(), ids);
    }
}
