//! What row an index has of a row.
//!
//! Owns: the keys and values of indexes' rows. Promises: a pure function of the stored row and the index. Must not:
//! write.
//!
//! ```text
//! key   = the index's columns, then the others of the table's key
//! cells = the mark: a column without a name; then the columns that the index holds, newest versions with their times
//! ```
//! The mark lives as long as the index's row shows: as long as all columns live that order it, and where these are of
//! the key only, as long as any column of the row does.

use tideline_base::ids::TableId;
use tideline_model::limits::{INDEX_KEY_BYTES_MAX, INDEX_ROW_BYTES_MAX, KEY_VALUE_BYTES_MAX};
use tideline_model::{
    Cell, Definition, Error, IndexDefinition, KeyColumn, KeyType, KeyValue, ValueRef, column,
};

use super::super::format::key::Key;
use super::super::format::primary_key::key_of;
use super::super::format::row::{Row, encode_cells};
use crate::Malformed;

/// The name of the mark.
pub(in super::super) const MARK: &str = "";

/// An index of a table, against the table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Index {
    pub(in super::super) id: TableId,
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
pub(in super::super) struct IndexRow {
    pub(in super::super) key: Key,
    pub(in super::super) value: Vec<u8>,
}

impl Index {
    /// The index as its table's definition has it, and its key columns.
    pub(in super::super) fn new(
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
    pub(in super::super) fn reads(&self) -> Option<&[String]> {
        let is_of_column = |part: &Part| matches!(part, Part::Column(..));
        self.key.iter().any(is_of_column).then_some(&self.reads)
    }

    /// What it has of a stored row with this key: nothing if the row has no fitting value for one of the columns that
    /// order it. The inner error is of a row that it can't hold.
    pub(in super::super) fn row(
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

    /// The key of the row that a row with this key is of.
    pub(in super::super) fn table_key(&self, key: &[KeyValue]) -> Vec<KeyValue> {
        let place = |column: usize| {
            let is_it = |part: &Part| *part == Part::Key(column);
            self.key.iter().position(is_it)
        };
        (0..).map_while(place).map(|at| key[at].clone()).collect()
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
