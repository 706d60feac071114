//! What the server says to a nick at the end, and whether it is what the logs say.
//!
//! Owns: the expectations of lists, unread counts and inboxes. Promises: each difference is named, by its kind. Must
//! not: ask.

use std::cmp::Reverse;
use std::fmt::Debug;

use serde::Deserialize;

use super::{Crowd, INBOXES, LISTS, UNREAD};
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
    pub(super) fn wrongs(&self, crowd: &Crowd, nick: usize) -> Vec<(&'static str, String)> {
        let due = list(crowd, nick);
        let count = Counted {
            conversations: due.len() as u64,
            unread: due.iter().map(|one| one.unread).sum(),
        };
        let rooms = |list: &[Shown]| -> Vec<(String, u64, u64)> {
            let room = |one: &Shown| (one.timeline.clone(), one.members_count, one.head);
            list.iter().map(room).collect()
        };
        let unread = |list: &[Shown]| -> Vec<(String, u64)> {
            let unread = |one: &Shown| (one.timeline.clone(), one.unread);
            list.iter().map(unread).collect()
        };
        let differences = [
            (LISTS, difference(&rooms(&self.list), &rooms(&due))),
            (UNREAD, difference(&unread(&self.list), &unread(&due))),
            (UNREAD, difference(&[&self.count], &[&count])),
            (INBOXES, inbox_differs(crowd, nick, &self.inbox)),
        ];
        let found = differences.into_iter();
        found
            .filter_map(|(wrong, what)| Some((wrong, what?)))
            .collect()
    }
}

/// Where what was found and what is due differ first, if they do.
pub(super) fn difference<T: Debug + PartialEq>(found: &[T], due: &[T]) -> Option<String> {
    let same = found.iter().zip(due).take_while(|(a, b)| a == b).count();
    let (found, due) = (found.get(same), due.get(same));
    found.or(due)?;
    Some(format!("{found:?} instead of {due:?}"))
}

/// The list that a nick should have: newest activity first.
fn list(crowd: &Crowd, nick: usize) -> Vec<Shown> {
    let (plan, times, reads) = (&crowd.plan, crowd.times.borrow(), crowd.reads.borrow());
    let mut lasting: Vec<_> = plan.stays[nick]
        .iter()
        .filter(|stay| stay.lasts())
        .collect();
    lasting.sort_by_key(|stay| {
        (
            Reverse(times[stay.room].last()),
            &crowd.timelines[stay.room],
        )
    });
    let shown = lasting.into_iter().map(|stay| {
        let (room, read) = (&plan.rooms[stay.room], reads.get(&(nick, stay.room)));
        let read = read.copied().unwrap_or(0).max(stay.from - 1);
        Shown {
            timeline: room.name.clone(),
            unread: plan.unread(nick, stay.room, read),
            members_count: room.members,
            head: room.lines.len() as u64,
        }
    });
    shown.collect()
}

/// Where an inbox is not each message of the nick's stays once, those of a room in their order.
fn inbox_differs(crowd: &Crowd, nick: usize, inbox: &[Inboxed]) -> Option<String> {
    if !inbox.iter().map(|one| one.at).eq(1..=inbox.len() as u64) {
        return Some("its numbers are not 1, 2, 3 and on".into());
    }
    let entries = inbox.iter().map(|one| &one.entry);
    let rows = entries.map(|one| (&*one.timeline, one.sequence, one.timestamp, &*one.epoch));
    let mut found = Vec::from_iter(rows);
    // Stable: those of a room stay as they came.
    found.sort_by_key(|(name, ..)| *name);
    let times = crowd.times.borrow();
    let due = crowd.plan.stays[nick].iter().flat_map(|stay| {
        let (name, times) = (&*crowd.timelines[stay.room], &times[stay.room]);
        let epoch = crowd.timelines.epoch(stay.room).unwrap_or_default();
        let numbers = stay.from..=stay.to.min(times.len() as u64);
        numbers.map(move |at| (name, at, times[at as usize - 1], epoch))
    });
    difference(&found, &Vec::from_iter(due))
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
            inbox_differs(&crowd, 1, &inbox).is_none()
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
