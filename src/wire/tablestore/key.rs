//! Primary keys as requests hold them.
//!
//! Owns: key values, keys of rows, keys of writes (with a place for a number that the server gives), bounds of ranges.
//! Promises: a key that leaves this module has one to four columns with legal names, texts and binaries of at most
//! 1 KiB, and no operations or versions. Must not: know where a schema is kept.

use bytes::Bytes;

use super::failure::Failure;
use super::limits::{KEY_COLUMNS_MAX, KEY_VALUE_BYTES_MAX};
use super::name::check_column_name;
use super::plainbuffer::{Cell, Row, Variant, decode_row};

/// The type of a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// Signed integers.
    Integer,
    /// UTF-8 texts.
    String,
    /// Bytes.
    Binary,
}

/// The value of a key column. Values of one type are ordered as rows are: integers signed, the others bytewise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyValue {
    /// A signed integer.
    Integer(i64),
    /// UTF-8 text.
    String(String),
    /// Bytes.
    Binary(Bytes),
}

/// A key column of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteKeyValue {
    /// The client's value.
    Given(KeyValue),
    /// The server gives a number.
    AutoIncrement,
}

/// A key column of a bound; bounds of one column are ordered as written here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoundValue {
    /// Below every value.
    InfMin,
    /// A value.
    At(KeyValue),
    /// Above every value.
    InfMax,
}

/// A key: its columns, in the order of the schema.
pub type Key<Value = KeyValue> = Vec<(String, Value)>;

/// What stands in a column of some kind of key.
pub trait KeyColumn: Sized {
    /// From a cell's value.
    ///
    /// # Errors
    /// A value that cannot stand in such a key.
    fn from_variant(variant: Variant) -> Result<Self, Failure>;

    /// The value, if there is one.
    fn value(&self) -> Option<&KeyValue>;
}

impl KeyColumn for KeyValue {
    fn from_variant(variant: Variant) -> Result<KeyValue, Failure> {
        match variant {
            Variant::Integer(value) => Ok(KeyValue::Integer(value)),
            Variant::String(value) => Ok(KeyValue::String(value)),
            Variant::Binary(value) => Ok(KeyValue::Binary(value)),
            Variant::AutoIncrement => {
                let text = "PKAutoIncr can't be used for read operations.";
                Err(Failure::invalid(text))
            }
            other => Err(invalid_type(&other)),
        }
    }

    fn value(&self) -> Option<&KeyValue> {
        Some(self)
    }
}

impl KeyColumn for WriteKeyValue {
    fn from_variant(variant: Variant) -> Result<WriteKeyValue, Failure> {
        match variant {
            Variant::AutoIncrement => Ok(WriteKeyValue::AutoIncrement),
            other => KeyValue::from_variant(other).map(WriteKeyValue::Given),
        }
    }

    fn value(&self) -> Option<&KeyValue> {
        match self {
            WriteKeyValue::Given(value) => Some(value),
            WriteKeyValue::AutoIncrement => None,
        }
    }
}

impl KeyColumn for BoundValue {
    fn from_variant(variant: Variant) -> Result<BoundValue, Failure> {
        match variant {
            Variant::InfMin => Ok(BoundValue::InfMin),
            Variant::InfMax => Ok(BoundValue::InfMax),
            other => KeyValue::from_variant(other).map(BoundValue::At),
        }
    }

    fn value(&self) -> Option<&KeyValue> {
        match self {
            BoundValue::At(value) => Some(value),
            BoundValue::InfMin | BoundValue::InfMax => None,
        }
    }
}

impl KeyValue {
    /// What the value counts for in capacity units, and against the limit of 1 KiB.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            KeyValue::Integer(_) => 8,
            KeyValue::String(value) => value.len(),
            KeyValue::Binary(value) => value.len(),
        }
    }
}

fn invalid_type(variant: &Variant) -> Failure {
    let name = variant.type_name();
    Failure::invalid(format!("{name} is an invalid type for the primary key."))
}

/// What a key counts for in capacity units: names and values.
pub(super) fn key_bytes<Value: KeyColumn>(key: &Key<Value>) -> usize {
    let columns = key.iter();
    columns
        .map(|(name, value)| name.len() + value.value().map_or(8, KeyValue::bytes))
        .sum()
}

/// A key from a buffer that holds nothing else.
pub(super) fn decode_key<Value: KeyColumn>(buffer: &Bytes) -> Result<Key<Value>, Failure> {
    let row = decode_row(buffer)?;
    if !row.attributes.is_empty() {
        let text = "Attribute column cannot be given while reading data.";
        return Err(Failure::invalid(text));
    }
    if row.delete_marker {
        return Err(Failure::invalid("Delete marker cannot be given."));
    }
    take_key(row).map(|(key, _)| key)
}

/// A row's key, and the cells beside it.
pub(super) fn take_key<Value: KeyColumn>(row: Row) -> Result<(Key<Value>, Vec<Cell>), Failure> {
    if row.primary_key.len() > KEY_COLUMNS_MAX {
        return Err(key_columns());
    }
    let key = row.primary_key.into_iter().map(key_column);
    Ok((key.collect::<Result<_, _>>()?, row.attributes))
}

/// The number of key columns is not one of those allowed.
pub(super) fn key_columns() -> Failure {
    Failure::invalid("The number of primary key columns must be in range: [1, 4].")
}

fn key_column<Value: KeyColumn>(cell: Cell) -> Result<(String, Value), Failure> {
    let Cell {
        name,
        value,
        operation,
        timestamp,
    } = cell;
    check_column_name(&name)?;
    if operation.is_some() {
        let text = format!("OpType cannot be given for primary key name :{name}.");
        return Err(Failure::invalid(text));
    }
    if timestamp.is_some() {
        let text = format!("Timestamp cannot be given for primary key name:{name}.");
        return Err(Failure::invalid(text));
    }
    let Some(value) = value else {
        let text = format!("No value is given for primary key name:{name}.");
        return Err(Failure::invalid(text));
    };
    let value = Value::from_variant(value)?;
    let length = value.value().map_or(0, KeyValue::bytes);
    if length > KEY_VALUE_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "The length of primary key column: '{name}' exceeds the \
             MaxLength:{KEY_VALUE_BYTES_MAX} with CurrentLength:{length}."
        )));
    }
    Ok((name, value))
}

/// A column of a table's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySchema {
    /// Its name.
    pub name: String,
    /// Its type.
    pub key_type: KeyType,
    /// The server numbers it.
    pub auto_increment: bool,
}
