//! The description of the protocol for machines: one OpenRPC document, made from the types themselves.
//!
//! Owns: the document that `rpc.discover` returns and `schemas/openrpc.json` holds. Promises: made once, the same for
//! every build of the same types. Must not: say anything that the types and lists don't; pushes and close codes, for
//! which OpenRPC has no place, are under `x-` names.

use std::sync::OnceLock;

use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::super::close::Close;
use super::super::failure::Said;
use super::super::methods::Method;
use super::super::push::PUSHES;
use super::super::reasons::Reason;
use super::generator;
use super::generator::below_2_53;

/// Where the document keeps what is named more than once.
const DEFINITIONS: &str = "/components/schemas";

/// The OpenRPC document.
#[must_use]
pub fn openrpc() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(document)
}

fn document() -> Value {
    let mut reading = generator::reading(DEFINITIONS);
    let mut writing = generator::writing(DEFINITIONS);
    let methods: Vec<Value> = Method::ALL
        .iter()
        .map(|method| {
            let params = method.params(&mut reading);
            let mut described = json!({
                "name": method.name(),
                "summary": method.summary(),
                "x-right": method.needs().text(),
                "paramStructure": "by-name",
                "params": members(&params),
                "result": { "name": "result", "schema": method.result(&mut writing) },
                "examples": [example(*method)],
            });
            // What is said of several parameters at once.
            if let Some(rules) = params.get("allOf") {
                described["x-params-rules"] = rules.clone();
            }
            described
        })
        .collect();
    let pushes: Vec<Value> = PUSHES
        .iter()
        .map(|(name, summary, params)| {
            json!({ "name": name, "summary": summary, "schema": params(&mut writing) })
        })
        .collect();
    let error = Said::json_schema(&mut writing);
    let mut definitions = reading.take_definitions(false);
    definitions.extend(writing.take_definitions(false));
    definitions.insert("error".to_owned(), error.to_value());
    let mut whole = json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "Tideline",
            "description": "Timelines of messages: durable, gapless, pushed. JSON-RPC 2.0 over WebSocket and HTTP.",
            "version": "1",
            "license": { "name": "Apache-2.0" },
        },
        "methods": methods,
        "components": { "schemas": definitions, "errors": errors() },
        "x-pushes": pushes,
        "x-close-codes": close_codes(),
    });
    below_2_53(&mut whole);
    whole
}

/// The parameters of a method, each as OpenRPC's content descriptor.
fn members(params: &Schema) -> Value {
    let required = params.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let members = params.get("properties").and_then(Value::as_object);
    let descriptors = members.into_iter().flatten().map(
        |(name, schema)| json!({ "name": name, "required": is_required(name), "schema": schema }),
    );
    // OpenRPC wants required ones first.
    let (first, then): (Vec<Value>, Vec<Value>) =
        descriptors.partition(|descriptor| descriptor["required"] == true);
    first.into_iter().chain(then).collect()
}

/// A method's example as OpenRPC pairs them: parameters by name, and the result unless it is this document.
fn example(method: Method) -> Value {
    let example: Value = serde_json::from_str(method.example()).expect("the examples are tested");
    let params = example["request"]["params"].as_object();
    let params = params.into_iter().flatten();
    let params = params.map(|(name, value)| json!({ "name": name, "value": value }));
    let mut pair = json!({ "name": method.name(), "params": params.collect::<Vec<_>>() });
    if let Some(result) = example["reply"].get("result") {
        pair["result"] = json!({ "name": "result", "value": result });
    }
    pair
}

fn errors() -> Map<String, Value> {
    let error = |reason: Reason| {
        let data = json!({ "reason": reason, "retry": reason.retry() });
        let error = json!({ "code": reason.code(), "message": reason.message(), "data": data });
        (reason.name().to_owned(), error)
    };
    Reason::ALL.iter().copied().map(error).collect()
}

fn close_codes() -> Vec<Value> {
    let code = |close: Close| json!({ "code": close.code(), "reason": close.reason(), "reconnect": close.reconnect() });
    Close::ALL.iter().copied().map(code).collect()
}
