//! A deserializer that is strict about structs and enumerations.
//!
//! Owns: the wrapper around any deserializer, and around all that it hands out. Promises: derived decoders, which take
//! the members of a struct from an array by their position, and the word of an enumeration from an object, never see
//! one; a number above `MAX` is refused; everything else is as it was. Must not: copy a text.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer as _, MapAccess, SeqAccess,
    Visitor,
};

/// A deserializer, or what it works with: a visitor, a seed, the access to a sequence or a map.
pub struct Strict<T, const MAX: u64 = { u64::MAX }>(T);

impl<T, const MAX: u64> Strict<T, MAX> {
    /// Around serde's own.
    pub fn new(inner: T) -> Self {
        Strict(inner)
    }
}

macro_rules! as_it_is {
    ($($method:ident($($name:ident: $kind:ty),*))+) => { $(
        fn $method<V: Visitor<'de>>(self $(, $name: $kind)*, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* Self::around(visitor))
        }
    )+ };
}

impl<T, const MAX: u64> Strict<T, MAX> {
    fn around<U>(inner: U) -> Strict<U, MAX> {
        Strict(inner)
    }
}

impl<'de, D: Deserializer<'de>, const MAX: u64> Deserializer<'de> for Strict<D, MAX> {
    type Error = D::Error;

    as_it_is! {
        deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_f32() deserialize_f64()
        deserialize_char() deserialize_str() deserialize_string() deserialize_bytes() deserialize_byte_buf()
        deserialize_option() deserialize_unit() deserialize_seq() deserialize_map() deserialize_identifier()
        deserialize_ignored_any() deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str) deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Members::<V, MAX>(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(Word(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visited {
    ($($method:ident($kind:ty))+) => { $(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )+ };
}

impl<'de, V: Visitor<'de>, const MAX: u64> Visitor<'de> for Strict<V, MAX> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(out)
    }

    visited! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_u8(u8) visit_u16(u16)
        visit_u32(u32) visit_f32(f32) visit_f64(f64) visit_char(char) visit_str(&str) visit_borrowed_str(&'de str)
        visit_string(String) visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V::Value, E> {
        match number > MAX {
            true => Err(E::custom(format_args!("above {MAX}"))),
            false => self.0.visit_u64(number),
        }
    }

    // Some formats, as TOML, give every integer this way.
    fn visit_i64<E: Error>(self, number: i64) -> Result<V::Value, E> {
        match u64::try_from(number) {
            Ok(number) if number > MAX => Err(E::custom(format_args!("above {MAX}"))),
            _ => self.0.visit_i64(number),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Self::around(from))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Self::around(from))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Self::around(seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Self::around(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(data)
    }
}

impl<'de, S: DeserializeSeed<'de>, const MAX: u64> DeserializeSeed<'de> for Strict<S, MAX> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Self::around(from))
    }
}

impl<'de, A: SeqAccess<'de>, const MAX: u64> SeqAccess<'de> for Strict<A, MAX> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Self::around(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>, const MAX: u64> MapAccess<'de> for Strict<A, MAX> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Self::around(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Self::around(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

/// The visitor of a struct, which is shown members by their names and nothing else.
struct Members<V, const MAX: u64>(V);

impl<'de, V: Visitor<'de>, const MAX: u64> Visitor<'de> for Members<V, MAX> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict::<A, MAX>(map))
    }
}

/// The visitor of an enumeration, which is shown a word and nothing else.
struct Word<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Word<V> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<V::Value, E> {
        let word: StrDeserializer<'_, E> = word.into_deserializer();
        self.0.visit_enum(word)
    }
}
