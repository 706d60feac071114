//! Reads and writes within a transaction.
//!
//! Owns: what holds of every call of one: it is about the transaction's own partition key, and alone. Promises: a call
//! runs on a thread that may block, on a fresh view with the transaction's writes above it; one that is refused has
//! changed nothing, and the transaction stays open. Must not: write or read rows by rules of its own.

use std::sync::Arc;

use tideline_model::limits::TRANSACTION_BYTES_MAX;
use tideline_model::{
    Asking, Error, GetRange, KeyValue, PrimaryKey, RowSink, RowWrite, Selection, TransactionId,
};
use tideline_store::partition::{Purpose, SubmitError, Txn, View};

use super::super::batch::{Answers, check_all, purpose};
use super::super::format::primary_key::check;
use super::super::read::range::{RangePage, Span};
use super::super::read::{Got, get};
use super::super::schema::Table;
use super::super::tables::Tables;
use super::super::write::{Checked, Written};
use super::open::{InHand, Transaction, WRITES_OF_ONE_BYTES_MAX, Writes};

impl Tables {
    /// Writes a row in a transaction.
    pub async fn write_in(
        &self,
        id: TransactionId,
        table: &Arc<Table>,
        write: RowWrite,
    ) -> Result<Written, Error> {
        let row = Checked::new(Arc::clone(table), write)?;
        let taken = self.taken(id, table).await?;
        taken.transaction().check_key(&row.key[0])?;
        let mut written = self.write_all(taken, vec![row]).await?;
        written.pop().ok_or(Error::Internal)
    }

    /// Writes rows in a transaction: all of them, or none if one is refused. `Err` = the batch as a whole is refused.
    pub async fn write_batch_in(
        &self,
        id: TransactionId,
        rows: Vec<(Arc<Table>, RowWrite)>,
    ) -> Result<Answers<Written>, Error> {
        let count = rows.len();
        let Some((table, _)) = rows.first() else {
            return Ok(Vec::new());
        };
        let taken = match self.taken(id, &Arc::clone(table)).await {
            Err(error @ Error::OutOfTransactionTable) => return Ok(vec![Err(error); count]),
            taken => taken?,
        };
        let checked: Result<Vec<Checked>, Error> = check_all(rows)?.into_iter().collect();
        let checked = checked.and_then(|rows| taken.transaction().check_rows(&rows).map(|()| rows));
        let done = match checked {
            Ok(rows) => self.write_all(taken, rows).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(written) => Ok(written.into_iter().map(Ok).collect()),
            Err(error) => Ok(vec![Err(error); count]),
        }
    }

    /// Reads a row as a transaction sees it.
    pub async fn get_in<Rows: RowSink>(
        &self,
        id: TransactionId,
        table: &Arc<Table>,
        key: PrimaryKey,
        selection: Selection,
    ) -> Result<Got<Rows>, Error> {
        let key = check(&table.primary_key, key)?;
        let taken = self.taken(id, table).await?;
        taken.transaction().check_key(&key[0])?;
        let (table, now) = (Arc::clone(table), self.now_ms());
        let is_costly = selection.is_costly();
        self.run(taken, is_costly, move |txn, _, asking| {
            let load = |columns: Option<&[&str]>| table.stored_row(txn, &key, columns);
            get(&table, &key, &selection, now, asking, load)
        })
        .await
    }

    /// Reads a page of a range as a transaction sees it.
    pub async fn get_range_in<Rows: RowSink>(
        &self,
        id: TransactionId,
        table: &Arc<Table>,
        range: GetRange,
    ) -> Result<RangePage<Rows>, Error> {
        let bounds =
            [&range.start, &range.end].map(|key| key.first().map(|(_, value)| value.clone()));
        let span = Span::new(table, range)?;
        let taken = self.taken(id, table).await?;
        for value in bounds.iter().flatten() {
            taken.transaction().check_key(value)?;
        }
        let (table, now) = (Arc::clone(table), self.now_ms());
        self.run(taken, span.is_costly(), move |txn, _, asking| {
            span.read_stored(&table, txn, now, asking)
        })
        .await
    }

