//! The catalog of tables: rows of a built-in table in the directory's home partition, and a snapshot of them in memory.
//!
//! Owns: names, IDs that are never used again, and the snapshot that reads, writes and compaction decide by. Promises:
//! a snapshot holds only what is on disk; a caller that was answered after a change sees it or a later one; while a
//! change is on its way compaction takes nothing for decided. Must not: check definitions (`model/definition/mod.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use tideline_base::ids::{Position, TableId};
use tideline_model::{Definition, Direction, Error, IndexDefinition, IndexState, Value, ValueRef};
use tideline_store::partition::{Partitions, ReadError, Txn, View};

use super::Key;
use super::access::{Source, record, scan_all};
use super::format::change::Action;
use super::format::row::{Row, RowWriter};
use super::schema::Table;

/// Table IDs below this are the server's own; user tables get theirs from here on.
pub const USER_TABLES_FROM: TableId = TableId(1024);
/// The most tables.
pub const TABLES_MAX: usize = 64;
/// Definitions by name; the empty name holds the next free ID.
pub(super) const TABLES: TableId = TableId(16);

const DEFINITION: &str = "definition";
const NEXT_ID: &str = "next_id";

/// The catalog of a data directory. Cheap to clone; made before the partitions are opened, because their compaction
/// asks it, and filled when [`super::Tables`] opens.
#[derive(Clone, Default)]
pub struct Catalog {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    known: ArcSwap<Snapshot>,
    /// The position of the newest change, perhaps not on disk yet.
    changed: AtomicU64,
}

/// All users' tables as of one position.
#[derive(Default)]
pub(super) struct Snapshot {
    is_loaded: bool,
    position: Position,
    next_id: u32,
    by_name: BTreeMap<String, Arc<Table>>,
    by_id: HashMap<TableId, Arc<Table>, foldhash::fast::RandomState>,
}

/// What the rules of rows may know of a table.
pub(super) enum Standing {
    /// It exists, so.
    Exists(Arc<Table>),
    /// It is gone for good.
    Gone,
    /// Perhaps it exists.
    Unknown,
}

impl Catalog {
    /// The tables, with every change that was answered.
    pub(super) async fn snapshot(
        &self,
        partitions: &Partitions,
    ) -> Result<Arc<Snapshot>, ReadError> {
        partitions.proof().await?;
        let known = self.inner.known.load_full();
        if known.position.0 >= self.inner.changed.load(Ordering::Acquire) {
            return Ok(known);
        }
        let catalog = self.clone();
        partitions
            .read(partitions.home(), move |view| catalog.load(view))
            .await?;
        Ok(self.inner.known.load_full())
    }

    /// Reads everything from a view of the partition that holds the definitions of all tables ([`Partitions::home`]).
    pub fn load(&self, view: &View) -> Result<(), ReadError> {
        let mut fresh = Snapshot {
            is_loaded: true,
            position: view.position(),
            next_id: USER_TABLES_FROM.0,
            ..Snapshot::default()
        };
        for row in scan_all(view, &Key::new(TABLES, &[], 1)) {
            let (_, value) = row?;
            match decode(&value)? {
                Entry::NextId(id) => fresh.next_id = id,
                Entry::Table(definition) => {
                    let (table, indexes) = stored(*definition)?;
                    indexes.into_iter().for_each(|index| fresh.add(index));
                    fresh.add(table);
                }
            }
        }
        let fresh = Arc::new(fresh);
        self.inner.known.rcu(|known| {
            if known.is_loaded && known.position >= fresh.position {
                Arc::clone(known)
            } else {
                Arc::clone(&fresh)
            }
        });
        Ok(())
    }

    /// What compaction may act on.
    pub(super) fn standing(&self, table: TableId) -> Standing {
        let known = self.inner.known.load();
        match known.position.0 < self.inner.changed.load(Ordering::Acquire) {
            true => Standing::Unknown,
            false => known.standing(table),
        }
    }

