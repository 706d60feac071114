//! From the bytes of one frame or body to checked calls.
//!
//! Owns: which failure an unfit call gets, and the way from a method's name to its parameters. Promises: the common way reads parameters
//! once, straight into their struct; only a refused call is read again, to find the path of what is wrong.
//! Must not: recurse over input whose depth was not limited.

use std::borrow::Cow;

use serde::de::{Deserialize, DeserializeSeed};

use super::envelope::{Batch, BatchUpTo, Envelope};
use super::{Call, Dialect, Id, Incoming, msgpack};
use crate::wire::check::Check;
use crate::wire::failure::Failure;
use crate::wire::limits::Limits;
use crate::wire::reason::Reason;
use crate::wire::request::Request;
use crate::wire::session::Nothing;

/// Decodes the bytes of one frame or HTTP body.
///
/// # Errors
/// What can't be taken apart into calls at all: it is answered by one failure with the id null.
pub fn decode(dialect: Dialect, body: &[u8], limits: &Limits) -> Result<Incoming, Failure> {
    match dialect {
        Dialect::Json => decode_json(body, limits),
        Dialect::MessagePack => msgpack::decode(body, limits),
    }
}

fn decode_json(body: &[u8], limits: &Limits) -> Result<Incoming, Failure> {
    let Ok(text) = std::str::from_utf8(body) else {
        return Err(Failure::new(Reason::ParseError).saying("not UTF-8"));
    };
    if !text.trim_ascii_start().starts_with('[') {
        let envelope = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        return Ok(Incoming::Single(call(&envelope, Asked::Alone, limits)));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let batch = BatchUpTo(limits.requests_in_flight_max).deserialize(&mut reader);
    let Batch { members, count } = batch.map_err(|error| unreadable(&error))?;
    reader.end().map_err(|error| unreadable(&error))?;
    batch_count(count, limits)?;
    let calls = members
        .iter()
        .map(|member| match serde_json::from_str(member) {
            Ok(envelope) => call(&envelope, Asked::InBatch, limits),
            Err(error) => Call {
                id: Some(Id::Null),
                request: Err(unreadable(&error)),
            },
        });
    Ok(Incoming::Batch(calls.collect()))
}

/// Refuses empty batches and those that could never be in flight at once.
pub(super) fn batch_count(count: u64, limits: &Limits) -> Result<(), Failure> {
    if count == 0 {
        return Err(Failure::new(Reason::InvalidRequest).saying("an empty batch"));
    }
    let limit = limits.requests_in_flight_max;
    if count > limit {
        let failure = Failure::new(Reason::TooLarge);
        return Err(failure
            .saying("more calls than requests_in_flight_max")
            .over(limit, count));
    }
    Ok(())
}

/// Whether a call came alone or in a batch, where it may not wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Alone,
    InBatch,
}

/// What is wrong with text that is no request object.
fn unreadable(error: &serde_json::Error) -> Failure {
    if error.is_data() {
        Failure::new(Reason::InvalidRequest).saying(without_place(error))
    } else {
        Failure::new(Reason::ParseError).saying(error.to_string())
    }
}

/// An error's text without the line and column, which are those of a part.
fn without_place(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(place) = text.rfind(" at line ") {
        text.truncate(place);
    }
    text
}

fn call(envelope: &Envelope<'_>, asked: Asked, limits: &Limits) -> Call {
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
    let method = match method(envelope) {
        Ok(method) => method,
        // Not a request at all, so not a notification either: it is answered.
        Err(failure) => {
            return Call {
                id: Some(id.unwrap_or(Id::Null)),
                request: Err(failure),
            };
        }
    };
    let params = envelope.params.unwrap_or("{}");
    Call {
        id,
        request: depth_within(params, limits)
            .and_then(|()| request(&method, params, asked, limits)),
    }
}

/// Reads an id: text up to 64 bytes or a 64-bit integer.
fn id(text: &str) -> Result<Id, Failure> {
    let id = match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).ok().map(Id::Text),
        // `-0` is no number that would be echoed as it stands.
        Some(b'-' | b'0'..=b'9') if text != "-0" => {
            let unsigned = || text.parse().ok().map(Id::Unsigned);
            text.parse().ok().map(Id::Integer).or_else(unsigned)
        }
        _ => None,
    };
    checked_id(id)
}

/// Refuses what is no id, and texts that are too long.
pub(super) fn checked_id(id: Option<Id>) -> Result<Id, Failure> {
    match id {
        Some(Id::Text(text)) if text.len() > Id::BYTES_MAX => {
            let failure = Failure::new(Reason::InvalidRequest).about("id");
            let failure = failure.saying("an id is at most 64 bytes");
            Err(failure.over(Id::BYTES_MAX as u64, text.len() as u64))
        }
        Some(id) => Ok(id),
        None => {
            let failure = Failure::new(Reason::InvalidRequest).about("id");
            Err(failure.saying("an id is text or a 64-bit integer"))
        }
    }
}

