//! The outermost object of a call: its members as pieces of JSON text.
//!
//! Owns: the split of a request object and of a batch. Promises: linear in the input, iterative at any depth, nothing
//! copied. Must not: judge the members; `decode.rs` does.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::messages::message::Append;
use super::super::timelines::sync::Sync;
use crate::params::Reading;

/// The members of a request object as they are. Others are ignored, as JSON-RPC leaves them open.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    pub(super) jsonrpc: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    pub(super) params: Option<&'a str>,
    pub(super) traceparent: Option<&'a str>,
    /// The parameters, if they were read on the way.
    pub(super) early: Option<Early>,
    /// One of them is there twice.
    pub(super) twice: bool,
}

/// Parameters that are long and frequent, so that they are read on the way if they are behind the method.
pub(super) enum Early {
    Sync(Sync),
    Append(Append),
}

/// Which parameters are read on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// None: all are taken as pieces.
    Nothing,
    /// Those of `sync`: they are no deeper than their type, which every limit of the depth allows.
    Syncs,
    /// Also those of `message.append`, whose entry may be deep: the object is known to be within the limit.
    All,
}

/// The names that matter.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Traceparent,
    #[serde(other)]
    Other,
}

impl<'a> Envelope<'a> {
    /// Takes a request object apart. If that fails, all is taken as pieces: the way of all other methods finds out why.
    pub(super) fn read(text: &'a str, reads: Reads) -> serde_json::Result<Envelope<'a>> {
        let read = |reads| {
            let mut reader = serde_json::Deserializer::from_str(text);
            let envelope = Members(reads).deserialize(&mut reader)?;
            reader.end().map(|()| envelope)
        };
        read(reads).or_else(|_| read(Reads::Nothing))
    }
}

/// Reads the members of a request object.
struct Members(Reads);

impl Members {
    /// Reads the parameters on the way, if the method is one of those whose are; `None` = nothing was read.
    fn early<'de, A: MapAccess<'de>>(
        &self,
        method: Option<&str>,
        map: &mut A,
    ) -> Result<Option<Early>, A::Error> {
        Ok(Some(match method {
            Some("\"sync\"") if self.0 != Reads::Nothing => {
                Early::Sync(map.next_value_seed(Reading::new(PhantomData))?)
            }
            Some("\"message.append\"") if self.0 == Reads::All => {
                Early::Append(map.next_value_seed(Reading::new(PhantomData))?)
            }
            _ => return Ok(None),
        }))
    }
}

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Envelope<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Envelope<'de>, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Envelope<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a request object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(member) = map.next_key()? {
            if matches!(member, Member::Params)
                && let Some(early) = self.early(envelope.method, &mut map)?
            {
                envelope.twice |= envelope.params.is_some() || envelope.early.is_some();
                envelope.early = Some(early);
                continue;
            }
            let slot = match member {
                Member::Jsonrpc => &mut envelope.jsonrpc,
                Member::Id => &mut envelope.id,
                Member::Method => &mut envelope.method,
                Member::Params => &mut envelope.params,
                Member::Traceparent => &mut envelope.traceparent,
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            envelope.twice |= slot.is_some();
            *slot = Some(map.next_value::<&RawValue>()?.get());
        }
        Ok(envelope)
    }
}

/// The members of a batch, and how many there are.
pub(super) struct Batch<'a> {
    /// No more than were asked for.
    pub(super) members: Vec<&'a str>,
    pub(super) count: u64,
}

/// Takes a batch apart; keeps so many members and only counts the others, so that `[1,1,1,…]` costs no memory.
pub(super) struct BatchUpTo(pub(super) u64);

impl<'de> DeserializeSeed<'de> for BatchUpTo {
    type Value = Batch<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Batch<'de>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for BatchUpTo {
    type Value = Batch<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Batch<'de>, A::Error> {
        let mut batch = Batch {
            members: Vec::new(),
            count: 0,
        };
        while batch.count < self.0 {
            match seq.next_element::<&RawValue>()? {
                Some(member) => batch.members.push(member.get()),
                None => return Ok(batch),
            }
            batch.count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            batch.count += 1;
        }
        Ok(batch)
    }
}
