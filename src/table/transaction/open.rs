//! The open transactions of a server, and the partition keys that they lock.
//!
//! Owns: [`Transactions`]. Promises: a partition key has at most one open transaction; from its start to its end no
//! other write reaches the key's rows, because the lock is taken by a closure of the partition's writer and the end of
//! a commit is one too: what the writer ran before the lock is on disk when the start is answered, and what it runs
//! behind it is refused here. While nothing is open that costs a write one load. A transaction past its maximum age is
//! open no more, for any caller. Must not: know rows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tideline_base::bounds::Share;
use tideline_base::clock::Clock;
use tideline_base::metrics::Metrics;
use tideline_model::limits::TRANSACTION_LIFE_MS;
use tideline_model::{Error, KeyValue, TransactionId};
use tideline_store::partition::{Partitions, Txn, WriteSet};

use super::super::Key;
use super::super::catalog::Catalog;
use super::super::format::primary_key::key_of;
use super::super::schema::Table;
use super::super::write::{Checked, Written};

/// Bytes of memory that the writes of one may take. It is more than the data that they may have, because a small change
/// of a row may be kept as the whole row.
pub(super) const WRITES_OF_ONE_BYTES_MAX: usize = 32 << 20;
/// How often those that have expired are looked for.
const SWEEP_MS: u64 = 1_000;

/// The open transactions. None is on disk: a restart ends them all.
pub(in super::super) struct Transactions {
    clock: Arc<Clock>,
    metrics: Arc<Metrics>,
    open: Mutex<Open>,
    /// How many there are, to be asked without the lock.
    count: AtomicUsize,
    /// A bug to be found: locks keep nobody away.
    #[cfg(test)]
    pub(in super::super) is_planted: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
struct Open {
    by_id: HashMap<TransactionId, Arc<Transaction>>,
    by_key: HashMap<Key, TransactionId>,
    swept_ms: u64,
}

/// An open transaction.
pub(super) struct Transaction {
    pub(super) id: TransactionId,
    /// As it was at the start.
    pub(super) table: Arc<Table>,
    pub(super) partition_key: KeyValue,
    started_ms: u64,
    _one: Share,
    /// `None` while a request has them in hand.
    writes: Mutex<Option<Writes>>,
}

/// What a transaction has written.
pub(super) struct Writes {
    pub(super) set: WriteSet,
    /// Bytes of the data that requests have brought.
    pub(super) data_bytes: usize,
    /// Whether there is anything but deletes.
    pub(super) adds: bool,
    /// Its bytes, without those of a running request.
    bytes: Share,
}

/// What a transaction holds of its caller's shares, from before its start until its end.
pub(super) struct Holds {
    /// Itself.
    pub(super) one: Share,
    /// What it writes.
    pub(super) bytes: Share,
}

/// A transaction's writes in the hand of the one request that it may have at a time. They go back when it is dropped.
pub(super) struct InHand {
    transactions: Arc<Transactions>,
    transaction: Arc<Transaction>,
    writes: Option<Writes>,
}

/// A transaction that was just started. Dropped before it is [`Started::keep`]t, it ends: nobody has its ID.
pub(super) struct Started {
    transactions: Arc<Transactions>,
    id: Option<TransactionId>,
}

/// How a transaction ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Committed,
    Aborted,
    Expired,
}

fn locked_key(table: &Table, partition_key: &KeyValue) -> Key {
    key_of(table.id, std::slice::from_ref(partition_key))
}

impl Transactions {
    pub(in super::super) fn new(partitions: &Partitions, clock: Arc<Clock>) -> Arc<Transactions> {
        Arc::new(Transactions {
            clock,
            metrics: Arc::clone(partitions.metrics()),
            open: Mutex::default(),
            count: AtomicUsize::new(0),
            #[cfg(test)]
            is_planted: false.into(),
        })
    }

    /// Does a write that is part of no transaction, unless one has its partition key. On the writer's thread; for
    /// `looked` see [`Checked::apply`].
    pub(in super::super) fn write(
        &self,
        row: Checked,
        catalog: &Catalog,
        txn: &mut Txn<'_>,
        looked: &mut usize,
    ) -> Result<Written, Error> {
        if self.count.load(Ordering::Acquire) > 0 && self.is_locked(&row.table, &row.key[0]) {
            self.metrics.transactions.conflicts.increment(1);
            return Err(Error::RowConflict);
        }
        row.apply(catalog, txn, looked)
    }

    fn is_locked(&self, table: &Table, partition_key: &KeyValue) -> bool {
        #[cfg(test)]
        if self.is_planted.load(Ordering::Relaxed) {
            return false;
        }
        let key = locked_key(table, partition_key);
        self.has_holder(&mut self.lock(), &key, table)
    }

    /// Whether an open transaction has a partition key of a table. One that began when the table was another ends.
    fn has_holder(&self, open: &mut Open, key: &Key, table: &Table) -> bool {
        let Some(id) = open.by_key.get(key).copied() else {
            return false;
        };
        match self.living(open, id) {
            Some(holder) if *holder.table == *table => true,
            Some(_) => {
                self.remove(open, id, End::Aborted);
                false
            }
            None => false,
        }
    }

