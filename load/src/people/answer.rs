//! What the server says to a nick at the end, and whether it is what the logs say.
//!
//! Owns: the expectations of lists, unread counts and inboxes. Promises: each difference is named, by its kind. Must
//! not: ask.

use std::cmp::Reverse;

use serde::Deserialize;

use super::{Crowd, Wrong};
use crate::groups::Counted;

/// What the server says to a nick.
pub(super) struct Answer {
    pub(super) list: Vec<Shown>,
    pub(super) count: Counted,
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

/// One entry of an inbox.
#[derive(Deserialize)]
pub(super) struct Inboxed {
    /// Its own number.
    #[serde(rename = "sequence")]
    pub(super) at: u64,
    pub(super) entry: Entry,
}

/// The message that an entry leads to.
#[derive(Deserialize)]
pub(super) struct Entry {
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
            let due = &plan.rooms[*room];
            let name = &due.name;
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
            if (count, head) != (due.members, due.lines.len() as u64) {
                let what = format!("{name} with {count} members and head {head}");
                found.push((Wrong::List, what));
            }
        }
        let (conversations, counted) = (self.count.conversations, self.count.unread);
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
    let times = crowd.times.borrow();
    let mut found = Vec::new();
    for (Inboxed { at, entry }, number) in inbox.iter().zip(1..) {
        let (name, sequence) = (&entry.timeline, entry.sequence);
        let room = crowd.timelines.number(name);
        let room = room.ok_or_else(|| format!("{name} is no log"))?;
        found.push((room, sequence));
        let time = times[room].get((sequence as usize).wrapping_sub(1));
        let is_its = time.is_none_or(|time| *time == entry.timestamp)
            && crowd.timelines.epoch(room) == Some(&entry.epoch);
        if *at != number || !is_its {
            return Err(format!(
                "its {number} is {at}: {sequence} of {name}, perhaps with another time or epoch"
            ));
        }
    }
    // Stable: those of a room stay as they came.
    found.sort_by_key(|(room, _)| *room);
    let due = crowd.plan.stays[nick].iter().flat_map(|stay| {
        let length = crowd.plan.rooms[stay.room].lines.len() as u64;
        (stay.from..=stay.to.min(length)).map(|number| (stay.room, number))
    });
    let due: Vec<_> = due.collect();
    if found == due {
        return Ok(());
    }
    let same = found.iter().zip(&due).take_while(|(a, b)| a == b).count();
    let (found, due) = (found.get(same), due.get(same));
    let room = found.into_iter().chain(due).map(|(room, _)| *room).min();
    let room = room.unwrap_or_default();
    let number = |one: Option<&(usize, u64)>| one.filter(|one| one.0 == room).map(|one| one.1);
    let (name, found, due) = (&crowd.timelines[room], number(found), number(due));
    Err(format!("{name}: {found:?} instead of {due:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_has_each_message_of_the_stays_once_in_order() {
        let lines = [
            "[09:14] <a> 1",
            "[09:14] <b> 2",
            "=== b [x]  has left #c",
            "[09:14] <b> 4",
        ];
        let crowd = Crowd::of_lines(&lines);
        crowd.is_epoch(0, "e");
        crowd.times.borrow_mut()[0] = vec![1, 2, 3, 4];
        let is_right = |sequences: &[u64], alter: fn(&mut Inboxed)| {
            let entry = |(at, sequence): (u64, &u64)| {
                let entry = Entry {
                    timeline: "irc/l".into(),
                    epoch: "e".into(),
                    sequence: *sequence,
                    timestamp: *sequence,
                };
                let mut inboxed = Inboxed { at, entry };
                alter(&mut inboxed);
                inboxed
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
            |one| one.at += 1,
            |one| one.entry.timestamp += 1,
            |one| one.entry.epoch.push('x'),
            |one| one.entry.timeline.push('x'),
        ];
        for alter in alters {
            assert!(!is_right(&[2, 4], alter));
        }
    }
}
