//! Entries, metas and patches: an object's names and values, from JSON text into [`Value`]s and back into any encoding.
//!
//! Owns: the rules of PROTOCOL's "Values" about what a value is. Promises: an [`Entry`] comes out sorted bytewise by
//! name; `1` stays an integer, `1.0` a double; nested arrays and objects stay the text they were, made compact. Must
//! not: check names, counts and sizes (`wire/check.rs` does, with paths), or decode anything but JSON text: MessagePack
//! is turned into that first.

pub mod nested;
mod schema;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::{Value, json_text_bytes};
pub use schema::NAME;
use tideline_base::decode;

/// Names and values; names are unique within an entry, sorted bytewise when they come out of the store.
pub type Columns = Vec<(String, Value)>;

/// The columns of a message, or the meta of a timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry<'a> {
    /// Names and values.
    pub columns: Cow<'a, [(String, Value)]>,
}

impl From<Columns> for Entry<'_> {
    fn from(columns: Columns) -> Self {
        let columns = Cow::Owned(columns);
        Entry { columns }
    }
}

impl<'a> From<&'a Columns> for Entry<'a> {
    fn from(columns: &'a Columns) -> Self {
        let columns = Cow::Borrowed(columns.as_slice());
        Entry { columns }
    }
}

impl Entry<'_> {
    /// At most so many bytes in any encoding: by this pages are cut.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        let column = |(name, held): &(String, Value)| {
            json_text_bytes(name) + 5 + Entry::value_bytes_max(held)
        };
        8 + self.columns.iter().map(column).sum::<usize>()
    }

    /// The same of one value.
    #[must_use]
    pub fn value_bytes_max(value: &Value) -> usize {
        // A text takes 2 bytes of quotes in JSON, as a name does, and up to 5 of header in MessagePack; an integer at
        // most 34 (as `$integer`); a double 25; binary is longer in base64; a nested number grows from `1,` to 9 bytes
        // at worst from `1e5,`.
        match value {
            Value::String(text) => json_text_bytes(text) + 3,
            Value::Integer(_) | Value::Double(_) => 36,
            Value::Json(text) => text.len() * 3 + 5,
            other => other.json_bytes() + 5,
        }
    }
}

/// A change of columns: what to set, and the names to remove (`null` on the wire). Both sorted bytewise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    /// Names that get a value.
    pub put: Columns,
    /// Names that go.
    pub remove: Vec<String>,
}

impl Patch {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.remove.is_empty()
    }
}

/// How integers beyond ±(2^53−1) come back.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Integers {
    /// As numbers, exactly.
    #[default]
    Number,
    /// As `{"$integer": "<decimal>"}`, for JavaScript.
    Text,
}

thread_local! {
    /// How this thread writes big integers now.
    static WRITTEN: Cell<Integers> = const { Cell::new(Integers::Number) };
}

impl Integers {
    /// Calls `encode`: what that encodes, on this thread, has its big integers written this way. Without this they are
    /// numbers.
    pub fn written<R>(self, encode: impl FnOnce() -> R) -> R {
        let _before = Before(WRITTEN.replace(self));
        encode()
    }
}

/// Puts back how they were written, also after a panic: the thread goes on and encodes for others.
struct Before(Integers);

impl Drop for Before {
    fn drop(&mut self) {
        WRITTEN.set(self.0);
    }
}

/// Integers up to this, either way, are held exactly by a double.
const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// One value by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct OneValue<'a> {
    /// The value.
    pub value: Cow<'a, Value>,
}

impl Serialize for OneValue<'_> {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        Shown(&self.value).serialize(into)
    }
}

impl<'de> Deserialize<'de> for OneValue<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Given(value) = Given::deserialize(from)?;
        let value = Cow::Owned(value);
        Ok(OneValue { value })
    }
}

/// A value on its way out.
struct Shown<'a>(&'a Value);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) => into.serialize_str(text),
            Value::Integer(number) if number.unsigned_abs() > SAFE_INTEGER => match WRITTEN.get() {
                Integers::Number => into.serialize_i64(*number),
                Integers::Text => typed(into, "$integer", &number.to_string()),
            },
            Value::Integer(number) => into.serialize_i64(*number),
            Value::Double(number) => into.serialize_f64(*number),
            Value::Boolean(truth) => into.serialize_bool(*truth),
            Value::Binary(bytes) if into.is_human_readable() => {
                typed(into, "$binary", &BASE64.encode(bytes))
            }
            Value::Binary(bytes) => into.serialize_bytes(bytes),
            Value::Json(text) => nested::serialize(text, into),
        }
    }
}

fn typed<S: Serializer>(into: S, name: &'static str, text: &str) -> Result<S::Ok, S::Error> {
    let mut map = into.serialize_map(Some(1))?;
    map.serialize_entry(name, text)?;
    map.end()
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        serialize(&self.columns, into)
    }
}

/// Writes columns as an entry: with [`deserialize`] for `#[serde(with = "entry")]`.
pub fn serialize<S: Serializer>(columns: &[(String, Value)], into: S) -> Result<S::Ok, S::Error> {
    into.collect_map(columns.iter().map(|(name, value)| (name, Shown(value))))
}

