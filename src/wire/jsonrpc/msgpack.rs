//! MessagePack on its way in: calls are taken apart as they stand, their parameters turned into JSON text and read by
//! the same decoder.
//!
//! Owns: requests in MessagePack. Promises: recursion only down to the configured depth, and the text is a small
//! multiple of the input. Must not: accept what JSON could not say, but bin as the value of a column.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::call::{Asked, batch_count, checked_id, request, well_formed};
use super::packed::{Head, Malformed, Reader};
use super::{Body, Call, Id};
use crate::wire::failure::Failure;
use crate::wire::limits::Limits;
use crate::wire::reason::Reason;

/// Decodes one binary frame.
pub(super) fn decode(body: &[u8], limits: &Limits) -> Result<Body, Failure> {
    let mut whole = Reader { rest: body };
    whole.skip().map_err(Failure::from)?;
    if !whole.rest.is_empty() {
        return Err(Failure::new(Reason::ParseError).saying("bytes after the end"));
    }
    let mut reader = Reader { rest: body };
    let Head::Array(count) = reader.head()? else {
        return Ok(Body::Single(call(
            &mut Reader { rest: body },
            Asked::Alone,
            limits,
        )));
    };
    batch_count(u64::from(count), limits)?;
    let calls = (0..count).map(|_| call(&mut reader, Asked::InBatch, limits));
    Ok(Body::Batch(calls.collect()))
}

/// The members of a request object, each as its bytes.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    twice: bool,
}

impl<'a> Envelope<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Envelope<'a>, Failure> {
        let mut object = Reader {
            rest: reader.value()?,
        };
        let Head::Map(pairs) = object.head()? else {
            return Err(Failure::new(Reason::InvalidRequest).saying("expected a request object"));
        };
        let mut envelope = Envelope::default();
        for _ in 0..pairs {
            let name = object.value()?;
            let value = object.value()?;
            let slot = match text(name) {
                Some("jsonrpc") => &mut envelope.jsonrpc,
                Some("id") => &mut envelope.id,
                Some("method") => &mut envelope.method,
                Some("params") => &mut envelope.params,
                _ => continue,
            };
            envelope.twice |= slot.is_some();
            *slot = Some(value);
        }
        Ok(envelope)
    }
}

/// The text that a value is, if it is one.
fn text(value: &[u8]) -> Option<&str> {
    match (Reader { rest: value }).head() {
        Ok(Head::Text(bytes)) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn call(reader: &mut Reader<'_>, asked: Asked, limits: &Limits) -> Call {
    let envelope = match Envelope::read(reader) {
        Ok(envelope) => envelope,
        Err(failure) => {
            return Call {
                id: Some(Id::Null),
                request: Err(failure),
            };
        }
    };
    let id = match envelope.id.map(id) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(failure)) => {
            return Call {
                id: Some(Id::Null),
                request: Err(failure),
            };
        }
    };
    let version = envelope.jsonrpc.and_then(text) == Some("2.0");
    let method = match well_formed(envelope.twice, version, envelope.method.and_then(text)) {
        Ok(method) => method,
        Err(failure) => {
            return Call {
                id: Some(id.unwrap_or(Id::Null)),
                request: Err(failure),
            };
        }
    };
    let params = match envelope.params {
        None => Ok("{}".to_owned()),
        Some(params) => json_of_params(params, limits),
    };
    Call {
        id,
        request: params.and_then(|params| request(method, &params, asked, limits)),
    }
}

fn id(value: &[u8]) -> Result<Id, Failure> {
    checked_id(match (Reader { rest: value }).head()? {
        Head::Text(bytes) => std::str::from_utf8(bytes)
            .ok()
            .map(|text| Id::Text(text.to_owned())),
        Head::Integer(number) => Some(Id::Integer(number)),
        Head::Unsigned(number) => Some(Id::Unsigned(number)),
        _ => None,
    })
}

/// Where in the parameters a value stands: decides whether bin may stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Params,
    Messages,
    BatchMessage,
    Columns,
    Column,
    Elsewhere,
}

impl Place {
    fn of_member(self, name: &str) -> Place {
        match (self, name) {
            (Place::Params, "messages") => Place::Messages,
            (Place::Params, "entry" | "meta" | "set") => Place::Columns,
            (Place::BatchMessage, "entry") => Place::Columns,
            (Place::Columns, _) => Place::Column,
            _ => Place::Elsewhere,
        }
    }

    fn of_item(self) -> Place {
        match self {
            Place::Messages => Place::BatchMessage,
            _ => Place::Elsewhere,
        }
    }
}

