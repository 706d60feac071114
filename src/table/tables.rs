//! The tables of a data directory, as a gateway calls them: table operations, and rows one by one.
//!
//! Owns: [`Tables`]. Promises: a write is answered when it is on disk, a change of a table when all calls go by it;
//! a read shows everything that was answered before it was called. Must not: know a wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::Clock;
use crate::model::{
    DefinedColumn, Definition, Error, GetRange, NewTable, PrimaryKey, RowSink, RowWrite, Selection,
    Stream, TableUpdate, Throughput, check_defined_columns,
};
use crate::partition::{Partitions, Purpose, ReadError, Txn, View};

use super::catalog::{self, Catalog, HOME, Snapshot};
use super::primary_key::check;
use super::range::{RangePage, Span, others};
use super::read::{Got, get};
use super::schema::Table;
use super::transaction::Transactions;
use super::write::{Checked, Written};

/// The most tables.
pub const TABLES_MAX: usize = 64;

/// All tables of a data directory. Cheap to clone.
#[derive(Clone)]
pub struct Tables {
    inner: Arc<Inner>,
}

struct Inner {
    partitions: Partitions,
    catalog: Catalog,
    /// Tables that layers above show here, by name.
    virtual_tables: BTreeMap<String, Arc<Table>>,
    clock: Arc<Clock>,
    /// Held while a stream may begin, and while it is decided what of the logs streams need.
    streams: tokio::sync::Mutex<()>,
    transactions: Arc<Transactions>,
}

impl Tables {
    /// The tables on these partitions, whose rules were made with this `catalog`, and those that the layers above show.
    /// Reads the catalog: may block on the disk.
    pub fn open(
        partitions: Partitions,
        catalog: Catalog,
        virtual_tables: Vec<Table>,
        clock: Arc<Clock>,
    ) -> Result<Tables, ReadError> {
        catalog.load(&partitions.view(HOME)?)?;
        let by_name = |table: Table| (table.name.clone(), Arc::new(table));
        let transactions = Transactions::new(&partitions, Arc::clone(&clock));
        Ok(Tables {
            inner: Arc::new(Inner {
                transactions,
                partitions,
                catalog,
                virtual_tables: virtual_tables.into_iter().map(by_name).collect(),
                clock,
                streams: tokio::sync::Mutex::default(),
            }),
        })
    }

    /// Makes a table.
    pub async fn create(&self, new: NewTable) -> Result<(), Error> {
        match self.describe(&new.name).await {
            Ok(_) => return Err(Error::TableExists),
            Err(Error::TableNotFound) => {}
            Err(error) => return Err(error),
        }
        let _streams = self.begin_streams().await;
        let tails = self.tails();
        self.change(Purpose::Adds, move |txn| {
            if catalog::find(txn, &new.name)?.is_some() {
                return Err(Error::TableExists);
            }
            if catalog::count(txn)? >= TABLES_MAX {
                return Err(Error::TableQuota(TABLES_MAX));
            }
            let now = txn.now_ms() * 1_000;
            let table = Definition {
                id: catalog::take_id(txn)?,
                name: new.name,
                primary_key: new.primary_key,
                defined_columns: new.defined_columns,
                options: new.options,
                local_transactions: new.local_transactions,
                reserved: new.reserved,
                created_us: now,
                increased_us: now,
                decreased_us: 0,
                stream: Stream::asked(None, new.stream, now, tails),
            };
            Ok(catalog::store(txn, &table)?)
        })
        .await
    }

    /// A table as it is now.
    pub async fn describe(&self, name: &str) -> Result<Arc<Table>, Error> {
        if let Some(table) = self.inner.virtual_tables.get(name) {
            return Ok(Arc::clone(table));
        }
        let known = self.snapshot().await?;
        known.table(name).cloned().ok_or(Error::TableNotFound)
    }

    /// The names of all tables, in order.
    pub async fn list(&self) -> Result<Vec<String>, Error> {
        let known = self.snapshot().await?;
        let names = known.names().chain(self.inner.virtual_tables.keys());
        let mut names: Vec<String> = names.cloned().collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Changes a table's options or reserved throughput; returns it as it is then.
    pub async fn update(&self, name: &str, update: TableUpdate) -> Result<Arc<Table>, Error> {
        self.writable(name).await?;
        if update.is_empty() {
            return Err(Error::NoOptions);
        }
        let _streams = self.begin_streams().await;
        let tails = self.tails();
        self.redefine(name, move |table, now_us| {
            if let Some(asked) = update.stream {
                table.stream = Stream::asked(table.stream.take(), asked, now_us, tails);
            }
            table.options.change(&update.options);
            let reserved = Throughput {
                read: update.reserved_read.unwrap_or(table.reserved.read),
                write: update.reserved_write.unwrap_or(table.reserved.write),
            };
            reserved.check()?;
            let before = std::mem::replace(&mut table.reserved, reserved);
            if reserved.read > before.read || reserved.write > before.write {
                table.increased_us = now_us;
            }
            if reserved.read < before.read || reserved.write < before.write {
                table.decreased_us = now_us;
            }
            Ok(())
        })
        .await
    }

    /// Adds defined columns; returns the table as it is then.
    pub async fn add_defined_columns(
        &self,
        name: &str,
        columns: Vec<DefinedColumn>,
    ) -> Result<Arc<Table>, Error> {
        self.redefine(name, move |table, _| {
            table.defined_columns.extend(columns);
            check_defined_columns(&table.primary_key, &table.defined_columns)
        })
        .await
    }

    /// Takes defined columns away; rows keep what they hold.
    pub async fn delete_defined_columns(
        &self,
        name: &str,
        columns: Vec<String>,
    ) -> Result<Arc<Table>, Error> {
        self.redefine(name, move |table, _| {
            for name in &columns {
                let defined = &mut table.defined_columns;
                let at = defined.iter().position(|column| column.name == *name);
                let at = at.ok_or_else(|| Error::NoDefinedColumn(name.clone()))?;
                defined.remove(at);
            }
            Ok(())
        })
        .await
    }

    /// Deletes a table; its rows are unreachable at once and are dropped in the background.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        self.writable(name).await?;
        let name = name.to_owned();
        self.change(Purpose::MakesRoom, move |txn| {
            catalog::find(txn, &name)?.ok_or(Error::TableNotFound)?;
            catalog::remove(txn, &name);
            Ok(())
        })
        .await
    }

