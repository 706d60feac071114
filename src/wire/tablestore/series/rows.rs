//! The points of a PutTimeseriesData.
//!
//! Owns: the tables of the SDKs' schema `timeseries.fbs` and their slots. Promises: so many points of so much data at
//! most, however a buffer says the same thing again; each point keeps every rule that needs no table. Must not: know
//! which columns a table has.

#![allow(clippy::little_endian_bytes)] // the format is not ours

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::failure::{Code, Failure};
use super::super::proto;
use super::super::request::table::missing;
use super::flat::{Table, Vector};
use super::key::tags_of;
use tideline_model::limits::{COLUMNS_MAX, WRITE_BYTES_MAX};
use tideline_model::series::{InvalidSeries, POINTS_MAX, Point, SeriesKey, TAGS_BYTES_MAX};
use tideline_model::{Error, Value, ValueRef};

/// `RowsSerializeType`.
const FLAT_BUFFER: i32 = 0;

/// `FlatBufferRows`.
const GROUPS: usize = 0;
/// `FlatBufferRowGroup`.
const MEASUREMENT: usize = 0;
const FIELD_NAMES: usize = 1;
const FIELD_TYPES: usize = 2;
const ROWS: usize = 3;
/// `FlatBufferRowInGroup`.
const SOURCE: usize = 0;
const TAGS: usize = 1;
const TIME: usize = 2;
const FIELDS: usize = 3;
const TAG_LIST: usize = 5;
/// `Tag`.
const NAME: usize = 0;
const VALUE: usize = 1;
/// `FieldValues`, and how many bytes an item of each takes.
const VALUES: [(usize, usize); 5] = [(0, 8), (1, 1), (2, 8), (3, 4), (4, 4)];
/// `BytesValue`.
const BYTES: usize = 0;

/// The points of a message.
pub(super) fn points(message: proto::TimeseriesRows) -> Result<Vec<Point>, Failure> {
    if message.r#type.unwrap_or(FLAT_BUFFER) != FLAT_BUFFER {
        let text = "Operation not supported: rows of time series in another form than FlatBuffers.";
        return Err(Failure::with(Code::UnsupportedOperation, text));
    }
    let data = message.rows_data.ok_or_else(missing)?;
    let sum = message.flatbuffer_crc32c.map(i32::cast_unsigned);
    if sum.is_some_and(|sum| sum != crc32c::crc32c(&data)) {
        return Err(Failure::invalid("Check crc32c of rows data failed."));
    }
    let groups = Table::root(&data)?.vector(GROUPS, 4)?;
    let mut points = Points::default();
    for at in 0..groups.len() {
        points.group(groups.table(at)?)?;
    }
    match points.all.is_empty() {
        true => Err(Failure::invalid("No row is specified in the request.")),
        false => Ok(points.all),
    }
}

#[derive(Default)]
struct Points {
    all: Vec<Point>,
    bytes: usize,
}

impl Points {
    fn group(&mut self, group: Table<'_>) -> Result<(), Failure> {
        let (names, types) = (group.vector(FIELD_NAMES, 4)?, group.vector(FIELD_TYPES, 1)?);
        if names.len() > COLUMNS_MAX {
            return Err(Error::ColumnCount(names.len()).into());
        }
        if names.len() != types.len() {
            return Err(Failure::invalid("Cannot deserialize the rows data."));
        }
        let rows = group.vector(ROWS, 4)?;
        if rows.len() == 0 {
            return Err(Failure::invalid("No row is specified in the request."));
        }
        for at in 0..rows.len() {
            if self.all.len() == POINTS_MAX {
                let text = format!("Rows count exceeds the upper limit: {POINTS_MAX}.");
                return Err(Failure::invalid(text));
            }
            let point = self.point(group.text(MEASUREMENT)?, (names, types), rows.table(at)?)?;
            point.check()?;
            self.all.push(point);
        }
        Ok(())
    }

    fn point(
        &mut self,
        measurement: &str,
        (names, types): (Vector<'_>, Vector<'_>),
        row: Table<'_>,
    ) -> Result<Point, Failure> {
        let source = row.text(SOURCE)?;
        self.count(measurement.len() + source.len())?;
        let key = SeriesKey {
            measurement: measurement.to_owned(),
            source: source.to_owned(),
            tags: self.tags(row)?,
        };
        let mut fields = Vec::with_capacity(names.len());
        if let Some(values) = row.table(FIELDS)? {
            // Values of each type lie in a vector of their own, in the order of the fields.
            let vectors = VALUES.map(|(slot, item_bytes)| values.vector(slot, item_bytes));
            let mut next = [0; VALUES.len()];
            for at in 0..names.len() {
                let (name, kind) = (names.text(at)?, types.u8(at)?);
                let kind = usize::from(kind).wrapping_sub(1);
                let Some(Ok(values)) = vectors.get(kind) else {
                    return Err(Failure::invalid(format!(
                        "Invalid type of field: '{name}'."
                    )));
                };
                let value = value(kind, *values, next[kind])?;
                next[kind] += 1;
                self.count(name.len() + ValueRef::from(&value).size())?;
                fields.push((name.to_owned(), value.checked(name)?));
            }
        }
        Ok(Point {
            key,
            time_us: row.i64(TIME)?,
            fields,
        })
    }

    fn tags(&mut self, row: Table<'_>) -> Result<BTreeMap<String, String>, Failure> {
        let list = row.vector(TAG_LIST, 4)?;
        let text = row.text(TAGS)?;
        // Each takes four bytes at least where it is written.
        if list.len().max(text.len()) > TAGS_BYTES_MAX {
            return Err(Error::Series(InvalidSeries::PairsTooLong {
                what: "tags",
                most: TAGS_BYTES_MAX,
                length: list.len().max(text.len()),
            })
            .into());
        }
        let mut tags = Vec::with_capacity(list.len());
        for at in 0..list.len() {
            let tag = list.table(at)?;
            let (name, value) = (tag.text(NAME)?, tag.text(VALUE)?);
            self.count(name.len() + value.len())?;
            tags.push((name.to_owned(), value.to_owned()));
        }
        self.count(text.len())?;
        tags_of(tags, text)
    }

    /// Counts what is copied out of the buffer.
    fn count(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes;
        let (limit, size) = (WRITE_BYTES_MAX, self.bytes);
        match size <= limit {
            true => Ok(()),
            false => Err(Error::TooLarge { limit, size }.into()),
        }
    }
}

fn value(kind: usize, values: Vector<'_>, at: usize) -> Result<Value, Failure> {
    Ok(match kind {
        0 => Value::Integer(i64::from_le_bytes(values.word(at)?)),
        1 => Value::Boolean(values.u8(at)? != 0),
        2 => Value::Double(f64::from_le_bytes(values.word(at)?)),
        3 => Value::String(values.text(at)?.to_owned()),
        _ => {
            let bytes = values.table(at)?.vector(BYTES, 1)?;
            Value::Binary(Bytes::copy_from_slice(bytes.bytes()))
        }
    })
}
