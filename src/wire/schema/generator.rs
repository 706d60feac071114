//! How schemas are generated from types.
//!
//! Owns: the dialect of JSON Schema, and what is said of numbers in it. Promises: the same settings for every schema.
//! Must not: know a type.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::super::check::NUMBER_MAX;

/// A generator for what the server reads; definitions go to `path`, or where JSON Schema has them.
pub(in super::super) fn reading(path: &'static str) -> SchemaGenerator {
    settings(path).into_generator()
}

/// A generator for what the server writes.
pub(in super::super) fn writing(path: &'static str) -> SchemaGenerator {
    settings(path).for_serialize().into_generator()
}

fn settings(path: &'static str) -> SchemaSettings {
    let settings = SchemaSettings::draft2020_12();
    if path.is_empty() {
        return settings;
    }
    settings.with(|settings| settings.definitions_path = path.into())
}

/// Every number of the protocol is below 2^53, which a double holds exactly: says so wherever a schema has a 64-bit
/// number.
pub(in super::super) fn below_2_53(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members
                .get("format")
                .is_some_and(|format| format == "uint64")
            {
                members.remove("format");
                members
                    .entry("maximum")
                    .or_insert_with(|| json!(NUMBER_MAX));
            }
            members.values_mut().for_each(below_2_53);
        }
        Value::Array(items) => items.iter_mut().for_each(below_2_53),
        _ => {}
    }
}