    /// Writes a row of a table as [`Tables::describe`] gives it.
    pub async fn write(&self, table: &Arc<Table>, write: RowWrite) -> Result<Written, Error> {
        let row = self
            .look_ahead(Checked::new(Arc::clone(table), write)?)
            .await?;
        let partition = self.place(&row.table, &row.key);
        let (partitions, transactions) = (self.partitions(), Arc::clone(self.transactions()));
        let (purpose, bytes) = (row.purpose(), row.bytes());
        let write = move |txn: &mut Txn<'_>| transactions.write(row, txn);
        Ok(partitions.submit(purpose, partition, bytes, write).await?)
    }

    /// Reads a row of a table as [`Tables::describe`] gives it.
    pub async fn get<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        key: PrimaryKey,
        selection: Selection,
    ) -> Result<Got<Rows>, Error> {
        let key = check(&table.primary_key, key)?;
        let (partition, now) = (self.place(table, &key), self.now_ms());
        let table = Arc::clone(table);
        let read = move |view: &View| get(view, &table, &key, &selection, now);
        Ok(self.inner.partitions.read(partition, read).await?)
    }

    /// Reads a page of a range of a table as [`Tables::describe`] gives it.
    pub async fn get_range<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        range: GetRange,
    ) -> Result<RangePage<Rows>, Error> {
        let span = Span::new(table, range)?;
        let table = Arc::clone(table);
        let (partitions, now) = (self.inner.partitions.clone(), self.now_ms());
        let first = match &span.partition {
            Some(key) => table.place(&partitions, key),
            None => HOME,
        };
        let read = move |view: &View| {
            let others = others(&partitions, first, span.partition.is_none())?;
            let views: Vec<&View> = std::iter::once(view).chain(&others).collect();
            span.read(&table, &views, now)
        };
        Ok(self.inner.partitions.read(first, read).await?)
    }

    /// A table that may be changed.
    async fn writable(&self, name: &str) -> Result<Arc<Table>, Error> {
        let table = self.describe(name).await?;
        if table.is_read_only() {
            return Err(Error::ReadOnlyTable);
        }
        Ok(table)
    }

    async fn redefine(
        &self,
        name: &str,
        redefine: impl FnOnce(&mut Definition, u64) -> Result<(), Error> + Send + 'static,
    ) -> Result<Arc<Table>, Error> {
        self.writable(name).await?;
        let name = name.to_owned();
        self.change(Purpose::Adds, move |txn| {
            let mut table = catalog::find(txn, &name)?.ok_or(Error::TableNotFound)?;
            redefine(&mut table, txn.now_ms() * 1_000)?;
            catalog::store(txn, &table)?;
            Ok(Arc::new(catalog::stored(table)))
        })
        .await
    }

    /// Changes the catalog, and answers when all calls go by the change.
    async fn change<R: Send + 'static>(
        &self,
        purpose: Purpose,
        change: impl FnOnce(&mut Txn<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let catalog = self.inner.catalog.clone();
        let done = self
            .inner
            .partitions
            .submit(purpose, HOME, DEFINITION_BYTES, move |txn| {
                let done = change(txn)?;
                catalog.changes(txn);
                Ok(done)
            })
            .await?;
        self.snapshot().await?;
        Ok(done)
    }

    pub(super) async fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        Ok(self.inner.catalog.snapshot(&self.inner.partitions).await?)
    }

    /// Waits until no stream may begin and nobody decides what streams need of the logs, and keeps it so.
    pub(super) async fn begin_streams(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.inner.streams.lock().await
    }

    /// Brings the gauges of transactions up to date.
    pub fn observe(&self) {
        self.inner.transactions.observe();
    }

    pub(super) fn transactions(&self) -> &Arc<Transactions> {
        &self.inner.transactions
    }

    pub(super) fn partitions(&self) -> &Partitions {
        &self.inner.partitions
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.inner.clock.now_ms().cast_signed()
    }
}

/// About what a change of the catalog holds in the queue.
const DEFINITION_BYTES: usize = 4_096;
