//! From text to types: the one way in which everything that comes from outside is read.
//!
//! Owns: two rules that serde does not have: a struct is read from an object only, and an enumeration from a word only;
//! and how deep JSON is. Promises: a type needs nothing for them, so none can forget them; `tests/tidy.rs` refuses
//! another way to read in `wire`, `gateway`, `credentials` and `config`. Must not: know what is read.

mod depth;
pub mod query;
mod strict;

use serde::de::Deserialize;

pub use depth::{deeper_than, openings};
pub use strict::Strict;

/// Reads a type from JSON text.
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = from(&mut reader)?;
    reader.end().map(|()| value)
}

/// Reads a type from JSON in bytes.
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = from(&mut reader)?;
    reader.end().map(|()| value)
}

/// Reads a type from another format, or from what was read already.
pub fn from<'a, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'a>,
    D: serde::Deserializer<'a>,
{
    T::deserialize(Strict::<_>::new(from))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        one: Option<Inner>,
        #[serde(default)]
        many: Vec<Inner>,
        #[serde(default)]
        named: BTreeMap<String, Inner>,
        #[serde(default)]
        pair: (u64, u64),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        number: u64,
        word: Option<Word>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Yes,
    }

    #[test]
    fn a_struct_is_an_object_and_an_enumeration_a_word_at_any_depth() {
        let whole = r#"{"one":{"number":1,"word":"yes"},"many":[{"number":2}],"named":{"a":{"number":3}},"pair":[4,5]}"#;
        let read: Outer = from_str(whole).unwrap();
        assert_eq!(read.one.unwrap().word, Some(Word::Yes));
        assert_eq!(
            (read.many[0].number, read.named["a"].number, read.pair),
            (2, 3, (4, 5))
        );
        for refused in [
            r#"[{"number":1}]"#,
            r#"{"one":[1,"yes"]}"#,
            r#"{"many":[[2,null]]}"#,
            r#"{"named":{"a":[3]}}"#,
            r#"{"one":{"number":1,"word":{"yes":null}}}"#,
            r#"{"one":{"number":1}} 2"#,
        ] {
            assert!(from_str::<Outer>(refused).is_err(), "{refused}");
            assert!(
                from_slice::<Outer>(refused.as_bytes()).is_err(),
                "{refused}"
            );
        }
        let value: serde_json::Value = serde_json::from_str(r#"{"one":[1,"yes"]}"#).unwrap();
        assert!(from::<Outer, _>(value).is_err());
        let table: toml::Table = "one = [1, \"yes\"]".parse().unwrap();
        assert!(from::<Outer, _>(toml::Value::Table(table)).is_err());
    }

    #[test]
    fn numbers_have_a_bound_where_one_is_named() {
        let bounded = |text: &str| {
            let mut reader = serde_json::Deserializer::from_str(text);
            Inner::deserialize(Strict::<_, 9>::new(&mut reader)).is_ok()
        };
        assert!(bounded(r#"{"number":9}"#) && !bounded(r#"{"number":10}"#));
        assert!(from_str::<Inner>(r#"{"number":18446744073709551615}"#).is_ok());
    }

    #[test]
    fn pieces_stay_as_they_were_written() {
        let text = r#" {"a": [1,  {"b":2}]} "#;
        let read: BTreeMap<String, &RawValue> = from_str(text).unwrap();
        assert_eq!(read["a"].get(), r#"[1,  {"b":2}]"#);
    }
}
