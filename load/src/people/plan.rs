//! What the logs say of members: who joins and leaves at which line, and what everybody must have at the end.
//!
//! Owns: the rules below, which `tests/irc_people.py` has again, by itself. Promises: line n of a log is message n of
//! its timeline. Must not: know what a server said.
//!
//! The rules. A nick is as the line has it, without spaces; one that can't be a user (empty, above 128 bytes, control
//! characters) is nobody. A line is the message of the nick that says or does something in it, else of nobody.
//! - Who says or does something, and is no member, becomes one before the line.
//! - `=== NICK [ADDRESS]  has joined …`: NICK becomes a member, and the line is what announces it.
//! - `=== NICK [ADDRESS]  has left …`, `… has quit …`: NICK is no member any more, and the line announces it.
//! - `=== A is now known as B`: A leaves, then B joins, then the line is said.
//! - Who is a member already does not join, who is none does not leave; the line is just said then.
//!
//! Members see no history (`"none"`): a stay begins with the line that brings it, and ends before the one that ends it.

use std::collections::HashMap;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::irc::{self, Folder, Log};

/// All logs, as what is to be done with them.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) rooms: Vec<Room>,
    pub(super) nicks: Vec<String>,
    /// By nick, in the order of rooms and lines.
    pub(super) stays: Vec<Vec<Stay>>,
    /// How many lines each nick said.
    pub(super) said: Vec<u64>,
    numbers: HashMap<String, usize>,
}

/// One log: a timeline.
pub(super) struct Room {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
    /// How many members it has at the end.
    pub(super) members: u64,
}

/// One line: a message, and who comes and goes before it.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) entry: Box<RawValue>,
    pub(super) id: String,
    pub(super) sender: Option<usize>,
    pub(super) leaves: Option<usize>,
    pub(super) joins: Option<usize>,
    /// It is appended with the change of members.
    pub(super) is_announced: bool,
}

/// From when to when a nick is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub(super) room: usize,
    /// The first message that they see.
    pub(super) from: u64,
    /// The last one that they get; `u64::MAX` while it lasts.
    pub(super) to: u64,
}

impl Stay {
    pub(super) fn lasts(&self) -> bool {
        self.to == u64::MAX
    }

    pub(super) fn holds(&self, sequence: u64) -> bool {
        (self.from..=self.to).contains(&sequence)
    }
}

/// Who says or does something in a line, who leaves with it, and who joins.
fn deed(raw: &str) -> [Option<&str>; 3] {
    let Some(notice) = raw.strip_prefix("=== ") else {
        let line = irc::parse(raw);
        let nick = line.nick.filter(|_| line.kind != "system");
        return [nick, None, nick];
    };
    if let Some((from, to)) = notice.split_once(" is now known as ") {
        return [None, Some(from), Some(to)];
    }
    let (who, what) = notice.split_once("]  has ").unwrap_or_default();
    let nick = who.rsplit_once(" [").map(|(nick, _)| nick);
    match what.split(' ').next() {
        Some("joined") => [None, None, nick],
        Some("left" | "quit") => [None, nick, None],
        _ => [None; 3],
    }
}

impl Plan {
    /// What at most `lines` lines of each log ask for.
    pub(super) fn new(folder: &Folder, logs: &[Log], lines: usize) -> Plan {
        let mut plan = Plan::default();
        for (room, log) in logs.iter().enumerate() {
            let mut present = HashMap::new();
            let numbered = log.lines.iter().enumerate().take(lines);
            let lines = numbered.map(|(at, raw)| plan.line(log, (room, at), raw, &mut present));
            let lines = lines.collect();
            let members = present.len() as u64;
            for (nick, from) in present {
                let to = u64::MAX;
                plan.stays[nick].push(Stay { room, from, to });
            }
            plan.rooms.push(Room {
                name: folder.timeline(log),
                lines,
                members,
            });
        }
        let order = |stay: &Stay| (stay.room, stay.from);
        let stays = plan.stays.iter_mut();
        stays.for_each(|stays| stays.sort_unstable_by_key(order));
        plan
    }

