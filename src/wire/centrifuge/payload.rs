//! Payloads: what a protobuf `bytes` field is in JSON.
//!
//! Owns: that such a field is JSON text in its place, neither a string nor base64. Promises: what is written is one
//! line of valid JSON whatever the bytes are; JSON text comes out as it came in, but for line ends between its parts;
//! bytes that are no JSON, or JSON too deep for some client, are `{"$binary": …}`, as they are natively. Must not:
//! interpret a payload.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use serde_json::value::RawValue;

use crate::decode;

/// The text of bytes that are JSON, if it is not deeper than `depth_max`.
pub(crate) fn json_text(bytes: &[u8], depth_max: u64) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    if decode::deeper_than(depth_max, bytes).is_some() {
        return None;
    }
    let raw: &RawValue = decode::from_str(text).ok()?;
    Some(raw.get())
}

/// One line of JSON, whatever the bytes are.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match json_text(bytes, DEPTH_MAX) {
        None => format!(r#"{{"$binary":"{}"}}"#, BASE64.encode(bytes)).into(),
        Some(text) => one_line(text),
    }
}

/// JSON text on one line. Outside of strings, where line ends can't be, they are white space.
fn one_line(text: &str) -> Cow<'_, str> {
    let is_break = |one| matches!(one, '\n' | '\r');
    match text.contains(is_break) {
        true => text.replace(is_break, " ").into(),
        false => text.into(),
    }
}

/// Decoders of SDKs recurse, so deeper JSON is sent to them as bytes.
const DEPTH_MAX: u64 = 100;

/// Whether a field is left out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn serialize<S: Serializer>(bytes: &Bytes, into: S) -> Result<S::Ok, S::Error> {
    let text = text(bytes);
    let raw = decode::from_str::<&RawValue>(&text);
    raw.map_err(serde::ser::Error::custom)?.serialize(into)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    // A request may have several lines. What is kept of it goes to clients whose messages are one line each.
    Ok(Bytes::from(one_line(raw.get()).into_owned()))
}
