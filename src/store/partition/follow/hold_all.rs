//! The logs of all partitions, kept whole for a while.
//!
//! Owns: their holds of one holder. Promises: each log is let go in the end, whatever ends it. Must not: know what the
//! holder does meanwhile.

use std::sync::Arc;

use super::super::shared::Shared;
use super::hold::Holder;
use tideline_base::ids::Position;

/// The logs keep everything until this is dropped.
pub(in super::super) struct AllHeld {
    partitions: Vec<Arc<Shared>>,
    holder: Holder,
}

impl AllHeld {
    pub(in super::super) fn by(holder: Holder, partitions: Vec<Arc<Shared>>) -> AllHeld {
        for partition in &partitions {
            partition.hold.set(holder, Position::ZERO);
        }
        AllHeld { partitions, holder }
    }

    pub(in super::super) fn partitions(&self) -> impl Iterator<Item = &Shared> {
        self.partitions.iter().map(|one| &**one)
    }
}

impl Drop for AllHeld {
    fn drop(&mut self) {
        self.partitions()
            .for_each(|one| one.hold.let_go(self.holder));
    }
}
