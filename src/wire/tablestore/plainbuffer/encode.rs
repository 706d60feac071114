//! Rows to bytes, as PlainBuffer.
//!
//! Owns: the grammar of PlainBuffer as a writer. Promises: one encoding for each row, in the order of its cells, with
//! its checksums; a row that was found is written as it is stored, each value copied once. Must not: leave out or add
//! cells. Answers have no operations in their cells, since the SDKs' readers refuse them outside of streams.

#![allow(clippy::little_endian_bytes)] // the format is not ours

use bytes::Bytes;

use super::checksum::Checksum;
use super::{
    CellOperation, DELETE_ALL_VERSIONS, DELETE_ONE_VERSION, HEADER, INCREMENT, Row, Sequence,
    TAG_ATTRIBUTES, TAG_CELL, TAG_CELL_CHECKSUM, TAG_DELETE_MARKER, TAG_EXTENSION, TAG_NAME,
    TAG_OPERATION, TAG_PRIMARY_KEY, TAG_ROW_CHECKSUM, TAG_SEQUENCE, TAG_SEQUENCE_EPOCH,
    TAG_SEQUENCE_ROW, TAG_SEQUENCE_TIME, TAG_TIMESTAMP, TAG_VALUE, TYPE_AUTO_INCREMENT,
    TYPE_BINARY, TYPE_BOOLEAN, TYPE_DOUBLE, TYPE_INF_MAX, TYPE_INF_MIN, TYPE_INTEGER, TYPE_NULL,
    TYPE_STRING, Variant,
};
use tideline_model::limits::VERSION_BYTES;
use tideline_model::{
    ChangeKind, ChangeRef, ChangedCell, KeyColumn, KeyValue, RowRef, RowSink, ValueRef,
};

/// A tag and its length for each of the three numbers of a sequence.
const SEQUENCE_BYTES: usize = 5 + 9 + 5;
/// What a cell takes beside its name and the bytes of a text or binary, and a row beside its cells.
const CELL_BYTES: usize = 40;
const ROW_BYTES: usize = 8;

/// Rows of an answer, encoded as they are found.
#[derive(Clone, Debug, Default)]
pub struct RowBuffer(Vec<u8>);

impl RowBuffer {
    /// Adds a key alone.
    pub fn push_key(&mut self, columns: &[KeyColumn], key: &[KeyValue]) {
        let cells = &[];
        self.push(RowRef {
            columns,
            key,
            cells,
        });
    }

