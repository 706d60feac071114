//! `docs/API.md` and the OpenRPC document say the same.
//!
//! Owns: how the document becomes a page. Promises: fails when the page differs from what the document and
//! `schemas/examples/` make of it; `TIDELINE_BLESS=1 cargo test --test contract` writes it anew. Must not: know a
//! method by name, or say anything about one that its types do not say.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tideline::wire::openrpc;

#[test]
fn the_page_is_made_from_the_document() {
    let file = root().join("docs/API.md");
    let made = page(openrpc());
    if std::env::var_os("TIDELINE_BLESS").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "docs/API.md differs: TIDELINE_BLESS=1 cargo test --test contract"
    );
}

#[test]
fn only_what_says_nothing_has_no_results() {
    let page = page(openrpc());
    for section in page.split("\n### `").skip(1) {
        if section.contains("No results.") {
            let name = section.split('`').next().unwrap();
            let says = "\"result\":{}}";
            assert!(section.contains(says), "{name} has results");
        }
    }
}

#[test]
fn the_page_has_a_section_with_an_example_for_each_method_and_push() {
    let page = page(openrpc());
    let sections: Vec<&str> = page.split("\n### ").skip(1).collect();
    for (list, prefix) in [("methods", ""), ("x-pushes", "Push ")] {
        for one in openrpc()[list].as_array().unwrap() {
            let title = format!("{prefix}`{}`", text(one, "name"));
            let section = sections.iter().find(|part| part.starts_with(&title));
            let section = section.unwrap_or_else(|| panic!("no section {title}"));
            assert!(section.contains("```json"), "{title} has no example");
        }
    }
}

const HEAD: &str = "\
# The protocol, method by method

Made from the [OpenRPC document](../schemas/openrpc.json), which `rpc.discover` returns too, and from `schemas/examples/`. Requests are
JSON-RPC 2.0, as JSON or MessagePack, over a WebSocket (`/v1/connect`) or HTTP (`POST /v1/rpc`). [README](../README.md#a-first-conversation)
has a first conversation, [PROTOCOL.md](PROTOCOL.md) how a client uses the methods. All times are milliseconds since 1970; all numbers of the protocol are
below 2^53.

";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn page(document: &Value) -> String {
    let mut out = HEAD.to_owned();
    let methods = document["methods"].as_array().unwrap();
    let pushes = document["x-pushes"].as_array().unwrap();
    contents(&mut out, methods, pushes);
    out.push_str("\n## Methods\n");
    for method in methods {
        let name = text(method, "name");
        write!(out, "\n### `{name}`\n\n{}.\n", text(method, "summary")).unwrap();
        let params = method["params"].as_array().unwrap();
        table(&mut out, "parameter", params.iter().map(param).collect());
        results(
            &mut out,
            &method["result"]["schema"],
            &document["components"]["schemas"],
        );
        example(&mut out, name, &["request", "reply", "error"]);
    }
    out.push_str("\n## Pushes\n\nNotifications of the server, over a WebSocket only.\n");
    for push in pushes {
        let name = text(push, "name");
        write!(out, "\n### Push `{name}`\n\n{}.\n", text(push, "summary")).unwrap();
        table(&mut out, "member", members(&push["schema"]));
        example(&mut out, &format!("push.{name}"), &["push"]);
    }
    types(&mut out, &document["components"]["schemas"]);
    errors(&mut out, document);
    closes(&mut out, &document["x-close-codes"]);
    out
}

fn contents(out: &mut String, methods: &[Value], pushes: &[Value]) {
    let links = |list: &[Value], prefix: &str| {
        let link = |one: &Value| {
            let name = text(one, "name");
            format!("[`{name}`](#{prefix}{})", anchor(name))
        };
        list.iter().map(link).collect::<Vec<_>>().join(" · ")
    };
    writeln!(out, "- Methods: {}", links(methods, "")).unwrap();
    writeln!(out, "- Pushes: {}", links(pushes, "push-")).unwrap();
    out.push_str("- [Types](#types) · [Errors](#errors) · [Close codes](#close-codes)\n");
}

/// As the common renderers of Markdown make one of a title: lower case, and no dots.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace('.', "").replace(' ', "-")
}

/// The anchor of the section that tells of a type.
fn section(name: &str) -> String {
    match name.strip_suffix(".result") {
        Some(method) => anchor(method),
        None if name == "Reason" => "errors".to_owned(),
        None => anchor(&name.replacen("push.", "push-", 1)),
    }
}

/// A row of a table: name, type, whether it must or will be there, meaning.
struct Row {
    name: String,
    kind: String,
    required: bool,
    about: String,
}

fn table(out: &mut String, title: &str, mut rows: Vec<Row>) {
    if rows.is_empty() {
        writeln!(out, "\nNo {title}s.").unwrap();
        return;
    }
    rows.sort_by_key(|row| !row.required);
    write!(out, "\n| {title} | type | | |\n|---|---|---|---|\n").unwrap();
    for row in rows {
        let required = if row.required { "" } else { "optional" };
        let Row {
            name, kind, about, ..
        } = row;
        writeln!(out, "| `{name}` | {kind} | {required} | {about} |").unwrap();
    }
}

