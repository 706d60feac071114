//! What a follower of a table's rows reads: which rows a partition's log says have changed, and rows as they are now.
//!
//! Owns: the two reads. Promises: a row that is read after a change was read is as of that change or a later one, also
//! where its partition has been split or merged meanwhile. Must not: keep a place; the follower does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tideline_base::ids::{PartitionId, Position};
use tideline_model::{Asking, Direction, Error, FoundRow, KeyValue, RowRef, RowSink, Selection};
use tideline_store::partition::{Batch, Partitions, ReadError, View};

use crate::Malformed;
use crate::access::damaged;
use crate::format::primary_key::{decode, key_of};
use crate::schema::Table;
use crate::tables::Tables;
use crate::virtual_table::Touched;

/// Which rows have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedRows {
    /// Their keys, each once.
    pub keys: BTreeSet<Vec<KeyValue>>,
    /// By first value: all rows with lower keys are gone, but for those of `keys` and of later changes. To be taken in
    /// before `keys` are.
    pub below: BTreeMap<KeyValue, Vec<KeyValue>>,
    /// Up to which position.
    pub position: Position,
    /// Whether there is nothing behind it.
    pub is_last: bool,
}

/// A row as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct RowNow<Rows> {
    /// Its key.
    pub key: Vec<KeyValue>,
    /// What of it was asked for; `None` = there is no such row.
    pub row: Option<Rows>,
    /// How many bytes that counts.
    pub bytes: usize,
}

impl ChangedRows {
    fn add(&mut self, touched: Touched) {
        match touched {
            Touched::Row(key) => {
                self.keys.insert(key);
            }
            Touched::Below(key) => {
                let highest = self.below.entry(key[0].clone()).or_default();
                if *highest < key {
                    *highest = key;
                }
            }
        }
    }
}

/// Rows of one read.
const ROWS_AT_ONCE: usize = 256;

impl Table {
    /// What a batch has changed of its rows.
    pub fn changes(&self, batch: &Batch) -> Result<Vec<Touched>, ReadError> {
        self.touched(batch)
    }

    /// Gives each row that shows in a view at a time to `each`.
    pub fn each_row(
        &self,
        view: &View,
        now_ms: i64,
        each: &mut dyn FnMut(FoundRow),
    ) -> Result<(), ReadError> {
        let (low, high) = ([KeyValue::InfMin], [KeyValue::InfMax]);
        for row in self.rows(view, &low, &high, Direction::Forward) {
            let (key, value) = row?;
            let bad = |_: Malformed| damaged(&key, "not a row of a table");
            let Some(value) = value else { continue };
            let Some(judged) = self.judge(&value, now_ms).map_err(bad)? else {
                continue;
            };
            let values = decode(&key).map_err(bad)?;
            let row = RowRef {
                columns: &self.primary_key,
                key: &values,
                cells: &judged.living,
            };
            each(row.to_row());
        }
        Ok(())
    }
}

impl Tables {
    /// The partitions whose logs followers read.
    #[must_use]
    pub fn search_source(&self) -> &Partitions {
        self.partitions()
    }

    /// The time, ms since 1970.
    #[must_use]
    pub fn search_ms(&self) -> u64 {
        self.now_ms().cast_unsigned()
    }

    /// Which rows of a table the batches of a log behind a position have changed; about so many bytes of the log.
    ///
    /// # Errors
    /// `StreamTrimmed`: the log does not have all of that any more.
    pub async fn changed_rows(
        &self,
        table: &Arc<Table>,
        partition: PartitionId,
        behind: Position,
        bytes_max: usize,
    ) -> Result<ChangedRows, Error> {
        let Some(log) = self.partitions().log(partition) else {
            return Err(Error::StreamTrimmed);
        };
        let table = Arc::clone(table);
        let read = move || {
            let end = log.position();
            let mut changed = ChangedRows {
                position: behind,
                is_last: behind >= end,
                ..ChangedRows::default()
            };
            if changed.is_last {
                return Ok(Ok(changed));
            }
            if log.first() > behind.next() {
                return Ok(Err(Error::StreamTrimmed));
            }
            for batch in log.batches(behind, bytes_max)? {
                for touched in table.touched(&batch)? {
                    changed.add(touched);
                }
                changed.position = batch.position;
            }
            changed.is_last = changed.position >= end;
            Ok(Ok(changed))
        };
        self.partitions().read_logs(read).await?
    }

    /// Rows as they are now, in any order, with their bytes: what is selected of each, by its own. Those of more keys
    /// than make so many bytes are left out; the first key's is there.
    pub async fn rows_now<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        keys: impl IntoIterator<Item = Vec<KeyValue>>,
        selection: &Selection,
        bytes_max: usize,
    ) -> Result<Vec<RowNow<Rows>>, Error> {
        let mut by_partition: Vec<(PartitionId, Vec<Vec<KeyValue>>)> = Vec::new();
        for key in keys {
            let partition = self.place(table, &key);
            match by_partition.iter_mut().find(|(id, _)| *id == partition) {
                Some((_, keys)) => keys.push(key),
                None => by_partition.push((partition, vec![key])),
            }
        }
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for (partition, keys) in by_partition {
            for keys in keys.chunks(ROWS_AT_ONCE) {
                if bytes >= bytes_max {
                    return Ok(rows);
                }
                let (keys, table, left) = (keys.to_vec(), Arc::clone(table), bytes_max - bytes);
                let (selection, now) = (selection.clone(), self.now_ms());
                let read = move |view: &View, asking: &Asking<'_>| {
                    let (mut some, mut taken) = (Vec::new(), 0);
                    for key in &keys {
                        let row = now_of(&table, view, key, (&selection, now), asking)?;
                        taken += row.bytes;
                        some.push(row);
                        if taken >= left {
                            break;
                        }
                    }
                    Ok((some, taken))
                };
                let (some, taken) = self.read_rows(partition, &self.effort(), read).await?;
                rows.extend(some);
                bytes += taken;
            }
        }
        Ok(rows)
    }
}

fn now_of<Rows: RowSink>(
    table: &Table,
    view: &View,
    key: &[KeyValue],
    (selection, now_ms): (&Selection, i64),
    asking: &Asking<'_>,
) -> Result<RowNow<Rows>, Error> {
    let mut found = RowNow {
        key: key.to_vec(),
        row: None,
        bytes: 0,
    };
    let columns = selection.named_columns(&table.primary_key);
    if let Some(value) = table.row(view, key, columns.as_deref())? {
        let judged = table.judge(&value, now_ms);
        let judged = judged
            .map_err(|_| damaged(key_of(table.id, key).as_bytes(), "not a row of a table"))?;
        if let Some(judged) = judged {
            let mut rows = Rows::default();
            found.bytes = selection.give(table, key, judged.living, asking, &mut rows)?;
            found.row = Some(rows);
        }
    }
    Ok(found)
}
