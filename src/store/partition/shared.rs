//! What a partition's threads and callers share: queue, published tail, memtables, how far flush and merges lag.
//!
//! Owns: which writes may enter the queue now, and what readers see. Promises: a view is taken in the one right order;
//! a closed or stopped partition refuses at once. Must not: write to the log or decide about batches (that is the
//! writer's).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::cluster::Line;
use super::commit::disk_reserve::Reserve;
use super::commit::flush_lag::{FlushLag, FlushLags};
use super::commit::job::Job;
use super::commit::queue::{QUEUE_BYTES_MAX, QUEUE_JOBS_MAX, Queue, Refused};
use super::follow::hold::Hold;
use super::memory::memtable::{Memtable, Spare};
use super::memory::view::View;
use super::observe::PartitionFigures;
use super::{Batch, Purpose, ReadError, Rules, StoreError};
use crate::image::Image;
use crate::log;
use tideline_base::ids::Position;
use tideline_base::metrics::{self, COMPACTION, DISK_SPACE};

/// One partition as everybody but its writer sees it.
pub(super) struct Shared {
    pub(super) queue: Queue,
    /// Why a disk failure has ended writing.
    stopped: OnceLock<String>,
    has_ended: AtomicBool,
    /// Flush and compaction have nothing to do.
    is_idle: AtomicBool,
    pub(super) flush_lag: FlushLags,
    tail: AtomicU64,
    tail_watched: watch::Receiver<Position>,
    /// Newest first; the first is the active one.
    memtables: ArcSwap<Vec<Arc<Memtable>>>,
    /// The memory of a flushed memtable, for the next one.
    spare: Mutex<Option<Spare>>,
    image: Image,
    pub(super) log: log::LogReader,
    rules: Arc<dyn Rules>,
    pub(super) reserve: Reserve,
    pub(super) hold: Hold,
    /// Where a member's driver is met.
    pub(super) line: Option<Arc<Line>>,
    pub(super) metrics: metrics::Partition,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Shared {
    pub(super) fn new(
        queue: Queue,
        metrics: metrics::Partition,
        tail_watched: watch::Receiver<Position>,
        memtables: Vec<Arc<Memtable>>,
        (image, log): (Image, log::LogReader),
        rules: Arc<dyn Rules>,
        (reserve, hold, line): (Reserve, Hold, Option<Arc<Line>>),
    ) -> Shared {
        let tail = tail_watched.borrow().0;
        Shared {
            queue,
            stopped: OnceLock::new(),
            has_ended: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
            flush_lag: FlushLags::default(),
            tail: AtomicU64::new(tail),
            tail_watched,
            memtables: ArcSwap::from_pointee(memtables),
            spare: Mutex::new(None),
            image,
            log,
            rules,
            reserve,
            hold,
            line,
            metrics,
            writer: Mutex::new(None),
        }
    }

    /// Lets a bundle into the queue, whole, or says why not. Never waits.
    pub(super) fn enqueue(
        &self,
        purpose: Purpose,
        bytes: usize,
        job: Box<dyn Job>,
    ) -> Result<(), StoreError> {
        if self.is_stopped() {
            return Err(StoreError::Unavailable);
        }
        match self.flush_lag.get() {
            FlushLag::None | FlushLag::Slow(_) => {}
            // Runs that pile up for want of room go only after something was trimmed.
            _ if purpose == Purpose::MakesRoom => self.reserve.set_making_room(true),
            _ if purpose == Purpose::LetsGo => {}
            FlushLag::Busy => return Err(self.busy(COMPACTION)),
            FlushLag::Full => {
                self.metrics.all.refused(DISK_SPACE, 1);
                return Err(StoreError::StorageFull);
            }
        }
        let let_in = self.queue.push(purpose, bytes, job);
        let_in.map_err(|refused| match refused {
            Refused::Full(limit) => self.busy(limit),
            Refused::Shut(error) => error,
        })
    }

    /// What is kept for making room is used from this position on: until there is as much again nothing else is let in.
    pub(super) fn make_room(&self, position: Position, purpose: Purpose) {
        if purpose == Purpose::MakesRoom {
            self.reserve.set_making_room(true);
        }
        self.reserve.set_log_full();
        self.hold.ask(position);
        if self.flush_lag.get() != FlushLag::Full {
            tracing::warn!(
                "the disk is full: the room kept for trims is used; other writes wait until there is some"
            );
        }
        self.flush_lag.set(FlushLag::Full);
    }

    /// The published tail: what readers may see.
    pub(super) fn tail(&self) -> Position {
        Position(self.tail.load(Ordering::Acquire))
    }

    /// Moves the tail past a batch of so many bytes. The memtable must show the batch already.
    pub(super) fn publish(&self, position: Position, bytes: usize) {
        self.hold.published(bytes);
        self.tail.store(position.0, Ordering::Release);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Position> {
        self.tail_watched.clone()
    }

    /// A view in the one right order: tail, memtables, image. A batch that moves from memtable to image in between is
    /// then seen in both, never in neither.
    pub(super) fn view(&self) -> Result<View, ReadError> {
        let tail = self.tail();
        let mut memtables = self.memtables.load_full();
        let view = |memtables| View::new(tail, memtables, &self.image, Arc::clone(&self.rules));
        if tideline_base::faults::is_named("view_in_other_order") {
            let early = view(memtables)?;
            std::thread::sleep(std::time::Duration::from_millis(2));
            memtables = self.memtables.load_full();
            return Ok(early.over(memtables));
        }
        view(memtables)
    }

    /// A view for the thread that moves the tail itself, up to `position`, which may be written and not yet synced.
    /// Nothing can come between, so the image is opened only when needed.
    pub(super) fn writers_view(&self, position: Position) -> View {
        let memtables = self.memtables.load_full();
        View::lazy(position, memtables, &self.image, Arc::clone(&self.rules))
    }

    /// Committed batches above `after`, from the log's memory or its files, as far as a view shows them.
    pub(super) fn batches(
        &self,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Batch>>, ReadError> {
        let batches = self.log.read(after, bytes_max);
        let batches = batches.map_err(|error| ReadError::new(error.to_string()))?;
        Ok(self.visible(batches))
    }

    /// The time of the newest batch, µs since 1970; 0 if there is none. May block on the disk.
    pub(super) fn last_us(&self) -> Result<u64, ReadError> {
        let Some(before) = self.tail().0.checked_sub(1) else {
            return Ok(0);
        };
        let last = self.batches(Position(before), 1)?;
        Ok(last.last().map_or(0, |batch| batch.commit_us()))
    }

    /// The same, if they are in memory.
    pub(super) fn recent(&self, after: Position, bytes_max: usize) -> Option<Vec<Arc<Batch>>> {
        let batches = self.log.recent(after, bytes_max)?;
        Some(self.visible(batches))
    }

    /// The log shows a batch a moment before the tail moves. A follower that reads rows because of a batch must find
    /// them.
    fn visible(&self, mut batches: Vec<Arc<Batch>>) -> Vec<Arc<Batch>> {
        let tail = self.tail();
        let seen = batches.partition_point(|batch| batch.position <= tail);
        batches.truncate(seen);
        batches
    }

    /// What the image covers.
    pub(super) fn covered(&self) -> Position {
        self.image.covered()
    }

    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// Puts a fresh memtable in front; the one that was active is frozen.
    pub(super) fn freeze(&self, fresh: Arc<Memtable>) {
        self.set_idle(false);
        self.memtables.rcu(|list| {
            let mut longer = vec![Arc::clone(&fresh)];
            longer.extend(list.iter().cloned());
            longer
        });
    }

    /// The next memtable to flush.
    pub(super) fn oldest_frozen(&self) -> Option<Arc<Memtable>> {
        let list = self.memtables.load();
        if list.len() > 1 {
            list.last().cloned()
        } else {
            None
        }
    }

    /// How many memtables wait to be flushed.
    pub(super) fn frozen(&self) -> usize {
        self.memtables.load().len() - 1
    }

    /// Takes a memtable out whose run is committed.
    pub(super) fn retire(&self, flushed: &Arc<Memtable>) {
        self.memtables.rcu(|list| {
            let stays = list
                .iter()
                .filter(|memtable| !Arc::ptr_eq(memtable, flushed));
            stays.cloned().collect::<Vec<_>>()
        });
    }

    /// Keeps memory for the next memtable: fresh memory costs the writer a fault a page.
    pub(super) fn keep_spare(&self, spare: Spare) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(spare);
    }

    /// Takes the spare memory out: for a new memtable, or to give it back when there is little to do.
    pub(super) fn take_spare(&self) -> Option<Spare> {
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// What waits and what is kept, at this moment. May read the log's files.
    pub(super) fn figures(&self) -> PartitionFigures {
        let (queue_jobs, queue_bytes) = self.queue.waiting();
        let fill = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        // Let go at once: a memtable that is looked at can't be used again.
        let (memtable_bytes, memtable_rows, frozen) = {
            let memtables = self.memtables.load();
            let bytes = memtables.iter().map(|memtable| memtable.bytes()).sum();
            let rows = memtables.iter().map(|memtable| memtable.rows()).sum();
            (bytes, rows, memtables.len() - 1)
        };
        PartitionFigures {
            queue_jobs,
            queue_bytes,
            queue_fill: fill(queue_jobs, QUEUE_JOBS_MAX).max(fill(queue_bytes, QUEUE_BYTES_MAX)),
            memtable_bytes,
            memtable_rows,
            frozen,
            stopped: self.stopped.get().cloned(),
            flush_lag: self.flush_lag.get(),
            holds: self.hold.all(),
            tail: self.tail(),
            log: self.log.figures(),
            image: self.image.pressure(),
            environment: self.image.figures(),
        }
    }

    pub(super) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Release);
    }

    /// Everything is in the image, and compaction has nothing left to do.
    #[cfg(any(test, feature = "faults"))]
    pub(super) fn is_settled(&self) -> bool {
        let list = self.memtables.load();
        list.len() == 1 && list[0].is_empty() && self.is_idle.load(Ordering::Acquire)
    }

    /// Whether others have taken its keys over. Reads go on for a while.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Others have taken its keys over: nothing that it stores is needed any more.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Whether a disk failure has ended writing. Reads go on.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Ends writing for good. The first reason counts.
    pub(super) fn stop(&self, why: String) {
        let _ = self.stopped.set(why);
    }

    pub(super) fn join(&self) {
        let handle = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(handle) = handle {
            let _ = handle.join();
        }
    }

    pub(super) fn set_writer(&self, handle: JoinHandle<()>) {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }

    fn busy(&self, limit: &'static str) -> StoreError {
        self.metrics.all.refused(limit, 1);
        StoreError::Busy
    }
}
