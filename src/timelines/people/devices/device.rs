//! What is new for a device in all of its user's conversations.
//!
//! Owns: `sync` by device. Promises: a look that finds nothing new reads no store: conversations, positions and heads
//! are in memory; nothing but what the device says that it has stored moves its positions. Must not: wait.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::timeline::{Error, SyncAsker, SyncPosition, SyncState, Synced};
use tideline_model::access::Asker;
use tideline_table::View;

use super::super::People;
use super::super::conversations::list::Found;
use super::super::conversations::memberships::Mine;
use super::super::tables::Home;
use super::places::{PlaceRef, Places};
use super::positions;
use super::positions::SetPositions;

/// Asks for what is new for a device.
#[derive(Clone, Debug)]
pub struct SyncDevice {
    /// Whose.
    pub asker: Asker,
    /// Its name.
    pub device: String,
    /// Of a conversation without a position: so many of its newest messages.
    pub rewind: u64,
    /// Messages of a conversation at most.
    pub limit: usize,
    /// Bytes of JSON at most, about.
    pub bytes_max: usize,
}

impl People {
    /// Conversations with news, beginning anywhere (`turn` is another number each time, so that none starves), and
    /// whether those that are not shown may have some too.
    pub async fn sync_device(
        &self,
        sync: &SyncDevice,
        turn: usize,
    ) -> Result<(Vec<Synced>, bool), Error> {
        let mine = self.mine(sync.asker.user()).await?;
        let places = self.places_of(sync.asker.user(), &sync.device).await?;
        let positions = positions_of(&mine, &places, sync.rewind);
        let start = turn.checked_rem(positions.len()).unwrap_or(0);
        let asker = SyncAsker {
            asker: &sync.asker,
            is_member: true,
            limit: sync.limit,
        };
        let synced = self
            .timelines
            .sync(&positions, asker, sync.bytes_max, start);
        let (mut synced, more) = synced.await?;
        let is_gone = |one: &Synced| matches!(one.state, SyncState::Deleted | SyncState::Forbidden);
        let gone = synced.iter().filter(|one| is_gone(one));
        let gone: Vec<&str> = gone.map(|one| one.timeline.as_str()).collect();
        if !gone.is_empty() {
            // This look marks memberships that have ended, so that the next sync does not meet them again.
            let any = Vec::new();
            let found = self.shown(&sync.asker, &gone, Some(&[]), &any).await?;
            let mut found = found.into_iter();
            // A member that may not read a timeline does not hear what happens there.
            synced.retain(|one| !is_gone(one) || !matches!(found.next(), Some(Found::Unfit)));
        }
        Ok((synced, more))
    }

    /// What memory, or else the store, knows of a device's positions; none of one that is gone.
    pub(in super::super) async fn places_of(
        &self,
        user: &str,
        device: &str,
    ) -> Result<Arc<Places>, Error> {
        let home = Home::new(user);
        let name = device.to_owned();
        let read = move |view: &View, home: &Home, now| positions::all(view, home, &name, now);
        let owner = home.device_columns(device);
        let places = self.kept(&self.places, (&home, &owner), read).await?;
        let now_ms = self.timelines.now_ms();
        match places.device {
            Some(row) if row.is_gone(now_ms) => Ok(Arc::default()),
            Some(row) if row.is_stale(now_ms) => {
                // A device that only asks is in use too.
                let used = self.set_positions(SetPositions {
                    user: user.to_owned(),
                    device: device.to_owned(),
                    positions: Vec::new(),
                    force: false,
                });
                used.await.map(|_| places)
            }
            _ => Ok(places),
        }
    }
}

/// Where a device is in each of its user's conversations; both are in the order of names.
fn positions_of<'m>(mine: &'m Mine, places: &'m Places, rewind: u64) -> Vec<SyncPosition<'m>> {
    let mut places = places.iter().peekable();
    let mut positions = Vec::with_capacity(mine.iter().len());
    for (timeline, _) in mine.current() {
        let mut place = None;
        while let Some((name, found)) = places.peek() {
            match (*name).cmp(timeline) {
                Ordering::Less => {}
                Ordering::Equal => place = Some(*found),
                Ordering::Greater => break,
            }
            places.next();
        }
        positions.push(position(timeline, place, rewind));
    }
    positions
}

fn position<'m>(timeline: &'m str, place: Option<PlaceRef<'m>>, rewind: u64) -> SyncPosition<'m> {
    match place {
        Some(place) => SyncPosition {
            timeline,
            after: place.after,
            epoch: Some(place.epoch),
            changes_after: place.changes_after,
            open: &[],
            rewind: None,
        },
        None => SyncPosition {
            timeline,
            after: 0,
            epoch: None,
            changes_after: None,
            open: &[],
            rewind: Some(rewind),
        },
    }
}
