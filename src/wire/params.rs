//! How single parameters are read where serde's own way is too lenient or too strict.
//!
//! Owns: defaults of optional parameters (`null` counts as absent), enumerations that are only ever text, objects that
//! are never given as arrays. Promises: nothing is accepted in two spellings. Must not: hold limits; `check.rs` does.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::limits::Limits;

pub(crate) fn page_default() -> u64 {
    Limits::PAGE_MESSAGES_DEFAULT
}

pub(crate) fn page_limit<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(Limits::PAGE_MESSAGES_DEFAULT))
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn yes_or<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(true))
}

/// The default in place of `null`.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// One of these texts; serde's derived enumerations would also take `{"text": null}`.
pub(crate) fn one_of<'de, D, T>(from: D, all: &[(&'static str, T)]) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Copy,
{
    let text = Cow::<'de, str>::deserialize(from)?;
    match all.iter().find(|(name, _)| *name == text) {
        Some((_, one)) => Ok(*one),
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            Err(de::Error::custom(format!(
                "must be one of: {}",
                names.join(", ")
            )))
        }
    }
}

/// An array of objects; serde's derived structs would also take arrays in their place.
pub(crate) fn objects<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Vec::<Object<T>>::deserialize(from)?
        .into_iter()
        .map(|object| object.0)
        .collect())
}

/// An object, timeline to value, in which no timeline is named twice.
pub(crate) fn by_timeline<'de, D, T>(from: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ByTimeline<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for ByTimeline<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object, timeline to value")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = BTreeMap::new();
            while let Some((timeline, Object(value))) = map.next_entry::<String, Object<T>>()? {
                if found.insert(timeline, value).is_some() {
                    return Err(de::Error::custom("a timeline stands twice"));
                }
            }
            Ok(found)
        }
    }
    from.deserialize_map(ByTimeline(PhantomData))
}

/// A struct that is read from an object only.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        struct OnlyMap<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMap<T> {
            type Value = T;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_map(OnlyMap(PhantomData)).map(Object)
    }
}
