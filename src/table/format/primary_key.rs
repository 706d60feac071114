//! Primary keys against a table's, and the way to encoded keys and back.
//!
//! Owns: the documented order of the checks that need the table. Promises: encoded keys sort as the values do, bounds
//! of ranges included. Must not: look at rows.

use tideline_base::ids::TableId;
use tideline_base::ordered;
use tideline_base::ordered::{Column, Reader};
use tideline_model::{Error, KeyColumn, KeyValue, PrimaryKey};

use super::super::Malformed;
use super::key::{Key, split_key};

/// Checks that a key is one of a table with these columns, and gives its values.
pub(in super::super) fn check(
    columns: &[KeyColumn],
    key: PrimaryKey,
) -> Result<Vec<KeyValue>, Error> {
    if key.len() != columns.len() {
        return Err(Error::KeySize {
            input: key.len(),
            table: columns.len(),
        });
    }
    let mut both = key.iter().zip(columns);
    if let Some(((name, _), column)) = both.find(|((name, _), column)| *name != column.name) {
        return Err(Error::KeyName {
            input: name.clone(),
            table: column.name.clone(),
        });
    }
    for ((_, value), column) in key.iter().zip(columns) {
        match value.kind() {
            Some(input) if input != column.kind => {
                let table = column.kind;
                return Err(Error::KeyType { input, table });
            }
            None if *value == KeyValue::AutoIncrement && !column.auto_increment => {
                return Err(Error::KeyValue(KeyValue::AutoIncrement));
            }
            _ => {}
        }
    }
    Ok(key.into_iter().map(|(_, value)| value).collect())
}

/// The encoded key of values that were checked and numbered.
#[must_use]
pub fn key_of(table: TableId, values: &[KeyValue]) -> Key {
    let mut columns = Vec::with_capacity(values.iter().map(|value| value.size() + 4).sum());
    for value in values {
        match value {
            KeyValue::Integer(number) => ordered::push_i64(&mut columns, *number),
            KeyValue::String(text) => ordered::push_string(&mut columns, text),
            KeyValue::Binary(bytes) => ordered::push_binary(&mut columns, bytes),
            // What follows a bound decides nothing more.
            KeyValue::InfMin => {
                ordered::push_inf_min(&mut columns);
                break;
            }
            KeyValue::InfMax => {
                ordered::push_inf_max(&mut columns);
                break;
            }
            KeyValue::AutoIncrement => unreachable!("numbered before it is encoded"),
        }
    }
    Key::new(table, &columns, 0)
}

/// The values of a stored key.
///
/// # Errors
/// What is not a key of a row.
pub fn decode(key: &[u8]) -> Result<Vec<KeyValue>, Malformed> {
    let (_, columns) = split_key(key).ok_or(Malformed)?;
    let mut reader = Reader::new(columns);
    let mut values = Vec::with_capacity(4);
    while !reader.rest().is_empty() {
        values.push(match reader.column()? {
            Column::Integer(number) => KeyValue::Integer(number),
            Column::String(text) => KeyValue::String(text.into_owned()),
            Column::Binary(bytes) => KeyValue::Binary(bytes.into_owned().into()),
            Column::InfMin | Column::InfMax => return Err(Malformed),
        });
    }
    Ok(values)
}