    /// Takes a line, by its room and index. `present`: who is a member, since which message.
    fn line(
        &mut self,
        log: &Log,
        (room, at): (usize, usize),
        raw: &str,
        present: &mut HashMap<usize, u64>,
    ) -> Line {
        let sequence = at as u64 + 1;
        let deed = deed(raw);
        let [sender, leaves, joins] = deed.map(|nick| self.nick(nick?));
        // Who is renamed to the same neither leaves nor joins.
        let is_same = leaves.is_some() && leaves == joins;
        let leaves = leaves.filter(|nick| !is_same && present.contains_key(nick));
        let joins = joins.filter(|nick| !is_same && !present.contains_key(nick));
        if let Some((nick, from)) = leaves.and_then(|nick| present.remove_entry(&nick)) {
            let to = sequence - 1;
            self.stays[nick].push(Stay { room, from, to });
        }
        if let Some(nick) = joins {
            present.insert(nick, sequence);
        }
        if let Some(nick) = sender {
            self.said[nick] += 1;
        }
        Line {
            // Through a map, whose names are sorted: as the server shows it.
            entry: to_raw_value(&json!(irc::parse(raw))).expect("texts are JSON"),
            id: log.message_id(at),
            sender,
            leaves,
            joins,
            // A notice of one nick's change, which is one.
            is_announced: deed.iter().flatten().count() == 1 && leaves.or(joins).is_some(),
        }
    }

    fn nick(&mut self, text: &str) -> Option<usize> {
        let nick = text.replace(' ', "");
        if !(1..=128).contains(&nick.len()) || nick.chars().any(char::is_control) {
            return None;
        }
        let next = self.nicks.len();
        let number = *self.numbers.entry(nick.clone()).or_insert(next);
        if number == next {
            self.nicks.push(nick);
            self.stays.push(Vec::new());
            self.said.push(0);
        }
        Some(number)
    }

    /// The busiest nicks.
    pub(super) fn busiest(&self, count: usize) -> Vec<usize> {
        let mut nicks: Vec<usize> = (0..self.nicks.len()).collect();
        nicks.sort_by_key(|nick| std::cmp::Reverse(self.said[*nick]));
        nicks.truncate(count);
        nicks
    }

    /// A nick's stays in a room.
    pub(super) fn stays_in(&self, nick: usize, room: usize) -> impl Iterator<Item = &Stay> {
        let stays = &self.stays[nick];
        let first = stays.partition_point(|stay| stay.room < room);
        stays[first..]
            .iter()
            .take_while(move |stay| stay.room == room)
    }

    /// How many lines of a room somebody else said, above a number.
    pub(super) fn unread(&self, nick: usize, room: usize, above: u64) -> u64 {
        let lines = self.rooms[room].lines.iter().skip(above as usize);
        lines.filter(|line| line.sender != Some(nick)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::Crowd;
    use super::*;

    #[test]
    fn each_kind_of_line_does_what_the_rules_say() {
        let says = |nick| [Some(nick), None, Some(nick)];
        let (joins, leaves) = (
            |nick| [None, None, Some(nick)],
            |nick| [None, Some(nick), None],
        );
        let (renames, nothing) = ([None, Some("a[z] "), Some("b")], [None; 3]);
        for (raw, expected) in [
            ("[09:14] <will> hi", says("will")),
            ("[09:14] <bur[n] er> hi", says("bur[n] er")),
            ("[06:56]  * ghoti waves", says("ghoti")),
            ("=== L0sT [~x@y]  has joined #ubuntu", joins("L0sT")),
            ("=== [N] a [n=[c] x@y]  has joined #c", joins("[N] a")),
            ("=== x [y]  has left #c [\"has joined\"]", leaves("x")),
            ("=== x [y]  has quit", leaves("x")),
            ("=== a[z]  is now known as b", renames),
            ("=== tsw has also windows now", nothing),
            ("=== x [y]  has joy", nothing),
            ("=== x y]  has joined #c", nothing),
            ("[05:12] -bot:#ubuntu- hello", nothing),
            ("", nothing),
        ] {
            assert_eq!(deed(raw), expected, "{raw}");
        }
    }

    #[test]
    fn stays_begin_and_end_at_their_lines() {
        let lines = [
            "[09:14] <a> 1",
            "=== b [x]  has joined #c",
            "=== b [x]  has joined #c",
            "=== a is now known as c",
            "=== a [x]  has left #c",
            "=== b [x]  has left #c",
            "[09:14] <b> 7",
            "=== b is now known as b",
            "[09:14] <c> 9",
        ];
        let plan = &Crowd::of_lines(&lines).plan;
        assert_eq!(plan.nicks, ["a", "b", "c"]);
        let stay = |from, to| Stay { room: 0, from, to };
        assert_eq!(plan.stays[0], [stay(1, 3)]);
        assert_eq!(plan.stays[1], [stay(2, 5), stay(7, u64::MAX)]);
        assert_eq!(plan.stays[2], [stay(4, u64::MAX)]);
        let announced = plan.rooms[0].lines.iter().map(|line| line.is_announced);
        let announced: Vec<usize> = (1..)
            .zip(announced)
            .filter(|(_, it)| *it)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(announced, [2, 6]);
        assert_eq!((plan.unread(1, 0, 6), plan.unread(2, 0, 3)), (2, 5));
        assert_eq!((plan.rooms[0].members, plan.busiest(1)), (2, vec![0]));
    }
}
