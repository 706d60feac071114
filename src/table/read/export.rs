//! Export: all rows of a table as of one position of each partition, page by page, while others write.
//!
//! Owns: what one step of an export reads. Promises: a step lives for a page and leaves nothing behind: the reader
//! keeps the place, so a slow one costs nothing. A reader gets a partition exactly as it was at the position of the
//! last changes that it read, if it does three things: it reads all pages; after each of them it reads the changes from
//! the first page's position on (each row once more, as it is); of two readings of a row it keeps the later. Must not:
//! hold the log for longer than some seconds: a reader that stays away for too long has to begin anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use tideline_base::faults;
use tideline_base::ids::{PartitionId, Position};
use tideline_model::{Asking, Error, KeyValue, PrimaryKey, RowRef, RowSink};
use tideline_store::partition::{Batch, ReadError, View};

use super::super::access::damaged;
use super::super::format::primary_key::key_of;
use super::super::schema::Table;
use super::super::tables::Tables;
use super::super::virtual_table::Touched;
use super::super::write::apply::ROW_BYTES_MAX;
use super::range::Span;

/// A page of an export.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported<Rows> {
    /// With all versions that live.
    pub rows: Rows,
    /// Keys of changed rows that no longer exist.
    pub gone: Vec<Vec<KeyValue>>,
    /// Keys: rows that were read before with the same first value and a lower key no longer exist, except these `rows`.
    pub gone_below: BTreeSet<Vec<KeyValue>>,
    /// Of rows: the position that they were read at. Of changes: the position up to which they are here.
    pub position: Position,
    /// Of rows: where the next page begins; `None` = there is nothing more.
    pub next: Option<Vec<KeyValue>>,
    /// Of changes: whether these are all, and the rows are as of the position.
    pub is_last: bool,
}

/// Bytes of the log, and then of rows, for one page of changes: it ends with the batch that passes them.
const CHANGES_BYTES: usize = 4 << 20;
/// A page whose last batch has changed rows of more than this is refused.
const PAGE_BYTES_MAX: usize = if cfg!(test) {
    CHANGES_BYTES
} else {
    4 * ROW_BYTES_MAX
};

impl Tables {
    /// The partitions that there are to export; at least one.
    #[must_use]
    pub fn partition_ids(&self) -> Vec<PartitionId> {
        self.partitions().ids().collect()
    }

    /// A page of a partition's rows of a table, from a key on; only of those whose first value begins with `prefix`.
    pub async fn export_rows<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        partition: PartitionId,
        start: Option<PrimaryKey>,
        prefix: Option<&str>,
    ) -> Result<Exported<Rows>, Error> {
        self.check_exportable(table, partition)?;
        self.hold_for_now();
        let span = Span::from(table, start, prefix)?;
        let (table, now) = (Arc::clone(table), self.now_ms());
        let read = move |view: &View, asking: &Asking<'_>| {
            let page = span.read(&table, &[view], now, asking)?;
            Ok(Exported {
                rows: page.rows,
                gone: Vec::new(),
                gone_below: BTreeSet::new(),
                position: view.position(),
                is_last: page.next.is_none(),
                next: page.next,
            })
        };
        self.read_rows(partition, &self.effort(), read).await
    }

    /// Rows of a table that the batches above `from` have written, as they are now.
    pub async fn export_changes<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        partition: PartitionId,
        from: Position,
        prefix: Option<String>,
    ) -> Result<Exported<Rows>, Error> {
        self.check_exportable(table, partition)?;
        self.hold_for_now();
        let (table, now) = (Arc::clone(table), self.now_ms());
        let partitions = self.partitions().clone();
        let read = move |view: &View| {
            let batches = match from >= view.position() {
                true => Vec::new(),
                false => partitions.tail(partition).batches(from, CHANGES_BYTES)?,
            };
            let mut changed = Changed::new(from, prefix);
            for batch in batches {
                if batch.position > view.position() || changed.bytes >= CHANGES_BYTES {
                    break;
                }
                // A control of the tests: what others have changed meanwhile is left out.
                if faults::is_named("export_no_changes") {
                    changed.page.position = batch.position;
                    continue;
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

    fn check_exportable(&self, table: &Table, partition: PartitionId) -> Result<(), Error> {
        table.check_readable()?;
        match self.partitions().map().is_live(partition) {
            true => Ok(()),
            false => Err(Error::Unavailable("no such partition to export".to_owned())),
        }
    }
}

/// A page of changes while it is made.
struct Changed<Rows> {
    page: Exported<Rows>,
    prefix: Option<String>,
    seen: BTreeSet<Vec<KeyValue>>,
    bytes: usize,
}

impl<Rows: RowSink> Changed<Rows> {
    fn new(position: Position, prefix: Option<String>) -> Self {
        Changed {
            page: Exported {
                rows: Rows::default(),
                gone: Vec::new(),
                gone_below: BTreeSet::new(),
                position,
                next: None,
                is_last: true,
            },
            prefix,
            seen: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Adds the rows that a batch has written, as they are now: all of them, or so many that the page is refused.
    fn add(
        &mut self,
        batch: &Batch,
        view: &View,
        table: &Table,
        now: i64,
    ) -> Result<(), ReadError> {
        for touched in table.touched(batch)? {
            if self.bytes > PAGE_BYTES_MAX {
                break;
            }
            match touched {
                Touched::Below(key) if self.is_asked_for(&key) => {
                    self.page.gone_below.insert(key);
                }
                Touched::Row(key) if self.is_asked_for(&key) && !self.seen.contains(&key) => {
                    self.row(view, table, &key, now)?;
                    self.seen.insert(key);
                }
                Touched::Below(_) | Touched::Row(_) => {}
            }
        }
        self.page.position = batch.position;
        Ok(())
    }

    fn row(
        &mut self,
        view: &View,
        table: &Table,
        key: &[KeyValue],
        now: i64,
    ) -> Result<(), ReadError> {
        let value = table.row(view, key, None)?.unwrap_or_default();
        let judged = match value.is_empty() {
            true => None,
            false => table
                .judge(&value, now)
                .map_err(|_| damaged(key_of(table.id, key).as_bytes(), "not a row of a table"))?,
        };
        match judged {
            None => self.page.gone.push(key.to_vec()),
            Some(judged) => {
                let row = RowRef {
                    columns: &table.primary_key,
                    key,
                    cells: &judged.living,
                };
                self.bytes += row.size(table.options.version_bytes());
                self.page.rows.push(row);
            }
        }
        Ok(())
    }

    fn is_asked_for(&self, key: &[KeyValue]) -> bool {
        let Some(prefix) = &self.prefix else {
            return true;
        };
        matches!(&key[0], KeyValue::String(text) if text.starts_with(prefix))
    }
}
