//! BatchWriteRow and BatchGetRow: many rows in one request, each with its own answer.
//!
//! Owns: what fails a whole batch and what only a row, and the atomic batch. Promises: rows of one partition take
//! effect in the order of the request; an atomic batch takes effect whole or not at all. Must not: know how one row is
//! written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;

use tideline_base::ids::PartitionId;
use tideline_model::{Asking, Effort, Error, KeyValue, PrimaryKey, RowSink, RowWrite, Selection};
use tideline_store::partition::{Purpose, Txn, View};

use super::format::primary_key::check;
use super::read::range::SCANNED_BYTES_MAX;
use super::read::{Got, get};
use super::schema::Table;
use super::tables::Tables;
use super::write::apply::ROW_BYTES_MAX;
use super::write::{Checked, Written};

/// Units that the rows of one answer may come to before the rest is refused: as many as a page of a range has.
const ANSWER_UNITS_MAX: u32 = (SCANNED_BYTES_MAX / 4_096) as u32;

/// Bytes of rows that the writes of one batch to a partition may read on the writer's thread, where everybody waits for
/// them; those behind are refused, and may come again.
const LOOKED_BYTES_MAX: usize = 4 * ROW_BYTES_MAX;

/// The answers of a batch, in the order of its rows.
pub type Answers<T> = Vec<Result<T, Error>>;

impl Tables {
    /// Writes rows of any tables. `Err` = the batch as a whole is refused and nothing was written.
    pub async fn write_batch(
        &self,
        rows: Vec<(Arc<Table>, RowWrite)>,
        is_atomic: bool,
    ) -> Result<Answers<Written>, Error> {
        let mut checked = Vec::with_capacity(rows.len());
        let looking = self.looking();
        for row in check_all(rows)? {
            checked.push(match row {
                Ok(row) => self.look_ahead(row, &looking).await,
                refused => refused,
            });
        }
        if is_atomic {
            return Ok(self.write_atomic(checked).await);
        }
        let mut answers: Answers<Written> = Vec::with_capacity(checked.len());
        let mut groups: BTreeMap<PartitionId, Vec<(usize, Checked)>> = BTreeMap::new();
        for (at, row) in checked.into_iter().enumerate() {
            answers.push(Err(Error::Internal));
            match row {
                Ok(row) => groups
                    .entry(self.place(&row.table, &row.key))
                    .or_default()
                    .push((at, row)),
                Err(error) => answers[at] = Err(error),
            }
        }
        // All are queued before any is awaited.
        let submitted: Vec<_> = groups
            .into_iter()
            .map(|(partition, rows)| {
                let places: Vec<usize> = rows.iter().map(|(at, _)| *at).collect();
                let bytes = rows.iter().map(|(_, row)| row.bytes()).sum();
                let purpose = purpose(rows.iter().map(|(_, row)| row));
                // Each takes effect or not by itself, and what they come to together needs no bound.
                let rows = rows.into_iter().map(|(_, row)| Some(row)).collect();
                let (catalog, transactions) =
                    (self.catalog().clone(), Arc::clone(self.transactions()));
                let mut looked = 0;
                let write = move |row: &mut Option<Checked>, txn: &mut Txn<'_>| {
                    let row = row.take().expect("a member runs once");
                    if looked > LOOKED_BYTES_MAX {
                        return Err(Error::Busy);
                    }
                    transactions.write(row, &catalog, txn, &mut looked)
                };
                let partitions = self.partitions();
                let done = partitions.submit_all(purpose, partition, bytes, rows, write);
                async move { (places, done.await) }
            })
            .collect();
        for (places, done) in join_all(submitted).await {
            for (at, answer) in places.into_iter().zip(done) {
                answers[at] = answer.map(|(_, written)| written).map_err(Error::from);
            }
        }
        Ok(answers)
    }

    async fn write_atomic(&self, rows: Answers<Checked>) -> Answers<Written> {
        let count = rows.len();
        let rows = match rows.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(rows) => rows,
            Err(error) => return vec![Err(error); count],
        };
        let Some(first) = rows.first() else {
            return Vec::new();
        };
        if let Err(error) = check_atomic(first, &rows) {
            return vec![Err(error); count];
        }
        let partition = self.place(&first.table, &first.key);
        let bytes = rows.iter().map(Checked::bytes).sum();
        let (purpose, partitions) = (purpose(&rows), self.partitions());
        let (catalog, transactions) = (self.catalog().clone(), Arc::clone(self.transactions()));
        let done = partitions.submit(purpose, partition, bytes, move |txn| {
            let write = |row: Checked| transactions.write(row, &catalog, txn, &mut 0);
            rows.into_iter().map(write).collect::<Result<Vec<_>, _>>()
        });
        match done.await {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(Error::from(error)); count],
        }
    }

    /// Reads rows of any tables, each with its table's selection.
    pub async fn get_batch<Rows: RowSink>(
        &self,
        tables: Vec<(Arc<Table>, Vec<PrimaryKey>, Selection)>,
    ) -> Result<Vec<Answers<Got<Rows>>>, Error> {
        let mut answers = Vec::with_capacity(tables.len());
        let spending = (Arc::default(), self.effort());
        for (table, keys, selection) in tables {
            answers.push(self.get_some(&table, keys, selection, &spending).await?);
        }
        Ok(answers)
    }

    /// Rows of one table.
    async fn get_some<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        keys: Vec<PrimaryKey>,
        selection: Selection,
        (used, effort): &(Arc<AtomicU32>, Effort),
    ) -> Result<Answers<Got<Rows>>, Error> {
        let mut answers: Answers<Got<Rows>> = Vec::with_capacity(keys.len());
        let mut groups: BTreeMap<PartitionId, Vec<(usize, Vec<KeyValue>)>> = BTreeMap::new();
        for (at, key) in keys.into_iter().enumerate() {
            answers.push(Err(Error::Internal));
            let readable = table.check_readable();
            match readable.and_then(|()| check(&table.primary_key, key)) {
                Ok(key) => groups
                    .entry(self.place(table, &key))
                    .or_default()
                    .push((at, key)),
                Err(error) => answers[at] = Err(error),
            }
        }
        let selection = Arc::new(selection);
        let reads = groups.into_iter().map(|(partition, keys)| {
            let (table, selection) = (Arc::clone(table), Arc::clone(&selection));
            let (used, now) = (Arc::clone(used), self.now_ms());
            let read = move |view: &View, asking: &Asking<'_>| {
                let mut rows = Vec::with_capacity(keys.len());
                for (at, key) in &keys {
                    if used.load(Ordering::Relaxed) >= ANSWER_UNITS_MAX {
                        rows.push((*at, Err(Error::AnswerTooLarge)));
                        continue;
                    }
                    let load = |columns: Option<&[&str]>| table.row(view, key, columns);
                    let got = get(&table, key, &selection, now, asking, load);
                    match &got {
                        Ok(Got::<Rows> { consumed, .. }) => {
                            used.fetch_add(consumed.read, Ordering::Relaxed);
                        }
                        // All are read again, so these do not count.
                        Err(error @ Error::ExpressionsTooCostly { .. }) if asking.is_light => {
                            let read = |(_, got): &(_, Result<Got<Rows>, _>)| {
                                got.as_ref().map_or(0, |got| got.consumed.read)
                            };
                            let counted = rows.iter().map(read).sum();
                            used.fetch_sub(counted, Ordering::Relaxed);
                            return Err(error.clone());
                        }
                        Err(_) => {}
                    }
                    rows.push((*at, got));
                }
                Ok(rows)
            };
            self.read_rows(partition, effort, read)
        });
        for group in join_all(reads).await {
            for (at, got) in group? {
                answers[at] = got;
            }
        }
        Ok(answers)
    }
}

