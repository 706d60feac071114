//! Attribute values, as the store, the timelines and the wires all use them.
//!
//! Owns: the value types and the size of an entry as clients count it. Promises: `json_bytes` is exact for what the
//! wire writes as compact JSON. Must not: know a format on disk or on a wire beyond that size.

use bytes::Bytes;

/// The value of an attribute cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// UTF-8 text.
    String(String),
    /// A 64-bit integer.
    Integer(i64),
    /// A finite double.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Bytes.
    Binary(Bytes),
    /// A nested array or object, kept as compact JSON text and not interpreted.
    Json(String),
}

/// A value that borrows the bytes of its row or request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// UTF-8 text.
    String(&'a str),
    /// A 64-bit integer.
    Integer(i64),
    /// A double.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Bytes.
    Binary(&'a [u8]),
    /// A nested array or object as JSON text.
    Json(&'a str),
}

impl ValueRef<'_> {
    /// An owned copy.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::String(text) => Value::String(text.to_owned()),
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Double(number) => Value::Double(number),
            ValueRef::Boolean(flag) => Value::Boolean(flag),
            ValueRef::Binary(bytes) => Value::Binary(bytes::Bytes::copy_from_slice(bytes)),
            ValueRef::Json(text) => Value::Json(text.to_owned()),
        }
    }

    /// How many bytes it counts.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            ValueRef::String(text) | ValueRef::Json(text) => text.len(),
            ValueRef::Binary(bytes) => bytes.len(),
            ValueRef::Integer(_) | ValueRef::Double(_) => 8,
            ValueRef::Boolean(_) => 1,
        }
    }

    /// About how many bytes the cell of such a value takes, without its name.
    #[must_use]
    pub fn cell_bytes_about(self) -> usize {
        match self {
            ValueRef::String(text) | ValueRef::Json(text) => 5 + text.len(),
            ValueRef::Binary(bytes) => 5 + bytes.len(),
            ValueRef::Integer(_) | ValueRef::Double(_) | ValueRef::Boolean(_) => 12,
        }
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> ValueRef<'a> {
        match value {
            Value::String(text) => ValueRef::String(text),
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Double(number) => ValueRef::Double(*number),
            Value::Boolean(flag) => ValueRef::Boolean(*flag),
            Value::Binary(bytes) => ValueRef::Binary(bytes),
            Value::Json(text) => ValueRef::Json(text),
        }
    }
}

/// As it is stored; above `i64::MAX` it is negative there.
impl From<u64> for ValueRef<'_> {
    fn from(number: u64) -> Self {
        ValueRef::Integer(number.cast_signed())
    }
}

/// The length of an entry's compact JSON text: `{"name":value,…}`, binaries as `{"$binary":"…"}`.
#[must_use]
pub fn json_bytes(columns: &[(String, Value)]) -> usize {
    let commas = columns.len().saturating_sub(1);
    let members = columns.iter().map(|(name, value)| {
        let colon = 1;
        json_text_bytes(name) + colon + value.json_bytes()
    });
    2 + commas + members.sum::<usize>()
}

/// The length of a text as a JSON string, quotes and escapes included, as serde_json writes it.
#[must_use]
pub fn json_text_bytes(text: &str) -> usize {
    // Looks at all bytes, so that the compiler may take many at a time; nearly every text ends here.
    let longer = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if !text.bytes().fold(false, |any, byte| any | longer(byte)) {
        return text.len() + 2;
    }
    let more = |byte: u8| match byte {
        b'"' | b'\\' | 8 | 9 | 10 | 12 | 13 => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + 2 + text.bytes().map(more).sum::<usize>()
}

impl Value {
    /// The length of the value's compact JSON text.
    #[must_use]
    pub fn json_bytes(&self) -> usize {
        match self {
            Value::String(text) => json_text_bytes(text),
            Value::Integer(number) => {
                let digits = number
                    .unsigned_abs()
                    .checked_ilog10()
                    .map_or(1, |log| log as usize + 1);
                digits + usize::from(*number < 0)
            }
            Value::Double(number) => serde_json::Number::from_f64(*number)
                .map_or("null".len(), |number| number.to_string().len()),
            Value::Boolean(true) => "true".len(),
            Value::Boolean(false) => "false".len(),
            Value::Binary(bytes) => r#"{"$binary":""}"#.len() + bytes.len().div_ceil(3) * 4,
            Value::Json(text) => text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sizes_are_those_of_serde_json(text in any::<String>(), number: i64, double: f64) {
            prop_assert_eq!(json_text_bytes(&text), serde_json::to_string(&text).unwrap().len());
            prop_assert_eq!(Value::Integer(number).json_bytes(), number.to_string().len());
            prop_assert_eq!(
                Value::Double(double).json_bytes(),
                serde_json::to_string(&double).unwrap().len()
            );
        }
    }

    #[test]
    fn values_count_their_bytes() {
        for (value, bytes) in [
            (Value::String("äb".to_owned()), 3),
            (Value::Integer(i64::MAX), 8),
            (Value::Double(0.5), 8),
            (Value::Boolean(true), 1),
            (Value::Binary(Bytes::from_static(&[1, 2])), 2),
        ] {
            assert_eq!(ValueRef::from(&value).size(), bytes);
        }
    }

    #[test]
    fn an_entry_is_counted_with_its_punctuation() {
        let columns = vec![
            ("a".to_owned(), Value::Integer(0)),
            ("b".to_owned(), Value::Binary(Bytes::from_static(b"abcd"))),
            ("c".to_owned(), Value::Json("[1,2]".to_owned())),
            ("d".to_owned(), Value::Boolean(true)),
        ];
        let text = r#"{"a":0,"b":{"$binary":"YWJjZA=="},"c":[1,2],"d":true}"#;
        assert_eq!(json_bytes(&columns), text.len());
        assert_eq!(json_bytes(&[]), 2);
    }
}
