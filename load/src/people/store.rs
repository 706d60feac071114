//! What a device keeps: how far it is in each of its user's conversations.
//!
//! Owns: the client's loop as far as it concerns the store. Promises: a message comes once to a connection; a hole is a
//! loss, unless a stay of the user begins behind it. Must not: know how messages come.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{Crowd, DOUBLED, LEAKED, LOST};
use crate::client::rpc::Message;

pub(super) struct Store<'a> {
    pub(super) crowd: &'a Crowd,
    pub(super) nick: usize,
    /// The name of the device.
    pub(super) device: &'static str,
    /// By room.
    pub(super) places: BTreeMap<usize, Place>,
}

#[derive(Default)]
pub(super) struct Place {
    /// The highest number that is stored.
    pub(super) position: u64,
    /// The position that the server knows of, and the one that was sent to it last.
    pub(super) known: u64,
    pub(super) told: u64,
    /// The last number that the subscription brought: it brings none again, also not below the position. A poll goes on
    /// behind what is acknowledged, so for polls it is that of all of them.
    pub(super) last: Option<u64>,
}

impl Store<'_> {
    /// Messages came.
    pub(super) fn take(&mut self, room: usize, messages: &[Message]) {
        let (crowd, name) = (self.crowd, &self.crowd.timelines[room]);
        let checks = &crowd.run.checks;
        checks.made("messages on devices", messages.len() as u64);
        for message in messages {
            crowd.compare(room, message);
            let next = message.sequence;
            let place = self.places.entry(room).or_default();
            let (last, before) = (place.last.replace(next), place.position);
            place.position = before.max(next);
            if last.is_some_and(|last| next <= last) {
                self.wrong(DOUBLED, format_args!("{name}: {next} after {last:?}"));
            }
            let before = last.unwrap_or(before);
            let stays = || crowd.plan.stays_in(self.nick, room);
            let is_next = before > 0 && next == before + 1;
            if next > before && !is_next && !stays().any(|stay| stay.from == next) {
                self.wrong(LOST, format_args!("{name}: {next} next to {before}"));
            }
            if !stays().any(|stay| stay.holds(next)) {
                self.wrong(LEAKED, format_args!("{name}: {next} is for others"));
            }
        }
    }

    /// How much of what is still to come is missing.
    pub(super) fn missing(&self) -> u64 {
        let stays = self.crowd.plan.stays[self.nick].iter();
        let lasting = stays.filter(|stay| stay.lasts());
        let missing = lasting.map(|stay| {
            let length = self.crowd.plan.rooms[stay.room].lines.len() as u64;
            let place = self.places.get(&stay.room);
            let position = place.map_or(0, |place| place.position);
            length.saturating_sub(position.max(stay.from - 1))
        });
        missing.sum()
    }

    pub(super) fn wrong(&self, wrong: &'static str, what: impl Display) {
        let (nick, device) = (&self.crowd.plan.nicks[self.nick], self.device);
        let what = format_args!("{nick}, {device}: {what}");
        self.crowd.wrong(wrong, what);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ALTERED, WRONGS};
    use super::*;

    #[test]
    fn holes_and_messages_of_others_and_altered_ones_are_noticed() {
        let lines = [
            "[09:14] <a> 1",
            "[09:14] <b> 2",
            "[09:14] <b> 3",
            "=== b [x]  has left #c",
            "[09:14] <a> 5",
            "[09:14] <b> 6",
            "[09:14] <b> 7",
        ];
        // What each connection brings, one message after the other.
        let wrongs = |connections: &[&[u64]], alter: fn(&mut Message)| {
            let crowd = Crowd::of_lines(&lines);
            let mut store = Store {
                crowd: &crowd,
                nick: 1,
                device: "pushed",
                places: BTreeMap::new(),
            };
            for sequences in connections {
                let places = store.places.values_mut();
                places.for_each(|place| place.last = None);
                for sequence in *sequences {
                    let line = &crowd.plan.rooms[0].lines[*sequence as usize - 1];
                    let sender = line.sender.map(|nick| crowd.plan.nicks[nick].clone());
                    let mut message = Message {
                        sequence: *sequence,
                        timestamp: *sequence,
                        message_id: line.id.clone(),
                        sender,
                        entry: Some(line.entry.clone()),
                    };
                    alter(&mut message);
                    store.take(0, &[message]);
                }
            }
            let wrong = |name: &&str| crowd.run.value(name) != Some(0.0);
            let found: Vec<_> = WRONGS.into_iter().filter(wrong).collect();
            (found, store.missing())
        };
        let as_it_is = |_: &mut Message| {};
        for (connections, found, missing) in [
            (&[&[2, 3, 6, 7][..]][..], &[][..], 0),
            (&[&[6, 7]], &[], 0),
            (&[&[2, 3, 6], &[3, 6]], &[], 1),
            (&[&[2, 3], &[6]], &[], 1),
            (&[&[2, 3]], &[], 2),
            (&[&[3, 6, 7]], &[LOST], 0),
            (&[&[2, 3, 7]], &[LOST], 0),
            (&[&[2], &[7]], &[LOST], 0),
            // A hole below what is stored.
            (&[&[2, 3, 6, 7], &[3, 7]], &[LOST], 0),
            (&[&[2, 3, 4]], &[LEAKED], 2),
            (&[&[2, 3, 3, 6, 7]], &[DOUBLED], 0),
            (&[&[2, 3, 6, 7], &[3, 2]], &[DOUBLED], 0),
        ] {
            assert_eq!(
                wrongs(connections, as_it_is),
                (found.to_vec(), missing),
                "{connections:?}"
            );
        }
        let altered: [fn(&mut Message); 4] = [
            |message| message.message_id.push('x'),
            |message| message.sender = None,
            |message| message.entry = None,
            |message| message.timestamp += message.sequence % 2,
        ];
        for (at, alter) in altered.into_iter().enumerate() {
            let (found, _) = wrongs(&[&[2], &[2, 3, 6, 7]], alter);
            let noticed = found == [ALTERED];
            assert_eq!(noticed, at < 3, "change {at}");
        }
    }
}
