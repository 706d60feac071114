//! From the frames of a log to the changes of a table, in one walk.
//!
//! Owns: what a change record and its entry say together. Promises: a change is read from its own batch and nothing
//! else, so reading it again gives the same; a page ends at a bound of changes, of bytes and of log that is looked at.
//! Must not: know streams, iterators or a wire: each follower of a table's changes reads them here.

use std::collections::HashMap;

use super::super::Malformed;
use super::super::format::cell::Content;
use super::super::format::change::{Action, Change};
use super::super::format::delta::{DELTA, cells_of};
use super::super::format::key::split_key;
use super::super::format::primary_key;
use super::super::format::row::{ROW, Row};
use super::super::schema::Table;
use super::index::Index;
use super::places::Place;
use tideline_base::ids::{Position, TableId};
use tideline_model::{Cell, ChangeKind, ChangeRef, ChangeSink, ChangedCell};
use tideline_store::partition::{Batch, ReadError, Tail};

/// The most changes of a page.
pub const CHANGES_MAX: usize = 5_000;
/// A page ends when its changes come to so many bytes.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// And when so much log was looked at, whatever was in it.
const SCANNED_BYTES_MAX: usize = 32 << 20;
/// How much of the log is read at once.
const READ_BYTES: usize = 1 << 20;
/// And behind so many batches of others, since little of the table may be there. Fewer are read along.
const JUMP_BYTES: usize = 64 << 10;
const JUMP_BATCHES: u64 = 8;

/// Changes of a table, in the order of their commits.
#[derive(Clone, Debug)]
pub struct TablePage<Changes> {
    /// The changes.
    pub changes: Changes,
    /// Behind the last of them, and behind all that was looked at.
    pub next: Place,
    /// Whether the page ended before the log did.
    pub is_more: bool,
    /// How many there are.
    pub(super) count: usize,
    /// The bytes that they count.
    pub(super) bytes: usize,
    /// The same, with those of each cell and key column that the reader counts beside.
    filled: usize,
}

impl<Changes: Default> TablePage<Changes> {
    /// Nothing, of a log that has ended without any.
    pub(super) fn end(place: Place) -> TablePage<Changes> {
        TablePage {
            changes: Changes::default(),
            next: place,
            is_more: false,
            count: 0,
            bytes: 0,
            filled: 0,
        }
    }
}

/// Where a page ends. It holds a change all the same, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct PageBounds {
    /// So many changes.
    pub count: usize,
    /// So many bytes.
    pub bytes: usize,
    /// What a cell or a key column counts beside its own bytes.
    pub cell_bytes: usize,
}

impl PageBounds {
    /// The largest page, of so many changes at most.
    pub(super) fn largest(count: usize) -> PageBounds {
        PageBounds {
            count: count.min(CHANGES_MAX),
            bytes: PAGE_BYTES_MAX,
            cell_bytes: 0,
        }
    }
}

/// Reads a page of a table's changes from `from` on, past what is known to be of others. May block on the disk.
pub(super) fn read_changes<Changes: ChangeSink>(
    tail: &Tail,
    index: &Index,
    table: &Table,
    from: Place,
    bounds: PageBounds,
) -> Result<TablePage<Changes>, ReadError> {
    let mut page = TablePage {
        changes: Changes::default(),
        next: from,
        count: 0,
        bytes: 0,
        filled: 0,
        is_more: false,
    };
    let mut scanned = 0;
    loop {
        let at = index.next(table.id, page.next.position, tail.position());
        let mut bytes = READ_BYTES;
        if at.0 >= page.next.position.0 + JUMP_BATCHES {
            (page.next, bytes) = (Place::before(at), JUMP_BYTES);
        }
        let batches = tail.batches(Position(page.next.position.0 - 1), bytes)?;
        if batches.is_empty() {
            return Ok(page);
        }
        index.note(&batches);
        for batch in &batches {
            if page.count >= bounds.count || scanned >= SCANNED_BYTES_MAX {
                page.is_more = true;
                return Ok(page);
            }
            scanned += batch.bytes();
            let damaged = |_| ReadError(format!("batch {}: not its changes", batch.position));
            if !page.take(batch, table, bounds).map_err(damaged)? {
                page.is_more = true;
                return Ok(page);
            }
            page.next = Place::before(batch.position.next());
        }
    }
}

