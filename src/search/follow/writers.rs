//! Which indexes have a writer open, or are being opened.
//!
//! Owns: how many, as each takes memory of its own. Promises: they take turns: one that has committed lets go if others
//! wait. Must not: know what is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Writers that are open at a time: 256 MiB.
const OPEN_MAX: usize = 8;

/// See the top.
#[derive(Debug)]
pub(crate) struct Writers {
    turns: Arc<Semaphore>,
    /// Of indexes that are held against their checksums: as many at a time as there are processors.
    openings: Semaphore,
    waiting: AtomicUsize,
}

impl Default for Writers {
    fn default() -> Writers {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Writers {
            openings: Semaphore::new(processors),
            turns: Arc::new(Semaphore::new(OPEN_MAX)),
            waiting: AtomicUsize::new(0),
        }
    }
}

/// One that waits.
struct Waiting<'w>(&'w AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Writers {
    /// Waits until a writer may be open; `None` = never again.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// Waits until an index may be opened; `None` = never again.
    pub(super) async fn opening(&self) -> Option<SemaphorePermit<'_>> {
        self.openings.acquire().await.ok()
    }

    /// Whether others wait.
    pub(super) fn are_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn as_many_indexes_open_as_there_are_processors() {
        let writers = Writers::default();
        let processors = std::thread::available_parallelism().unwrap().get();
        let open = || writers.opening().now_or_never().flatten();
        let mut opening: Vec<_> = (0..processors).map(|_| open().unwrap()).collect();
        assert!(open().is_none());
        opening.pop();
        assert!(open().is_some());
    }
}