    /// The table of a row that a view shows. A change that is on its way does not matter: the table was known before
    /// its rows, its key never changes, and a dropped table stays dropped.
    pub(super) fn standing_of_rows(&self, table: TableId) -> Standing {
        self.inner.known.load().standing(table)
    }

    /// A table as it is on disk now. A change is answered only when it is on disk, so no call that follows from it can
    /// meet the table as it was before. For the writers of partitions: a write comes with the table of when it was
    /// queued.
    pub(super) fn newest(&self, table: Arc<Table>) -> Arc<Table> {
        self.known(table.id).unwrap_or(table)
    }

    /// A table or an index by its ID.
    pub(super) fn known(&self, id: TableId) -> Option<Arc<Table>> {
        self.inner.known.load().by_id.get(&id).map(Arc::clone)
    }

    /// The tables that have indexes.
    pub(super) fn indexed(&self) -> Vec<Arc<Table>> {
        let known = self.inner.known.load();
        let tables = known.by_name.values();
        tables
            .filter(|table| !table.indexes().is_empty())
            .map(Arc::clone)
            .collect()
    }

    /// The tables that have search indexes.
    #[must_use]
    pub fn searched(&self) -> Vec<Arc<Table>> {
        let known = self.inner.known.load();
        let tables = known.by_name.values();
        let searched = tables.filter(|table| !table.search_indexes.is_empty());
        searched.map(Arc::clone).collect()
    }

    /// The indexes whose rows are being brought in, each with its table.
    pub(super) fn building(&self) -> Vec<(Arc<Table>, TableId)> {
        let tables = self.indexed();
        tables
            .iter()
            .flat_map(|table| {
                let building = |index: &&IndexDefinition| index.state == IndexState::Building;
                let building = table.definition.indexes.iter().filter(building);
                building.map(|index| (Arc::clone(table), index.id))
            })
            .collect()
    }

    /// Whether the rows of an index may still have to be brought in.
    pub(super) fn is_needed_for_backfill(&self, index: TableId) -> bool {
        match self.standing(index) {
            Standing::Unknown => true,
            Standing::Gone => false,
            Standing::Exists(table) => table.check_readable().is_err(),
        }
    }

    /// A change of the catalog is on its way.
    pub(super) fn changes(&self, txn: &Txn<'_>) {
        self.inner
            .changed
            .fetch_max(txn.position().0, Ordering::AcqRel);
    }
}

impl Snapshot {
    fn add(&mut self, table: Table) {
        let table = Arc::new(table);
        self.by_id.insert(table.id, Arc::clone(&table));
        self.by_name.insert(table.name.clone(), table);
    }

    fn standing(&self, table: TableId) -> Standing {
        match self.by_id.get(&table) {
            Some(table) => Standing::Exists(Arc::clone(table)),
            None if !self.is_loaded || table < USER_TABLES_FROM => Standing::Unknown,
            None if table.0 < self.next_id => Standing::Gone,
            None => Standing::Unknown,
        }
    }

    pub(super) fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.by_name.get(name)
    }

    /// All tables, by name.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.by_name.values()
    }
}

enum Entry {
    NextId(u32),
    Table(Box<Definition>),
}

fn decode(value: &[u8]) -> Result<Entry, ReadError> {
    let wrong = |what| damaged_catalog(TABLES, what);
    let row = Row::parse(value).map_err(|_| wrong("not a row"))?;
    let column = |name| row.column(name).map_err(|_| wrong("not a row"));
    if let Some(cell) = column(DEFINITION)?
        && let ValueRef::Json(text) = cell.value
    {
        let table = serde_json::from_str(text).map_err(|_| wrong("not a definition"))?;
        return Ok(Entry::Table(table));
    }
    match column(NEXT_ID)?.map(|cell| cell.value) {
        Some(ValueRef::Integer(id)) => u32::try_from(id).ok().map(Entry::NextId),
        _ => None,
    }
    .ok_or_else(|| wrong("neither a definition nor the next ID"))
}

/// A table of the catalog and its indexes.
pub(super) fn stored(definition: Definition) -> Result<(Table, Vec<Table>), ReadError> {
    let wrong = |_| damaged_catalog(TABLES, "an index that its table can't have");
    Table::of_catalog(definition).map_err(wrong)
}

