//! How far the tailer of each partition has announced what was committed, and what waits for that.
//!
//! Owns: the position up to which watchers were notified of everything, and a bounded queue of functions that run once
//! a position was announced. Promises: a push that is never stored (a signal, presence) goes out after everything that
//! was committed before it was asked for, so it reaches no user that an earlier change shuts out. Such pushes keep
//! their order; one goes out at once if nothing is left to announce. Must not: read a log, know what the functions do,
//! or hold a lock while one runs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::mailbox::lock;
use crate::timeline::Timelines;
use tideline_base::ids::{PartitionId, Position};
use tideline_base::metrics;
use tideline_store::partition::{Each, Partitions, Tail};

/// The followers of all partitions. Cheap to clone.
#[derive(Clone)]
pub(super) struct Followers {
    each: Arc<Each<Follower>>,
    timelines: Timelines,
}

/// The follower of one partition: how far it is, its metrics, and what waits for it.
pub(super) struct Follower {
    pub(super) tail: Tail,
    pub(super) metrics: metrics::Follower,
    told: Told,
}

/// Up to where everything was announced, and what waits for more.
#[derive(Default)]
struct Told {
    position: AtomicU64,
    queue: Mutex<Queue>,
    /// 0 = nothing waits or runs. Most callers see that without the lock.
    waiting_count: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// One thread runs what is due, and looks again before it leaves.
    is_running: bool,
}

/// A function that runs once everything up to a position is announced.
struct Waiting {
    committed: Position,
    run: Box<dyn FnOnce() + Send>,
}

impl Followers {
    pub(super) fn new(partitions: &Partitions, timelines: Timelines) -> Followers {
        let follower = |partitions: &Partitions, id: PartitionId| {
            Follower::new(partitions.tail(id), partitions.metrics().follower(id.0))
        };
        Followers {
            each: Arc::new(Each::new(partitions, follower)),
            timelines,
        }
    }

    pub(super) fn of(&self, partition: PartitionId) -> Arc<Follower> {
        self.each.of(partition)
    }

    /// Whether everything that these partitions have committed was announced.
    pub(super) fn have_told(&self, partitions: &[PartitionId]) -> bool {
        let followers = self.each.made();
        let told = |id| {
            followers
                .get(id)
                .is_some_and(|follower| follower.has_told())
        };
        partitions.iter().all(told)
    }

    /// Whether each of these partitions has its follower.
    pub(super) fn are_there(&self, mut partitions: impl Iterator<Item = PartitionId>) -> bool {
        let followers = self.each.made();
        partitions.all(|id| followers.contains_key(&id))
    }

    /// The age of the oldest batch of a partition that is not announced yet, ms; 0 = there is none. May block on the
    /// disk.
    pub(super) fn lag_ms(&self, partition: PartitionId) -> u64 {
        let now_ms = self.timelines.now_ms();
        let followers = self.each.made();
        let lag = |follower: &Arc<Follower>| follower.lag_ms(now_ms).1;
        followers.get(&partition).map_or(0, lag)
    }

    /// Brings the gauges up to date. May block on the disk.
    pub(super) fn observe(&self) {
        for follower in self.each.made().values() {
            follower.observe(self.timelines.now_ms());
        }
    }

    /// Runs `run` once everything is announced that is committed in the timeline's partition now. `false` = too much
    /// waits already, and it will not run.
    pub(super) fn once_told(&self, timeline: &str, run: impl FnOnce() + Send + 'static) -> bool {
        let followers = self.each.made();
        match followers.get(&self.timelines.partition_of(timeline)) {
            Some(follower) => follower.told.once(follower.tail.position(), run),
            // Its tailer has not begun, and will announce nothing from before.
            None => {
                run();
                true
            }
        }
    }
}

impl Told {
    /// Everything up to here is announced: runs what waited for that.
    fn tell(&self, position: Position) {
        self.position.store(position.0, Ordering::SeqCst);
        if self.waiting_count.load(Ordering::SeqCst) > 0 {
            self.run_due();
        }
    }

    /// Runs `run` once everything up to `committed` is announced; `false` = too much waits already.
    fn once(&self, committed: Position, run: impl FnOnce() + Send + 'static) -> bool {
        let is_told = self.position.load(Ordering::SeqCst) >= committed.0;
        if is_told && self.waiting_count.load(Ordering::SeqCst) == 0 {
            run();
            return true;
        }
        {
            let waiting = &mut lock(&self.queue).waiting;
            if waiting.len() >= WAITING_MAX {
                return false;
            }
            waiting.push_back(Waiting {
                committed,
                run: Box::new(run),
            });
            self.waiting_count.store(waiting.len(), Ordering::SeqCst);
        }
        // The tailer may have looked at the queue before this was in it.
        self.run_due();
        true
    }

