//! The relay: derives from the changes of each partition what belongs in others.
//!
//! Owns: a task per source partition that follows its log, a route to each destination for each target, and the hold on
//! the log. Promises: each effect of a change is written exactly once and in order, whatever ends when; a destination
//! that can't write holds up only what goes to it; no log loses what was not derived from yet. Must not: know what is
//! derived, or have a request wait for it but where it asks.

mod cursor;
#[cfg(any(test, feature = "faults"))]
mod faults;
mod route;
mod source;
mod target;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tideline_base::ids::{PartitionId, Position};
use tideline_base::metrics::{self, Metrics};
use tideline_table::{Map, Partitions, Tail};

pub use cursor::{StoredCursor, farthest, stored_cursors};
#[cfg(any(test, feature = "faults"))]
pub use faults::{Broken, Faults, Point};
pub use target::{Anew, CannotDerive, Derived, Effect, Kind, Target};

use cursor::CursorKey;
use route::Route;
use source::Source;

/// What the relay may use.
#[derive(Clone, Debug)]
pub struct Options {
    /// A target that has more bytes than this to read of a partition's log and to write has what feeds it refused; see
    /// [`Relay::has_room`].
    pub backlog_bytes_max: u64,
    /// What a test breaks.
    #[cfg(any(test, feature = "faults"))]
    pub faults: Arc<Faults>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            backlog_bytes_max: 64 << 20,
            #[cfg(any(test, feature = "faults"))]
            faults: Arc::new(Faults::from_environment()),
        }
    }
}

/// The running relay. Cheap to clone.
#[derive(Clone)]
pub struct Relay {
    inner: Arc<Inner>,
}

struct Inner {
    backlog_bytes_max: i64,
    sources: ArcSwap<BTreeMap<PartitionId, Followed>>,
    /// The task that begins anew whenever the partitions change.
    follows: OnceLock<AbortHandle>,
    stop: CancellationToken,
}

/// How far the task of a source is.
struct Followed {
    backlog: Arc<Backlog>,
    /// Of each target.
    targets: Vec<FollowedTarget>,
}

struct FollowedTarget {
    number: u32,
    /// By destination: up to where everything is done.
    done: BTreeMap<PartitionId, watch::Receiver<Position>>,
    metrics: metrics::Relay,
}

impl FollowedTarget {
    /// Up to where everything is done.
    fn done(&self) -> Position {
        let done = self.done.values().map(|route| *route.borrow()).min();
        done.unwrap_or_default()
    }
}

/// How much the targets have left to do for a partition: what they have not read of its log, and what is to be written
/// of what they have read. What leads to nothing, as what the relay itself has written there, costs nothing once it is
/// read: or the relay's own work would refuse what it works for.
struct Backlog {
    tail: Tail,
    /// Of each target, as the partition counts its bytes: up to where it has read, less what is left of that.
    done: Vec<AtomicI64>,
}

impl Backlog {
    fn new(tail: Tail, targets: usize) -> Backlog {
        // What was published before the routes are open counts once they are.
        let published = published(&tail);
        let done = (0..targets).map(|_| AtomicI64::new(published)).collect();
        Backlog { tail, done }
    }

    fn of(&self, target: usize) -> i64 {
        published(&self.tail) - self.done[target].load(Ordering::Relaxed)
    }

    /// The same for operators.
    fn left(&self, target: usize) -> u64 {
        self.of(target).max(0).cast_unsigned()
    }
}

fn published(tail: &Tail) -> i64 {
    i64::try_from(tail.bytes()).expect("a log is far below 2^63 bytes")
}

