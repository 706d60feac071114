//! The positions of a reader in many timelines: the parameter of `sync` that polls are made of.
//!
//! Owns: its two spellings on the wire, and one compact form in memory. Promises: reading costs no allocation per
//! timeline, since most polls find that nothing is new; the order is that of the call, and repeated names stay for the
//! check to find. Must not: judge names, epochs or numbers; `sync.rs` does.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::timelines::open_places::OpenPlaces;

/// Positions by timeline, in the order of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// All names and epochs, one behind the other.
    text: String,
    packed: Vec<Packed>,
}

/// One position; its texts begin where those of the one before end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packed {
    name_end: usize,
    /// `None` = no epoch was given.
    epoch_end: Option<usize>,
    after: u64,
    changes_after: Option<u64>,
    /// `None` = none.
    open: Option<Box<OpenPlaces>>,
}

/// The position of a reader in one timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The timeline's ID.
    pub timeline: &'a str,
    /// Everything above this sequence is asked for.
    pub after: u64,
    /// The epoch that `after` belongs to.
    pub epoch: Option<&'a str>,
    /// Also what changed at or below `after`, above this change number.
    pub changes_after: Option<u64>,
    /// Open messages, and how many parts of each the reader has: also what came since.
    pub open: Option<&'a OpenPlaces>,
}

impl Packed {
    fn end(&self) -> usize {
        self.epoch_end.unwrap_or(self.name_end)
    }

    fn position<'t>(&'t self, text: &'t str, start: usize) -> Position<'t> {
        Position {
            timeline: &text[start..self.name_end],
            after: self.after,
            epoch: self.epoch_end.map(|end| &text[self.name_end..end]),
            changes_after: self.changes_after,
            open: self.open.as_deref(),
        }
    }
}

impl Positions {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// None.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The one with this number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Position<'_>> {
        let one = self.packed.get(number)?;
        let before = number.checked_sub(1).map(|before| &self.packed[before]);
        Some(one.position(&self.text, before.map_or(0, Packed::end)))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Position<'_>> {
        let mut start = 0;
        self.packed.iter().map(move |one| {
            let position = one.position(&self.text, start);
            start = one.end();
            position
        })
    }

    /// Adds a position of the timeline whose name was put at the end of the text just now.
    fn push(&mut self, long: LongPosition<'_>) {
        let name_end = self.text.len();
        let epoch_end = long.epoch.map(|Epoch(epoch)| {
            self.text.push_str(&epoch);
            self.text.len()
        });
        self.packed.push(Packed {
            name_end,
            epoch_end,
            after: long.after,
            changes_after: long.changes_after,
            open: (!long.open.is_empty()).then(|| Box::new(long.open.into_owned())),
        });
    }
}

impl<'de> Deserialize<'de> for Positions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Positions, D::Error> {
        struct ByTimeline;
        impl<'de> Visitor<'de> for ByTimeline {
            type Value = Positions;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object, timeline to position")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Positions, A::Error> {
                let mut positions = Positions::default();
                while map.next_key_seed(NameTo(&mut positions.text))?.is_some() {
                    let NumberOrLong(long) = map.next_value()?;
                    positions.push(long);
                }
                Ok(positions)
            }
        }
        from.deserialize_map(ByTimeline)
    }
}

impl Serialize for Positions {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        into.collect_map(self.iter().map(|position| (position.timeline, position)))
    }
}

impl Serialize for Position<'_> {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        if self.epoch.is_none() && self.changes_after.is_none() && self.open.is_none() {
            return into.serialize_u64(self.after);
        }
        LongPosition {
            after: self.after,
            epoch: self.epoch.map(|epoch| Epoch(Cow::Borrowed(epoch))),
            changes_after: self.changes_after,
            open: self.open.map(Cow::Borrowed).unwrap_or_default(),
        }
        .serialize(into)
    }
}

impl JsonSchema for Positions {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "positions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BTreeMap::<String, Position<'_>>::json_schema(generator);
        super::super::schema::rules::timelines(&mut schema);
        schema
    }
}

impl JsonSchema for Position<'_> {
    fn schema_name() -> Cow<'static, str> {
        "position".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let short = generator.subschema_for::<u64>();
        let long = generator.subschema_for::<LongPosition<'_>>();
        schemars::json_schema!({
            "description": "The position of a reader in one timeline: `after`, or an object.",
            "anyOf": [short, long],
        })
    }
}

/// Reads a name to the end of a text.
struct NameTo<'t>(&'t mut String);

impl<'de> DeserializeSeed<'de> for NameTo<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NameTo<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        self.0.push_str(name);
        Ok(())
    }
}

/// A position as an object; a bare number is its short form.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LongPosition<'a> {
    /// Everything above this sequence is asked for.
    after: u64,
    /// The epoch that `after` belongs to.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = "^[A-Za-z0-9]{1,32}$"))]
    epoch: Option<Epoch<'a>>,
    /// Also what changed at or below `after`, above this change number.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes_after: Option<u64>,
    /// Open messages at or below `after`, and how many parts of each the reader has: also what came since. Only in
    /// `sync`.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schemars(with = "OpenPlaces")]
    open: Cow<'a, OpenPlaces>,
}

fn is_empty(open: &OpenPlaces) -> bool {
    open.is_empty()
}

/// A text that is borrowed from where it was read, unless it has escapes.
#[derive(Serialize, Deserialize)]
struct Epoch<'a>(#[serde(borrow)] Cow<'a, str>);

/// A position in one of its spellings.
struct NumberOrLong<'a>(LongPosition<'a>);

impl<'de> Deserialize<'de> for NumberOrLong<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<NumberOrLong<'de>, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = LongPosition<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a sequence, or an object with `after`")
            }

            fn visit_u64<E>(self, after: u64) -> Result<LongPosition<'de>, E> {
                Ok(LongPosition {
                    after,
                    epoch: None,
                    changes_after: None,
                    open: Cow::default(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LongPosition<'de>, A::Error> {
                LongPosition::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_any(Either).map(NumberOrLong)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_come_back_in_both_spellings(
            all in prop::collection::vec(
                (".{0,8}", any::<u64>(), prop::option::of(".{0,8}"), any::<Option<u64>>()), 0..8),
        ) {
            let object = |(name, after, epoch, changes): &(String, u64, Option<String>, Option<u64>)| {
                let name = serde_json::to_string(name).unwrap();
                let long = serde_json::json!({
                    "after": after, "epoch": epoch, "changes_after": changes
                });
                match (epoch, changes) {
                    (None, None) => format!("{name}:{after}"),
                    _ => format!("{name}:{long}"),
                }
            };
            let text: Vec<String> = all.iter().map(object).collect();
            let text = format!("{{{}}}", text.join(","));
            let read: Positions = serde_json::from_str(&text).unwrap();
            let positions: Vec<_> = read.iter().collect();
            prop_assert_eq!(read.len(), all.len());
            for (position, (name, after, epoch, changes)) in positions.iter().zip(&all) {
                prop_assert_eq!(position, &Position {
                    timeline: name,
                    after: *after,
                    epoch: epoch.as_deref(),
                    changes_after: *changes,
                    open: None,
                });
            }
            let again = serde_json::to_string(&read).unwrap();
            prop_assert_eq!(serde_json::from_str::<Positions>(&again).unwrap(), read);
        }
    }
}
