//! Values of attribute columns, as cells and filters hold them.
//!
//! Owns: which variants are values, and their limits. Promises: a value that leaves this module is finite and, if a
//! text or binary, at most 2 MiB long. Must not: know columns' types; attributes have none.

use super::failure::Failure;
use super::limits::VALUE_BYTES_MAX;
use super::plainbuffer::Variant;
use crate::model::Value;

/// The value of an attribute, in a cell or in a filter.
pub(super) fn attribute_value(column: &str, variant: Variant) -> Result<Value, Failure> {
    let value = match variant {
        Variant::Integer(value) => Value::Integer(value),
        Variant::Double(value) if value.is_nan() => {
            return Err(Failure::invalid("NaN can't be set to double value."));
        }
        Variant::Double(value) if value.is_infinite() => {
            return Err(Failure::invalid("Infinity can't be set to double value."));
        }
        Variant::Double(value) => Value::Double(value),
        Variant::Boolean(value) => Value::Boolean(value),
        Variant::String(value) => Value::String(value),
        Variant::Binary(value) => Value::Binary(value),
        other => {
            let name = other.type_name();
            let text = format!("{name} is an invalid type for the attribute column.");
            return Err(Failure::invalid(text));
        }
    };
    let length = match &value {
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    if length > VALUE_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "The length of attribute column: '{column}' exceeds the MaxLength:{VALUE_BYTES_MAX} \
             with CurrentLength:{length}."
        )));
    }
    Ok(value)
}

/// A value as an answer's cell holds it. A nested one is its JSON text.
#[must_use]
pub fn into_variant(value: Value) -> Variant {
    match value {
        Value::String(text) | Value::Json(text) => Variant::String(text),
        Value::Integer(value) => Variant::Integer(value),
        Value::Double(value) => Variant::Double(value),
        Value::Boolean(value) => Variant::Boolean(value),
        Value::Binary(bytes) => Variant::Binary(bytes),
    }
}
