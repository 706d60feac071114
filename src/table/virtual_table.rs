//! Virtual tables: tables that a layer above keeps in rows of its own, and shows here to be read.
//!
//! Owns: [`VirtualRows`], what such a table must do. Promises: nothing of a layer above is named here. Must not: know
//! the tables that users make; `rows.rs` puts the two kinds side by side.

use std::fmt;

use bytes::Bytes;

use tideline_base::ids::PartitionId;
use tideline_model::{Direction, KeyValue};
use tideline_store::partition::{Batch, ReadError, View};

/// Places of a range in its direction's order: encoded keys, each with the row's value, or `None` where only something
/// was looked at that shows no row. Lazy.
pub type Walk<'v> = Box<dyn Iterator<Item = Result<(Bytes, Option<Bytes>), ReadError>> + 'v>;

/// What a batch changed of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The row with this key: it is another one since, or gone.
    Row(Vec<KeyValue>),
    /// The rows whose keys have the same first value and are lower: they are gone, but for those that this batch or a
    /// later one made anew.
    Below(Vec<KeyValue>),
}

/// Makes the rows of a virtual table. Keys were checked against the table's schema.
pub trait VirtualRows: Send + Sync {
    /// Where the rows of a partition key are.
    fn place(&self, partition_key: &KeyValue) -> PartitionId;

    /// The value of one row.
    fn row(&self, view: &View, key: &[KeyValue]) -> Result<Option<Bytes>, ReadError>;

    /// This partition's part of the rows from `low` (inclusive) to `high` (exclusive); each is as long as the primary
    /// key, or longer by an INF_MIN. Each step looks at no more than a few rows, and every place that it names lies in
    /// the range: a page may end there.
    fn rows<'v>(
        &'v self,
        view: &'v View,
        low: &[KeyValue],
        high: &[KeyValue],
        direction: Direction,
    ) -> Walk<'v>;

    /// What a batch changed of the rows. A row may come more than once, and also where it is as it was.
    fn touched(&self, batch: &Batch) -> Result<Vec<Touched>, ReadError>;

    /// The partition keys, as texts, for whose followers a batch may have news.
    fn told(&self, _batch: &Batch) -> Result<Vec<String>, ReadError> {
        Ok(Vec::new())
    }
}

impl PartialEq for dyn VirtualRows {
    fn eq(&self, other: &dyn VirtualRows) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

impl Eq for dyn VirtualRows {}

impl fmt::Debug for dyn VirtualRows {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("VirtualRows")
    }
}