    /// The rows; no rows are no bytes, which is how the protocol says that there is none.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

impl RowSink for RowBuffer {
    fn push(&mut self, row: RowRef<'_>) {
        let cells = row.columns.len() + row.cells.len();
        self.0
            .reserve(row.size(VERSION_BYTES) + CELL_BYTES * cells + ROW_BYTES);
        let mut writer = Writer::begin(&mut self.0);
        for (column, value) in row.columns.iter().zip(row.key) {
            writer.cell(&column.name, Some(value.into()), None, None);
        }
        writer.attributes(row.cells.is_empty());
        for cell in row.cells {
            writer.cell(cell.name, Some(cell.value.into()), None, Some(cell.version));
        }
        writer.finish(false, None);
    }
}

/// A buffer with the rows; no rows are no bytes.
#[must_use]
pub fn encode_rows<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Bytes {
    let mut out = Vec::new();
    for row in rows {
        let mut writer = Writer::begin(&mut out);
        let attributes = &row.attributes;
        for (at, cell) in row.primary_key.iter().chain(attributes).enumerate() {
            if at == row.primary_key.len() {
                writer.attributes(false);
            }
            let value = cell.value.as_ref().map(Payload::from);
            writer.cell(&cell.name, value, cell.operation, cell.timestamp);
        }
        writer.finish(row.delete_marker, row.sequence);
    }
    out.into()
}

/// A buffer with one row.
#[must_use]
pub fn encode_row(row: &Row) -> Bytes {
    encode_rows([row])
}

/// A buffer with one change of a row, as streams tell it.
#[must_use]
pub fn encode_change(change: &ChangeRef<'_>) -> Bytes {
    let cells = change.columns.len() + change.cells.len();
    let mut out = Vec::with_capacity(change.size() + CELL_BYTES * cells + 2 * CELL_BYTES);
    let mut writer = Writer::begin(&mut out);
    for (column, value) in change.columns.iter().zip(change.key) {
        writer.cell(&column.name, Some(value.into()), None, None);
    }
    writer.attributes(change.cells.is_empty());
    for cell in change.cells {
        match *cell {
            ChangedCell::Put(cell) => {
                writer.cell(cell.name, Some(cell.value.into()), None, Some(cell.version));
            }
            ChangedCell::DeleteOne { name, version } => {
                let operation = Some(CellOperation::DeleteOneVersion);
                writer.cell(name, None, operation, Some(version));
            }
            ChangedCell::DeleteAll { name } => {
                writer.cell(name, None, Some(CellOperation::DeleteAllVersions), None);
            }
        }
    }
    let sequence = Sequence {
        // The time of a log does not fall, whatever the clock does.
        epoch: 0,
        timestamp: change.time_us.cast_signed(),
        row: change.index.cast_signed(),
    };
    writer.finish(change.kind == ChangeKind::Delete, Some(sequence));
    out.into()
}

/// A variant alone, as filters hold it.
#[must_use]
pub fn encode_variant(variant: &Variant) -> Bytes {
    let mut out = Vec::new();
    push_payload(&mut out, variant.into());
    out.into()
}

/// A type, and what follows it.
enum Payload<'v> {
    Nothing(u8),
    Flag(u8, bool),
    Number(u8, [u8; 8]),
    Counted(u8, &'v [u8]),
}

impl<'v> From<&'v Variant> for Payload<'v> {
    fn from(variant: &'v Variant) -> Payload<'v> {
        match variant {
            Variant::Integer(value) => ValueRef::Integer(*value).into(),
            Variant::Double(value) => ValueRef::Double(*value).into(),
            Variant::Boolean(value) => ValueRef::Boolean(*value).into(),
            Variant::String(value) => ValueRef::String(value).into(),
            Variant::Binary(value) => ValueRef::Binary(value).into(),
            Variant::Null => Payload::Nothing(TYPE_NULL),
            Variant::InfMin => Payload::Nothing(TYPE_INF_MIN),
            Variant::InfMax => Payload::Nothing(TYPE_INF_MAX),
            Variant::AutoIncrement => Payload::Nothing(TYPE_AUTO_INCREMENT),
        }
    }
}

impl<'v> From<ValueRef<'v>> for Payload<'v> {
    fn from(value: ValueRef<'v>) -> Payload<'v> {
        match value {
            ValueRef::Integer(value) => Payload::Number(TYPE_INTEGER, value.to_le_bytes()),
            ValueRef::Double(value) => Payload::Number(TYPE_DOUBLE, value.to_le_bytes()),
            ValueRef::Boolean(value) => Payload::Flag(TYPE_BOOLEAN, value),
            // A nested value is its JSON text.
            ValueRef::String(text) | ValueRef::Json(text) => {
                Payload::Counted(TYPE_STRING, text.as_bytes())
            }
            ValueRef::Binary(bytes) => Payload::Counted(TYPE_BINARY, bytes),
        }
    }
}

impl<'v> From<&'v KeyValue> for Payload<'v> {
    fn from(value: &'v KeyValue) -> Payload<'v> {
        match value {
            KeyValue::Integer(value) => ValueRef::Integer(*value).into(),
            KeyValue::String(text) => ValueRef::String(text).into(),
            KeyValue::Binary(bytes) => ValueRef::Binary(bytes).into(),
            KeyValue::InfMin => Payload::Nothing(TYPE_INF_MIN),
            KeyValue::InfMax => Payload::Nothing(TYPE_INF_MAX),
            KeyValue::AutoIncrement => Payload::Nothing(TYPE_AUTO_INCREMENT),
        }
    }
}

/// One row on its way into a buffer.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    sum: Checksum,
}

