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

use tideline_base::decode;

/// Bytes that are JSON, if it is not deeper than `depth_max`.
fn json(bytes: &[u8], depth_max: u64) -> Option<&RawValue> {
    let text = std::str::from_utf8(bytes).ok()?;
    if decode::deeper_than(depth_max, bytes).is_some() {
        return None;
    }
    decode::from_str(text).ok()
}

/// Whether bytes are one line of JSON with nothing around it, not deeper than `depth_max`.
pub(super) fn is_line(bytes: &[u8], depth_max: u64) -> bool {
    let text = json(bytes, depth_max).map(RawValue::get);
    text.is_some_and(|text| text.len() == bytes.len() && !text.contains(LINE_ENDS))
}

/// One line of JSON, whatever the bytes are.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match json(bytes, DEPTH_MAX) {
        None => format!(r#"{{"$binary":"{}"}}"#, BASE64.encode(bytes)).into(),
        Some(json) => one_line(json.get().into()),
    }
}

/// JSON text on one line. Outside of strings, where line ends can't be, they are white space.
fn one_line(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.contains(LINE_ENDS) {
        true => text.replace(LINE_ENDS, " ").into(),
        false => text,
    }
}

const LINE_ENDS: [char; 2] = ['\n', '\r'];
/// Decoders of SDKs recurse, so deeper JSON is sent to them as bytes.
const DEPTH_MAX: u64 = 100;

/// Whether a field is left out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Whether a field is left out that SDKs look for.
pub(super) fn never<T>(_: &T) -> bool {
    false
}

pub(super) fn serialize<S: Serializer>(bytes: &Bytes, into: S) -> Result<S::Ok, S::Error> {
    match json(bytes, DEPTH_MAX) {
        Some(json) if !json.get().contains(LINE_ENDS) => json.serialize(into),
        _ => {
            let text = text(bytes);
            let raw = decode::from_str::<&RawValue>(&text);
            raw.map_err(serde::ser::Error::custom)?.serialize(into)
        }
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    let text = Box::<str>::from(Box::<RawValue>::deserialize(from)?);
    // A request may have several lines. What is kept of it goes to clients whose messages are one line each.
    Ok(one_line(Cow::Owned(text.into())).into_owned().into())
}
