//! What a collector of OpenTelemetry is sent: spans, as the body of a POST of OTLP over HTTP.
//!
//! Owns: the messages of OTLP that a span needs, by their numbers there. Promises: any collector that takes
//! `http/protobuf` reads them. Must not: know which spans there are, or send.

use prost::Message;

/// What is posted.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<OfResource>,
}

#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<OfScope>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct OfScope {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

/// Something that took time, as a part of a trace.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span: Vec<u8>,
    /// 8 bytes: the span that caused it.
    #[prost(bytes = "vec", tag = "4")]
    pub parent: Vec<u8>,
    /// What it is.
    #[prost(string, tag = "5")]
    pub name: String,
    /// [`SERVER`] or another.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// When it began, ns since 1970.
    #[prost(fixed64, tag = "7")]
    pub began_ns: u64,
    /// When it ended.
    #[prost(fixed64, tag = "8")]
    pub ended_ns: u64,
    /// More of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<Attribute>,
    /// Absent = it did what it was to do.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

/// The kind of a span that answers a call from outside.
pub const SERVER: i32 = 2;

/// A name and its value.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    value: Option<Value>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A number.
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// How a span ended.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

impl Status {
    /// It failed.
    #[must_use]
    pub fn error() -> Status {
        Status { code: 2 }
    }
}

impl Attribute {
    /// A name with a value.
    #[must_use]
    pub fn new(name: &str, value: Value) -> Attribute {
        Attribute {
            name: name.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        }
    }
}

/// The body of a POST of spans, which are all of a program that is described by these attributes.
#[must_use]
pub fn body(program: Vec<Attribute>, spans: Vec<Span>) -> Vec<u8> {
    let scope = Scope {
        name: "tideline".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let export = Export {
        resources: vec![OfResource {
            resource: Some(Resource {
                attributes: program,
            }),
            scopes: vec![OfScope {
                scope: Some(scope),
                spans,
            }],
        }],
    };
    export.encode_to_vec()
}
