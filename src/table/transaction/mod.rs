//! Local transactions: many calls on the rows of one partition key that take effect together, or not at all.
//!
//! Owns: start, commit and abort. Promises: a transaction sees its own writes above the last commit, and nothing of it
//! is seen or on disk before it commits; then all of it is one write of one batch. What a call in it was answered is
//! what is committed. Must not: decide how a row is written; its calls do that as all others do (`calls.rs`).
//!
//! A transaction is a write set beside the log, and a lock on its partition key. As long as the key is locked, each
//! view shows the same rows of it; so each call runs on a fresh view with the set above it, and no view lives on
//! between two calls. The commit is one closure: it ends the lock and takes the set over, at one place in the order of
//! the partition's writes, and reads nothing.

mod calls;
mod open;

use std::sync::Arc;

use tideline_base::bounds::Resource;
use tideline_base::ids::PartitionId;
use tideline_model::{Error, PrimaryKey, TransactionId};
use tideline_store::partition::{Purpose, Txn, WriteSet};

use super::access::damaged;
use super::format::change::Change;
use super::format::primary_key::check;
use super::schema::Table;
use super::tables::Tables;
use open::{End, Holds, Started, Transaction, WRITES_OF_ONE_BYTES_MAX};

pub(super) use open::Transactions;

impl Tables {
    /// Starts a transaction on a partition key of a table as [`Tables::describe`] gives it; `key` is its column alone.
    pub async fn start_transaction(
        &self,
        table: &Arc<Table>,
        key: PrimaryKey,
    ) -> Result<TransactionId, Error> {
        table.check_writable()?;
        if !table.local_transactions {
            return Err(Error::TransactionsDisabled);
        }
        let partition_key = check(&table.primary_key[..1], key)?.remove(0);
        let partition = table.place(self.partitions(), std::slice::from_ref(&partition_key));
        let set = WriteSet::new(self.partitions(), WRITES_OF_ONE_BYTES_MAX);
        let bounds = self.partitions().bounds();
        let share = |resource| bounds.of(resource).share(self.holder());
        if share(Resource::Transactions).is_full() {
            // Expired ones give theirs back.
            self.observe();
        }
        let one = self.take(Resource::Transactions)?;
        let bytes = share(Resource::TransactionBytes);
        let own = (set, Holds { one, bytes });
        let (transactions, table) = (Arc::clone(self.transactions()), Arc::clone(table));
        let start = move |_: &mut Txn<'_>| transactions.start(table, partition_key, own);
        let partitions = self.partitions();
        let started = partitions.submit(Purpose::Adds, partition, START_BYTES, start);
        let started: Started = started.await?;
        started.keep().ok_or(Error::Internal)
    }

    /// Makes all of a transaction's writes take effect, and ends it. After a refusal as `Busy`, because the server
    /// ends, or because another call of it runs, the transaction is open as before; after any other error it has ended.
    pub async fn commit_transaction(&self, id: TransactionId) -> Result<(), Error> {
        let done = self.commit(id).await;
        match &done {
            Ok(()) | Err(Error::Busy | Error::ShuttingDown | Error::RowConflict) => {}
            // What was refused before the writer had it has not ended by itself.
            Err(_) => {
                self.transactions().end(id, End::Aborted);
            }
        }
        done
    }

    async fn commit(&self, id: TransactionId) -> Result<(), Error> {
        let mut taken = self.transactions().take(id)?;
        let table = Arc::clone(&taken.transaction().table);
        if !self.is_unchanged(&table).await? {
            taken.end(End::Aborted);
            return Err(Error::TransactionNotFound);
        }
        let partition = self.partition_of(taken.transaction());
        let writes = taken.writes();
        if writes.set.is_empty() {
            return ended(taken.end(End::Committed));
        }
        let (bytes, purpose) = (writes.set.bytes(), writes.purpose());
        let catalog = self.catalog().clone();
        let commit = move |txn: &mut Txn<'_>| {
            // Since it was asked for the table may have got an index, which what was written does not know.
            if *catalog.newest(Arc::clone(&table)) != *table {
                taken.end(End::Aborted);
                return Err(Error::TransactionNotFound);
            }
            ended(taken.end(End::Committed))?;
            take_over(txn, &taken.writes().set)
        };
        let done = self.partitions().submit(purpose, partition, bytes, commit);
        Ok(done.await?)
    }

    /// The table that an open transaction is of.
    #[must_use]
    pub fn transaction_table(&self, id: TransactionId) -> Option<Arc<Table>> {
        self.transactions().table_of(id)
    }

    /// Forgets all of a transaction's writes, and ends it.
    pub async fn abort_transaction(&self, id: TransactionId) -> Result<(), Error> {
        ended(self.transactions().take(id)?.end(End::Aborted))
    }

    /// The partition that has a transaction's rows now.
    fn partition_of(&self, transaction: &Transaction) -> PartitionId {
        let key = std::slice::from_ref(&transaction.partition_key);
        transaction.table.place(self.partitions(), key)
    }

    /// Whether a transaction's table is as it was at its start. A change of the table ends its transactions: what they
    /// have written was made for the table as it was.
    async fn is_unchanged(&self, table: &Table) -> Result<bool, Error> {
        match self.describe(&table.name).await {
            Ok(now) => Ok(*now == *table),
            Err(Error::TableNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What the queue holds for a start.
const START_BYTES: usize = 1_024;

fn ended(was_open: bool) -> Result<(), Error> {
    match was_open {
        true => Ok(()),
        false => Err(Error::TransactionNotFound),
    }
}

/// Writes a set's entries, and its change records, which name the entries by other numbers here.
fn take_over(txn: &mut Txn<'_>, set: &WriteSet) -> Result<(), Error> {
    let numbers = txn.take_over(set);
    for record in set.changes() {
        let wrong = |_| damaged(record, "no change record");
        let change = Change::decode(record).map_err(wrong)?;
        let first = numbers[change.first as usize];
        txn.change(Change { first, ..change }.encode());
    }
    Ok(())
}