/// Reads columns from an entry; `null` counts as an empty one.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Columns, D::Error> {
    some::deserialize(from).map(Option::unwrap_or_default)
}

/// Columns that may be absent.
pub mod some {
    use super::*;

    /// Writes those that are there.
    pub fn serialize<S: Serializer>(entry: &Option<Columns>, into: S) -> Result<S::Ok, S::Error> {
        entry.as_ref().map(Entry::from).serialize(into)
    }

    /// Reads those that are there.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Columns>, D::Error> {
        let entry = Option::<Entry<'_>>::deserialize(from)?;
        Ok(entry.map(|entry| entry.columns.into_owned()))
    }
}

impl Serialize for Patch {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        let mut map = into.serialize_map(Some(self.put.len() + self.remove.len()))?;
        for (name, value) in &self.put {
            map.serialize_entry(name, &Shown(value))?;
        }
        for name in &self.remove {
            map.serialize_entry(name, &())?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Entry<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Columns;
        impl<'de> Visitor<'de> for Columns {
            type Value = Entry<'static>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object, name to value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut columns = Vec::new();
                while let Some(name) = map.next_key()? {
                    columns.push((name, map.next_value::<Given>()?.0));
                }
                sort(&mut columns);
                Ok(Entry::from(columns))
            }
        }
        from.deserialize_map(Columns)
    }
}

impl<'de> Deserialize<'de> for Patch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Patch, D::Error> {
        struct Changes;
        impl<'de> Visitor<'de> for Changes {
            type Value = Patch;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object, name to value or null")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Patch, A::Error> {
                let mut patch = Patch::default();
                while let Some(name) = map.next_key()? {
                    match map.next_value::<GivenOrNull>()?.0 {
                        Some(value) => patch.put.push((name, value)),
                        None => patch.remove.push(name),
                    }
                }
                sort(&mut patch.put);
                patch.remove.sort_unstable();
                Ok(patch)
            }
        }
        from.deserialize_map(Changes)
    }
}

/// Bytewise by name; most clients send few names, often sorted already.
fn sort(columns: &mut Columns) {
    if !columns.is_sorted_by(|one, two| one.0 <= two.0) {
        columns.sort_by(|one, two| one.0.cmp(&two.0));
    }
}

/// A value on its way in. A type of its own, so that an error is noted at the path of this value.
struct Given(Value);

/// The same, or `null`.
struct GivenOrNull(Option<Value>);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Given, D::Error> {
        let raw = <&RawValue>::deserialize(from)?;
        value(raw.get()).map(Given).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for GivenOrNull {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<GivenOrNull, D::Error> {
        match <&RawValue>::deserialize(from)?.get() {
            "null" => Ok(GivenOrNull(None)),
            text => value(text)
                .map(|value| GivenOrNull(Some(value)))
                .map_err(de::Error::custom),
        }
    }
}

/// The value of a piece of well-formed JSON text.
fn value(text: &str) -> Result<Value, Cow<'static, str>> {
    match text.as_bytes().first() {
        Some(b'"') => string(text).map(Value::String),
        Some(b't' | b'f') => Ok(Value::Boolean(text.starts_with('t'))),
        Some(b'n') => Err("null is not a value of an entry; leave the name out".into()),
        Some(b'{') => match nested::only_dollar_name(text) {
            None => nested::compact(text).map(Value::Json),
            Some((name, inner)) => typed_value(&name, inner),
        },
        Some(b'[') => nested::compact(text).map(Value::Json),
        _ => number(text),
    }
}

/// A string's text, with its quotes: most have no escape and are copied as they are.
fn string(text: &str) -> Result<String, Cow<'static, str>> {
    let inner = &text[1..text.len() - 1];
    if !inner.as_bytes().contains(&b'\\') {
        return Ok(inner.to_owned());
    }
    decode::from_str(text).map_err(|error| error.to_string().into())
}

fn number(text: &str) -> Result<Value, Cow<'static, str>> {
    if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Double(number)),
            _ => Err("a double out of range".into()),
        };
    }
    text.parse()
        .map(Value::Integer)
        .map_err(|_| "an integer beyond 64 bits".into())
}

/// `{"$binary": "…"}` and `{"$integer": "…"}`; nothing else is known.
fn typed_value(name: &str, inner: Option<&str>) -> Result<Value, Cow<'static, str>> {
    let Some(inner) = inner.filter(|inner| inner.starts_with('"')) else {
        return Err(format!("{name} takes a text, once").into());
    };
    let text = string(inner)?;
    match name {
        "$binary" => match BASE64.decode(&text) {
            Ok(bytes) => Ok(Value::Binary(Bytes::from(bytes))),
            Err(_) => Err("$binary takes standard base64".into()),
        },
        "$integer" => {
            let digits = text.strip_prefix('-').unwrap_or(&text);
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit())
                && (text == "0" || !digits.starts_with('0'));
            match text.parse() {
                Ok(number) if plain => Ok(Value::Integer(number)),
                _ => Err("$integer takes a decimal of 64 bits".into()),
            }
        }
        _ => Err(format!("no typed value is called {name}").into()),
    }
}
