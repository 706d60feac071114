//! What a statement answers.
//!
//! Owns: rows of typed values, and what was read for them. Promises: each value has its column's type, or is NULL.
//! Must not: know how a wire writes them.

use bytes::Bytes;

use tideline_model::Consumed;

/// What a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// SELECT.
    Select,
    /// CREATE TABLE: makes a mapping.
    CreateTable,
    /// SHOW TABLES.
    ShowTables,
    /// SHOW INDEX, SHOW KEYS.
    ShowIndex,
    /// DESCRIBE, SHOW COLUMNS.
    DescribeTable,
    /// DROP MAPPING TABLE.
    DropTable,
    /// ALTER TABLE: changes a mapping.
    AlterTable,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl StatementKind {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(
            self,
            StatementKind::Select
                | StatementKind::ShowTables
                | StatementKind::ShowIndex
                | StatementKind::DescribeTable
        )
    }
}

/// The type of a column of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// 64-bit integers; also of the answers of comparisons.
    Long,
    /// Doubles.
    Double,
    /// True or false.
    Boolean,
    /// Texts.
    String,
    /// Bytes.
    Binary,
    /// Moments, in UTC.
    DateTime,
    /// Days.
    Date,
    /// Times of a day, and spans.
    Time,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its alias, or its text as it was written.
    pub name: String,
    /// Its type.
    pub kind: ColumnKind,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// None.
    Null,
    /// A 64-bit integer.
    Long(i64),
    /// A finite double.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A text.
    String(String),
    /// Bytes.
    Binary(Bytes),
    /// Microseconds since 1970, in UTC.
    DateTime(i64),
    /// Seconds since 1970 at midnight, in UTC.
    Date(i64),
    /// Nanoseconds; may be negative.
    Time(i64),
}

/// What was read of one table, or of one of its search indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The table.
    pub table: String,
    /// The search index, if one led to the rows.
    pub index: Option<String>,
    /// So many rows.
    pub rows: u64,
    /// Their bytes, as capacity units are counted from.
    pub bytes: u64,
    /// Capacity units: of reads, and of writes.
    pub consumed: Consumed,
}

/// What a statement answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What it was.
    pub kind: StatementKind,
    /// None where a statement has no rows by its kind.
    pub columns: Vec<Column>,
    /// As many values in each as there are columns.
    pub rows: Vec<Vec<Datum>>,
    /// What was read and written, each table and index once.
    pub scanned: Vec<Scanned>,
    /// How many rows were written.
    pub affected: u64,
}

impl Answer {
    /// Of a statement that gives no rows.
    #[must_use]
    pub fn done(kind: StatementKind) -> Answer {
        Answer {
            kind,
            columns: Vec::new(),
            rows: Vec::new(),
            scanned: Vec::new(),
            affected: 0,
        }
    }
}
