//! Every method and push with the types that are said, and how a schema of them is made.
//!
//! Owns: the list. Promises: a method that is decoded and not listed here fails a test. Must not: describe by hand what
//! a type says itself, or know which documents are made of it (`schemas.rs` and `openrpc.rs` do).

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::check::NUMBER_MAX;
use super::{message, push, session, sync, timeline};

/// A method: its name, what it does, and the types of its parameters and result.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) params: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) result: fn(&mut SchemaGenerator) -> Schema,
}

/// A push: its name, when it comes, and the type of its parameters.
pub(crate) struct Pushed {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) params: fn(&mut SchemaGenerator) -> Schema,
}

/// Any object: the OpenRPC document has a schema of its own elsewhere.
struct Document;

impl JsonSchema for Document {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "rpc.discover.result".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "object", "description": "An OpenRPC document." })
    }
}

const fn method<P: JsonSchema, R: JsonSchema>(name: &'static str, summary: &'static str) -> Method {
    Method {
        name,
        summary,
        params: P::json_schema,
        result: R::json_schema,
    }
}

const fn pushed<P: JsonSchema>(name: &'static str, summary: &'static str) -> Pushed {
    Pushed {
        name,
        summary,
        params: P::json_schema,
    }
}

/// Every method, in the order of the protocol's table.
pub(crate) const METHODS: [Method; 18] = [
    method::<session::Open, session::Opened>("session.open", "Say who one is, hear the limits"),
    method::<session::Nothing, session::Pong>("ping", "Ask for a sign of life"),
    method::<timeline::Create, timeline::Created>("timeline.create", "Make a timeline, or find it"),
    method::<timeline::Get, timeline::Info>("timeline.get", "Read what is known of a timeline"),
    method::<timeline::Update, timeline::Updated>("timeline.update", "Change the meta"),
    method::<timeline::Delete, timeline::Deleted>("timeline.delete", "Delete a timeline"),
    method::<timeline::Trim, timeline::Trimmed>("timeline.trim", "Drop the oldest messages"),
    method::<timeline::List, timeline::Listed>("timeline.list", "List timelines by ID"),
    method::<message::Append, message::Appended>("message.append", "Append a message"),
    method::<message::AppendBatch, message::AppendedBatch>(
        "message.append_batch",
        "Append messages, all or none",
    ),
    method::<message::Get, message::Got>("message.get", "Read one message"),
    method::<message::Range, message::Page>("message.range", "Read a page of messages"),
    method::<message::Update, message::Got>("message.update", "Edit a message"),
    method::<message::Delete, message::Deleted>("message.delete", "Make a message a tombstone"),
    method::<sync::Sync, sync::Synced>("sync", "Read what is new in many timelines"),
    method::<sync::Subscribe, sync::Subscribed>("subscribe", "Resume a timeline and follow it"),
    method::<sync::Unsubscribe, sync::Unsubscribed>("unsubscribe", "End a subscription"),
    method::<session::Nothing, Document>("rpc.discover", "Read this description"),
];

/// Every push.
pub(crate) const PUSHES: [Pushed; 5] = [
    pushed::<push::Messages>("message", "New messages of a subscription"),
    pushed::<push::Changed>(
        "message.changed",
        "Edits and deletions up to the reader's position",
    ),
    pushed::<push::TimelineChanged>("timeline.changed", "The meta was updated"),
    pushed::<push::SubscriptionEnded>("subscription.ended", "Nothing of it follows"),
    pushed::<push::Draining>("draining", "The server shuts down soon"),
];

/// A generator for what the server reads; definitions go to `path`, or where JSON Schema has them.
pub(crate) fn reading(path: &'static str) -> SchemaGenerator {
    settings(path).into_generator()
}

/// A generator for what the server writes.
pub(crate) fn writing(path: &'static str) -> SchemaGenerator {
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
pub(crate) fn below_2_53(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members
                .get("format")
                .is_some_and(|format| format == "uint64")
            {
                members.remove("format");
                members.insert("maximum".to_owned(), json!(NUMBER_MAX));
            }
            members.values_mut().for_each(below_2_53);
        }
        Value::Array(items) => items.iter_mut().for_each(below_2_53),
        _ => {}
    }
}
