//! What a schema says beyond the types: which members exclude or need each other, and what texts look like.
//!
//! Owns: the patterns of names, and the rules "one of", "some of", "not both", "only with". Promises: a member that is
//! `null` counts as absent, as it does for the decoders. Must not: be used to check input; `check.rs` and the families
//! do, and `tests/python/test_schemas.py` compares the two.

use schemars::Schema;
use serde_json::{Value, json};

pub(in super::super) use tideline_model::{NO_CONTROL, entry::NAME};

/// A text without control characters that is not one of the server's own names.
pub(in super::super) const NOT_OURS: &str =
    "^([^$\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*)?$";
/// The name of a table.
pub(in super::super) const TABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// The name of a table's column.
pub(in super::super) const COLUMN: &str = "^[^#]";
/// The name of a folder that backups go to.
pub(in super::super) const FOLDER: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$";
/// The name of an API key.
pub(in super::super) const KEY_NAME: &str = "^[A-Za-z0-9._-]+$";

/// The member is there.
pub(in super::super) fn given(name: &str) -> Value {
    json!({ "required": [name], "properties": { name: { "not": { "type": "null" } } } })
}

/// The member is there and says something.
pub(in super::super) fn said(name: &str) -> Value {
    let says = json!({ "not": { "type": "null" }, "minItems": 1, "minProperties": 1 });
    json!({ "required": [name], "properties": { name: says } })
}

/// One of the members is there at least.
pub(in super::super) fn any_given<const N: usize>(names: [&str; N]) -> Value {
    json!({ "anyOf": names.map(given).to_vec() })
}

/// A member has this value, or is not there.
pub(in super::super) fn is_or_absent(name: &str, value: &str) -> Value {
    json!({ "properties": { name: { "const": value } } })
}

/// What a comparison of a filter needs.
pub(in super::super) fn compares() -> Value {
    json!({ "allOf": [given("column"), given("op"), given("value")] })
}

/// A list has no such item, or is not there.
pub(in super::super) fn lacks(name: &str, item: &str) -> Value {
    json!({ "properties": { name: { "not": { "contains": { "const": item } } } } })
}

/// A list has such an item.
pub(in super::super) fn has(name: &str, item: &str) -> Value {
    json!({ "required": [name], "properties": { name: { "contains": { "const": item } } } })
}

/// The members' names are IDs of timelines.
pub(in super::super) fn timelines(schema: &mut Schema) {
    let names = json!({ "minLength": 1, "maxLength": 255, "pattern": NO_CONTROL });
    schema.insert("propertyNames".to_owned(), names);
}

/// A list is empty, or has two items at least.
pub(in super::super) fn not_just_one(schema: &mut Schema) {
    schema.insert("not".to_owned(), json!({ "minItems": 1, "maxItems": 1 }));
}

/// Exactly one of these holds.
pub(in super::super) fn one_of<const N: usize>(all: [Value; N]) -> impl FnMut(&mut Schema) {
    rule(json!({ "oneOf": all.to_vec() }))
}

/// At least one of these holds.
pub(in super::super) fn some_of<const N: usize>(all: [Value; N]) -> impl FnMut(&mut Schema) {
    rule(json!({ "anyOf": all.to_vec() }))
}

/// This member is not together with any of those.
pub(in super::super) fn not_beside<const N: usize>(
    name: &str,
    others: [&str; N],
) -> impl FnMut(&mut Schema) {
    rule(json!({ "not": { "allOf": [given(name), any_given(others)] } }))
}

/// None of these is there without this member.
pub(in super::super) fn not_without<const N: usize>(
    name: &str,
    others: [&str; N],
) -> impl FnMut(&mut Schema) {
    only_with(any_given(others), given(name))
}

/// If the first holds, the second does too.
pub(in super::super) fn only_with(one: Value, needed: Value) -> impl FnMut(&mut Schema) {
    rule(json!({ "anyOf": [{ "not": one }, needed] }))
}

fn rule(rule: Value) -> impl FnMut(&mut Schema) {
    move |schema| {
        let rules = schema
            .ensure_object()
            .entry("allOf")
            .or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(rule.clone());
        }
    }
}