/// Checks all rows. What is wrong with a row's place (a table that takes no writes, its primary key) fails the row, all
/// else the batch.
pub(super) fn check_all(rows: Vec<(Arc<Table>, RowWrite)>) -> Result<Answers<Checked>, Error> {
    let checked = |(table, write)| match Checked::new(table, write) {
        Err(
            error @ (Error::ReadOnlyTable
            | Error::IndexWrite
            | Error::KeySize { .. }
            | Error::KeyName { .. }
            | Error::KeyType { .. }
            | Error::UpdateForbidden),
        ) => Ok(Err(error)),
        checked => checked.map(Ok),
    };
    rows.into_iter().map(checked).collect()
}

/// What a batch is for: rows that go make room, if there is nothing else in it.
pub(super) fn purpose<'a>(rows: impl IntoIterator<Item = &'a Checked>) -> Purpose {
    match rows
        .into_iter()
        .all(|row| row.purpose() == Purpose::MakesRoom)
    {
        true => Purpose::MakesRoom,
        false => Purpose::Adds,
    }
}

fn check_atomic(first: &Checked, rows: &[Checked]) -> Result<(), Error> {
    for row in rows {
        if row.table.id != first.table.id {
            return Err(Error::OutOfAtomicTables);
        }
        if row.key[0] != first.key[0] {
            return Err(Error::OutOfAtomic {
                atomic: first.key[0].clone(),
                data: row.key[0].clone(),
            });
        }
    }
    Ok(())
}

impl Tables {
    pub(super) fn place(&self, table: &Table, key: &[KeyValue]) -> PartitionId {
        table.place(self.partitions(), key)
    }
}
