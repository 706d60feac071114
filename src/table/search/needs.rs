//! What search indexes need of the logs, as their followers say it.
//!
//! Owns: the places up to which each index has everything on disk. Must not: hold a log (`hold.rs`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use tideline_base::ids::{PartitionId, Position, TableId};

/// By index: of which partitions it still reads the log, and behind which position.
pub(super) type Places = BTreeMap<TableId, BTreeMap<PartitionId, Position>>;

/// See the top.
#[derive(Default)]
pub(crate) struct Needs {
    places: Mutex<Places>,
    changed: Notify,
}

impl Needs {
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    pub(super) async fn wait(&self) {
        self.changed.notified().await;
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
