//! Rows of SQL as FlatBuffers: column by column.
//!
//! Owns: the tables of the SDKs' schema `sql.fbs` and their slots, also the one that only Java and Go have. Promises:
//! of a column the vector of its type alone is filled; it and that of the nulls have an entry for each row. Must not:
//! know SQL.

use bytes::Bytes;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, VOffsetT, WIPOffset};

/// A column of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlColumn {
    /// Its name, which another one may have too.
    pub name: String,
    /// Its values.
    pub cells: SqlCells,
}

/// The values of a column, in the order of the rows; `None` = NULL.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlCells {
    /// Integers.
    Long(Vec<Option<i64>>),
    /// Doubles.
    Double(Vec<Option<f64>>),
    /// True or false.
    Boolean(Vec<Option<bool>>),
    /// Texts.
    String(Vec<Option<String>>),
    /// Bytes.
    Binary(Vec<Option<Bytes>>),
    /// Moments, µs since 1970.
    DateTime(Vec<Option<i64>>),
    /// Days, seconds since 1970 at midnight.
    Date(Vec<Option<i64>>),
    /// Times of a day and spans, ns.
    Time(Vec<Option<i64>>),
}

/// `DataType`.
const LONG: i8 = 1;
const BOOLEAN: i8 = 2;
const DOUBLE: i8 = 3;
const STRING: i8 = 4;
const BINARY: i8 = 5;
const COMPLEX: i8 = 7;

/// What a column of type `COMPLEX` is.
const NONE: i8 = 0;
const DATE_TIME: i8 = 1;
const DATE: i8 = 2;
const TIME: i8 = 3;

/// `SQLResponseColumns`.
const COLUMNS: VOffsetT = slot(0);
const ROW_COUNT: VOffsetT = slot(1);

/// `SQLResponseColumn`.
const NAME: VOffsetT = slot(0);
const TYPE: VOffsetT = slot(1);
const VALUE: VOffsetT = slot(2);
const COMPLEX_TYPE: VOffsetT = slot(3);

/// What Java and Go know of a column beyond its type, and can't do without.
const LOGIC_TYPE: VOffsetT = slot(0);
const ENCODE_TYPE: VOffsetT = slot(1);

/// `ColumnValues`.
const NULLS: VOffsetT = slot(0);
const LONGS: VOffsetT = slot(1);
const BOOLEANS: VOffsetT = slot(2);
const DOUBLES: VOffsetT = slot(3);
const STRINGS: VOffsetT = slot(4);
const BINARIES: VOffsetT = slot(5);

/// `BytesValue`.
const BYTES: VOffsetT = slot(0);

/// Where the table of a table's fields has its `at`-th.
const fn slot(at: VOffsetT) -> VOffsetT {
    4 + 2 * at
}

/// The columns as one buffer.
pub(super) fn encode(columns: &[SqlColumn], row_count: usize) -> Bytes {
    let mut out = FlatBufferBuilder::new();
    let encoded: Vec<_> = columns.iter().map(|one| column(&mut out, one)).collect();
    let encoded = out.create_vector(&encoded);
    let root = out.start_table();
    out.push_slot_always(COLUMNS, encoded);
    out.push_slot_always(ROW_COUNT, i64::try_from(row_count).unwrap_or(i64::MAX));
    let root = out.end_table(root);
    out.finish_minimal(root);
    let (buffer, begins) = out.collapse();
    Bytes::from(buffer).slice(begins..)
}

type Out = FlatBufferBuilder<'static>;

fn column(out: &mut Out, column: &SqlColumn) -> WIPOffset<UnionWIPOffset> {
    let (kind, logic, encoded) = match &column.cells {
        SqlCells::Long(_) => (LONG, NONE, LONG),
        SqlCells::Double(_) => (DOUBLE, NONE, DOUBLE),
        SqlCells::Boolean(_) => (BOOLEAN, NONE, BOOLEAN),
        SqlCells::String(_) => (STRING, NONE, STRING),
        SqlCells::Binary(_) => (BINARY, NONE, BINARY),
        SqlCells::DateTime(_) => (COMPLEX, DATE_TIME, LONG),
        SqlCells::Date(_) => (COMPLEX, DATE, LONG),
        SqlCells::Time(_) => (COMPLEX, TIME, LONG),
    };
    let name = out.create_string(&column.name);
    let values = values(out, &column.cells);
    let complex = out.start_table();
    out.push_slot_always(LOGIC_TYPE, logic);
    out.push_slot_always(ENCODE_TYPE, encoded);
    let complex = out.end_table(complex);
    let table = out.start_table();
    out.push_slot_always(NAME, name);
    out.push_slot_always(TYPE, kind);
    out.push_slot_always(VALUE, values);
    out.push_slot_always(COMPLEX_TYPE, complex);
    out.end_table(table).as_union_value()
}

fn values(out: &mut Out, cells: &SqlCells) -> WIPOffset<UnionWIPOffset> {
    let (nulls, slot, values) = match cells {
        SqlCells::Long(all)
        | SqlCells::DateTime(all)
        | SqlCells::Date(all)
        | SqlCells::Time(all) => {
            let held: Vec<i64> = all.iter().map(|one| one.unwrap_or_default()).collect();
            let held = out.create_vector(&held).as_union_value();
            (nulls(all), LONGS, held)
        }
        SqlCells::Double(all) => {
            let held: Vec<f64> = all.iter().map(|one| one.unwrap_or_default()).collect();
            (
                nulls(all),
                DOUBLES,
                out.create_vector(&held).as_union_value(),
            )
        }
        SqlCells::Boolean(all) => {
            let held: Vec<bool> = all.iter().map(|one| one.unwrap_or_default()).collect();
            (
                nulls(all),
                BOOLEANS,
                out.create_vector(&held).as_union_value(),
            )
        }
        SqlCells::String(all) => {
            let text = |one: &Option<String>| out.create_string(one.as_deref().unwrap_or_default());
            let held: Vec<_> = all.iter().map(text).collect();
            (
                nulls(all),
                STRINGS,
                out.create_vector(&held).as_union_value(),
            )
        }
        SqlCells::Binary(all) => {
            let bytes = |one: &Option<Bytes>| bytes(out, one.as_deref().unwrap_or_default());
            let held: Vec<_> = all.iter().map(bytes).collect();
            (
                nulls(all),
                BINARIES,
                out.create_vector(&held).as_union_value(),
            )
        }
    };
    let nulls = out.create_vector(&nulls);
    let table = out.start_table();
    out.push_slot_always(NULLS, nulls);
    out.push_slot_always(slot, values);
    out.end_table(table).as_union_value()
}

fn nulls<T>(cells: &[Option<T>]) -> Vec<bool> {
    cells.iter().map(Option::is_none).collect()
}

fn bytes(out: &mut Out, value: &[u8]) -> WIPOffset<UnionWIPOffset> {
    let value = out.create_vector(value);
    let table = out.start_table();
    out.push_slot_always(BYTES, value);
    out.end_table(table).as_union_value()
}
