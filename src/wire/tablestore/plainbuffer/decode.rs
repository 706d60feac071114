//! Bytes to rows, as PlainBuffer.
//!
//! Owns: the grammar of PlainBuffer as a reader. Promises: a row comes out only if all its checksums are right and
//! nothing is left over inside of it; binary values are slices of the buffer. Must not: allocate for what is not there:
//! a cell takes at least nine bytes of the buffer.

#![allow(clippy::little_endian_bytes)] // the format is not ours

use bytes::Bytes;

use super::checksum::Checksum;
use super::cursor::Cursor;
use super::{
    Cell, CellOperation, DELETE_ALL_VERSIONS, DELETE_ONE_VERSION, Error, HEADER, INCREMENT, Row,
    Sequence, TAG_ATTRIBUTES, TAG_CELL, TAG_CELL_CHECKSUM, TAG_DELETE_MARKER, TAG_EXTENSION,
    TAG_NAME, TAG_OPERATION, TAG_PRIMARY_KEY, TAG_ROW_CHECKSUM, TAG_SEQUENCE, TAG_SEQUENCE_EPOCH,
    TAG_SEQUENCE_ROW, TAG_SEQUENCE_TIME, TAG_TIMESTAMP, TAG_VALUE, TYPE_AUTO_INCREMENT,
    TYPE_BINARY, TYPE_BOOLEAN, TYPE_DOUBLE, TYPE_INF_MAX, TYPE_INF_MIN, TYPE_INTEGER, TYPE_NULL,
    TYPE_STRING, Variant,
};

/// No write has as many; it bounds what a row takes that is refused for its width.
const CELLS_MAX: usize = 1 << 16;

/// The rows of a buffer; an empty one holds none.
///
/// # Errors
/// What is not a PlainBuffer.
pub fn decode_rows(buffer: &Bytes) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    if buffer.is_empty() {
        return Ok(rows);
    }
    let mut cursor = after_header(buffer)?;
    while !cursor.is_empty() {
        rows.push(row(&mut cursor)?);
    }
    Ok(rows)
}

/// The one row of a buffer. Zeros may follow it: where a cell has a version, an infinity or the place of a number, the
/// Node SDK makes more room than it writes, and sends the room too.
///
/// # Errors
/// What is not a PlainBuffer, or not one row.
pub fn decode_row(buffer: &Bytes) -> Result<Row, Error> {
    let mut cursor = after_header(buffer)?;
    let row = row(&mut cursor)?;
    if cursor.is_padding() {
        Ok(row)
    } else {
        Err(Error::Malformed)
    }
}

/// A variant alone, as filters hold it: type and payload.
///
/// # Errors
/// What is not a variant, or more than one.
pub fn decode_variant(bytes: &Bytes, column: &str) -> Result<Variant, Error> {
    let mut cursor = Cursor::new(bytes.clone());
    let variant = match cursor.u8()? {
        TYPE_INTEGER => Variant::Integer(cursor.i64()?),
        TYPE_DOUBLE => Variant::Double(cursor.f64()?),
        TYPE_BOOLEAN => match cursor.u8()? {
            0 => Variant::Boolean(false),
            1 => Variant::Boolean(true),
            _ => return Err(Error::Malformed),
        },
        TYPE_STRING => Variant::String(text(&payload(&mut cursor)?, || column.to_owned())?),
        TYPE_NULL => Variant::Null,
        TYPE_BINARY => Variant::Binary(payload(&mut cursor)?),
        TYPE_INF_MIN => Variant::InfMin,
        TYPE_INF_MAX => Variant::InfMax,
        TYPE_AUTO_INCREMENT => Variant::AutoIncrement,
        unknown => return Err(Error::UnknownVariant(unknown)),
    };
    if cursor.is_empty() {
        Ok(variant)
    } else {
        Err(Error::Leftover)
    }
}

/// The bytes of a text or binary, whose length has to fit the variant's.
fn payload(cursor: &mut Cursor) -> Result<Bytes, Error> {
    let length = cursor.i32()?;
    let bytes = usize::try_from(length).map_err(|_| Error::StringLength(length))?;
    cursor.take(bytes).map_err(|_| Error::StringLength(length))
}

fn text(bytes: &[u8], column: impl FnOnce() -> String) -> Result<String, Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::NotUtf8(column())),
    }
}

fn after_header(buffer: &Bytes) -> Result<Cursor, Error> {
    let mut cursor = Cursor::new(buffer.clone());
    match cursor.u32()? {
        HEADER => Ok(cursor),
        other => Err(Error::Header(other)),
    }
}