impl Relay {
    /// Starts a task per partition on the current runtime. The partitions must hold their logs since they were opened
    /// (`holds_log`).
    #[must_use]
    pub fn start(
        partitions: &Partitions,
        targets: Vec<Arc<dyn Target>>,
        options: Options,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
    ) -> Relay {
        let inner = Arc::new(Inner {
            backlog_bytes_max: i64::try_from(options.backlog_bytes_max).unwrap_or(i64::MAX),
            sources: ArcSwap::default(),
            follows: OnceLock::new(),
            stop: CancellationToken::new(),
        });
        let starter = Starter {
            partitions: partitions.clone(),
            targets: targets.into(),
            #[cfg(any(test, feature = "faults"))]
            faults: options.faults,
            metrics: Arc::clone(metrics),
            tasks: tasks.clone(),
            inner: Arc::clone(&inner),
        };
        let (maps, ends) = (partitions.watch(), starter.begin());
        let follows = tasks.spawn(starter.follow(maps, ends));
        inner.follows.get_or_init(|| follows.abort_handle());
        Relay { inner }
    }

    /// Whether a change in this partition may be made that targets must follow: none of them has more left to do than
    /// the bound.
    #[must_use]
    pub fn has_room(&self, source: PartitionId) -> bool {
        let (sources, max) = (self.inner.sources.load(), self.inner.backlog_bytes_max);
        let has_room =
            |backlog: &Backlog| (0..backlog.done.len()).all(|target| backlog.of(target) <= max);
        sources
            .get(&source)
            .is_none_or(|source| has_room(&source.backlog))
    }

    /// [`Relay::has_room`] as a function that does not keep the relay alive, for what its targets hold. Once the relay
    /// is gone it answers yes.
    pub fn room(&self) -> impl Fn(PartitionId) -> bool + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.inner);
        move |source| {
            let inner = inner.upgrade();
            inner.is_none_or(|inner| Relay { inner }.has_room(source))
        }
    }

    /// Waits until everything up to a position of `source` that a target has in `destination` is there; `false` if the
    /// relay has ended. What a partition that is gone has led to is there. Cancel-safe.
    pub async fn reached(
        &self,
        target: u32,
        source: PartitionId,
        destination: PartitionId,
        position: Position,
    ) -> bool {
        loop {
            let sources = self.inner.sources.load_full();
            let route = sources.get(&source).and_then(|source| {
                let mut targets = source.targets.iter();
                targets
                    .find(|one| one.number == target)?
                    .done
                    .get(&destination)
            });
            let Some(mut route) = route.cloned() else {
                return true;
            };
            if route.wait_for(|done| *done >= position).await.is_ok() {
                return true;
            }
            // Either the relay has ended, or it goes on for other partitions.
            if Arc::ptr_eq(&sources, &self.inner.sources.load()) {
                return false;
            }
        }
    }

    /// Whether all effects of everything in the logs are written.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.is_through_where(|_, _| true)
    }

    /// The same for the routes that `is_asked` selects by source and destination.
    #[must_use]
    pub fn is_through_where(&self, is_asked: impl Fn(PartitionId, PartitionId) -> bool) -> bool {
        let sources = self.inner.sources.load();
        sources.iter().all(|(id, source)| {
            let end = source.backlog.tail.position();
            let routes = source.targets.iter().flat_map(|one| &one.done);
            let mut asked = routes.filter(|(destination, _)| is_asked(*id, **destination));
            asked.all(|(_, done)| *done.borrow() >= end)
        })
    }

    /// Bytes of a partition's changes whose effects are not written yet, for the target that is furthest behind.
    #[must_use]
    pub fn backlog(&self, source: PartitionId) -> u64 {
        let sources = self.inner.sources.load();
        let backlog = sources.get(&source).map(|source| &source.backlog);
        let all = backlog.map(|backlog| {
            (0..backlog.done.len())
                .map(|target| backlog.of(target))
                .max()
        });
        all.flatten().unwrap_or(0).max(0).cast_unsigned()
    }

    /// Whether it follows these partitions and no others.
    #[must_use]
    pub fn follows(&self, partitions: impl Iterator<Item = PartitionId>) -> bool {
        let sources = self.inner.sources.load();
        let all: BTreeSet<PartitionId> = partitions.collect();
        sources.keys().eq(all.iter())
    }

    /// Whether it will follow partitions that are born.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let follows = self.inner.follows.get();
        follows.is_some_and(|follows| !follows.is_finished())
    }

    /// Brings the gauges up to date. May block on the disk.
    pub fn observe(&self, now_ms: u64) {
        for Followed { backlog, targets } in self.inner.sources.load().values() {
            for (index, target) in targets.iter().enumerate() {
                let metrics = &target.metrics;
                metrics.position.count(target.done().0);
                metrics.backlog_bytes.count(backlog.left(index));
                let age_ms = backlog.tail.age_ms(target.done(), now_ms);
                metrics.lag_seconds.set(age_ms as f64 / 1e3);
            }
        }
    }

    /// How late what is derived from a partition's changes is, ms, and how many bytes are left to do: of the target
    /// that is furthest behind. May block on the disk.
    #[must_use]
    pub fn lag(&self, source: PartitionId, now_ms: u64) -> (u64, u64) {
        let sources = self.inner.sources.load();
        let Some(Followed { backlog, targets }) = sources.get(&source) else {
            return (0, 0);
        };
        let lag_ms = |target: &FollowedTarget| backlog.tail.age_ms(target.done(), now_ms);
        let lags = targets.iter().map(lag_ms);
        let left = (0..targets.len()).map(|index| backlog.left(index));
        (lags.max().unwrap_or(0), left.max().unwrap_or(0))
    }

    /// Stops the tasks. What they have not derived comes after the next start.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }
}