impl<Changes: ChangeSink> TablePage<Changes> {
    /// Takes what is left of a batch; `false` = the page is full before its end.
    fn take(
        &mut self,
        batch: &Batch,
        table: &Table,
        bounds: PageBounds,
    ) -> Result<bool, Malformed> {
        for (index, change) in (0..).zip(changes_of(batch, table.id)?) {
            if index < self.next.index && batch.position == self.next.position {
                continue;
            }
            if self.count >= bounds.count || self.filled >= bounds.bytes {
                self.next = Place {
                    position: batch.position,
                    index,
                };
                return Ok(false);
            }
            let key = primary_key::decode(change.key)?;
            let original = change.original.map(original_cells).transpose()?;
            let change = ChangeRef {
                kind: change.kind,
                time_us: batch.commit_us(),
                index,
                columns: &table.primary_key,
                key: &key,
                cells: &changed_cells(change)?,
                original: original.as_deref(),
            };
            self.count += 1;
            self.bytes += change.size();
            let cells = change.cells.len() + original.as_ref().map_or(0, Vec::len) + key.len();
            self.filled += change.size() + cells * bounds.cell_bytes;
            self.changes.push(change);
        }
        Ok(true)
    }
}

/// A change of one row as its batch has it.
#[derive(Clone, Copy, Debug)]
struct Stored<'b> {
    kind: ChangeKind,
    /// The row's key.
    key: &'b [u8],
    /// A row, a delta, or nothing.
    value: &'b [u8],
    /// A row.
    original: Option<&'b [u8]>,
}

/// What a batch changes in a table, in order.
fn changes_of(batch: &Batch, table: TableId) -> Result<Vec<Stored<'_>>, Malformed> {
    let records = batch.changes();
    let records = records.filter(|record| Change::table_of(record) == Some(table));
    let records: Vec<Change<'_>> = records.map(Change::decode).collect::<Result<_, _>>()?;
    let mut changes = Vec::with_capacity(records.len());
    // An entry is what the last record of it made: going backwards, each former one is known in time.
    let mut formers: HashMap<u32, &[u8]> = HashMap::new();
    for record in records.iter().rev() {
        let entries = batch.entries_in(record.indexes()).ok_or(Malformed)?;
        let first = changes.len();
        for (at, entry) in (record.first..).zip(entries) {
            if split_key(entry.key).map(|(of, _)| of) != Some(table) {
                return Err(Malformed);
            }
            let value = match record.delta {
                _ if record.action == Action::Delete => &[],
                [] => formers.get(&at).copied().unwrap_or(entry.value),
                delta => delta,
            };
            changes.push(Stored {
                kind: kind_of(value)?,
                key: entry.key,
                value,
                original: (!record.original.is_empty()).then_some(record.original),
            });
        }
        changes[first..].reverse();
        if !record.former.is_empty() {
            formers.insert(record.first, record.former);
        }
    }
    changes.reverse();
    Ok(changes)
}

/// What a value does to its row.
fn kind_of(value: &[u8]) -> Result<ChangeKind, Malformed> {
    match value.first() {
        None => Ok(ChangeKind::Delete),
        Some(&ROW) => Ok(ChangeKind::Put),
        Some(&DELTA) => Ok(ChangeKind::Update),
        Some(_) => Err(Malformed),
    }
}

fn changed_cells(change: Stored<'_>) -> Result<Vec<ChangedCell<'_>>, Malformed> {
    let mut changed = Vec::new();
    if change.value.is_empty() {
        return Ok(changed);
    }
    let mut cells = cells_of(change.value)?;
    while let Some(cell) = cells.next_cell()? {
        let (name, version) = (cell.name, cell.version);
        changed.push(match cell.content {
            Content::Put(value) => ChangedCell::Put(Cell {
                name,
                version,
                value,
            }),
            Content::DeleteOne => ChangedCell::DeleteOne { name, version },
            Content::DeleteAll => ChangedCell::DeleteAll { name },
        });
    }
    Ok(changed)
}

fn original_cells(row: &[u8]) -> Result<Vec<Cell<'_>>, Malformed> {
    Row::parse(row)?.cells().collect()
}