fn row(cursor: &mut Cursor) -> Result<Row, Error> {
    let mut row = Row::default();
    let mut sum = Checksum::default();
    cursor.expect(TAG_PRIMARY_KEY)?;
    while cursor.skip(TAG_CELL) {
        let cell = cell(cursor, &mut sum, Error::UnnamedKey)?;
        push(&mut row.primary_key, cell)?;
    }
    if row.primary_key.is_empty() {
        return Err(Error::NoPrimaryKey);
    }
    if cursor.skip(TAG_ATTRIBUTES) {
        while cursor.skip(TAG_CELL) {
            let cell = cell(cursor, &mut sum, Error::UnnamedAttribute)?;
            push(&mut row.attributes, cell)?;
        }
    }
    row.delete_marker = cursor.skip(TAG_DELETE_MARKER);
    if cursor.skip(TAG_EXTENSION) {
        row.sequence = extension(Cursor::new(cursor.take_counted()?))?;
    }
    if !cursor.skip(TAG_ROW_CHECKSUM) {
        return Err(Error::RowWithoutChecksum);
    }
    let sent = cursor.u8().map_err(|_| Error::RowWithoutChecksum)?;
    check(sent, sum.of_row(row.delete_marker))?;
    Ok(row)
}

fn push(cells: &mut Vec<Cell>, cell: Cell) -> Result<(), Error> {
    if cells.len() == CELLS_MAX {
        return Err(Error::TooManyCells);
    }
    cells.push(cell);
    Ok(())
}

fn check(sent: u8, computed: u8) -> Result<(), Error> {
    if sent == computed {
        Ok(())
    } else {
        Err(Error::Checksum { sent, computed })
    }
}

fn cell(cursor: &mut Cursor, row: &mut Checksum, unnamed: Error) -> Result<Cell, Error> {
    if !cursor.skip(TAG_NAME) {
        return Err(unnamed);
    }
    let name = cursor.take_counted()?;
    if name.is_empty() {
        return Err(unnamed);
    }
    let lossy = || String::from_utf8_lossy(&name).into_owned();
    let variant = match cursor.skip(TAG_VALUE) {
        true => Some(cursor.take_counted()?),
        false => None,
    };
    let operation = match cursor.skip(TAG_OPERATION) {
        true => Some(cursor.u8()?),
        false => None,
    };
    let timestamp = match cursor.skip(TAG_TIMESTAMP) {
        true => Some(cursor.i64()?),
        false => None,
    };
    if !cursor.skip(TAG_CELL_CHECKSUM) {
        return Err(Error::CellWithoutChecksum(lossy()));
    }
    let sent = cursor
        .u8()
        .map_err(|_| Error::CellWithoutChecksum(lossy()))?;
    let stamp = timestamp.map(i64::to_le_bytes);
    check(
        sent,
        Checksum::of_cell(&name, variant.as_deref(), stamp, operation),
    )?;
    *row = row.with(&[sent]);
    let name = text(&name, lossy)?;
    let value = variant.map(|variant| decode_variant(&variant, &name));
    Ok(Cell {
        value: value.transpose()?,
        operation: operation.map(cell_operation).transpose()?,
        timestamp,
        name,
    })
}

fn cell_operation(code: u8) -> Result<CellOperation, Error> {
    match code {
        DELETE_ALL_VERSIONS => Ok(CellOperation::DeleteAllVersions),
        DELETE_ONE_VERSION => Ok(CellOperation::DeleteOneVersion),
        INCREMENT => Ok(CellOperation::Increment),
        _ => Err(Error::Malformed),
    }
}

/// The sequence among a row's extensions; unknown ones are skipped.
fn extension(mut extensions: Cursor) -> Result<Option<Sequence>, Error> {
    let mut sequence = None;
    while !extensions.is_empty() {
        let tag = extensions.u8()?;
        let mut inner = Cursor::new(extensions.take_counted()?);
        if tag != TAG_SEQUENCE {
            continue;
        }
        inner.expect(TAG_SEQUENCE_EPOCH)?;
        let epoch = inner.i32()?;
        inner.expect(TAG_SEQUENCE_TIME)?;
        let timestamp = inner.i64()?;
        inner.expect(TAG_SEQUENCE_ROW)?;
        let row = inner.i32()?;
        sequence = Some(Sequence {
            epoch,
            timestamp,
            row,
        });
        if !inner.is_empty() {
            return Err(Error::Malformed);
        }
    }
    Ok(sequence)
}
