//! Secondary indexes: what row an index has of a row, and keeping it there.
//!
//! Owns: the rows of indexes. One lies in the partition of the row that it is of, and is written in the same batch, so
//! that no read finds an index behind its table. Promises: what an index has of a row follows from the stored row
//! alone, whatever the time; so what is taken out is what was put in. Must not: decide about the row itself.
//!
//! ```text
//! key   = the index's columns, then the others of the table's key
//! cells = the mark: a column without a name; then the columns that the index holds, newest versions with their times
//! ```
//! The mark lives as long as the index's row shows: as long as all columns live that order it, and where these are of
//! the key only, as long as any column of the row does.

mod backfill;
mod change;
mod verify;

use crate::ids::TableId;
use crate::model::limits::{INDEX_KEY_BYTES_MAX, INDEX_ROW_BYTES_MAX, KEY_VALUE_BYTES_MAX};
use crate::model::{
    Cell, Definition, Error, IndexDefinition, KeyColumn, KeyType, KeyValue, ValueRef, column,
};
use crate::partition::Txn;

use super::Malformed;
use super::access::damaged;
use super::key::Key;
use super::primary_key::key_of;
use super::row::{Row, encode_cells};
use super::schema::Table;

pub use backfill::Backfill;
pub(super) use backfill::{BACKFILLS, backfilled};
pub use verify::{Indexed, verify_indexes};

/// The name of the mark.
pub(super) const MARK: &str = "";

/// An index of a table, against the table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) id: TableId,
    /// Where the columns of its key come from.
    key: Vec<Part>,
    /// The columns that its rows hold, in order.
    holds: Vec<String>,
    /// These and the columns that order it, in order.
    reads: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This column of the table's key.
    Key(usize),
    /// A column of the row, if it has this type.
    Column(String, KeyType),
}

/// A row of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexRow {
    pub(super) key: Key,
    pub(super) value: Vec<u8>,
}

impl Index {
    /// The index as its table's definition has it, and its key columns.
    pub(super) fn new(
        table: &Definition,
        index: &IndexDefinition,
    ) -> Result<(Index, Vec<KeyColumn>), Error> {
        let meta = &index.meta;
        let whole = meta.whole_key(&table.primary_key, &table.defined_columns)?;
        let place = |name: &str| table.primary_key.iter().position(|key| key.name == name);
        let part = |column: &KeyColumn| match place(&column.name) {
            Some(at) => Part::Key(at),
            None => Part::Column(column.name.clone(), column.kind),
        };
        let key: Vec<Part> = whole.iter().map(part).collect();
        let mut holds = meta.columns.clone();
        holds.sort_unstable();
        let mut reads = holds.clone();
        reads.extend(key.iter().filter_map(|part| match part {
            Part::Key(_) => None,
            Part::Column(name, _) => Some(name.clone()),
        }));
        reads.sort_unstable();
        let index = Index {
            id: index.id,
            key,
            holds,
            reads,
        };
        Ok((index, whole))
    }

    /// The columns that its row depends on, in order; `None` = on all of them.
    pub(super) fn reads(&self) -> Option<&[String]> {
        let is_of_column = |part: &Part| matches!(part, Part::Column(..));
        self.key.iter().any(is_of_column).then_some(&self.reads)
    }

    /// What it has of a stored row with this key: nothing if the row has no fitting value for one of the columns that
    /// order it. The inner error is of a row that it can't hold.
    pub(super) fn row(
        &self,
        key: &[KeyValue],
        stored: &[u8],
    ) -> Result<Result<Option<IndexRow>, Error>, Malformed> {
        let row = Row::parse(stored)?;
        let names = self.reads.iter().map(String::as_str);
        let mut cells = row.pick(names).collect::<Result<Vec<_>, _>>()?;
        let mut values = Vec::with_capacity(self.key.len());
        let mut lives: Option<i64> = None;
        for part in &self.key {
            let (name, kind) = match part {
                Part::Key(at) => {
                    values.push(key[*at].clone());
                    continue;
                }
                Part::Column(name, kind) => (name, *kind),
            };
            let cell = column(&cells, name).first();
            let Some((cell, value)) = cell.and_then(|cell| Some((cell, value(cell, kind)?))) else {
                return Ok(Ok(None));
            };
            let length = value.size();
            if length > KEY_VALUE_BYTES_MAX {
                let column = name.clone();
                return Ok(Err(Error::KeyTooLong { column, length }));
            }
            lives = Some(lives.map_or(cell.version, |lives| lives.min(cell.version)));
            values.push(value);
        }
        let version = match lives {
            Some(version) => version,
            None => last(&row)?,
        };
        cells.retain(|cell| {
            self.holds
                .binary_search_by(|name| (**name).cmp(cell.name))
                .is_ok()
        });
        let size: usize = cells.iter().map(|cell| cell.size(0)).sum();
        let key = key_of(self.id, &values);
        if size > INDEX_ROW_BYTES_MAX || key.as_bytes().len() > INDEX_KEY_BYTES_MAX {
            return Ok(Err(Error::IndexRowTooLarge));
        }
        let mark = Cell {
            name: MARK,
            version,
            value: ValueRef::Boolean(true),
        };
        cells.insert(0, mark);
        let value = encode_cells(&cells);
        Ok(Ok(Some(IndexRow { key, value })))
    }
}

/// The value as one of a key, if it has this type.
fn value(cell: &Cell<'_>, kind: KeyType) -> Option<KeyValue> {
    match (cell.value, kind) {
        (ValueRef::Integer(number), KeyType::Integer) => Some(KeyValue::Integer(number)),
        (ValueRef::String(text), KeyType::String) => Some(KeyValue::String(text.to_owned())),
        (ValueRef::Binary(bytes), KeyType::Binary) => Some(KeyValue::Binary(bytes.to_vec().into())),
        _ => None,
    }
}

/// The version of the column that lives longest; a row without columns lives for ever.
fn last(row: &Row<'_>) -> Result<i64, Malformed> {
    let mut last = None;
    for cell in row.columns() {
        last = last.max(Some(cell?.version));
    }
    Ok(last.unwrap_or(i64::MAX))
}

/// Has a table's indexes follow a row of it that becomes `after` from `before`, both as they are stored.
pub(super) fn follow(
    txn: &mut Txn<'_>,
    table: &Table,
    key: &[KeyValue],
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<(), Error> {
    for index in table.indexes() {
        let of = |stored: Option<&[u8]>| match stored {
            Some(stored) => index.row(key, stored),
            None => Ok(Ok(None)),
        };
        let bad = |_: Malformed| damaged(key_of(table.id, key).as_bytes(), "not a row");
        let (old, new) = (of(before).map_err(bad)?, of(after).map_err(bad)?);
        let (old, new) = match (old, new) {
            // A row that no index could hold before may stay as it is.
            (Err(_), new) => (None, new.ok().flatten()),
            (Ok(old), new) => (old, new?),
        };
        if old == new {
            continue;
        }
        if let Some(old) = old
            && new.as_ref().is_none_or(|new| new.key != old.key)
            && !is_planted(table)
        {
            txn.delete(old.key.as_bytes());
        }
        if let Some(new) = new {
            txn.put(new.key.as_bytes(), new.value);
        }
    }
    Ok(())
}

/// Whether the table is one of the tests' whose indexes keep rows that should go.
#[cfg(test)]
fn is_planted(table: &Table) -> bool {
    table.options.max_version_offset_s == super::tests::PLANTED_INDEX_OFFSET_S
}

#[cfg(not(test))]
fn is_planted(_: &Table) -> bool {
    false
}