fn key(name: &str) -> Key {
    Key::new(TABLES, &[], name.len() + 8).string(name)
}

/// The definition of a table as the writer sees it.
pub(super) fn find(txn: &Txn<'_>, name: &str) -> Result<Option<Definition>, ReadError> {
    let Some(value) = txn.row(&key(name))? else {
        return Ok(None);
    };
    match decode(&value)? {
        Entry::Table(table) => Ok(Some(*table)),
        Entry::NextId(_) => Ok(None),
    }
}

/// All definitions as the writer sees them.
pub(super) fn all(txn: &Txn<'_>) -> Result<Vec<Definition>, ReadError> {
    let (from, to) = (key("").above_all(), Key::new(TABLES, &[], 1).above_all());
    let rows = txn.range(
        std::ops::Bound::Included(from.as_bytes()),
        std::ops::Bound::Excluded(to.as_bytes()),
        Direction::Forward,
    );
    let mut all = Vec::new();
    for row in rows {
        if let Entry::Table(definition) = decode(&row?.1)? {
            all.push(*definition);
        }
    }
    Ok(all)
}

/// A table ID that was never given out.
pub(super) fn take_id(txn: &mut Txn<'_>) -> Result<TableId, ReadError> {
    let next = match txn.row(&key(""))? {
        None => USER_TABLES_FROM.0,
        Some(value) => match decode(&value)? {
            Entry::NextId(id) => id,
            Entry::Table(_) => return Err(damaged_catalog(TABLES, "no next ID")),
        },
    };
    write(txn, "", NEXT_ID, &Value::Integer(i64::from(next) + 1));
    Ok(TableId(next))
}

/// Refuses a table or an index more than there may be, and a name that is taken.
pub(super) fn check_names(txn: &Txn<'_>, table: &Definition) -> Result<(), Error> {
    let mut tables = all(txn)?;
    let mapped = tables.iter().flat_map(|of| {
        let mappings = of.mappings.iter().map(|mapping| &mapping.name);
        mappings.filter(|name| **name != of.name)
    });
    let mapped: BTreeSet<&String> = mapped.collect();
    if table.names().any(|name| mapped.contains(name)) {
        return Err(Error::TableExists);
    }
    tables.retain(|other| other.name != table.name);
    if find(txn, &table.name)?.is_some_and(|known| known.id != table.id) {
        return Err(Error::TableExists);
    }
    let others = tables.iter().flat_map(Definition::names);
    let names: Vec<&String> = table.names().chain(others).collect();
    if names.len() > TABLES_MAX {
        return Err(Error::TableQuota(TABLES_MAX));
    }
    let mut seen = BTreeSet::new();
    match names.into_iter().all(|name| seen.insert(name)) {
        true => Ok(()),
        false => Err(Error::TableExists),
    }
}

/// Writes a definition.
pub(super) fn store(txn: &mut Txn<'_>, table: &Definition) -> Result<(), ReadError> {
    let text = serde_json::to_string(table)
        .map_err(|_| damaged_catalog(table.id, "the definition can't be written"))?;
    let effect = write(txn, &table.name, DEFINITION, &Value::Json(text));
    record(txn, TABLES, Action::Put, effect, 1);
    Ok(())
}

/// Takes a definition out; the table's rows are unreachable from then on.
pub(super) fn remove(txn: &mut Txn<'_>, name: &str) {
    let effect = txn.delete(key(name).as_bytes());
    record(txn, TABLES, Action::Delete, effect, 1);
}

fn write(txn: &mut Txn<'_>, name: &str, column: &str, value: &Value) -> u32 {
    let mut row = RowWriter::of(column, value.into());
    let now = txn.now_ms().cast_signed();
    txn.put(key(name).as_bytes(), row.at(now))
}

/// The error of a catalog row that can't be read.
fn damaged_catalog(table: TableId, what: &str) -> ReadError {
    ReadError(format!("table {}: {what}", table.0))
}
