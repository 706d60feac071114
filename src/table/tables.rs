//! The tables of a data directory, as a gateway calls them: table operations, and rows one by one.
//!
//! Owns: [`Tables`]. Promises: a write is answered when it is on disk, a change of a table when all calls go by it;
//! a read shows everything that was answered before it was called. Must not: know a wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use tideline_base::bounds::Holder;
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::search::InvalidSearch;
use tideline_model::{
    DefinedColumn, Definition, Error, IndexDefinition, IndexState, NewTable, RowWrite, Stream,
    TableUpdate, Throughput, check_defined_columns,
};
use tideline_store::partition::{Each, Partitions, Purpose, ReadError, Txn};

use super::catalog::{self, Catalog, Snapshot};
use super::read::pace::Pace;
use super::schema::Table;
use super::search::Needs;
use super::stream::Index;
use super::transaction::Transactions;
use super::write::{Checked, Written};

/// All tables of a data directory. Cheap to clone.
#[derive(Clone)]
pub struct Tables {
    inner: Arc<Inner>,
    /// Whose calls these are; `None` = nobody's in particular.
    holder: Option<Holder>,
}

struct Inner {
    partitions: Partitions,
    catalog: Catalog,
    /// Tables that layers above show here, by name.
    virtual_tables: BTreeMap<String, Arc<Table>>,
    clock: Arc<Clock>,
    /// There may be an index to bring rows into.
    backfill: Notify,
    /// Held while a stream may begin, and while it is decided what of the logs streams need.
    streams: tokio::sync::Mutex<()>,
    /// By partition: which batches of its log change which tables.
    stream_indexes: Each<Index>,
    transactions: Arc<Transactions>,
    pace: Arc<Pace>,
    search: Needs,
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
        catalog.load(&partitions.view(partitions.home())?)?;
        let by_name = |table: Table| (table.name.clone(), Arc::new(table));
        let pace = Pace::new(partitions.bounds().costs.costly_percent);
        let transactions = Transactions::new(&partitions, Arc::clone(&clock));
        Ok(Tables {
            inner: Arc::new(Inner {
                transactions,
                stream_indexes: Each::new(&partitions, |_, _| Index::default()),
                partitions,
                catalog,
                virtual_tables: virtual_tables.into_iter().map(by_name).collect(),
                clock,
                backfill: Notify::new(),
                streams: tokio::sync::Mutex::default(),
                pace: Arc::new(pace),
                search: Needs::default(),
            }),
            holder: None,
        })
    }

    /// The same tables, for calls that count in this caller's shares.
    #[must_use]
    pub fn of_caller(&self, holder: Option<Holder>) -> Tables {
        Tables {
            inner: Arc::clone(&self.inner),
            holder,
        }
    }

    /// The caller that they are for.
    pub fn holder(&self) -> Option<Holder> {
        self.holder
    }

    pub(super) fn pace(&self) -> &Arc<Pace> {
        &self.inner.pace
    }

    /// Makes a table.
    pub async fn create(&self, new: NewTable) -> Result<(), Error> {
        let indexes = new.indexes.iter().map(|index| &index.name);
        for name in std::iter::once(&new.name).chain(indexes) {
            self.check_free(name).await?;
        }
        let _streams = self.begin_streams().await;
        let tails = self.tails(new.stream.is_some());
        self.change(Purpose::Adds, move |txn| {
            let now = txn.now_ms() * 1_000;
            let mut table = Definition {
                id: catalog::take_id(txn)?,
                name: new.name,
                primary_key: new.primary_key,
                defined_columns: new.defined_columns,
                indexes: Vec::new(),
                search_indexes: Vec::new(),
                mappings: Vec::new(),
                series: None,
                options: new.options,
                local_transactions: new.local_transactions,
                reserved: new.reserved,
                created_us: now,
                increased_us: now,
                decreased_us: 0,
                stream: Stream::asked(None, new.stream, now, tails),
            };
            for meta in new.indexes {
                table.indexes.push(IndexDefinition {
                    id: catalog::take_id(txn)?,
                    meta,
                    state: IndexState::Complete,
                });
            }
            catalog::check_names(txn, &table)?;
            table.check_indexes()?;
            Ok(catalog::store(txn, &table)?)
        })
        .await
    }

    /// A table as it is now. Those that hold time series are none.
    pub async fn describe(&self, name: &str) -> Result<Arc<Table>, Error> {
        let found = self.any(name).await?;
        match found.series {
            None => Ok(found),
            Some(_) => Err(Error::TableNotFound),
        }
    }

    /// The same, also of those that hold time series.
    pub async fn any(&self, name: &str) -> Result<Arc<Table>, Error> {
        if let Some(table) = self.inner.virtual_tables.get(name) {
            return Ok(Arc::clone(table));
        }
        let known = self.snapshot().await?;
        known.table(name).cloned().ok_or(Error::TableNotFound)
    }

    /// The names of all tables, in order.
    pub async fn list(&self) -> Result<Vec<String>, Error> {
        let known = self.snapshot().await?;
        let own = known.tables().filter(|table| table.series.is_none());
        let names = own.map(|table| &table.name);
        let names = names.chain(self.inner.virtual_tables.keys());
        let mut names: Vec<String> = names.cloned().collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Changes a table's options or reserved throughput; returns it as it is then.
    pub async fn update(&self, name: &str, update: TableUpdate) -> Result<Arc<Table>, Error> {
        self.changeable(name).await?;
        if update.is_empty() {
            return Err(Error::NoOptions);
        }
        let _streams = self.begin_streams().await;
        let tails = self.tails(update.stream.is_some());
        self.redefine(name, move |table, now_us| {
            if let Some(asked) = update.stream {
                table.stream = Stream::asked(table.stream.take(), asked, now_us, tails);
            }
            let before = table.options.clone();
            table.options.change(&update.options);
            table.check_search_indexes()?;
            if !table.indexes.is_empty() || !table.search_indexes.is_empty() {
                let now_ms = (now_us / 1_000).cast_signed();
                table.options.keep_expired(&before, now_ms);
            }
            if !table.indexes.is_empty() {
                table.check_indexes()?;
            }
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
                if table.indexes.iter().any(|index| index.meta.names(name)) {
                    return Err(Error::ColumnIndexed(name.clone()));
                }
                let defined = &mut table.defined_columns;
                let at = defined.iter().position(|column| column.name == *name);
                let at = at.ok_or_else(|| Error::NoDefinedColumn(name.clone()))?;
                defined.remove(at);
            }
            Ok(())
        })
        .await
    }

    /// Deletes a table and its indexes; their rows are unreachable at once and are dropped in the background.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        self.changeable(name).await?;
        let name = name.to_owned();
        self.change(Purpose::MakesRoom, move |txn| {
            let table = catalog::find(txn, &name)?.ok_or(Error::TableNotFound)?;
            if !table.search_indexes.is_empty() {
                return Err(Error::Search(InvalidSearch::Kept));
            }
            catalog::remove(txn, &name);
            Ok(())
        })
        .await
    }

    /// Writes a row of a table as [`Tables::describe`] gives it.
    pub async fn write(&self, table: &Arc<Table>, write: RowWrite) -> Result<Written, Error> {
        let row = Checked::new(Arc::clone(table), write)?;
        let row = self.look_ahead(row, &self.looking()).await?;
        let partition = self.place(&row.table, &row.key);
        let (partitions, transactions) = (self.partitions(), Arc::clone(self.transactions()));
        let (purpose, bytes, catalog) = (row.purpose(), row.bytes(), self.catalog().clone());
        let write = move |txn: &mut Txn<'_>| transactions.write(row, &catalog, txn, &mut 0);
        Ok(partitions.submit(purpose, partition, bytes, write).await?)
    }

    /// A table that may be changed.
    pub(super) async fn changeable(&self, name: &str) -> Result<Arc<Table>, Error> {
        let table = self.describe(name).await?;
        table.check_changeable()?;
        Ok(table)
    }

    /// Refuses a name that is taken.
    pub(super) async fn check_free(&self, name: &str) -> Result<(), Error> {
        match self.describe(name).await {
            Ok(_) => Err(Error::TableExists),
            Err(Error::TableNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn redefine(
        &self,
        name: &str,
        redefine: impl FnOnce(&mut Definition, u64) -> Result<(), Error> + Send + 'static,
    ) -> Result<Arc<Table>, Error> {
        self.redefine_in(name, move |table, txn| {
            redefine(table, txn.now_ms() * 1_000)
        })
        .await
    }

    /// The same with what the writer knows.
    pub(super) async fn redefine_in(
        &self,
        name: &str,
        redefine: impl FnOnce(&mut Definition, &mut Txn<'_>) -> Result<(), Error> + Send + 'static,
    ) -> Result<Arc<Table>, Error> {
        self.changeable(name).await?;
        let name = name.to_owned();
        self.change(Purpose::Adds, move |txn| {
            let mut table = catalog::find(txn, &name)?.ok_or(Error::TableNotFound)?;
            redefine(&mut table, txn)?;
            catalog::store(txn, &table)?;
            let (table, _) = catalog::stored(table)?;
            Ok(Arc::new(table))
        })
        .await
    }

    /// Changes the catalog, and answers when all calls go by the change.
    pub(super) async fn change<R: Send + 'static>(
        &self,
        purpose: Purpose,
        change: impl FnOnce(&mut Txn<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let catalog = self.inner.catalog.clone();
        let home = self.inner.partitions.home();
        let done = self
            .inner
            .partitions
            .submit(purpose, home, DEFINITION_BYTES, move |txn| {
                let done = change(txn)?;
                catalog.changes(txn);
                Ok(done)
            })
            .await?;
        // It is done, also if nothing can be read of it here because another node owns the log by now.
        let _ = self.snapshot().await;
        Ok(done)
    }

    pub(super) async fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        Ok(self.inner.catalog.snapshot(&self.inner.partitions).await?)
    }

    pub(super) fn virtual_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.inner.virtual_tables.values()
    }

    /// The index of a partition's log.
    pub(super) fn stream_index(&self, partition: PartitionId) -> Arc<Index> {
        self.inner.stream_indexes.of(partition)
    }

    /// Waits until no stream may begin and nobody decides what streams need of the logs, and keeps it so.
    pub async fn begin_streams(&self) -> tokio::sync::MutexGuard<'_, ()> {
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

    pub(super) fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    pub(super) fn search_needs(&self) -> &Needs {
        &self.inner.search
    }

    pub(super) fn wake_backfill(&self) {
        self.inner.backfill.notify_one();
    }

    pub(super) async fn wait_for_backfill(&self) {
        self.inner.backfill.notified().await;
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.inner.clock.now_ms().cast_signed()
    }
}

/// About what a change of the catalog holds in the queue.
const DEFINITION_BYTES: usize = 4_096;
