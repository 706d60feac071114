//! What changes at a user, for who follows all of their conversations.
//!
//! Owns: the order in which such changes are told. Promises: each change of the user's rows once, in pages that fit a
//! frame; what comes while a page is made is in the next. Must not: know subscriptions.

use std::sync::Arc;

use crate::timeline::{Columns, Error};

use super::People;
use super::list::{Found, Shown};
use super::stored::Place;
use super::tables::Home;

/// Up to where the changes at a user were told.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// In the log of the user's partition.
    position: u64,
    /// Of rows that were written together, up to this name.
    name: String,
}

/// What has changed at a user.
#[derive(Debug, Default)]
pub struct OwnSide {
    /// Conversations whose rows have changed, or at first all of them, and where the device is.
    pub standing: Vec<(String, Option<Place>)>,
    /// What they show; nothing at first.
    pub shown: Vec<Shown>,
    /// Conversations that have ended.
    pub removed: Vec<String>,
    /// What to ask with next.
    pub told: Told,
    /// There is more.
    pub more: bool,
}

impl People {
    /// What has changed at a user since `told`; at first all conversations. `device`: whose positions are wanted.
    pub async fn own_side(
        &self,
        user: &str,
        device: Option<&str>,
        told: Option<&Told>,
        bytes_max: usize,
    ) -> Result<OwnSide, Error> {
        let partition = self.place(&Home::new(user));
        let mut side = OwnSide {
            told: Told {
                position: self.partitions.tail(partition).position().0 + 1,
                name: String::new(),
            },
            ..OwnSide::default()
        };
        let mine = self.mine(user).await?;
        let places = match device {
            Some(device) => self.places_of(user, device).await?,
            None => Arc::default(),
        };
        let place = |name: &str| places.get(name);
        let Some(told) = told else {
            let standing = mine.iter().filter(|(_, entry)| !entry.is_ended());
            side.standing = standing
                .map(|(name, _)| (name.to_owned(), place(name)))
                .collect();
            return Ok(side);
        };
        let mut changed: Vec<(Told, bool)> = Vec::new();
        for (name, entry) in mine.iter().filter(|(_, one)| one.position >= told.position) {
            let at = Told {
                position: entry.position,
                name: name.to_owned(),
            };
            if at > *told {
                changed.push((at, entry.is_ended()));
            }
        }
        changed.sort_unstable();
        let mut bytes = 0;
        for chunk in changed.chunks(CHUNK) {
            let standing = chunk.iter().filter(|(_, is_ended)| !is_ended);
            let names: Vec<&str> = standing.map(|(at, _)| at.name.as_str()).collect();
            let shown = self.shown(user, &names, None, &Columns::new()).await?;
            let mut shown = shown.into_iter();
            for (at, is_ended) in chunk {
                match (!is_ended).then(|| shown.next()).flatten() {
                    Some(Found::Shown(one)) => {
                        bytes += one.json_bytes_max();
                        side.standing.push((at.name.clone(), place(&at.name)));
                        side.shown.push(*one);
                    }
                    _ => {
                        bytes += 2 * at.name.len() + 8;
                        side.removed.push(at.name.clone());
                    }
                }
                if bytes > bytes_max {
                    side.more = true;
                    side.told = at.clone();
                    return Ok(side);
                }
            }
        }
        Ok(side)
    }
}

/// Conversations that are read together.
const CHUNK: usize = 64;
