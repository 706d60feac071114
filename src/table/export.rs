//! Export: all rows of a table as of one position of each partition, page by page, while others write.
//!
//! Owns: what one step of an export reads. Promises: a step lives for a page and leaves nothing behind: the reader
//! keeps the place, so a slow one costs nothing. Whoever reads all pages of a partition, and after each of them the
//! changes from the first page's position on (each row once more, as it is), and puts the later of two readings of a
//! row in the place of the other, has the partition exactly as it was at the position of the last changes. Must not:
//! hold the log: a reader that stays away for too long has to begin anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{PartitionId, Position};
use crate::model::{Error, KeyValue, PrimaryKey, RowSink, Selection};
use crate::partition::{Batch, ReadError, View};

use super::access::damaged;
use super::apply::ROW_BYTES_MAX;
use super::key::split_key;
use super::primary_key::{check, decode};
use super::range::Span;
use super::schema::Table;
use super::tables::Tables;

/// A page of an export.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported<Rows> {
    /// With all versions that live.
    pub rows: Rows,
    /// Keys of changed rows that are there no more.
    pub gone: Vec<Vec<KeyValue>>,
    /// Of rows: the position that they were read at. Of changes: up to where they are told.
    pub position: Position,
    /// Of rows: where the next page begins; `None` = there is nothing more.
    pub next: Option<Vec<KeyValue>>,
    /// Of changes: whether these are all, and the rows are as of the position.
    pub is_last: bool,
}

/// Bytes of the log, and then of rows, for one page of changes: it ends with the batch that passes them.
const CHANGES_BYTES: usize = 4 << 20;
/// A page whose last batch has changed rows of more than this is refused.
const PAGE_BYTES_MAX: usize = 4 * ROW_BYTES_MAX;

impl Tables {
    /// The partitions that there are to export; at least one.
    #[must_use]
    pub fn partition_ids(&self) -> Vec<PartitionId> {
        self.partitions().ids().collect()
    }

    /// A page of a partition's rows of a table, from a key on.
    pub async fn export_rows<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        partition: PartitionId,
        start: Option<PrimaryKey>,
    ) -> Result<Exported<Rows>, Error> {
        let start = start
            .map(|key| check(&table.primary_key, key))
            .transpose()?;
        let span = Span::from(start);
        let (table, now) = (self.exportable(table, partition)?, self.now_ms());
        let read = move |view: &View| {
            let page = span.read(&table, &[view], now)?;
            Ok(Exported {
                rows: page.rows,
                gone: Vec::new(),
                position: view.position(),
                is_last: page.next.is_none(),
                next: page.next,
            })
        };
        Ok(self.partitions().read(partition, read).await?)
    }

    /// Rows of a table that the batches above `from` have written, as they are now.
    pub async fn export_changes<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        partition: PartitionId,
        from: Position,
    ) -> Result<Exported<Rows>, Error> {
        let (table, now) = (self.exportable(table, partition)?, self.now_ms());
        let partitions = self.partitions().clone();
        let read = move |view: &View| {
            let batches = match from >= view.position() {
                true => Vec::new(),
                false => partitions.tail(partition).batches(from, CHANGES_BYTES)?,
            };
            let mut changed = Changed::new(from);
            for batch in batches {
                if batch.position > view.position() || changed.bytes >= CHANGES_BYTES {
                    break;
                }
                changed.add(&batch, view, &table, now)?;
                if changed.bytes > PAGE_BYTES_MAX {
                    return Ok(Err(Error::AnswerTooLarge));
                }
            }
            changed.page.is_last = changed.page.position >= view.position();
            Ok(Ok(changed.page))
        };
        self.partitions().read(partition, read).await?
    }

    fn exportable(&self, table: &Arc<Table>, partition: PartitionId) -> Result<Arc<Table>, Error> {
        if let Err(error @ Error::ReadOnlyTable) = table.check_writable() {
            return Err(error);
        }
        table.check_readable()?;
        match self.partitions().map().is_live(partition) {
            true => Ok(Arc::clone(table)),
            false => Err(Error::Unavailable("no such partition to export".to_owned())),
        }
    }
}

/// A page of changes while it is made.
struct Changed<Rows> {
    page: Exported<Rows>,
    seen: BTreeSet<Vec<u8>>,
    bytes: usize,
}

impl<Rows: RowSink> Changed<Rows> {
    fn new(position: Position) -> Self {
        Changed {
            page: Exported {
                rows: Rows::default(),
                gone: Vec::new(),
                position,
                next: None,
                is_last: true,
            },
            seen: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Adds the rows that a batch has written, as they are now.
    fn add(
        &mut self,
        batch: &Batch,
        view: &View,
        table: &Table,
        now: i64,
    ) -> Result<(), ReadError> {
        for entry in batch.entries() {
            let is_own = split_key(entry.key).is_some_and(|(id, _)| id == table.id);
            if !is_own || !self.seen.insert(entry.key.to_vec()) {
                continue;
            }
            let bad = |_| damaged(entry.key, "not a row of a table");
            let key = decode(entry.key).map_err(bad)?;
            let value = table.stored_row(view, &key, None)?.unwrap_or_default();
            let judged = match value.is_empty() {
                true => None,
                false => table.judge(&value, now).map_err(bad)?,
            };
            match judged {
                None => self.page.gone.push(key),
                Some(judged) => {
                    let all = Selection::default();
                    self.bytes += all.give(table, &key, judged.living, &mut self.page.rows);
                }
            }
        }
        self.page.position = batch.position;
        Ok(())
    }
}
