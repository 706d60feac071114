//! What changes in a user's own rows, for a client that follows all of their conversations.
//!
//! Owns: the order in which such changes are returned. Promises: each change once, in pages that fit a frame; a change
//! that is made while a page is read is in the next one. Must not: know subscriptions.

use std::sync::Arc;

use crate::timeline::{Columns, Error};
use tideline_model::access::Asker;

use super::super::People;
use super::super::devices::stored::Place;
use super::super::tables::Home;
use super::list::{CHUNK, Found, Shown};
use super::memberships::Entry;

/// Up to where the changes at a user were returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnPosition {
    /// In the log of the user's partition.
    position: u64,
    /// Of the rows that were written together there, up to this name.
    name: String,
}

/// What has changed at a user.
#[derive(Debug, Default)]
pub struct OwnSide {
    /// Conversations whose rows have changed, or at first all of them, and where the device is.
    pub current: Vec<(String, Option<Place>)>,
    /// What they show; nothing at first.
    pub shown: Vec<Shown>,
    /// Conversations that have ended.
    pub removed: Vec<String>,
    /// Conversations that the user may read no more.
    pub hidden: Vec<String>,
    /// What to ask with next.
    pub reached: OwnPosition,
    /// There is more.
    pub more: bool,
}

impl People {
    /// What has changed at a user after `after`; `None` = all conversations. `device`: whose positions are wanted.
    pub async fn own_side(
        &self,
        asker: &Asker,
        device: Option<&str>,
        after: Option<&OwnPosition>,
        bytes_max: usize,
    ) -> Result<OwnSide, Error> {
        let user = asker.user();
        let partition = self.place(&Home::new(user));
        let mut side = OwnSide {
            reached: OwnPosition {
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
        let Some(after) = after else {
            let current = mine
                .current()
                .map(|(name, _)| (name.to_owned(), place(name)));
            side.current = current.collect();
            return Ok(side);
        };
        let mut changed: Vec<(OwnPosition, Entry)> = Vec::new();
        for (name, entry) in mine
            .iter()
            .filter(|(_, one)| one.position >= after.position)
        {
            let at = OwnPosition {
                position: entry.position,
                name: name.to_owned(),
            };
            if at > *after {
                changed.push((at, *entry));
            }
        }
        changed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut bytes = 0;
        for chunk in changed.chunks(CHUNK) {
            let current = chunk.iter().filter(|(_, entry)| !entry.is_ended());
            let names: Vec<&str> = current.map(|(at, _)| at.name.as_str()).collect();
            let shown = self.shown(asker, &names, None, &Columns::new()).await?;
            let mut shown = shown.into_iter();
            for (at, entry) in chunk {
                match (!entry.is_ended()).then(|| shown.next()).flatten() {
                    Some(Found::Shown(one)) => {
                        bytes += one.json_bytes_max();
                        side.current.push((at.name.clone(), place(&at.name)));
                        side.shown.push(*one);
                    }
                    // The user could never read it, so it was never shown.
                    Some(Found::Unfit) if !entry.had_other_roles() => {}
                    Some(Found::Unfit) => {
                        bytes += 2 * at.name.len() + 8;
                        side.hidden.push(at.name.clone());
                    }
                    _ => {
                        bytes += 2 * at.name.len() + 8;
                        side.removed.push(at.name.clone());
                    }
                }
                if bytes > bytes_max {
                    side.more = true;
                    side.reached = at.clone();
                    return Ok(side);
                }
            }
        }
        Ok(side)
    }
}
