//! Keys and values of requests, from the cells that hold them.
//!
//! Owns: which variants are key values and attribute values, and what else a cell of a key may hold. Promises: a key
//! that leaves this module has no more columns than a table can have, or an index where it is to be read, with legal
//! names and values that suit its use. Must not: know where a schema is kept.

use bytes::Bytes;

use super::super::failure::Failure;
use super::super::plainbuffer::{Cell, Row, Variant, decode_row};
use super::super::refusal::invalid_key_type;
use tideline_model::limits::{INDEX_KEY_COLUMNS_MAX, KEY_COLUMNS_MAX};
use tideline_model::{Error, KeyUse, KeyValue, PrimaryKey, Value, check_column_name};

/// The value of an attribute, in a cell or in a filter.
pub(in super::super) fn attribute_value(column: &str, variant: Variant) -> Result<Value, Failure> {
    let value = match variant {
        Variant::Integer(value) => Value::Integer(value),
        Variant::Double(value) => Value::Double(value),
        Variant::Boolean(value) => Value::Boolean(value),
        Variant::String(value) => Value::String(value),
        Variant::Binary(value) => Value::Binary(value),
        Variant::Null | Variant::InfMin | Variant::InfMax | Variant::AutoIncrement => {
            let name = variant.type_name();
            let text = format!("{name} is an invalid type for the attribute column.");
            return Err(Failure::invalid(text));
        }
    };
    Ok(value.checked(column)?)
}

fn key_value(column: &str, variant: Variant, used: KeyUse) -> Result<KeyValue, Failure> {
    let value = match variant {
        Variant::Integer(value) => KeyValue::Integer(value),
        Variant::String(value) => KeyValue::String(value),
        Variant::Binary(value) => KeyValue::Binary(value),
        Variant::InfMin => KeyValue::InfMin,
        Variant::InfMax => KeyValue::InfMax,
        Variant::AutoIncrement => KeyValue::AutoIncrement,
        Variant::Double(_) | Variant::Boolean(_) | Variant::Null => {
            return Err(Failure::invalid(invalid_key_type(variant.type_name())));
        }
    };
    value.check(column, used)?;
    Ok(value)
}

/// A key from a buffer that holds nothing else.
pub(in super::super) fn decode_key(buffer: &Bytes, used: KeyUse) -> Result<PrimaryKey, Failure> {
    let row = decode_row(buffer)?;
    if !row.attributes.is_empty() {
        let text = "Attribute column cannot be given while reading data.";
        return Err(Failure::invalid(text));
    }
    if row.delete_marker {
        return Err(Failure::invalid("Delete marker cannot be given."));
    }
    take_key(row, used).map(|(key, _)| key)
}

/// A row's key, and the cells beside it.
pub(in super::super) fn take_key(
    row: Row,
    used: KeyUse,
) -> Result<(PrimaryKey, Vec<Cell>), Failure> {
    let columns_max = match used {
        KeyUse::Write => KEY_COLUMNS_MAX,
        KeyUse::Read | KeyUse::Bound => INDEX_KEY_COLUMNS_MAX,
    };
    if row.primary_key.len() > columns_max {
        return Err(Error::KeyColumnCount.into());
    }
    let columns = row.primary_key.into_iter();
    let key = columns.map(|cell| key_column(cell, used));
    Ok((key.collect::<Result<_, _>>()?, row.attributes))
}

pub(in super::super) fn key_column(
    cell: Cell,
    used: KeyUse,
) -> Result<(String, KeyValue), Failure> {
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
    let value = key_value(&name, value, used)?;
    Ok((name, value))
}