/// The method of a well-formed request object.
fn method<'a>(envelope: &Envelope<'a>) -> Result<Cow<'a, str>, Failure> {
    let text = |text: Option<&'a str>| -> Option<Cow<'a, str>> {
        let text = text?;
        match text.strip_prefix('"')?.strip_suffix('"') {
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            _ => serde_json::from_str(text).ok().map(Cow::Owned),
        }
    };
    let version = text(envelope.jsonrpc);
    well_formed(
        envelope.twice,
        version.as_deref() == Some("2.0"),
        text(envelope.method),
    )
}

/// Refuses what is no JSON-RPC 2.0 request.
pub(super) fn well_formed<T>(twice: bool, version: bool, method: Option<T>) -> Result<T, Failure> {
    let refuse = |field, message: &'static str| {
        Err(Failure::new(Reason::InvalidRequest)
            .about(field)
            .saying(message))
    };
    match method {
        _ if twice => refuse("", "a member stands twice"),
        _ if !version => refuse("jsonrpc", "jsonrpc must be \"2.0\""),
        None => refuse("method", "method must be a text"),
        Some(method) => Ok(method),
    }
}

/// Refuses nesting beyond the limit. The request object itself is depth 1, its parameters 2.
fn depth_within(params: &str, limits: &Limits) -> Result<(), Failure> {
    let limit = limits.json_depth_max;
    let opening = |byte: u8| matches!(byte, b'{' | b'[');
    // Counted a vector at a time; nearly every call ends here.
    let openings = params.bytes().filter(|byte| opening(*byte)).count() as u64;
    if openings < limit {
        return Ok(());
    }
    let (mut depth, mut deepest) = (1, 1);
    let (mut in_text, mut escaped) = (false, false);
    for byte in params.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = depth.max(deepest);
            }
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    if deepest > limit {
        return Err(Failure::too_large(
            "params",
            "json_depth_max",
            limit,
            deepest,
        ));
    }
    Ok(())
}

/// The request of a method and its parameters' JSON text.
pub(super) fn request(
    method: &str,
    text: &str,
    asked: Asked,
    limits: &Limits,
) -> Result<Request, Failure> {
    Ok(match method {
        "message.append" => Request::MessageAppend(params(text, limits)?),
        "message.append_batch" => Request::MessageAppendBatch(params(text, limits)?),
        "message.get" => Request::MessageGet(params(text, limits)?),
        "message.range" => Request::MessageRange(params(text, limits)?),
        "message.update" => Request::MessageUpdate(params(text, limits)?),
        "message.delete" => Request::MessageDelete(params(text, limits)?),
        "timeline.create" => Request::TimelineCreate(params(text, limits)?),
        "timeline.get" => Request::TimelineGet(params(text, limits)?),
        "timeline.update" => Request::TimelineUpdate(params(text, limits)?),
        "timeline.delete" => Request::TimelineDelete(params(text, limits)?),
        "timeline.trim" => Request::TimelineTrim(params(text, limits)?),
        "timeline.list" => Request::TimelineList(params(text, limits)?),
        "sync" => {
            let sync: crate::wire::sync::Sync = params(text, limits)?;
            if sync.wait_ms.is_some() && asked == Asked::InBatch {
                return Err(Failure::invalid(
                    "wait_ms",
                    "a call in a batch may not wait",
                ));
            }
            Request::Sync(sync)
        }
        "subscribe" => Request::Subscribe(params(text, limits)?),
        "unsubscribe" => Request::Unsubscribe(params(text, limits)?),
        "session.open" => Request::SessionOpen(params(text, limits)?),
        "ping" => params(text, limits).map(|Nothing {}| Request::Ping)?,
        "rpc.discover" => params(text, limits).map(|Nothing {}| Request::Discover)?,
        unknown => {
            let failure = Failure::new(Reason::MethodNotFound);
            return Err(failure.saying(format!("no method {unknown}")));
        }
    })
}

/// Reads and checks one method's parameters.
fn params<'a, T>(text: &'a str, limits: &Limits) -> Result<T, Failure>
where
    T: Deserialize<'a> + Check,
{
    if !text.starts_with('{') {
        return Err(Failure::invalid("params", "params must be an object"));
    }
    let mut params: T = serde_json::from_str(text).map_err(|_| explained::<T>(text))?;
    params.check(limits)?;
    Ok(params)
}

/// Reads parameters that were refused once more, to say what is wrong and where.
#[cold]
fn explained<'a, T: Deserialize<'a>>(text: &'a str) -> Failure {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut reader) else {
        return Failure::invalid("params", "not to be read");
    };
    let path = error.path().to_string();
    let message = without_place(error.inner());
    // serde notes these at the object that lacks or has the member.
    let quoted = |prefix: &str| {
        let rest = message.strip_prefix(prefix)?.strip_prefix('`')?;
        Some(rest.split('`').next().unwrap_or(rest).to_owned())
    };
    let missing = quoted("missing field ").or_else(|| quoted("duplicate field "));
    let member = missing.or_else(|| quoted("unknown field "));
    let field = match member {
        Some(member) if path == "." => member,
        Some(member) if path == member || path.ends_with(&format!(".{member}")) => path,
        Some(member) => format!("{path}.{member}"),
        None if path == "." => "params".to_owned(),
        None => path,
    };
    Failure::invalid(field, message)
}