impl<'o> Writer<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Writer<'o> {
        if out.is_empty() {
            out.extend_from_slice(&HEADER.to_le_bytes());
        }
        out.push(TAG_PRIMARY_KEY);
        Writer {
            out,
            sum: Checksum::default(),
        }
    }

    /// From here on the cells are attributes, if there are any.
    fn attributes(&mut self, are_none: bool) {
        if !are_none {
            self.out.push(TAG_ATTRIBUTES);
        }
    }

    fn cell(
        &mut self,
        name: &str,
        value: Option<Payload<'_>>,
        operation: Option<CellOperation>,
        timestamp: Option<i64>,
    ) {
        let out = &mut *self.out;
        out.extend_from_slice(&[TAG_CELL, TAG_NAME]);
        push_counted(out, name.as_bytes());
        let mut variant = None;
        if let Some(value) = value {
            out.push(TAG_VALUE);
            let length = out.len();
            push_length(out, 0);
            let begin = out.len();
            push_payload(out, value);
            let written = length_of(out.len() - begin);
            out[length..begin].copy_from_slice(&written.to_le_bytes());
            variant = Some(begin..out.len());
        }
        let operation = operation.map(operation_code);
        if let Some(operation) = operation {
            out.extend_from_slice(&[TAG_OPERATION, operation]);
        }
        let timestamp = timestamp.map(i64::to_le_bytes);
        if let Some(timestamp) = timestamp {
            out.push(TAG_TIMESTAMP);
            out.extend_from_slice(&timestamp);
        }
        let value = variant.map(|place| &out[place]);
        let sum = Checksum::of_cell(name.as_bytes(), value, timestamp, operation);
        out.extend_from_slice(&[TAG_CELL_CHECKSUM, sum]);
        self.sum = self.sum.with(&[sum]);
    }

    fn finish(self, delete_marker: bool, sequence: Option<Sequence>) {
        if delete_marker {
            self.out.push(TAG_DELETE_MARKER);
        }
        if let Some(sequence) = sequence {
            push_extension(self.out, sequence);
        }
        let sum = self.sum.of_row(delete_marker);
        self.out.extend_from_slice(&[TAG_ROW_CHECKSUM, sum]);
    }
}

fn operation_code(operation: CellOperation) -> u8 {
    match operation {
        CellOperation::DeleteAllVersions => DELETE_ALL_VERSIONS,
        CellOperation::DeleteOneVersion => DELETE_ONE_VERSION,
        CellOperation::Increment => INCREMENT,
    }
}

fn push_payload(out: &mut Vec<u8>, payload: Payload<'_>) {
    match payload {
        Payload::Nothing(kind) => out.push(kind),
        Payload::Flag(kind, value) => out.extend_from_slice(&[kind, u8::from(value)]),
        Payload::Number(kind, value) => {
            out.push(kind);
            out.extend_from_slice(&value);
        }
        Payload::Counted(kind, bytes) => {
            out.push(kind);
            push_counted(out, bytes);
        }
    }
}

fn push_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    push_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&length_of(length).to_le_bytes());
}

fn length_of(length: usize) -> i32 {
    i32::try_from(length).expect("names and values are far below 2 GiB")
}

fn push_extension(out: &mut Vec<u8>, sequence: Sequence) {
    out.push(TAG_EXTENSION);
    push_length(out, 1 + 4 + SEQUENCE_BYTES);
    out.push(TAG_SEQUENCE);
    push_length(out, SEQUENCE_BYTES);
    out.push(TAG_SEQUENCE_EPOCH);
    out.extend_from_slice(&sequence.epoch.to_le_bytes());
    out.push(TAG_SEQUENCE_TIME);
    out.extend_from_slice(&sequence.timestamp.to_le_bytes());
    out.push(TAG_SEQUENCE_ROW);
    out.extend_from_slice(&sequence.row.to_le_bytes());
}
