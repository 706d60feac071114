//! From JSON text to checked calls.
//!
//! Owns: requests in JSON text. Promises: text is read once into its parts, which stay slices of it. Must not: recurse
//! over input whose depth is not limited.

use std::borrow::Cow;

use serde::de::DeserializeSeed;

use super::super::reasons::Reason;
use super::call::{
    Asked, append, batch_count, checked_id, request, sync, well_formed, without_place,
};
use super::envelope::{Batch, BatchUpTo, Early, Envelope, Reads};
use super::{Body, Call, Id};
use crate::failure::Failure;
use crate::limits::Limits;
use crate::methods::Method;
use tideline_base::decode;

/// Decodes JSON text.
pub(super) fn decode(body: &[u8], limits: &Limits) -> Result<Body, Failure> {
    let Ok(text) = std::str::from_utf8(body) else {
        return Err(Failure::new(Reason::ParseError).saying("not UTF-8"));
    };
    if !text.trim_ascii_start().starts_with('[') {
        // The parameters are one deeper than the object.
        let reads = match decode::openings(text.as_bytes()) <= limits.json_depth_max {
            true => Reads::All,
            false => Reads::Syncs,
        };
        let envelope = Envelope::read(text, reads).map_err(|error| unreadable(&error))?;
        return Ok(Body::Single(call(envelope, Asked::Alone, limits)));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let batch = BatchUpTo(limits.batch_calls_max()).deserialize(&mut reader);
    let Batch { members, count } = batch.map_err(|error| unreadable(&error))?;
    reader.end().map_err(|error| unreadable(&error))?;
    batch_count(count, limits)?;
    let calls = members
        .iter()
        .map(|member| match Envelope::read(member, Reads::Syncs) {
            Ok(envelope) => call(envelope, Asked::InBatch, limits),
            Err(error) => Call {
                id: Some(Id::Null),
                method: None,
                traceparent: None,
                request: Err(unreadable(&error)),
            },
        });
    Ok(Body::Batch(calls.collect()))
}

/// What is wrong with text that is no request object.
fn unreadable(error: &serde_json::Error) -> Failure {
    if error.is_data() {
        Failure::new(Reason::InvalidRequest).saying(without_place(error))
    } else {
        Failure::new(Reason::ParseError).saying(error.to_string())
    }
}

fn call(envelope: Envelope<'_>, asked: Asked, limits: &Limits) -> Call {
    let id = envelope.id.map(id).transpose();
    let method = method(&envelope);
    // One that can't be read is none, whatever it is.
    let traceparent = envelope
        .traceparent
        .and_then(|text| decode::from_str(text).ok());
    let known = method.as_deref().ok().and_then(Method::from_name);
    let (id, request) = match (id, method) {
        (Err(failure), _) => (Some(Id::Null), Err(failure)),
        // Not a request at all, so not a notification either: it is answered.
        (Ok(id), Err(failure)) => (Some(id.unwrap_or(Id::Null)), Err(failure)),
        (Ok(id), Ok(method)) => match envelope.early {
            // Not too deep, or it would not have been read on the way.
            Some(Early::Sync(params)) => (id, sync(params, asked, limits)),
            Some(Early::Append(params)) => (id, append(params, limits)),
            None => {
                let params = envelope.params.unwrap_or("{}");
                let shallow = depth_within(params, limits);
                (
                    id,
                    shallow.and_then(|()| request(&method, params, asked, limits)),
                )
            }
        },
    };
    Call {
        id,
        method: known,
        traceparent,
        request,
    }
}

/// Reads an id: text up to 64 bytes or a 64-bit integer.
fn id(text: &str) -> Result<Id, Failure> {
    let id = match text.as_bytes().first() {
        Some(b'"') => decode::from_str(text).ok().map(Id::Text),
        // `-0` would not be echoed as it is.
        Some(b'-' | b'0'..=b'9') if text != "-0" => {
            let unsigned = || text.parse().ok().map(Id::Unsigned);
            text.parse().ok().map(Id::Integer).or_else(unsigned)
        }
        _ => None,
    };
    checked_id(id)
}

/// The method of a well-formed request object.
fn method<'a>(envelope: &Envelope<'a>) -> Result<Cow<'a, str>, Failure> {
    let text = |text: Option<&'a str>| -> Option<Cow<'a, str>> {
        let text = text?;
        match text.strip_prefix('"')?.strip_suffix('"') {
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            _ => decode::from_str(text).ok().map(Cow::Owned),
        }
    };
    let version = text(envelope.jsonrpc);
    well_formed(
        envelope.twice,
        version.as_deref() == Some("2.0"),
        text(envelope.method),
    )
}

/// Refuses nesting beyond the limit. The request object itself is depth 1, its parameters 2.
pub(super) fn depth_within(params: &str, limits: &Limits) -> Result<(), Failure> {
    let limit = limits.json_depth_max;
    match decode::deeper_than(limit - 1, params.as_bytes()) {
        Some(depth) => Err(Failure::too_large(
            "params",
            "json_depth_max",
            limit,
            depth + 1,
        )),
        None => Ok(()),
    }
}
