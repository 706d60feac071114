//! Rows to bytes, as PlainBuffer.
//!
//! Owns: the grammar of PlainBuffer as a writer. Promises: one encoding for each row, in the order of its cells, with
//! its checksums. Must not: leave out or add cells: who answers must not put operations into cells, since the SDKs'
//! readers refuse them outside of streams.

#![allow(clippy::little_endian_bytes)] // the format is not ours

use bytes::Bytes;

use super::checksum::Checksum;
use super::{
    Cell, CellOperation, DELETE_ALL_VERSIONS, DELETE_ONE_VERSION, HEADER, INCREMENT, Row, Sequence,
    TAG_ATTRIBUTES, TAG_CELL, TAG_CELL_CHECKSUM, TAG_DELETE_MARKER, TAG_EXTENSION, TAG_NAME,
    TAG_OPERATION, TAG_PRIMARY_KEY, TAG_ROW_CHECKSUM, TAG_SEQUENCE, TAG_SEQUENCE_EPOCH,
    TAG_SEQUENCE_ROW, TAG_SEQUENCE_TIME, TAG_TIMESTAMP, TAG_VALUE, TYPE_AUTO_INCREMENT,
    TYPE_BINARY, TYPE_BOOLEAN, TYPE_DOUBLE, TYPE_INF_MAX, TYPE_INF_MIN, TYPE_INTEGER, TYPE_NULL,
    TYPE_STRING, Variant,
};

/// A tag and its length for each of the three numbers of a sequence.
const SEQUENCE_BYTES: usize = 5 + 9 + 5;

/// A buffer with the rows; no rows make an empty one, which is how the protocol says that there is none.
#[must_use]
pub fn encode_rows<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Bytes {
    let mut out = Vec::new();
    for row in rows {
        if out.is_empty() {
            out.extend_from_slice(&HEADER.to_le_bytes());
        }
        push_row(&mut out, row);
    }
    out.into()
}

/// A buffer with one row.
#[must_use]
pub fn encode_row(row: &Row) -> Bytes {
    encode_rows([row])
}

/// A variant alone, as filters hold it.
#[must_use]
pub fn encode_variant(variant: &Variant) -> Bytes {
    let mut out = Vec::new();
    push_variant(&mut out, variant);
    out.into()
}

fn push_row(out: &mut Vec<u8>, row: &Row) {
    out.reserve(room(row));
    let mut sum = Checksum::default();
    out.push(TAG_PRIMARY_KEY);
    for cell in &row.primary_key {
        push_cell(out, cell, &mut sum);
    }
    if !row.attributes.is_empty() {
        out.push(TAG_ATTRIBUTES);
        for cell in &row.attributes {
            push_cell(out, cell, &mut sum);
        }
    }
    if row.delete_marker {
        out.push(TAG_DELETE_MARKER);
    }
    if let Some(sequence) = row.sequence {
        push_extension(out, sequence);
    }
    out.extend_from_slice(&[TAG_ROW_CHECKSUM, sum.of_row(row.delete_marker)]);
}

/// At most what a row takes that has no sequence: rows of a stream are not what a buffer is made in a hurry for.
fn room(row: &Row) -> usize {
    let cells = row.primary_key.iter().chain(&row.attributes);
    let bytes = cells.map(|cell| {
        let value = match &cell.value {
            Some(Variant::String(text)) => text.len(),
            Some(Variant::Binary(bytes)) => bytes.len(),
            _ => 0,
        };
        CELL_BYTES + cell.name.len() + value
    });
    ROW_BYTES + bytes.sum::<usize>()
}

/// What a cell takes beside its name and the bytes of a text or binary, and a row beside its cells.
const CELL_BYTES: usize = 40;
const ROW_BYTES: usize = 8;

fn push_cell(out: &mut Vec<u8>, cell: &Cell, row: &mut Checksum) {
    out.extend_from_slice(&[TAG_CELL, TAG_NAME]);
    push_counted(out, cell.name.as_bytes());
    let mut variant = None;
    if let Some(value) = &cell.value {
        out.push(TAG_VALUE);
        let length = out.len();
        push_length(out, 0);
        let begin = out.len();
        push_variant(out, value);
        let written = length_of(out.len() - begin);
        out[length..begin].copy_from_slice(&written.to_le_bytes());
        variant = Some(begin..out.len());
    }
    let operation = cell.operation.map(operation_code);
    if let Some(operation) = operation {
        out.extend_from_slice(&[TAG_OPERATION, operation]);
    }
    let timestamp = cell.timestamp.map(i64::to_le_bytes);
    if let Some(timestamp) = timestamp {
        out.push(TAG_TIMESTAMP);
        out.extend_from_slice(&timestamp);
    }
    let value = variant.map(|place| &out[place]);
    let sum = Checksum::of_cell(cell.name.as_bytes(), value, timestamp, operation);
    out.extend_from_slice(&[TAG_CELL_CHECKSUM, sum]);
    *row = row.with(&[sum]);
}

fn operation_code(operation: CellOperation) -> u8 {
    match operation {
        CellOperation::DeleteAllVersions => DELETE_ALL_VERSIONS,
        CellOperation::DeleteOneVersion => DELETE_ONE_VERSION,
        CellOperation::Increment => INCREMENT,
    }
}

fn push_variant(out: &mut Vec<u8>, variant: &Variant) {
    match variant {
        Variant::Integer(value) => {
            out.push(TYPE_INTEGER);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Variant::Double(value) => {
            out.push(TYPE_DOUBLE);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Variant::Boolean(value) => out.extend_from_slice(&[TYPE_BOOLEAN, u8::from(*value)]),
        Variant::String(value) => {
            out.push(TYPE_STRING);
            push_counted(out, value.as_bytes());
        }
        Variant::Null => out.push(TYPE_NULL),
        Variant::Binary(value) => {
            out.push(TYPE_BINARY);
            push_counted(out, value);
        }
        Variant::InfMin => out.push(TYPE_INF_MIN),
        Variant::InfMax => out.push(TYPE_INF_MAX),
        Variant::AutoIncrement => out.push(TYPE_AUTO_INCREMENT),
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
