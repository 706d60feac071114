//! What the server says to a nick at the end, and whether it is what the logs say.
//!
//! Owns: the expectations of lists, unread counts and inboxes. Promises: each difference is named, by its kind. Must
//! not: ask.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::plan::Room;
use super::{Crowd, Wrong};

/// What the server says to a nick.
pub(super) struct Answer {
    pub(super) list: Vec<Shown>,
    pub(super) count: Count,
    pub(super) inbox: Vec<Inboxed>,
}

/// One conversation of a list.
#[derive(Deserialize)]
pub(super) struct Shown {
    pub(super) timeline: String,
    pub(super) unread: u64,
    pub(super) members_count: u64,
    pub(super) head: u64,
}

#[derive(Deserialize)]
pub(super) struct Count {
    pub(super) conversations: u64,
    pub(super) unread: u64,
}

/// One entry of an inbox.
#[derive(Deserialize)]
pub(super) struct Inboxed {
    /// Its own number.
    #[serde(skip)]
    pub(super) at: u64,
    pub(super) timeline: String,
    pub(super) epoch: String,
    pub(super) sequence: u64,
    pub(super) timestamp: u64,
}

impl Answer {
    /// What is wrong with the answer to a nick.
    pub(super) fn wrongs(&self, crowd: &Crowd, nick: usize) -> Vec<(Wrong, String)> {
        let (mut found, plan) = (Vec::new(), &crowd.plan);
        let lasting = plan.stays[nick].iter().filter(|stay| stay.lasts());
        let times = crowd.times.borrow();
        let activity = |room: usize| Reverse(times[room].last().copied());
        // What a nick has and should have: newest activity first.
        let mut expected: Vec<_> = lasting.map(|stay| (stay.room, stay.from)).collect();
        expected.sort_by_key(|(room, _)| (activity(*room), &plan.rooms[*room].name));
        let names = expected.iter().map(|(room, _)| &plan.rooms[*room].name);
        let listed = self.list.iter().map(|shown| &shown.timeline);
        if !listed.clone().eq(names.clone()) {
            let (listed, names): (Vec<_>, Vec<_>) = (listed.collect(), names.collect());
            found.push((Wrong::List, format!("{listed:?} instead of {names:?}")));
        }
        let mut unread = 0;
        for (room, from) in &expected {
            let Room {
                name,
                lines,
                members,
            } = &plan.rooms[*room];
            let read = crowd.reads.borrow().get(&(nick, *room)).copied();
            let expected = plan.unread(nick, *room, read.unwrap_or(0).max(from - 1));
            unread += expected;
            let Some(shown) = self.list.iter().find(|shown| shown.timeline == *name) else {
                continue;
            };
            if shown.unread != expected {
                let what = format!("{} unread of {name} instead of {expected}", shown.unread);
                found.push((Wrong::Unread, what));
            }
            let (count, head) = (shown.members_count, shown.head);
            if (count, head) != (*members, lines.len() as u64) {
                let what = format!("{name} with {count} members and head {head}");
                found.push((Wrong::List, what));
            }
        }
        let Count {
            conversations,
            unread: counted,
        } = self.count;
        if (conversations as usize, counted) != (expected.len(), unread) {
            let what = format!("{counted} unread in {conversations} instead of {unread}");
            found.push((Wrong::Unread, what));
        }
        if let Err(what) = is_inbox(crowd, nick, &self.inbox) {
            found.push((Wrong::Inbox, what));
        }
        found
    }
}

/// Whether an inbox has each message of the nick's stays once, those of a room in their order.
fn is_inbox(crowd: &Crowd, nick: usize, inbox: &[Inboxed]) -> Result<(), String> {
    let mut by_room: BTreeMap<usize, Vec<&Inboxed>> = BTreeMap::new();
    for entry in inbox {
        let room = crowd.timelines.number(&entry.timeline);
        let room = room.ok_or_else(|| format!("{} is no log", entry.timeline))?;
        by_room.entry(room).or_default().push(entry);
    }
    let rooms = crowd.plan.stays[nick].iter().map(|stay| stay.room);
    for room in BTreeSet::from_iter(rooms) {
        let (name, got) = (&crowd.timelines[room], by_room.remove(&room));
        let (mut got, length) = (
            got.into_iter().flatten(),
            crowd.plan.rooms[room].lines.len(),
        );
        let stays = crowd.plan.stays_in(nick, room);
        let expected = stays.flat_map(|stay| stay.from..=stay.to.min(length as u64));
        for sequence in expected {
            let entry = got.next().map(|entry| entry.sequence);
            if entry != Some(sequence) {
                return Err(format!("{name}: {entry:?} instead of {sequence}"));
            }
        }
        if let Some(entry) = got.next() {
            return Err(format!("{name}: {} is too much", entry.sequence));
        }
    }
    if let Some((room, _)) = by_room.first_key_value() {
        return Err(format!("entries of {}", crowd.timelines[*room]));
    }
    if let Some((entry, at)) = inbox.iter().zip(1..).find(|(entry, at)| entry.at != *at) {
        return Err(format!("its {at} is {}", entry.at));
    }
    let times = crowd.times.borrow();
    let odd = |entry: &&Inboxed| {
        let room = crowd.timelines.number(&entry.timeline).unwrap_or_default();
        let time = times[room].get(entry.sequence as usize - 1);
        time != Some(&entry.timestamp) || crowd.timelines.epoch(room) != Some(&entry.epoch)
    };
    match inbox.iter().find(odd) {
        None => Ok(()),
        Some(Inboxed {
            timeline, sequence, ..
        }) => Err(format!("{timeline}: {sequence} with another time or epoch")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::irc::{Log, test_folder};
    use crate::people::plan::Plan;
    use crate::run::Run;
    use crate::setup::plain;

    #[test]
    fn an_inbox_has_each_message_of_the_stays_once_in_order() {
        let lines = [
            "[09:14] <a> 1",
            "[09:14] <b> 2",
            "=== b [x]  has left #c",
            "[09:14] <b> 4",
        ];
        let log = Log {
            name: "l".into(),
            lines: lines.map(str::to_owned).into(),
            replaced: 0,
        };
        let plan = Plan::new(&test_folder(), &[log], usize::MAX);
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let crowd = Crowd::new(&run, plan);
        crowd.is_epoch(0, "e");
        crowd.times.borrow_mut()[0] = vec![1, 2, 3, 4];
        let is_right = |sequences: &[u64], alter: fn(&mut Inboxed)| {
            let entry = |(at, sequence): (u64, &u64)| {
                let mut entry = Inboxed {
                    at,
                    timeline: "irc/l".into(),
                    epoch: "e".into(),
                    sequence: *sequence,
                    timestamp: *sequence,
                };
                alter(&mut entry);
                entry
            };
            let inbox: Vec<_> = (1..).zip(sequences).map(entry).collect();
            is_inbox(&crowd, 1, &inbox).is_ok()
        };
        assert!(is_right(&[2, 4], |_| {}));
        for wrong in [
            &[2][..],
            &[4],
            &[],
            &[4, 2],
            &[2, 2, 4],
            &[2, 3, 4],
            &[2, 4, 4],
        ] {
            assert!(!is_right(wrong, |_| {}), "{wrong:?}");
        }
        let alters: [fn(&mut Inboxed); 4] = [
            |entry| entry.at += 1,
            |entry| entry.timestamp += 1,
            |entry| entry.epoch.push('x'),
            |entry| entry.timeline.push('x'),
        ];
        for alter in alters {
            assert!(!is_right(&[2, 4], alter));
        }
    }
}
