//! How far a reader is in open messages.
//!
//! Owns: this parameter of `subscribe` and `sync`. Promises: numbers, and not more messages than a reply is to have.
//! Must not: know which messages are open.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::failure::Failure;

/// Open messages by their sequences, and how many parts of each the reader has; at most 64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("maxProperties" = 64))]
pub struct OpenPlaces(pub BTreeMap<String, u64>);

/// How many a reader may ask for.
const PLACES_MAX: u64 = 64;

impl OpenPlaces {
    /// `at` is the path of the object that they are in, with a dot behind it.
    pub(in super::super) fn check(&self, at: &str) -> Result<(), Failure> {
        let count = self.0.len() as u64;
        if count > PLACES_MAX {
            let message = format!("more than {PLACES_MAX} messages");
            let failure = Failure::invalid(format!("{at}open"), message);
            return Err(failure.over(PLACES_MAX, count));
        }
        match self.0.keys().find(|key| sequence(key).is_none()) {
            Some(key) => Err(Failure::invalid(
                format!("{at}open.{key}"),
                "the name must be a sequence",
            )),
            None => Ok(()),
        }
    }

    /// None.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sequences and parts.
    #[must_use]
    pub fn places(&self) -> Vec<(u64, u64)> {
        let place = |(key, parts): (&String, &u64)| Some((sequence(key)?, *parts));
        let mut places: Vec<_> = self.0.iter().filter_map(place).collect();
        places.sort_unstable();
        places.dedup_by_key(|(sequence, _)| *sequence);
        places
    }
}

fn sequence(key: &str) -> Option<u64> {
    let is_number = !key.starts_with(['0', '+']);
    key.parse().ok().filter(|_| is_number)
}
