//! Payloads: what a protobuf `bytes` field is in JSON.
//!
//! Owns: that such a field is JSON text in its place, neither a string nor base64. Promises: what is written is one
//! line of valid JSON whatever the bytes are; JSON text comes out as it came in, but for line ends between its parts;
//! bytes that are no JSON are `{"$binary": …}`, as they are natively. Must not: interpret a payload.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::ser::SerializeMap as _;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use serde_json::value::RawValue;

/// The text of bytes that are JSON.
pub(crate) fn json_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    Some(raw.get())
}

/// Whether a field is left out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn serialize<S: Serializer>(bytes: &Bytes, into: S) -> Result<S::Ok, S::Error> {
    let Some(text) = json_text(bytes) else {
        let mut map = into.serialize_map(Some(1))?;
        map.serialize_entry("$binary", &BASE64.encode(bytes))?;
        return map.end();
    };
    let is_line = !text.bytes().any(|byte| matches!(byte, b'\n' | b'\r'));
    let raw = match is_line {
        true => serde_json::from_str::<&RawValue>(text).map(ToOwned::to_owned),
        // Outside of strings, where these can't be, they are white space.
        false => RawValue::from_string(text.replace(['\n', '\r'], " ")),
    };
    raw.map_err(serde::ser::Error::custom)?.serialize(into)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    let text: Box<str> = raw.into();
    Ok(Bytes::from(text.into_string()))
}