    async fn write_all(
        &self,
        mut taken: InHand,
        rows: Vec<Checked>,
    ) -> Result<Vec<Written>, Error> {
        if !self.transactions().has_room(&mut taken) {
            return Err(Error::Busy);
        }
        let (now, catalog) = (self.now_ms(), self.catalog().clone());
        let is_costly = rows.iter().any(Checked::is_costly);
        self.run(taken, is_costly, move |txn, brought, asking| {
            let size = brought.data_bytes + rows.iter().map(|row| row.size).sum::<usize>();
            if size > TRANSACTION_BYTES_MAX {
                return Err(Error::TransactionTooLarge { size });
            }
            let adds = brought.adds || purpose(&rows) == Purpose::Adds;
            let mut written = Vec::with_capacity(rows.len());
            for mut row in rows {
                if row.is_costly() {
                    row.look(txn, now, asking)?;
                }
                written.push(row.apply(&catalog, txn, &mut 0)?);
            }
            *brought = Brought {
                data_bytes: size,
                adds,
            };
            Ok(written)
        })
        .await
    }

    /// A transaction's writes, for a call on this table.
    async fn taken(&self, id: TransactionId, table: &Arc<Table>) -> Result<InHand, Error> {
        let taken = self.transactions().take(id)?;
        let own = &taken.transaction().table;
        if table.name != own.name {
            return Err(Error::OutOfTransactionTable);
        }
        if **table != **own {
            taken.end(super::End::Aborted);
            return Err(Error::TransactionNotFound);
        }
        Ok(taken)
    }

    /// Runs a call on a fresh view with the transaction's writes above it; one with expressions among the costly reads.
    async fn run<R: Send + 'static>(
        &self,
        mut taken: InHand,
        is_costly: bool,
        call: impl FnOnce(&mut Txn<'_>, &mut Brought, &Asking<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let partition = self.partition_of(taken.transaction());
        let now_ms = self.now_ms().cast_unsigned();
        let effort = self.effort();
        let run = move |view: &View, is_asked: &dyn Fn() -> bool| {
            let asking = Asking::whole(&effort, is_asked);
            let writes = taken.writes();
            let mut brought = Brought {
                data_bytes: writes.data_bytes,
                adds: writes.adds,
            };
            let done = writes
                .set
                .run(view, now_ms, |txn| call(txn, &mut brought, &asking));
            if done.is_ok() {
                (writes.data_bytes, writes.adds) = (brought.data_bytes, brought.adds);
            }
            // If the transaction had ended before the view was made, the view may show what others have written since.
            (done, taken.is_open())
        };
        let (done, is_open) = if is_costly {
            self.read_costly(partition, run).await?
        } else {
            let run = move |view: &View| Ok(run(view, &|| true));
            self.partitions().read(partition, run).await?
        };
        match done {
            _ if !is_open => Err(Error::TransactionNotFound),
            Err(SubmitError::TooLarge { actual, .. }) => Err(Error::TransactionTooLarge {
                size: WRITES_OF_ONE_BYTES_MAX.max(actual),
            }),
            done => Ok(done?),
        }
    }
}

/// What a transaction's requests have brought, with the running one.
struct Brought {
    data_bytes: usize,
    adds: bool,
}

impl Writes {
    /// What its commit is for.
    pub(super) fn purpose(&self) -> Purpose {
        match self.adds {
            true => Purpose::Adds,
            false => Purpose::MakesRoom,
        }
    }
}

impl Transaction {
    fn check_key(&self, partition_key: &KeyValue) -> Result<(), Error> {
        if *partition_key == self.partition_key {
            return Ok(());
        }
        Err(Error::OutOfTransaction {
            transaction: self.partition_key.clone(),
            data: partition_key.clone(),
        })
    }

    fn check_rows(&self, rows: &[Checked]) -> Result<(), Error> {
        for row in rows {
            if row.table.name != self.table.name {
                return Err(Error::OutOfTransactionTable);
            }
            self.check_key(&row.key[0])?;
        }
        Ok(())
    }
}
