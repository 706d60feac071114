//! The row rules that the store below runs on: composing, dropping, cutting wide rows, filters.
//!
//! Owns: [`TableRules`]. Promises: what it does not know it keeps. Must not: know the tables of the layers above; those
//! that own built-in tables say through [`Retention`] when their rows are over.

use std::sync::Arc;

use bytes::Bytes;

use crate::ids::TableId;
use crate::partition::{DropContext, Entry, Pieces, Rules, Verdict};

use super::{chunks, delta, key};

/// Table IDs below this are the server's own; user tables get theirs from here on.
pub const USER_TABLES_FROM: TableId = TableId(1024);

/// What the owner of the built-in tables (IDs below [`USER_TABLES_FROM`]) knows about their rows.
pub trait Retention: Send + Sync + 'static {
    /// Whether an explicit mark says that this row is over. `columns` are the key's encoded columns.
    fn is_over(
        &self,
        table: TableId,
        columns: &[u8],
        entry: &Entry,
        context: &DropContext<'_>,
    ) -> bool;

    /// Whether rows of the table are asked for one by one, also those that are not there.
    fn is_looked_up(&self, table: TableId) -> bool;
}

/// The rules of all tables.
pub struct TableRules {
    retention: Arc<dyn Retention>,
}

impl TableRules {
    /// Rules with `retention` for the built-in tables.
    #[must_use]
    pub fn new(retention: Arc<dyn Retention>) -> TableRules {
        TableRules { retention }
    }
}

impl Rules for TableRules {
    fn compose(&self, _key: &[u8], older: &Entry, newer: &Entry) -> Entry {
        delta::compose(older, newer)
    }

    fn verdict(&self, key: &[u8], entry: &Entry, context: &DropContext<'_>) -> Verdict {
        match key::split_key(key) {
            Some((table, columns))
                if table < USER_TABLES_FROM
                    && self.retention.is_over(table, columns, entry, context) =>
            {
                Verdict::Drop
            }
            _ => Verdict::Keep,
        }
    }

    fn split(&self, value: &Bytes, piece_bytes_max: usize) -> Option<Pieces> {
        chunks::split(value, piece_bytes_max)
    }

    fn join(&self, directory: &Bytes, pieces: &[Bytes]) -> Result<Bytes, &'static str> {
        chunks::join(directory, pieces)
    }

    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key::partition_prefix(key).ok()
    }

    fn filter_key(&self, key: &[u8]) -> bool {
        key::split_key(key).is_some_and(|(table, _)| {
            table < USER_TABLES_FROM && self.retention.is_looked_up(table)
        })
    }

    fn table(&self, key: &[u8]) -> TableId {
        key::split_key(key).map_or(TableId(0), |(table, _)| table)
    }
}
