//! A checked write on the writer's thread: condition, number, effect, change record.
//!
//! Owns: the order of these. Promises: a write that is refused has left nothing in the batch. Rows are read only where
//! something depends on them. Must not: check what `mod.rs` has checked.

use bytes::Bytes;

use tideline_base::entry::EntryKind;
use tideline_model::{
    CellChange, Consumed, Error, Existence, FoundCell, FoundRow, KeyValue, PutCell, ReturnContent,
    RowChange, RowRef, units,
};
use tideline_store::partition::{Entry, Found, Txn};

use super::super::Key;
use super::super::access::{Source, damaged};
use super::super::catalog::Catalog;
use super::super::format::change::{Action, Change};
use super::super::format::delta::{DeltaWriter, compose};
use super::super::format::primary_key::key_of;
use super::super::format::row::encode_cells;
use super::super::format::versions::{Judged, Shortened, shorten};
use super::super::index;
use super::super::schema::Table;
use super::super::stream::Noted;
use super::counter::Next;
use super::update::{Outcome, update};
use super::{Checked, Written};

impl Checked {
    /// Runs on the writer's thread. `looked` grows by the bytes of rows that it reads, also if it is refused.
    pub(in super::super) fn apply(
        mut self,
        catalog: &Catalog,
        txn: &mut Txn<'_>,
        looked: &mut usize,
    ) -> Result<Written, Error> {
        self.table = catalog.newest(self.table);
        if let Some(size) = txn.too_large() {
            // Nothing of its batch takes effect: the rows before it came to too much.
            return Err(Error::TooLarge {
                limit: txn.bytes_max(),
                size,
            });
        }
        let now = txn.now_ms().cast_signed();
        let next = match self.is_numbered() {
            false => None,
            true => Some(Next::find(txn, self.table.id, &self.key[0])?),
        };
        if let Some(next) = &next {
            self.number(next.number);
        }
        let key = key_of(self.table.id, &self.key);
        let below = match next.is_none() && self.reads() {
            false => Found::default(),
            true => self.read(txn, &key)?,
        };
        *looked += below.value.as_ref().map_or(0, Bytes::len);
        let judged = match &below.value {
            Some(value) => self.table.judge(value, now).map_err(|_| bad(&key))?,
            None => None,
        };
        let read = self.check_condition(judged.as_ref())?;
        if judged.is_none() && next.is_none() && self.must_exist() {
            return Err(Error::ConditionFailed);
        }
        let mut written = Written {
            row: None,
            consumed: Consumed {
                read,
                write: units(self.size),
            },
        };
        let noted = Noted::of(self.table.stream.as_ref(), txn, &key, judged.as_ref());
        let (table, change) = (
            &self.table,
            std::mem::replace(&mut self.change, RowChange::Delete),
        );
        let (incremented, after) = match change {
            RowChange::Put(cells) => {
                let row = Bytes::from(put_row(table, &cells, now)?);
                let effect = txn.put(key.as_bytes(), &row);
                txn.change(noted.change(table.id, Action::Put, effect).encode());
                (Vec::new(), Some(row))
            }
            RowChange::Update(changes) => {
                let judged = judged.as_ref();
                let outcome = update(table, &changes, judged, now, is_wide(&below))?;
                let cells = outcome.incremented.clone();
                let after = store_update(txn, table, key, (&below, &noted), outcome)?;
                (cells, after)
            }
            RowChange::Delete => {
                let effect = txn.delete(key.as_bytes());
                txn.change(noted.change(table.id, Action::Delete, effect).encode());
                (Vec::new(), None)
            }
        };
        let before = below.value.as_deref();
        index::follow(txn, table, &self.key, before, after.as_deref())?;
        if let Some(next) = next {
            next.take(txn);
        }
        written.row = answer(self.content, self.key, incremented);
        Ok(written)
    }

    /// Puts the next number where the key asks for one.
    fn number(&mut self, number: i64) {
        for value in &mut self.key {
            if *value == KeyValue::AutoIncrement {
                *value = KeyValue::Integer(number);
            }
        }
    }

