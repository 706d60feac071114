//! Primary keys: typed columns, their check against a table's schema, and the way to encoded keys and back.
//!
//! Owns: what stands in a primary key, and the documented order of its checks. Promises: encoded keys sort as the
//! values do, bounds of ranges included. Must not: look at rows.

use crate::ids::TableId;
use crate::ordered::{Column, Reader};

use super::key::{Key, split_key};
use super::key_value::{KeyColumn, KeyValue, PrimaryKey};
use super::{Error, Malformed};

/// The most bytes of a primary key column's text or bytes.
pub const KEY_VALUE_BYTES_MAX: usize = 1024;

/// Where a primary key is used, which decides what may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Delete,
    Write,
    Bound,
}

/// Checks a primary key against a schema, in the documented order, and gives its values.
pub(super) fn check(
    schema: &[KeyColumn],
    key: PrimaryKey,
    purpose: Use,
) -> Result<Vec<KeyValue>, Error> {
    if key.len() != schema.len() {
        return Err(Error::KeySize {
            input: key.len(),
            table: schema.len(),
        });
    }
    let wrong = key.iter().zip(schema);
    if let Some(((name, _), column)) = wrong
        .into_iter()
        .find(|((name, _), column)| *name != column.name)
    {
        return Err(Error::KeyName {
            input: name.clone(),
            table: column.name.clone(),
        });
    }
    let mut values = Vec::with_capacity(key.len());
    for ((_, value), column) in key.into_iter().zip(schema) {
        check_value(column, &value, purpose)?;
        values.push(value);
    }
    Ok(values)
}

fn check_value(column: &KeyColumn, value: &KeyValue, purpose: Use) -> Result<(), Error> {
    match (value, purpose) {
        (KeyValue::InfMin | KeyValue::InfMax, Use::Bound) => return Ok(()),
        (KeyValue::InfMin | KeyValue::InfMax, _) => return Err(Error::KeyValue(value.clone())),
        (KeyValue::AutoIncrement, Use::Read | Use::Bound) => {
            return Err(Error::AutoIncrementInRead);
        }
        (KeyValue::AutoIncrement, Use::Delete) => return Err(Error::AutoIncrementInDelete),
        (KeyValue::AutoIncrement, Use::Write) if column.auto_increment => return Ok(()),
        (KeyValue::AutoIncrement, Use::Write) => return Err(Error::KeyValue(value.clone())),
        _ => {}
    }
    if let Some(input) = value.kind()
        && input != column.kind
    {
        return Err(Error::KeyType {
            input,
            table: column.kind,
        });
    }
    let length = value.size();
    if length > KEY_VALUE_BYTES_MAX {
        return Err(Error::KeyTooLong {
            column: column.name.clone(),
            max: KEY_VALUE_BYTES_MAX,
            length,
        });
    }
    Ok(())
}

/// The encoded key of values that were checked and numbered.
#[must_use]
pub fn key_of(table: TableId, values: &[KeyValue]) -> Key {
    let mut columns = Vec::with_capacity(values.iter().map(|value| value.size() + 4).sum());
    for value in values {
        value.push(&mut columns);
        // Whatever follows a bound decides nothing more.
        if matches!(value, KeyValue::InfMin | KeyValue::InfMax) {
            break;
        }
    }
    Key::new(table, &columns, 0)
}

/// The values of a stored key.
pub(super) fn decode(key: &[u8]) -> Result<Vec<KeyValue>, Malformed> {
    let (_, columns) = split_key(key).ok_or(Malformed)?;
    let mut reader = Reader::new(columns);
    let mut values = Vec::with_capacity(4);
    while !reader.rest().is_empty() {
        values.push(match reader.column().map_err(|_| Malformed)? {
            Column::Integer(number) => KeyValue::Integer(number),
            Column::String(text) => KeyValue::String(text.into_owned()),
            Column::Binary(bytes) => KeyValue::Binary(bytes.into_owned().into()),
            Column::InfMin | Column::InfMax => return Err(Malformed),
        });
    }
    Ok(values)
}
