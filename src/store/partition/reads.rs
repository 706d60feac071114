//! Reads of the store, on threads that may block: how many run at a time, and whose turn is next.
//!
//! Owns: the queue of reads. Promises: at most so many run at a time, begun in the order in which they queued; one that
//! nobody waits for any more is not begun; a panic ends one read. A thread that is through with a read takes the next
//! one itself, for to wake a thread costs more than most pages do; after a few of them the runtime's workers get their
//! turn, for they send what was read, and everything else. Must not: know what is read.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::ended;
use super::panics::caught;
use super::{Partitions, ReadError, View};
use tideline_base::ids::PartitionId;
use tideline_base::metrics::{Counter, Server};

type Read = Box<dyn FnOnce() + Send>;

/// See the top. How many may wait is bounded by the callers: connections, and what each may have in flight.
pub(super) struct Reads {
    at_once_max: usize,
    begun: Counter,
    panics: Counter,
    state: Mutex<ReadQueue>,
}

#[derive(Default)]
struct ReadQueue {
    waiting: VecDeque<Read>,
    /// Threads that read now.
    running: usize,
}

/// Reads of the store at the same time, over all partitions: enough to keep a disk's queue filled, and far below the
/// readers that LMDB has places for.
pub const READS_MAX: usize = 16;

/// Costly reads at the same time: half of the processors stay free for everything else.
pub(super) fn costly_max() -> usize {
    let processors = std::thread::available_parallelism();
    processors
        .map_or(1, |processors| processors.get() / 2)
        .max(1)
}

impl Partitions {
    /// Runs `read` against a fresh view on a bounded pool of threads. One call = one page: a view must not live long.
    pub fn read<R, F>(
        &self,
        at: PartitionId,
        read: F,
    ) -> impl Future<Output = Result<R, ReadError>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&View) -> Result<R, ReadError> + Send + 'static,
    {
        self.read_among(&self.inner.reads, at, move |view, _| read(view))
    }

    /// Runs a read that may take seconds of a processor, where it keeps no other read waiting. `read` can ask whether
    /// anybody still waits for it.
    pub fn read_costly<R, F>(
        &self,
        at: PartitionId,
        read: F,
    ) -> impl Future<Output = Result<R, ReadError>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&View, &dyn Fn() -> bool) -> Result<R, ReadError> + Send + 'static,
    {
        self.read_among(&self.inner.costly, at, read)
    }

    fn read_among<R, F>(
        &self,
        reads: &Arc<Reads>,
        at: PartitionId,
        read: F,
    ) -> impl Future<Output = Result<R, ReadError>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&View, &dyn Fn() -> bool) -> Result<R, ReadError> + Send + 'static,
    {
        let (partition, reads) = (self.at(at), Arc::clone(reads));
        async move {
            let partition = partition.ok_or_else(|| ended(at))?;
            let done = reads.run_asked(move |is_asked| {
                let mut view = partition.proven()?;
                if tideline_base::faults::is_named("show_unsynced") {
                    view = view.ahead();
                }
                read(&view, is_asked)
            });
            done.await.unwrap_or_else(|| Err(ReadError::panicked()))
        }
    }

    /// Runs a function that reads logs on the threads that run reads of the store, once they show all that was
    /// acknowledged.
    pub fn read_logs<R, F>(
        &self,
        read: F,
    ) -> impl Future<Output = Result<R, ReadError>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<R, ReadError> + Send + 'static,
    {
        let reads = Arc::clone(&self.inner.reads);
        let set = self.inner.set.load_full();
        async move {
            let proven = move || {
                set.live().try_for_each(|partition| partition.prove())?;
                read()
            };
            let ended = reads.run(proven).await;
            ended.unwrap_or_else(|| Err(ReadError::panicked()))
        }
    }
}

impl Reads {
    pub(super) fn new(at_once_max: usize, counted: &Server) -> Arc<Reads> {
        Arc::new(Reads {
            at_once_max: at_once_max.max(1),
            begun: counted.reads.clone(),
            panics: counted.panics.clone(),
            state: Mutex::default(),
        })
    }

    /// How many run now.
    pub(super) fn running(&self) -> usize {
        self.lock().running
    }

    /// Queues a read when first polled; `None` if it panicked. On a tokio runtime. Cancel-safe: what is
    /// dropped before its turn is not read.
    pub(super) async fn run<R: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        self.run_asked(move |_| read()).await
    }

    /// The same for a read that looks from time to time whether anybody still waits for it.
    pub(super) async fn run_asked<R: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&dyn Fn() -> bool) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        let (begun, panics) = (self.begun.clone(), self.panics.clone());
        self.queue(Box::new(move || {
            if answer.is_closed() {
                return;
            }
            begun.increment(1);
            match caught("a read", || read(&|| !answer.is_closed())) {
                // Errors mean that nobody waits any more.
                Some(read) => drop(answer.send(read)),
                None => panics.increment(1),
            }
        }));
        answered.await.ok()
    }

    fn queue(self: &Arc<Self>, read: Read) {
        let mut state = self.lock();
        state.waiting.push_back(read);
        if state.running == self.at_once_max {
            return;
        }
        state.running += 1;
        drop(state);
        Arc::clone(self).start();
    }

    /// Has a thread read for a turn.
    fn start(self: Arc<Self>) {
        tokio::task::spawn_blocking(move || {
            for _ in 0..TURN {
                let Some(read) = self.next() else { return };
                read();
            }
            // Behind all that is ready to run by now.
            Handle::current().spawn(async move { self.start() });
        });
    }

    /// The next one; without one the calling thread does not count as running any more.
    fn next(&self) -> Option<Read> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.running -= 1;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, ReadQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads of a thread before workers have their turn.
const TURN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use tideline_base::metrics::Metrics;

    #[tokio::test]
    async fn all_are_answered_and_never_more_run_than_may() {
        let reads = Reads::new(3, &Metrics::default().server);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let asked = (0..200).map(|number| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            Arc::clone(&reads).run(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                number
            })
        });
        let answers = futures_util::future::join_all(asked).await;
        assert!(answers.into_iter().eq((0..200).map(Some)));
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
    }

    #[tokio::test]
    async fn a_panic_ends_one_read_and_what_nobody_waits_for_is_not_read() {
        let reads = Reads::new(1, &Metrics::default().server);
        let (go, gone) = mpsc::sync_channel::<()>(1);
        let first = tokio::spawn(Arc::clone(&reads).run(move || gone.recv().is_err()));
        while reads.running() == 0 {
            tokio::task::yield_now().await;
        }
        let (told, read) = mpsc::sync_channel(1);
        let mut dropped = Box::pin(Arc::clone(&reads).run(move || told.send(())));
        assert!(futures_util::poll!(&mut dropped).is_pending());
        drop(dropped);
        let panics = Arc::clone(&reads).run(|| panic!("on purpose"));
        let last = Arc::clone(&reads).run(|| 7);
        drop(go);
        let (panicked, last): (Option<()>, _) = futures_util::join!(panics, last);
        assert_eq!((panicked, last), (None, Some(7)));
        assert_eq!(first.await.expect("not cancelled"), Some(true));
        assert!(read.recv().is_err(), "it was dropped unread");
    }
}
