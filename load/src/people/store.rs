//! What a device keeps: how far it is in each of its user's conversations.
//!
//! Owns: the client's loop as far as it concerns the store. Promises: a message counts once; a hole is a loss, unless a
//! stay of the user begins behind it. Must not: know how messages come.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{Crowd, Wrong};
use crate::rpc::Message;

pub(super) struct Store<'a> {
    pub(super) crowd: &'a Crowd,
    pub(super) nick: usize,
    /// By room.
    pub(super) places: BTreeMap<usize, Place>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// The last message.
    pub(super) position: u64,
    /// The position that the server knows of, and the one that it was told last.
    pub(super) known: u64,
    pub(super) told: u64,
    /// Where the last part without holes begins.
    from: u64,
}

impl<'a> Store<'a> {
    pub(super) fn new(crowd: &'a Crowd, nick: usize) -> Store<'a> {
        Store {
            crowd,
            nick,
            places: BTreeMap::new(),
        }
    }

    pub(super) fn position(&self, room: usize) -> u64 {
        self.places.get(&room).map_or(0, |place| place.position)
    }

    /// Messages came, in order.
    pub(super) fn take(&mut self, room: usize, messages: &[Message]) {
        let crowd = self.crowd;
        let checks = &crowd.run.checks;
        checks.made("messages on devices", messages.len() as u64);
        for message in messages {
            let sequence = message.sequence;
            crowd.compare(room, message);
            if sequence <= self.position(room) {
                continue;
            }
            let begins = self.follows(room, self.position(room), sequence);
            let place = self.places.entry(room).or_default();
            if place.from == 0 || sequence != place.position + 1 {
                place.from = sequence;
            }
            place.position = sequence;
            if !begins {
                let what = format!("{sequence} comes too early");
                self.wrong(Wrong::Lost, room, what);
            }
            let mut stays = crowd.plan.stays_in(self.nick, room);
            if !stays.any(|stay| stay.holds(sequence)) {
                let what = format!("{sequence} of others came");
                self.wrong(Wrong::Leaked, room, what);
            }
        }
    }

    /// Whether this number may come behind that one.
    pub(super) fn follows(&self, room: usize, last: u64, next: u64) -> bool {
        let mut stays = self.crowd.plan.stays_in(self.nick, room);
        last > 0 && next == last + 1 || next > last && stays.any(|stay| stay.from == next)
    }

    /// How much of what is still to come is missing.
    pub(super) fn missing(&self) -> u64 {
        let stays = self.crowd.plan.stays[self.nick].iter();
        let lasting = stays.filter(|stay| stay.lasts());
        let missing = lasting.map(|stay| {
            let length = self.crowd.plan.rooms[stay.room].lines.len() as u64;
            let place = self.places.get(&stay.room).copied().unwrap_or_default();
            let late = if place.position < stay.from {
                0
            } else {
                place.from.saturating_sub(stay.from)
            };
            length.saturating_sub(place.position.max(stay.from - 1)) + late
        });
        missing.sum()
    }

    pub(super) fn wrong(&self, wrong: Wrong, room: usize, what: impl Display) {
        let crowd = self.crowd;
        let (nick, name) = (&crowd.plan.nicks[self.nick], &crowd.timelines[room]);
        let what = format_args!("{nick} in {name}: {what}");
        crowd.wrong(wrong, what);
    }
}

#[cfg(test)]
mod tests {
    use super::super::WRONGS;
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
        let wrongs = |sequences: &[u64], alter: fn(&mut Message)| {
            let crowd = Crowd::of_lines(&lines);
            let mut store = Store::new(&crowd, 1);
            for sequence in sequences {
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
            let wrong = |name: &&str| crowd.run.value(name) != Some(0.0);
            let found: Vec<_> = WRONGS.into_iter().filter(wrong).collect();
            (found, store.missing())
        };
        let as_it_is = |_: &mut Message| {};
        for (sequences, found, missing) in [
            (&[2, 3, 6, 7][..], &[][..], 0),
            (&[6, 7], &[], 0),
            (&[2, 3, 6, 3, 6], &[], 1),
            (&[2, 3], &[], 2),
            (&[3, 6, 7], &["lost"], 0),
            (&[2, 3, 7], &["lost"], 1),
            (&[2, 3, 4], &["leaked"], 2),
        ] {
            assert_eq!(
                wrongs(sequences, as_it_is),
                (found.to_vec(), missing),
                "{sequences:?}"
            );
        }
        let altered: [fn(&mut Message); 4] = [
            |message| message.message_id.push('x'),
            |message| message.sender = None,
            |message| message.entry = None,
            |message| message.timestamp += message.sequence % 2,
        ];
        for (at, alter) in altered.into_iter().enumerate() {
            let (found, _) = wrongs(&[2, 2, 3, 6, 7], alter);
            let noticed = found == ["altered"];
            assert_eq!(noticed, at < 3, "change {at}");
        }
    }
}
