//! JSON Schemas of all that is said, made from the types: what `schemas/` holds.
//!
//! Owns: the files' names and what makes each stand alone. Promises: the same text for every build of the same types.
//! Must not: describe by hand what a type says itself.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::failure::Said;
use super::methods::{METHODS, Method, PUSHES, Pushed, below_2_53, reading, writing};
use super::openrpc::openrpc;

/// Every file of `schemas/` that is made from the types: its name, and what it holds.
#[must_use]
pub fn files() -> Vec<(String, Value)> {
    let mut files = Vec::new();
    for Method {
        name,
        summary,
        params,
        result,
    } in &METHODS
    {
        let title = format!("{name}.params");
        files.push((
            format!("{title}.json"),
            whole(&title, summary, reading(""), *params),
        ));
        let title = format!("{name}.result");
        files.push((
            format!("{title}.json"),
            whole(&title, summary, writing(""), *result),
        ));
    }
    for Pushed {
        name,
        summary,
        params,
    } in &PUSHES
    {
        let title = format!("push.{name}");
        files.push((
            format!("{title}.json"),
            whole(&title, summary, writing(""), *params),
        ));
    }
    let summary = "The error of a call that was refused";
    files.push((
        "error.json".to_owned(),
        whole("error", summary, writing(""), Said::json_schema),
    ));
    files.push(("openrpc.json".to_owned(), openrpc().clone()));
    files
}

/// A schema that stands alone, with the definitions that it names.
fn whole(
    title: &str,
    summary: &str,
    mut generator: SchemaGenerator,
    make: fn(&mut SchemaGenerator) -> Schema,
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
