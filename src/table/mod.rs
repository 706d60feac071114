//! The wide-column model on partitions: keys, rows of versioned cells, deltas, wide rows in pieces, change records.
//!
//! Owns: the formats of keys and values on disk, and the row rules that the store below runs on. Promises: formats name
//! themselves in their first byte (1 row, 2 delta, 3 directory) and each value has one form; arbitrary bytes never
//! panic; all access to rows from above goes through here. Must not: know timelines.

mod access;
mod cell;
mod change;
mod chunks;
mod delta;
mod key;
mod row;
mod rules;

#[cfg(test)]
pub(crate) mod arbitrary;

/// The door to the partition: what timelines hold and hand on (a view, a transaction, a committed batch) comes from
/// here, so that this list says what of the store they may know.
pub use crate::partition::{
    Batch, Direction, DropContext, Effect, Entry, Partitions, ReadError, Rules, SubmitError, Tail,
    Txn, Verdict, View,
};
pub use access::{Source, damaged, delete, put, record, scan};
pub use cell::ValueRef;
pub use change::{Action, Change};
pub use delta::DeltaWriter;
pub use key::{Key, split_key};
pub use row::{Cell, Row, RowWriter};
pub use rules::{Retention, TableRules, USER_TABLES_FROM};

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;