/// What the tasks are made of.
struct Starter {
    partitions: Partitions,
    targets: Arc<[Arc<dyn Target>]>,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    #[cfg(any(test, feature = "faults"))]
    faults: Arc<Faults>,
    inner: Arc<Inner>,
}

impl Starter {
    /// Begins anew whenever there are other partitions: what is done is in the cursors.
    async fn follow(self, mut maps: watch::Receiver<Arc<Map>>, mut ends: CancellationToken) {
        let stop = self.inner.stop.clone();
        while let Some(Ok(())) = stop.run_until_cancelled(maps.changed()).await {
            // The new tasks begin before the old ones end: a caller whose route ends must find its successor.
            let next = self.begin();
            std::mem::replace(&mut ends, next).cancel();
        }
    }

    /// Starts a task for each partition that there is now.
    fn begin(&self) -> CancellationToken {
        let ends = self.inner.stop.child_token();
        let mut sources = BTreeMap::new();
        for source in self.partitions.ids() {
            let (task, followed) = self.source(source);
            sources.insert(source, followed);
            if !self.targets.is_empty() {
                self.tasks.spawn(task.run(ends.clone()));
            }
        }
        self.inner.sources.store(Arc::new(sources));
        for destination in self.partitions.ids() {
            let forgets = cursor::forget_ended(self.partitions.clone(), destination);
            self.tasks.spawn(forgets);
        }
        ends
    }

    /// The task of a source, with a route of each target to each partition, and what is seen of it.
    fn source(&self, source: PartitionId) -> (Source, Followed) {
        let Starter {
            partitions,
            targets,
            metrics,
            ..
        } = self;
        let backlog = Arc::new(Backlog::new(partitions.tail(source), targets.len()));
        let own = |target: &Arc<dyn Target>| metrics.relay(target.kind().name, source.0);
        let (mut routes, mut followed) = (Vec::new(), Vec::new());
        for (index, target) in targets.iter().enumerate() {
            let number = target.kind().number;
            let key = CursorKey::new(number, source, partitions.history());
            let mut done = BTreeMap::new();
            for destination in partitions.ids() {
                let (send, receive) = watch::channel(Position::ZERO);
                routes.push(Route::new(index, destination, key.clone(), send));
                done.insert(destination, receive);
            }
            followed.push(FollowedTarget {
                number,
                done,
                metrics: own(target),
            });
        }
        let task = Source {
            source,
            partitions: partitions.clone(),
            tail: partitions.tail(source),
            targets: Arc::clone(targets),
            metrics: targets.iter().map(own).collect(),
            routes,
            backlog: Arc::clone(&backlog),
            panics: metrics.server.panics.clone(),
            #[cfg(any(test, feature = "faults"))]
            faults: Arc::clone(&self.faults),
        };
        let followed = Followed {
            backlog,
            targets: followed,
        };
        (task, followed)
    }
}