    /// The count is lowered after a function has run, so that nothing newer runs before it.
    fn run_due(&self) {
        if std::mem::replace(&mut lock(&self.queue).is_running, true) {
            return;
        }
        let _running = Running(self);
        while let Some(run) = self.next_due() {
            run();
        }
    }

    /// What is to run next. If nothing is, the calling thread runs no more: another one may.
    fn next_due(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let mut queue = lock(&self.queue);
        self.waiting_count
            .store(queue.waiting.len(), Ordering::SeqCst);
        let told = self.position.load(Ordering::SeqCst);
        let is_due = |next: &mut Waiting| next.committed.0 <= told;
        let next = queue.waiting.pop_front_if(is_due);
        queue.is_running = next.is_some();
        next.map(|next| next.run)
    }
}

/// After a panic, lets another thread run what is due.
struct Running<'t>(&'t Told);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.queue).is_running = false;
        }
    }
}

impl Follower {
    fn new(tail: Tail, metrics: metrics::Follower) -> Follower {
        let follower = Follower {
            told: Told::default(),
            tail,
            metrics,
        };
        follower.told(follower.tail.position());
        follower
    }

    fn has_told(&self) -> bool {
        self.told.position.load(Ordering::SeqCst) >= self.tail.position().0
    }

    /// Everything up to here is announced.
    pub(super) fn told(&self, position: Position) {
        self.told.tell(position);
    }

    fn observe(&self, now_ms: u64) {
        let (batches, age_ms) = self.lag_ms(now_ms);
        self.metrics.lag.count(batches);
        self.metrics.lag_seconds.set(age_ms as f64 / 1e3);
    }

    /// Batches that are not announced yet, and the age of the oldest of them, ms.
    fn lag_ms(&self, now_ms: u64) -> (u64, u64) {
        let told = self.told.position.load(Ordering::Relaxed);
        let behind = self.tail.position().0.saturating_sub(told);
        (behind, self.tail.age_ms(Position(told), now_ms))
    }
}

/// Functions that may wait for one follower: some milliseconds of signals, of all connections.
const WAITING_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_waits_runs_behind_what_was_committed_and_in_order() {
        let told = Told::default();
        let (ran, seen) = mpsc::channel();
        let ask = |committed: u64, number: usize| {
            let ran = ran.clone();
            told.once(Position(committed), move || ran.send(number).unwrap())
        };
        let seen = || seen.try_iter().collect::<Vec<_>>();
        assert!(ask(0, 1));
        assert_eq!(seen(), [1], "nothing is left to tell");
        assert!(ask(2, 2) && ask(3, 3) && ask(3, 4));
        told.tell(Position(1));
        assert_eq!(seen(), [0; 0]);
        told.tell(Position(2));
        assert_eq!(seen(), [2]);
        told.tell(Position(3));
        assert_eq!(seen(), [3, 4]);
    }

    #[test]
    fn only_so_much_waits() {
        let (told, committed) = (Told::default(), Position(1));
        assert!((0..WAITING_MAX).all(|_| told.once(committed, || {})));
        assert!(!told.once(committed, || unreachable!("there is no room for it")));
        told.tell(committed);
        assert!(told.once(committed, || {}));
    }

    /// Two ask while the tailer tells: each of theirs runs, in their order.
    #[test]
    fn nothing_is_forgotten_or_overtakes() {
        for _ in 0..300 {
            let told = Told::default();
            let (ran, seen) = mpsc::channel();
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (ran, told) = (ran.clone(), &told);
                    scope.spawn(move || {
                        for number in 0..20 {
                            let ran = ran.clone();
                            let run = move || ran.send((thread, number)).unwrap();
                            assert!(told.once(Position(1), run));
                        }
                    });
                }
                scope.spawn(|| told.tell(Position(1)));
            });
            let seen: Vec<(usize, usize)> = seen.try_iter().collect();
            for thread in 0..2 {
                let of = seen.iter().filter(|(of, _)| *of == thread);
                assert!(of.map(|(_, number)| *number).eq(0..20));
            }
        }
    }
}
