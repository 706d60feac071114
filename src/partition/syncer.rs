//! Syncs a written batch on a thread of its own, so that the writer fills the next one meanwhile.
//!
//! Owns: the one batch that is on its way to the disk. Promises: gives each batch back, synced or failed, in order.
//! Must not: publish or answer; the writer does, after it has asked the log what the sync's outcome means.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::ids::PartitionId;
use crate::log::Written;

/// The writer's handle on its syncing thread, which ends with it.
pub(super) struct Syncer {
    to_sync: SyncSender<Written>,
    synced: Receiver<Synced>,
}

/// A batch whose sync has ended, well or not, and how long that took.
pub(super) struct Synced {
    pub(super) written: Written,
    pub(super) took: Duration,
}

impl Syncer {
    pub(super) fn start(id: PartitionId) -> io::Result<Syncer> {
        let (to_sync, work) = sync_channel::<Written>(1);
        let (done, synced) = sync_channel(1);
        let run = move || {
            while let Ok(written) = work.recv() {
                if done.send(sync(written)).is_err() {
                    return;
                }
            }
        };
        Builder::new().name(format!("syncer-{id}")).spawn(run)?;
        Ok(Syncer { to_sync, synced })
    }

    /// Hands a batch over. There is at most one.
    pub(super) fn begin(&self, written: Written) {
        self.to_sync
            .send(written)
            .expect("the syncing thread lives as long as its writer");
    }

    /// Waits for the batch.
    pub(super) fn end(&self) -> Synced {
        self.synced
            .recv()
            .expect("the syncing thread lives as long as its writer")
    }
}

/// Syncs on this thread.
pub(super) fn sync(mut written: Written) -> Synced {
    let started = Instant::now();
    written.flush();
    Synced {
        written,
        took: started.elapsed(),
    }
}
