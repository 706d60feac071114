//! How parameters are read: by `decode`, with the bound that all numbers of the protocol have; and defaults that more
//! than one family has.
//!
//! Owns: where that bound holds, and objects in which nothing is named twice. Promises: nothing is accepted in two
//! spellings. Must not: hold limits; `check.rs` does.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::check::NUMBER_MAX;
use super::limits::Limits;
use tideline_base::decode::Strict;

/// What parameters are read with: no number is above what every client can hold.
pub(crate) type Reading<T> = Strict<T, NUMBER_MAX>;

/// Reads parameters, or a part of them, from any format.
pub fn parameters<'a, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'a>,
    D: Deserializer<'a>,
{
    T::deserialize(Reading::new(from))
}

pub(crate) fn page_default() -> u64 {
    Limits::PAGE_MESSAGES_DEFAULT
}

pub(crate) fn yes() -> bool {
    true
}

/// Reads `null` as the default: clients and back ends of Centrifuge may send it.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
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
            while let Some((timeline, value)) = map.next_entry()? {
                if found.insert(timeline, value).is_some() {
                    return Err(de::Error::custom("a timeline stands twice"));
                }
            }
            Ok(found)
        }
    }
    from.deserialize_map(ByTimeline(PhantomData))
}