/// The members of a result; of one that has several forms, those of each.
fn results(out: &mut String, result: &Value, schemas: &Value) {
    let Some(forms) = result.get("anyOf").or_else(|| result.get("oneOf")) else {
        return table(out, "result", members(result));
    };
    for (at, form) in forms.as_array().unwrap().iter().enumerate() {
        let name = text(form, "$ref").rsplit('/').next().unwrap_or_default();
        let named = &schemas[name];
        let about = [form, named].map(|one| text(one, "description"));
        let about = about.into_iter().find(|about| !about.is_empty());
        let either = if at == 0 { "Either" } else { "Or" };
        let about = one_line(about.unwrap_or_default());
        write!(out, "\n{either} [{name}](#{}): {about}\n", section(name)).unwrap();
        table(out, "result", members(named));
    }
}

fn param(param: &Value) -> Row {
    let required = param["required"] == true;
    row(text(param, "name"), &param["schema"], required)
}

fn members(schema: &Value) -> Vec<Row> {
    let empty = Map::new();
    let members = schema["properties"].as_object().unwrap_or(&empty);
    let named = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == name))
    };
    let rows = members
        .iter()
        .map(|(name, member)| row(name, member, named(name)));
    rows.collect()
}

fn row(name: &str, schema: &Value, required: bool) -> Row {
    let mut about = one_line(text(schema, "description"));
    if let Some(default) = schema.get("default").filter(|_| !about.contains("default")) {
        write!(about, " Default `{default}`.").unwrap();
    }
    Row {
        name: name.to_owned(),
        kind: kind(schema),
        required,
        about,
    }
}

/// What values fit, in a few words; a named type is a link.
fn kind(schema: &Value) -> String {
    if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
        let name = path.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", section(name));
    }
    if let Some(all) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
        let kinds = all.as_array().unwrap().iter().map(kind);
        let kinds: Vec<String> = kinds.filter(|kind| !kind.is_empty()).collect();
        return kinds.join(" or ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{}`", value.as_str().unwrap());
    }
    let names = match &schema["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::String(name) => vec![name.as_str()],
        _ => Vec::new(),
    };
    let kinds = names
        .into_iter()
        .filter(|name| *name != "null")
        .map(|name| match name {
            "array" if schema.get("items").is_some() => {
                format!("array of {}", kind(&schema["items"]))
            }
            "object" if schema["additionalProperties"].is_object() => {
                format!("object of {}", kind(&schema["additionalProperties"]))
            }
            "object" => match schema["properties"].as_object() {
                Some(members) => {
                    let names = members.keys().map(|name| format!("`{name}`"));
                    format!("object with {}", names.collect::<Vec<_>>().join(", "))
                }
                None => "object".to_owned(),
            },
            name => name.to_owned(),
        });
    kinds.collect::<Vec<_>>().join(" or ")
}

fn example(out: &mut String, name: &str, parts: &[&str]) {
    let file = root().join("schemas/examples").join(format!("{name}.json"));
    let text = fs::read_to_string(file).unwrap();
    let example: HashMap<&str, &RawValue> = serde_json::from_str(&text).unwrap();
    let lines = parts.iter().filter_map(|part| example.get(part));
    let lines: Vec<String> = lines.map(|object| abridged(object.get())).collect();
    write!(out, "\n```json\n{}\n```\n", lines.join("\n")).unwrap();
}

/// On one line, its members in their order; the whole of what is too long for a page is a file of `schemas/examples/`.
fn abridged(object: &str) -> String {
    let text: String = object.lines().map(str::trim_start).collect();
    let text = text.replace("\": ", "\":");
    match text.char_indices().nth(EXAMPLE_CHARS_MAX) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

const EXAMPLE_CHARS_MAX: usize = 1_500;

fn types(out: &mut String, schemas: &Value) {
    out.push_str("\n## Types\n");
    for (name, schema) in schemas.as_object().unwrap() {
        // A result of its own method, a push, and the errors' reasons, which have a table.
        if name.ends_with(".result") || name.starts_with("push.") || name == "Reason" {
            continue;
        }
        let about = one_line(text(schema, "description"));
        write!(out, "\n### {name}\n\n{about}\n").unwrap();
        if schema.get("properties").is_some() {
            table(out, "member", members(schema));
        } else if let Some(all) = schema["oneOf"].as_array() {
            out.push_str("\n| value | |\n|---|---|\n");
            for one in all {
                let about = one_line(text(one, "description"));
                writeln!(out, "| {} | {about} |", kind(one)).unwrap();
            }
        } else {
            write!(out, "\nType: {}.\n", kind(schema)).unwrap();
        }
    }
}

fn errors(out: &mut String, document: &Value) {
    out.push_str(ERRORS);
    out.push_str("\n| reason | code | retry | |\n|---|---:|---|---|\n");
    let components = &document["components"];
    for reason in components["schemas"]["Reason"]["oneOf"].as_array().unwrap() {
        let name = text(reason, "const");
        let error = &components["errors"][name];
        let retry = if error["data"]["retry"] == true {
            "yes"
        } else {
            ""
        };
        let about = one_line(text(reason, "description"));
        writeln!(out, "| `{name}` | {} | {retry} | {about} |", error["code"]).unwrap();
    }
}

const ERRORS: &str = "
## Errors

<a id=\"reason\"></a>An error has a `reason` to switch on, and says with `retry` whether the same call can succeed later.
";

fn closes(out: &mut String, closes: &Value) {
    out.push_str("\n## Close codes\n\n| code | reason | reconnect |\n|---:|---|---|\n");
    for close in closes.as_array().unwrap() {
        let reconnect = if close["reconnect"] == true {
            "yes, and resume"
        } else {
            "not before the client is mended"
        };
        writeln!(
            out,
            "| {} | `{}` | {reconnect} |",
            close["code"],
            text(close, "reason")
        )
        .unwrap();
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// As a cell of a table takes it.
fn one_line(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