/// Why a value can't be said in JSON. The path is put together on the way out, innermost first.
struct Refused {
    failure: Box<Failure>,
    path: Vec<Step>,
}

enum Step {
    Name(String),
    Index(u32),
}

impl<F: Into<Failure>> From<F> for Refused {
    fn from(failure: F) -> Refused {
        Refused {
            failure: Box::new(failure.into()),
            path: Vec::new(),
        }
    }
}

impl Refused {
    fn at(mut self, step: Step) -> Refused {
        self.path.push(step);
        self
    }

    fn into_failure(self) -> Failure {
        if self.failure.reason == Reason::ParseError {
            return *self.failure;
        }
        let mut field = String::new();
        for step in self.path.into_iter().rev() {
            match step {
                Step::Name(name) if field.is_empty() => field = name,
                Step::Name(name) => field = format!("{field}.{name}"),
                Step::Index(index) => field = format!("{field}[{index}]"),
            }
        }
        self.failure.about(if field.is_empty() {
            "params".to_owned()
        } else {
            field
        })
    }
}

/// The JSON text of a call's parameters.
fn json_of_params(params: &[u8], limits: &Limits) -> Result<String, Failure> {
    let mut out = Vec::with_capacity(params.len() + params.len() / 2 + 16);
    let depth_left = limits.json_depth_max.saturating_sub(1);
    let mut writer = Transcoder {
        reader: Reader { rest: params },
        out: &mut out,
        limits,
    };
    writer
        .value(Place::Params, depth_left)
        .map_err(Refused::into_failure)?;
    Ok(String::from_utf8(out).expect("serde_json and checked texts are UTF-8"))
}

/// Writes MessagePack values as JSON text.
struct Transcoder<'a, 'out> {
    reader: Reader<'a>,
    out: &'out mut Vec<u8>,
    limits: &'a Limits,
}

impl Transcoder<'_, '_> {
    fn value(&mut self, place: Place, depth_left: u64) -> Result<(), Refused> {
        let invalid = |message: &'static str| {
            Err(Refused::from(
                Failure::new(Reason::InvalidParams).saying(message),
            ))
        };
        match self.reader.head()? {
            Head::Array(_) | Head::Map(_) if depth_left == 0 => {
                let limit = self.limits.json_depth_max;
                return Err(Failure::too_large("", "json_depth_max", limit, limit + 1).into());
            }
            Head::Array(items) => return self.array(items, place, depth_left - 1),
            Head::Map(pairs) => return self.map(pairs, place, depth_left - 1),
            Head::Nil => self.out.extend_from_slice(b"null"),
            Head::Boolean(truth) => self.scalar(&truth),
            Head::Integer(number) => self.scalar(&number),
            Head::Unsigned(number) => self.scalar(&number),
            Head::Double(number) if !number.is_finite() => return invalid("NaN or infinity"),
            Head::Double(number) => self.scalar(&number),
            Head::Text(bytes) => self.scalar(&utf8(bytes)?),
            Head::Binary(bytes) if place == Place::Column => {
                self.out.extend_from_slice(br#"{"$binary":""#);
                self.out.extend_from_slice(BASE64.encode(bytes).as_bytes());
                self.out.extend_from_slice(br#""}"#);
            }
            Head::Binary(_) => return invalid("bin is only a value of an entry, not nested"),
            Head::Extension => return invalid("ext is not a value"),
        }
        Ok(())
    }

    fn scalar(&mut self, value: &impl serde::Serialize) {
        serde_json::to_writer(&mut *self.out, value).expect("a scalar, into memory");
    }

    fn array(&mut self, items: u32, place: Place, depth_left: u64) -> Result<(), Refused> {
        self.out.push(b'[');
        for index in 0..items {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(place.of_item(), depth_left)
                .map_err(|refused| refused.at(Step::Index(index)))?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn map(&mut self, pairs: u32, place: Place, depth_left: u64) -> Result<(), Refused> {
        self.out.push(b'{');
        for index in 0..pairs {
            if index > 0 {
                self.out.push(b',');
            }
            let Head::Text(name) = self.reader.head()? else {
                let failure = Failure::new(Reason::InvalidParams);
                return Err(failure.saying("names of a map must be texts").into());
            };
            let name = utf8(name)?;
            self.scalar(&name);
            self.out.push(b':');
            self.value(place.of_member(name), depth_left)
                .map_err(|refused| refused.at(Step::Name(name.to_owned())))?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a text that is not UTF-8"))
}
