//! Writes: in this file those of one row, checked against their table.
//!
//! Owns: what of a write depends on the table but not on the row. Promises: a checked write meets only conditions,
//! versions and increments on the writer's thread. Must not: run there; `apply.rs` does.

pub(super) mod ahead;
pub(super) mod apply;
pub(super) mod counter;
pub(super) mod update;

use std::sync::Arc;

use super::format::primary_key::check;
use super::schema::Table;
use tideline_model::{
    Condition, Consumed, Error, Existence, FoundRow, KeyValue, ReturnContent, RowChange, RowWrite,
};
use tideline_store::partition::Purpose;

/// A write that took effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// What was to be returned.
    pub row: Option<FoundRow>,
    /// What it used.
    pub consumed: Consumed,
}

/// A write that was checked against its table.
pub(super) struct Checked {
    pub(super) table: Arc<Table>,
    pub(super) key: Vec<KeyValue>,
    pub(super) change: RowChange,
    pub(super) condition: Condition,
    pub(super) content: ReturnContent,
    /// The bytes that it counts.
    pub(super) size: usize,
    /// What a costly condition has said.
    pub(super) seen: Option<Seen>,
}

/// What a costly condition said of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Of the row that was seen; another one may be met.
    pub(super) digest: u128,
    pub(super) holds: bool,
}

impl Checked {
    pub(super) fn new(table: Arc<Table>, write: RowWrite) -> Result<Checked, Error> {
        table.check_writable()?;
        let size = write.counted(table.options.version_bytes());
        let RowWrite {
            key,
            change,
            condition,
            content,
        } = write;
        let key = check(&table.primary_key, key)?;
        let checked = Checked {
            table,
            key,
            change,
            condition,
            content,
            size,
            seen: None,
        };
        if checked.must_exist() && checked.condition.existence == Existence::NotExist {
            return Err(Error::AutoIncrementExpectGiven(Existence::NotExist));
        }
        if matches!(checked.change, RowChange::Update(_)) && !checked.table.options.allow_update {
            return Err(Error::UpdateForbidden);
        }
        Ok(checked)
    }

    /// Whether the server numbers the row.
    pub(super) fn is_numbered(&self) -> bool {
        self.key.contains(&KeyValue::AutoIncrement)
    }

    /// Where the server numbers rows, a given number means a row that is there.
    pub(super) fn must_exist(&self) -> bool {
        self.table.is_numbered() && !self.is_numbered() && self.change != RowChange::Delete
    }

    /// What the write is for.
    pub(super) fn purpose(&self) -> Purpose {
        match self.change {
            RowChange::Delete => Purpose::MakesRoom,
            RowChange::Put(_) | RowChange::Update(_) => Purpose::Adds,
        }
    }

    /// About how many bytes the queue holds for it.
    pub(super) fn bytes(&self) -> usize {
        self.size + 256
    }
}