    /// What this write depends on.
    fn read(&self, txn: &Txn<'_>, key: &Key) -> Result<Found, Error> {
        let mut found = txn.columns(key, self.wanted().as_deref())?;
        // What was left out of changes counts once for each of them: whether the row is full only all of it tells.
        let is_full = found.deltas > 0 && found.bytes() + self.size as u64 > ROW_BYTES_MAX as u64;
        if found.left_bytes > 0 && (is_full || is_deep(&found, txn)) {
            found = txn.columns(key, None)?;
        }
        Ok(found)
    }

    /// Whether anything depends on the row as it is.
    fn reads(&self) -> bool {
        self.condition.existence != Existence::Ignore
            || self.condition.columns.is_some()
            || matches!(self.change, RowChange::Update(_))
            || self.must_exist()
            || !self.table.indexes().is_empty()
            || !self.originals().is_empty()
    }

    /// The columns of which the table's stream tells what they held before a change.
    fn originals(&self) -> &[String] {
        let stream = self.table.stream.as_ref();
        stream.map_or(&[], |stream| &stream.original_columns)
    }

    /// The columns that a write and the table's indexes depend on, in order, if that is nothing else of its row.
    fn wanted(&self) -> Option<Vec<&str>> {
        let changes = match &self.change {
            RowChange::Update(changes) => &changes[..],
            RowChange::Put(_) | RowChange::Delete => &[],
        };
        let is_put = |change: &CellChange| {
            matches!(change, CellChange::Put(_) | CellChange::Increment { .. })
        };
        if self.condition.existence != Existence::Ignore
            || self.condition.columns.is_some()
            || self.must_exist()
            || self.table.options.update_full_row
            || !changes.iter().all(is_put)
        {
            return None;
        }
        let mut columns: Vec<&str> = changes.iter().map(CellChange::name).collect();
        for index in self.table.indexes() {
            columns.extend(index.reads()?.iter().map(String::as_str));
        }
        columns.extend(self.originals().iter().map(String::as_str));
        columns.sort_unstable();
        columns.dedup();
        Some(columns)
    }

    /// The row as a condition sees it: all versions that live; without cells if there is none.
    pub(in super::super) fn found<'r>(&'r self, judged: Option<&'r Judged<'_>>) -> RowRef<'r> {
        RowRef {
            columns: &self.table.primary_key,
            key: &self.key,
            cells: judged.map_or(&[], |judged| &judged.living),
        }
    }

    /// Refuses if the row is not as it should be; gives the units of looking.
    fn check_condition(&self, judged: Option<&Judged<'_>>) -> Result<u32, Error> {
        let holds = match self.condition.existence {
            Existence::Ignore => true,
            Existence::Exist => judged.is_some(),
            Existence::NotExist => judged.is_none(),
        };
        if !holds {
            return Err(Error::ConditionFailed);
        }
        if self.condition.existence == Existence::Ignore && self.condition.columns.is_none() {
            return Ok(0);
        }
        let row = self.found(judged);
        if !self.passes(&row, judged)? {
            return Err(Error::ConditionFailed);
        }
        Ok(units(row.size(self.table.options.version_bytes())))
    }
}

/// What a write answers with.
fn answer(
    content: ReturnContent,
    key: Vec<KeyValue>,
    incremented: Vec<FoundCell>,
) -> Option<FoundRow> {
    let cells = match content {
        ReturnContent::None => return None,
        ReturnContent::Key => Vec::new(),
        ReturnContent::Incremented(names) => incremented
            .into_iter()
            .filter(|cell| names.contains(&cell.name))
            .collect(),
    };
    Some(FoundRow { key, cells })
}

/// The row of a put: what of its cells lives.
fn put_row(table: &Table, cells: &[PutCell], now: i64) -> Result<Vec<u8>, Error> {
    if cells.is_empty() {
        return Ok(encode_cells(&[]));
    }
    let mut delta = DeltaWriter::default();
    for cell in cells {
        if cell
            .version
            .is_some_and(|version| !table.options.takes(version, now))
        {
            let column = cell.name.clone();
            return Err(Error::InvalidVersion { column });
        }
        delta.put(
            &cell.name,
            cell.version.unwrap_or(now),
            (&cell.value).into(),
        );
    }
    let row = over(&Entry::tombstone(), delta.finish()).value;
    match shorten(&row, &table.options, now).map_err(|_| unreadable())? {
        Shortened::Less(less) => Ok(less),
        Shortened::Same | Shortened::Gone => Ok(row.into()),
    }
}

