//! Waits for written batches to become durable on a thread of its own, so that the writer fills the next one meanwhile.
//!
//! Owns: which batches are waited for. Promises: says of each batch, in order, that its wait has ended and how long it
//! took. Must not: publish or answer; the writer does, after it has asked the log what became of the batch.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::log::Log;
use tideline_base::ids::{PartitionId, Position};

/// The writer's handle on its syncing thread, which ends with it.
pub(in super::super) struct Syncer {
    log: crate::log::Syncer,
    to_sync: SyncSender<Position>,
    synced: Receiver<Duration>,
}

impl Syncer {
    pub(in super::super) fn start(id: PartitionId, log: &Log) -> io::Result<Syncer> {
        let (to_sync, work) = sync_channel(log.in_flight_max());
        let (done, synced) = sync_channel(log.in_flight_max());
        let own = log.syncer();
        let run = move || {
            while let Ok(position) = work.recv() {
                if done.send(timed(&own, position)).is_err() {
                    return;
                }
            }
        };
        Builder::new().name(format!("syncer-{id}")).spawn(run)?;
        Ok(Syncer {
            log: log.syncer(),
            to_sync,
            synced,
        })
    }

    /// Has the thread wait for a batch, behind those before it.
    pub(in super::super) fn begin(&self, position: Position) {
        self.to_sync
            .send(position)
            .expect("the syncing thread lives as long as its writer");
    }

    /// Waits for the oldest batch that was begun; how long its sync took.
    pub(in super::super) fn end(&self) -> Duration {
        self.synced
            .recv()
            .expect("the syncing thread lives as long as its writer")
    }

    /// Waits on this thread.
    pub(in super::super) fn sync(&self, position: Position) -> Duration {
        timed(&self.log, position)
    }
}

fn timed(log: &crate::log::Syncer, position: Position) -> Duration {
    let started = Instant::now();
    log.wait(position);
    #[cfg(any(test, feature = "faults"))]
    super::super::Fault::syncs_late();
    started.elapsed()
}
