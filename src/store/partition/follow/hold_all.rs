//! The logs of all partitions, kept whole for a while.
//!
//! Owns: who is held for how long. Promises: what was held is let go, whatever ends it. Must not: know what it is for.

use std::sync::Arc;

use super::super::shared::Shared;
use super::hold::Holder;
use tideline_base::ids::Position;

/// The logs keep everything until this is dropped.
pub(in super::super) struct AllHeld(Vec<Arc<Shared>>);

impl AllHeld {
    pub(in super::super) fn by_backup(partitions: Vec<Arc<Shared>>) -> AllHeld {
        for partition in &partitions {
            partition.hold.set(Holder::Backup, Position::ZERO);
        }
        AllHeld(partitions)
    }

    pub(in super::super) fn partitions(&self) -> impl Iterator<Item = &Shared> {
        self.0.iter().map(|one| &**one)
    }
}

impl Drop for AllHeld {
    fn drop(&mut self) {
        self.partitions()
            .for_each(|one| one.hold.let_go(Holder::Backup));
    }
}