/// Rows up to this size are written whole when they are updated: reading them again then costs no composing, and
/// hidden cells go at once. The changes of wider ones are small entries of their own.
pub(in super::super) const WHOLE_ROW_BYTES_MAX: u64 = 4_096;

/// A row may be this large: it is read and merged in memory.
pub const ROW_BYTES_MAX: usize = 64 << 20;

/// With so many changes above it a wide row is written whole once, or each read would have to compose ever more of them
/// until they are flushed.
const CHANGES_MAX: usize = if cfg!(test) { 4 } else { 256 };
/// Wider rows are not written whole even then.
const DEEP_ROW_BYTES_MAX: u64 = 1 << 20;
/// Nor are they by a closure that has written so much: it may have many rows, and what it may add to a batch is
/// bounded. The next update of the row does it.
const DEEP_ROWS_BYTES_MAX: usize = 8 << 20;

/// Whether a row's changes are entries of their own.
fn is_wide(found: &Found) -> bool {
    found.left_bytes > 0 || found.bytes() > WHOLE_ROW_BYTES_MAX
}

/// Whether so many changes lie above a row that is not too large.
fn is_deep(found: &Found, txn: &Txn<'_>) -> bool {
    found.deltas >= CHANGES_MAX
        && found.bytes() <= DEEP_ROW_BYTES_MAX
        && txn.written() < DEEP_ROWS_BYTES_MAX
}

/// Stores an update; gives what the table's indexes depend on of the row that comes of it.
fn store_update(
    txn: &mut Txn<'_>,
    table: &Table,
    key: Key,
    (below, noted): (&Found, &Noted),
    outcome: Outcome,
) -> Result<Option<Bytes>, Error> {
    let stored = below.value.as_ref();
    if !outcome.takes_effect {
        return Ok(stored.cloned());
    }
    let now = txn.now_ms().cast_signed();
    let is_whole = below.left_bytes == 0;
    let size = (below.bytes() + outcome.delta.len() as u64).saturating_sub(outcome.freed as u64);
    if outcome.adds && size > ROW_BYTES_MAX as u64 {
        return Err(Error::RowTooLarge);
    }
    let whole_bytes_max = match is_deep(below, txn) {
        true => DEEP_ROW_BYTES_MAX,
        false => WHOLE_ROW_BYTES_MAX,
    };
    // What was read in part can't be written whole.
    let is_wide = !is_whole || below.bytes() > whole_bytes_max;
    assert!(
        is_whole || !outcome.deletes,
        "deletes depend on the whole row"
    );
    let is_read = !is_wide || outcome.deletes;
    let mut after = None;
    if is_read || !table.indexes().is_empty() {
        let below = stored.map_or_else(Entry::tombstone, |value| Entry::put(value.clone()));
        after = Some(over(&below, outcome.delta.clone()).value);
    }
    let mut whole = None;
    if let Some(row) = after.as_ref().filter(|_| is_read) {
        whole = match shorten(row, &table.options, now).map_err(|_| bad(&key))? {
            // The last cell that lived was deleted: the row stays, without columns.
            Shortened::Gone => Some(encode_cells(&[]).into()),
            _ if is_wide => None,
            Shortened::Less(less) => Some(less.into()),
            Shortened::Same => Some(row.clone()),
        };
    }
    // The entry tells the delta if it is nothing else: neither the whole row nor composed with an earlier change.
    let is_told = whole.is_none() && txn.staged(key.as_bytes()).is_none();
    let effect = match &whole {
        Some(row) => txn.put(key.as_bytes(), row),
        None => txn.delta(key.as_bytes(), &outcome.delta),
    };
    let change = Change {
        delta: if is_told { &[] } else { &outcome.delta },
        ..noted.change(table.id, Action::Update, effect)
    };
    txn.change(change.encode());
    Ok(whole.or(after))
}

/// A delta on top of an entry.
fn over(below: &Entry, delta: Vec<u8>) -> Entry {
    let delta = Entry {
        kind: EntryKind::Delta,
        value: delta.into(),
    };
    compose(below, &delta)
}

/// The error of a stored row that can't be read.
pub(in super::super) fn bad(key: &Key) -> Error {
    damaged(key.as_bytes(), "not a row").into()
}

fn unreadable() -> Error {
    Error::Unavailable("a row that was just made can't be read".to_owned())
}
