//! Rows and cells as reads find them.
//!
//! Owns: rows that borrow what is stored, so that a value is copied once, into the answer; owned ones; and the sizes
//! that capacity units are counted from. Must not: know how a row is stored.

use super::{KeyColumn, KeyValue, Value, ValueRef, key_size};

/// One version of a column; borrows the stored row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell<'a> {
    /// Its column.
    pub name: &'a str,
    /// Milliseconds since 1970, or what the writer chose.
    pub version: i64,
    /// Its value.
    pub value: ValueRef<'a>,
}

/// A row; borrows the stored one.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// The table's primary key columns.
    pub columns: &'a [KeyColumn],
    /// The values of the primary key, in the table's order.
    pub key: &'a [KeyValue],
    /// Columns in the order of their names, versions newest first.
    pub cells: &'a [Cell<'a>],
}

/// Takes the rows that a read finds, while they can be read.
pub trait RowSink: Default + Send + 'static {
    /// Takes a row.
    fn push(&mut self, row: RowRef<'_>);
}

impl Cell<'_> {
    /// How many bytes it counts: name, version, value. `version_bytes` is what the table's versions count.
    #[must_use]
    pub fn size(&self, version_bytes: usize) -> usize {
        self.name.len() + version_bytes + self.value.size()
    }
}

/// The cells of one column.
#[must_use]
pub fn column<'c, 'a>(cells: &'c [Cell<'a>], name: &str) -> &'c [Cell<'a>] {
    let start = cells.partition_point(|cell| cell.name < name);
    let count = cells[start..].partition_point(|cell| cell.name == name);
    &cells[start..start + count]
}

impl<'a> RowRef<'a> {
    /// How many bytes it counts; see [`Cell::size`].
    #[must_use]
    pub fn size(&self, version_bytes: usize) -> usize {
        let cells = self.cells.iter().map(|cell| cell.size(version_bytes));
        key_size(self.columns, self.key) + cells.sum::<usize>()
    }

    /// The versions of a column, newest first; one of a key column, none if the row has no such column.
    pub fn versions(&self, name: &str) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let mut key = self.columns.iter().zip(self.key);
        let key = key.find(|(column, _)| column.name == name);
        let cells = column(self.cells, name).iter().map(|cell| cell.value);
        key.and_then(|(_, value)| value.as_value())
            .into_iter()
            .chain(cells)
    }

    /// An owned copy.
    #[must_use]
    pub fn to_row(&self) -> FoundRow {
        let owned = |cell: &Cell<'_>| FoundCell {
            name: cell.name.to_owned(),
            version: cell.version,
            value: cell.value.to_value(),
        };
        FoundRow {
            key: self.key.to_vec(),
            cells: self.cells.iter().map(owned).collect(),
        }
    }
}

/// One version of a column, owned.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundCell {
    /// Its column.
    pub name: String,
    /// Its version, ms since 1970.
    pub version: i64,
    /// Its value.
    pub value: Value,
}

/// A row, owned: what a write answers with.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRow {
    /// The values of the primary key, in the table's order.
    pub key: Vec<KeyValue>,
    /// Columns in the order of their names, versions newest first.
    pub cells: Vec<FoundCell>,
}

impl FoundRow {
    /// Gives the row to a sink.
    pub fn push_to(&self, columns: &[KeyColumn], sink: &mut impl RowSink) {
        let cells = self.cells.iter().map(|cell| Cell {
            name: &cell.name,
            version: cell.version,
            value: (&cell.value).into(),
        });
        sink.push(RowRef {
            columns,
            key: &self.key,
            cells: &cells.collect::<Vec<_>>(),
        });
    }
}

impl RowSink for Vec<FoundRow> {
    fn push(&mut self, row: RowRef<'_>) {
        self.push(row.to_row());
    }
}

/// Capacity units that a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// For reading.
    pub read: u32,
    /// For writing.
    pub write: u32,
}

/// Bytes as capacity units of 4 KiB, at least one.
#[must_use]
pub fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(4_096))
        .unwrap_or(u32::MAX)
        .max(1)
}
