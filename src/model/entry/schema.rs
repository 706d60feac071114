//! JSON Schemas of what serde reads by hand: entries, patches, values.
//!
//! Owns: those three schemas. Promises: as strict as JSON Schema can say; byte lengths, 64 bits and duplicate names it
//! can't. Must not: be used to check input; `wire/check.rs` and this folder do.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{Entry, OneValue, Patch};

/// The name of a column of an entry: not empty, not starting with `$` or `__`; without look-ahead, which not every
/// validator has.
pub const NAME: &str = "^([^$_]|_[^_]|_$)";

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
            "propertyNames": { "pattern": NAME, "maxLength": 255 },
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
            "propertyNames": { "pattern": NAME, "maxLength": 255 },
            "additionalProperties": { "anyOf": [value, { "type": "null" }] },
        })
    }
}

/// A value that is not nested.
impl JsonSchema for OneValue<'_> {
    fn schema_name() -> Cow<'static, str> {
        "scalar".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let [binary, integer] = typed();
        schemars::json_schema!({
            "description": "String, 64-bit integer, double, boolean, or a typed value: binary, or an integer as decimal \
                            text. In MessagePack binary is bin.",
            "anyOf": [{ "type": ["string", "number", "boolean"] }, binary, integer],
        })
    }
}

/// The schema of a value.
struct AnyValue;

impl JsonSchema for AnyValue {
    fn schema_name() -> Cow<'static, str> {
        "value".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let [binary, integer] = typed();
        schemars::json_schema!({
            "description": "String, 64-bit integer, double, boolean, nested array or object, or a typed value: binary, or an \
                            integer as decimal text. In MessagePack binary is bin.",
            "anyOf": [
                { "type": ["string", "number", "boolean", "array"] },
                binary,
                integer,
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

/// Binary, and an integer as text.
fn typed() -> [Value; 2] {
    [
        json!({
            "type": "object",
            "properties": {
                "$binary": { "type": "string", "contentEncoding": "base64", "pattern": BASE64 },
            },
            "required": ["$binary"],
            "additionalProperties": false,
        }),
        json!({
            "type": "object",
            "properties": {
                "$integer": { "type": "string", "pattern": "^(0|-?[1-9][0-9]{0,18})$" },
            },
            "required": ["$integer"],
            "additionalProperties": false,
        }),
    ]
}

/// The bits of the last character that are left over are 0.
const BASE64: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
