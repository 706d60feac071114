//! What a partition's threads and callers share: the queue's door, the published tail, the memtables.
//!
//! Owns: who may enter the queue and what readers see. Promises: a view is taken in the one right order; a closed or stopped
//! partition refuses at once. Must not: write to the log or decide about batches (that is the writer's).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};

use super::job::Job;
use super::memtable::Memtable;
use super::view::View;
use super::{Batch, Options, ReadError, Rules};
use crate::ids::Position;

/// Why the queue's door stayed shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Busy,
    Unavailable,
    ShuttingDown,
}

/// What goes through the queue.
pub(super) enum Queued {
    /// A job with the bytes that it holds.
    Job { bytes: usize, job: Box<dyn Job> },
    /// Nothing follows.
    Close,
}

/// One partition as everybody but its writer sees it.
pub(super) struct Shared {
    queue: mpsc::Sender<Queued>,
    queued_bytes: AtomicUsize,
    queue_bytes_max: usize,
    state: AtomicU8,
    tail: AtomicU64,
    tail_watched: watch::Receiver<Position>,
    /// Newest first.
    memtables: ArcSwap<Vec<Arc<Memtable>>>,
    rules: Arc<dyn Rules>,
    writer: Mutex<Option<JoinHandle<()>>>,
    recent: Mutex<VecDeque<Arc<Batch>>>,
}

const OPEN: u8 = 0;
const BEHIND: u8 = 1;
const STOPPED: u8 = 2;
const CLOSING: u8 = 3;

impl Shared {
    pub(super) fn new(
        queue: mpsc::Sender<Queued>,
        options: &Options,
        tail_watched: watch::Receiver<Position>,
        memtable: Arc<Memtable>,
        rules: Arc<dyn Rules>,
    ) -> Shared {
        let tail = tail_watched.borrow().0;
        Shared {
            queue,
            queued_bytes: AtomicUsize::new(0),
            queue_bytes_max: options.queue_bytes_max,
            state: AtomicU8::new(OPEN),
            tail: AtomicU64::new(tail),
            tail_watched,
            memtables: ArcSwap::from_pointee(vec![memtable]),
            rules,
            writer: Mutex::new(None),
            recent: Mutex::new(VecDeque::new()),
        }
    }

    /// Lets a job into the queue, or says why not. Never waits.
    pub(super) fn enqueue(&self, bytes: usize, job: Box<dyn Job>) -> Result<(), Refusal> {
        match self.state.load(Ordering::Acquire) {
            OPEN => {}
            BEHIND => return Err(Refusal::Busy),
            STOPPED => return Err(Refusal::Unavailable),
            _ => return Err(Refusal::ShuttingDown),
        }
        let queued = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        // One job that is larger than the whole bound may pass alone.
        if queued > 0 && queued + bytes > self.queue_bytes_max {
            self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(Refusal::Busy);
        }
        self.queue
            .try_send(Queued::Job { bytes, job })
            .map_err(|error| {
                self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
                match error {
                    mpsc::error::TrySendError::Full(_) => Refusal::Busy,
                    mpsc::error::TrySendError::Closed(_) => Refusal::ShuttingDown,
                }
            })
    }

    /// The writer took jobs of this many bytes out.
    pub(super) fn dequeued(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// The published tail: what readers may see.
    pub(super) fn tail(&self) -> Position {
        Position(self.tail.load(Ordering::Acquire))
    }

    /// Moves the tail. The memtable must show the batch already.
    pub(super) fn publish(&self, batch: Arc<Batch>) {
        let position = batch.position;
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(batch);
        if recent.len() > 100_000 {
            recent.pop_front();
        }
        drop(recent);
        self.tail.store(position.0, Ordering::Release);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Position> {
        self.tail_watched.clone()
    }

    /// A view in the one right order: tail, memtables, image. A batch that moves from memtable to image in between is then
    /// seen in both, never in neither.
    pub(super) fn view(&self) -> Result<View, ReadError> {
        let tail = self.tail();
        let memtables = self.memtables.load();
        Ok(View::new(tail, memtables.to_vec(), Arc::clone(&self.rules)))
    }

    pub(super) fn batches(
        &self,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Batch>>, ReadError> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let mut batches = Vec::new();
        for batch in recent.iter().filter(|batch| batch.position > after) {
            batches.push(Arc::clone(batch));
            bytes += batch
                .effects
                .iter()
                .map(|e| e.key.len() + e.value.len())
                .sum::<usize>();
            if bytes > bytes_max {
                break;
            }
        }
        Ok(batches)
    }

    /// Takes no more jobs; the writer commits what has queued and ends.
    pub(super) fn close(&self) {
        if self.state.swap(CLOSING, Ordering::AcqRel) != CLOSING {
            // A full queue delays the sentinel, not the refusals.
            let _ = self.queue.blocking_send(Queued::Close);
        }
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
}
