//! JSON Schemas of all that is said, made from the types: what `schemas/` holds.
//!
//! Owns: the files' names and what makes each complete by itself. Promises: the same text for every build of the same
//! types. Must not: describe by hand what a type says itself.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::super::failure::Said;
use super::super::methods::Method;
use super::super::push::PUSHES;
use super::generator::{below_2_53, reading, writing};
use super::openrpc::openrpc;

/// Every file of `schemas/` that is made from the types: its name, and what it holds.
#[must_use]
pub fn files() -> Vec<(String, Value)> {
    let mut files = Vec::new();
    let mut add = |title: String, schema| files.push((format!("{title}.json"), schema));
    for method in Method::ALL {
        let (name, summary) = (method.name(), method.summary());
        let title = format!("{name}.params");
        let params = whole(&title, summary, reading(""), |generator| {
            method.params(generator)
        });
        add(title, with_right(params, *method));
        let title = format!("{name}.result");
        let result = whole(&title, summary, writing(""), |generator| {
            method.result(generator)
        });
        add(title, result);
    }
    for (name, summary, params) in PUSHES {
        let title = format!("push.{name}");
        let push = whole(&title, summary, writing(""), params);
        add(title, push);
    }
    let summary = "The error of a call that was refused";
    let error = whole("error", summary, writing(""), Said::json_schema);
    add("error".to_owned(), error);
    add("openrpc".to_owned(), openrpc().clone());
    files
}

/// The parameters say what a caller needs for their method.
fn with_right(mut params: Value, method: Method) -> Value {
    params["x-right"] = json!(method.needs().text());
    params
}

/// A schema with the definitions that it names.
fn whole(
    title: &str,
    summary: &str,
    mut generator: SchemaGenerator,
    make: impl FnOnce(&mut SchemaGenerator) -> Schema,
) -> Value {
    let mut schema = make(&mut generator);
    let definitions = generator.take_definitions(false);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema.insert(
        "$schema".to_owned(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".to_owned(), json!(title));
    if schema.get("description").is_none() {
        schema.insert("description".to_owned(), json!(summary));
    }
    let mut whole = schema.to_value();
    below_2_53(&mut whole);
    whole
}
