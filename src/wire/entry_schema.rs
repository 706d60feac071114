//! JSON Schemas of what serde reads by hand: entries, patches, values.
//!
//! Owns: those three schemas. Promises: as strict as JSON Schema can say; byte lengths and duplicate names it can't.
//! Must not: be used to check input; `check.rs` and `entry.rs` do.

use std::borrow::Cow;

use schemars::JsonSchema;

use super::entry::{Entry, OneValue, Patch};

/// Not empty, not starting with `$` or `__`; without look-ahead, which not every validator has.
const NAME_PATTERN: &str = "^([^$_]|_[^_]|_$)";

impl JsonSchema for Entry<'_> {
    fn schema_name() -> Cow<'static, str> {
        "entry".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let value = generator.subschema_for::<AnyValue>();
        schemars::json_schema!({
            "description": "Name to value. Names: 1 to 255 bytes, not starting with `$` or `__`.",
            "type": "object",
            "maxProperties": 128,
            "propertyNames": { "pattern": NAME_PATTERN, "maxLength": 255 },
            "additionalProperties": value,
        })
    }
}

impl JsonSchema for Patch {
    fn schema_name() -> Cow<'static, str> {
        "patch".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let value = generator.subschema_for::<AnyValue>();
        schemars::json_schema!({
            "description": "Name to its new value, or to `null`, which removes it. Names as in an entry.",
            "type": "object",
            "maxProperties": 128,
            "propertyNames": { "pattern": NAME_PATTERN, "maxLength": 255 },
            "additionalProperties": { "anyOf": [value, { "type": "null" }] },
        })
    }
}

impl JsonSchema for OneValue<'_> {
    fn schema_name() -> Cow<'static, str> {
        AnyValue::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        AnyValue::json_schema(generator)
    }
}

/// The schema of a value.
struct AnyValue;

impl JsonSchema for AnyValue {
    fn schema_name() -> Cow<'static, str> {
        "value".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "String, 64-bit integer, double, boolean, nested array or object, or a typed value: binary, or an \
                            integer as decimal text. In MessagePack binary is bin.",
            "anyOf": [
                { "type": ["string", "number", "boolean", "array"] },
                {
                    "type": "object",
                    "properties": { "$binary": { "type": "string", "contentEncoding": "base64" } },
                    "required": ["$binary"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": { "$integer": { "type": "string", "pattern": "^-?[0-9]{1,19}$" } },
                    "required": ["$integer"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "description": "Nested, and not interpreted; a single name that starts with `$` is refused.",
                    "not": {
                        "maxProperties": 1,
                        "minProperties": 1,
                        "propertyNames": { "pattern": "^\\$" },
                    },
                },
            ],
        })
    }
}