    /// Locks a partition key. On the writer's thread.
    pub(super) fn start(
        self: &Arc<Self>,
        table: Arc<Table>,
        partition_key: KeyValue,
        (set, holds): (WriteSet, Holds),
    ) -> Result<Started, Error> {
        let key = locked_key(&table, &partition_key);
        let now_ms = self.clock.now_ms();
        let mut open = self.lock();
        if now_ms.abs_diff(open.swept_ms) >= SWEEP_MS {
            self.sweep(&mut open, now_ms);
        }
        if self.has_holder(&mut open, &key, &table) {
            self.metrics.transactions.conflicts.increment(1);
            return Err(Error::RowConflict);
        }
        let Holds { one, bytes } = holds;
        let id = TransactionId::random();
        let writes = Writes {
            set,
            data_bytes: 0,
            adds: false,
            bytes,
        };
        let transaction = Transaction {
            id,
            table,
            partition_key,
            started_ms: now_ms,
            _one: one,
            writes: Mutex::new(Some(writes)),
        };
        open.by_id.insert(id, Arc::new(transaction));
        open.by_key.insert(key, id);
        self.count_open(&open);
        self.metrics.transactions.started.increment(1);
        Ok(Started {
            transactions: Arc::clone(self),
            id: Some(id),
        })
    }

    /// Takes an open transaction's writes in hand.
    pub(super) fn take(self: &Arc<Self>, id: TransactionId) -> Result<InHand, Error> {
        let mut open = self.lock();
        let transaction = self.living(&mut open, id);
        let transaction = transaction.ok_or(Error::TransactionNotFound)?;
        let writes = transaction.slot().take().ok_or(Error::RowConflict)?;
        drop(open);
        Ok(InHand {
            transactions: Arc::clone(self),
            transaction,
            writes: Some(writes),
        })
    }

    /// The table of an open transaction, as it was at the start.
    pub(super) fn table_of(&self, id: TransactionId) -> Option<Arc<Table>> {
        let transaction = self.living(&mut self.lock(), id)?;
        Some(Arc::clone(&transaction.table))
    }

    /// Whether it is open.
    pub(super) fn is_open(&self, id: TransactionId) -> bool {
        self.living(&mut self.lock(), id).is_some()
    }

    /// Ends a transaction and frees its partition key; `false` if it had ended.
    pub(super) fn end(&self, id: TransactionId, end: End) -> bool {
        let mut open = self.lock();
        let is_open = self.living(&mut open, id).is_some();
        if is_open {
            self.remove(&mut open, id, end);
        }
        is_open
    }

    /// Whether there is room in memory for more writes of a transaction. If not, expired ones give theirs back first.
    pub(super) fn has_room(&self, taken: &mut InHand) -> bool {
        if taken.writes().bytes.is_full() {
            self.observe();
        }
        let bytes = &taken.writes().bytes;
        let has_room = !bytes.is_full();
        if !has_room {
            bytes.bound().refuse();
        }
        has_room
    }

    /// Ends those that have expired.
    pub(in super::super) fn observe(&self) {
        self.sweep(&mut self.lock(), self.clock.now_ms());
    }

    /// An open transaction; one that has expired ends here.
    fn living(&self, open: &mut Open, id: TransactionId) -> Option<Arc<Transaction>> {
        let transaction = open.by_id.get(&id)?;
        if !transaction.is_over(self.clock.now_ms()) {
            return Some(Arc::clone(transaction));
        }
        self.remove(open, id, End::Expired);
        None
    }

    fn sweep(&self, open: &mut Open, now_ms: u64) {
        open.swept_ms = now_ms;
        let all = open.by_id.values();
        let over: Vec<TransactionId> = all
            .filter(|one| one.is_over(now_ms))
            .map(|one| one.id)
            .collect();
        for id in over {
            self.remove(open, id, End::Expired);
        }
    }

    fn remove(&self, open: &mut Open, id: TransactionId, end: End) {
        let Some(ended) = open.by_id.remove(&id) else {
            return;
        };
        open.by_key
            .remove(&locked_key(&ended.table, &ended.partition_key));
        self.count_open(open);
        let metrics = &self.metrics.transactions;
        match end {
            End::Committed => &metrics.committed,
            End::Aborted => &metrics.aborted,
            End::Expired => &metrics.expired,
        }
        .increment(1);
    }

    fn count_open(&self, open: &Open) {
        self.count.store(open.by_id.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transaction {
    /// Also if the clock was set back.
    fn is_over(&self, now_ms: u64) -> bool {
        now_ms.abs_diff(self.started_ms) >= TRANSACTION_LIFE_MS
    }

    fn slot(&self) -> MutexGuard<'_, Option<Writes>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Started {
    /// Somebody has its ID.
    pub(super) fn keep(mut self) -> Option<TransactionId> {
        self.id.take()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.transactions.end(id, End::Aborted);
        }
    }
}

impl InHand {
    pub(super) fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    pub(super) fn writes(&mut self) -> &mut Writes {
        self.writes.as_mut().expect("in hand until it is dropped")
    }

    /// Whether the transaction is still open.
    pub(super) fn is_open(&self) -> bool {
        self.transactions.is_open(self.transaction.id)
    }

    /// Ends the transaction; `false` if it had ended.
    pub(super) fn end(&self, end: End) -> bool {
        self.transactions.end(self.transaction.id, end)
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let open = self.transactions.lock();
        let Some(mut writes) = self.writes.take() else {
            return;
        };
        if open.by_id.contains_key(&self.transaction.id) {
            // They exist already, whatever the bound leaves.
            writes.bytes.force(writes.set.bytes());
            *self.transaction.slot() = Some(writes);
        }
    }
}
