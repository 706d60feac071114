//! Nested arrays and objects: kept as compact JSON text, not interpreted.
//!
//! Owns: that text. Promises: what is kept is well-formed and can be read by every client: no half surrogate pairs, no
//! number that no double or 64-bit integer can hold; everything else stays as it was written, also the order and
//! repetition of names. Must not: recurse over input of unknown depth; the dialects limit the depth before values are
//! read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;

use tideline_base::decode;

/// Makes well-formed JSON text compact, and checks what JSON's grammar leaves open.
pub fn compact(text: &str) -> Result<String, Cow<'static, str>> {
    let mut compact = String::with_capacity(text.len());
    pieces(text, |piece| compact.push_str(piece))?;
    Ok(compact)
}

/// Checks in well-formed JSON text what JSON's grammar leaves open, as [`compact`] does.
pub fn check(text: &str) -> Result<(), Cow<'static, str>> {
    pieces(text, |_| ())
}

/// Calls `each` with all of a text but the white space between its parts, and checks these.
fn pieces<'t>(text: &'t str, mut each: impl FnMut(&'t str)) -> Result<(), Cow<'static, str>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'"' => string_end(text, at)?,
            b'-' | b'0'..=b'9' => number_end(text, at)?,
            _ => at + 1,
        };
        each(&text[at..end]);
        at = end;
    }
    Ok(())
}

/// Where the string that begins at `start` ends, past its quote.
fn string_end(text: &str, start: usize) -> Result<usize, Cow<'static, str>> {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    let mut unicode = false;
    loop {
        match bytes.get(at) {
            Some(b'"') => break,
            Some(b'\\') => {
                unicode |= bytes.get(at + 1) == Some(&b'u');
                at += 2;
            }
            Some(_) => at += 1,
            None => return Err("a string without end".into()),
        }
    }
    let end = at + 1;
    // The grammar allows half a surrogate pair; no text can hold one.
    if unicode && decode::from_str::<String>(&text[start..end]).is_err() {
        return Err("half a surrogate pair".into());
    }
    Ok(end)
}

/// Where the number that begins at `start` ends.
fn number_end(text: &str, start: usize) -> Result<usize, Cow<'static, str>> {
    let rest = &text[start..];
    let within = |byte: u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    let length = rest
        .bytes()
        .position(|byte| !within(byte))
        .unwrap_or(rest.len());
    let number = &rest[..length];
    let whole = !number
        .bytes()
        .any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    if whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
        return Err("an integer beyond 64 bits".into());
    }
    if !whole && !number.parse::<f64>().is_ok_and(f64::is_finite) {
        return Err("a double out of range".into());
    }
    Ok(start + length)
}

/// If an object's only name starts with `$`: that name, and the text of its value (`None` if the name is there more
/// than once).
pub fn only_dollar_name(text: &str) -> Option<(String, Option<&str>)> {
    // Nearly always decided by the first character of the first name; `\` might be an escaped `$`.
    let first = text[1..].trim_start();
    if !first.starts_with("\"$") && !first.starts_with("\"\\") {
        return None;
    }
    let Pairs(pairs) = decode::from_str(text).ok()?;
    let (name, inner) = pairs.first()?;
    if !name.starts_with('$') || pairs.iter().any(|(other, _)| other != name) {
        return None;
    }
    Some((name.clone(), (pairs.len() == 1).then_some(inner.get())))
}

/// An object's names and the texts of their values.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Pairs<'de>, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Pairs<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        from.deserialize_map(All)
    }
}

/// Writes nested JSON text: as it is into JSON, as arrays and maps into MessagePack. Text that is not JSON, which
/// no decoder of ours lets in, goes out as a string, so that one bad value can't spoil a page.
pub fn serialize<S: Serializer>(text: &str, into: S) -> Result<S::Ok, S::Error> {
    if into.is_human_readable() {
        match decode::from_str::<&RawValue>(text) {
            Ok(raw) => raw.serialize(into),
            Err(_) => into.serialize_str(text),
        }
    } else {
        match decode::from_str::<Tree>(text) {
            Ok(tree) => tree.serialize(into),
            Err(_) => into.serialize_str(text),
        }
    }
}

/// A nested value, with names in their order and as often as they are there.
enum Tree {
    Null,
    Boolean(bool),
    Negative(i64),
    Integer(u64),
    Double(f64),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        match self {
            Tree::Null => into.serialize_unit(),
            Tree::Boolean(truth) => into.serialize_bool(*truth),
            Tree::Negative(number) => into.serialize_i64(*number),
            Tree::Integer(number) => into.serialize_u64(*number),
            Tree::Double(number) => into.serialize_f64(*number),
            Tree::Text(text) => into.serialize_str(text),
            Tree::List(list) => {
                let mut seq = into.serialize_seq(Some(list.len()))?;
                for item in list {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Tree::Object(pairs) => {
                let mut map = into.serialize_map(Some(pairs.len()))?;
                for (name, value) in pairs {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Tree;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Tree, E> {
        Ok(Tree::Boolean(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Negative(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Integer(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Double(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Tree::Object(pairs))
    }
}
