//! Which indexes have a writer open.
//!
//! Owns: how many, as each takes memory of its own. Promises: they take turns: one that has committed lets go if others
//! wait. Must not: know what is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Writers that are open at a time: 256 MiB.
const OPEN_MAX: usize = 8;

/// See the top.
#[derive(Debug)]
pub(crate) struct Writers {
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Writers {
    fn default() -> Writers {
        Writers {
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

    /// Whether others wait.
    pub(super) fn are_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
