//! What the logs say of members: which users join and leave at which line, and what each user must have at the end.
//!
//! Owns: the rules below, which `tests/irc_people.py` has again, by itself. Promises: line n of a log is message n of
//! its timeline. Must not: know what a server said.
//!
//! The rules. A nick is as the line has it, without spaces; one that can't be a user (empty, above 128 bytes, control
//! characters) is nobody. A line is the message of the nick that says or does something in it, else of nobody.
//! - A nick that says or does something, and is no member, becomes one before the line.
//! - `=== NICK [ADDRESS]  has joined …`: NICK becomes a member, and the line is what announces it.
//! - `=== NICK [ADDRESS]  has left …`, `… has quit …`: NICK is no member any more, and the line announces it.
//! - `=== A is now known as B`: A leaves, then B joins, then the line is said.
//! - A nick that is a member already does not join, and one that is none does not leave; the line is just said then.
//!
//! Members see no history (`"none"`): a stay begins with the line that brings it, and ends before the one that ends it.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::value::{RawValue, to_raw_value};

use crate::irc::{Folder, Log};

/// All logs, as what is to be done with them.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) rooms: Vec<Room>,
    pub(super) nicks: Vec<String>,
    /// By nick, in the order of rooms and lines.
    pub(super) stays: Vec<Vec<Stay>>,
    numbers: HashMap<String, usize>,
}

/// One log: a timeline.
pub(super) struct Room {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
    /// How many members it has at the end.
    pub(super) members: u64,
}

/// One line: a message, and the members that come and go before it.
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

/// The sender of a line, the member that leaves before it, and the one that joins before it: nicks as the line has
/// them.
type Deed<'a> = [Option<&'a str>; 3];

fn deed(raw: &str) -> Deed<'_> {
    let Some(notice) = raw.strip_prefix("=== ") else {
        let says = speaker(raw);
        return [says, None, says];
    };
    if let Some((from, to)) = notice.split_once(" is now known as ") {
        return [None, Some(from), Some(to)];
    }
    let moved = notice.split_once("]  has ").and_then(|(who, what)| {
        let (nick, _) = who.rsplit_once(" [")?;
        Some((nick, what.split(' ').next()?))
    });
    match moved {
        Some((nick, "joined")) => [None, None, Some(nick)],
        Some((nick, "left" | "quit")) => [None, Some(nick), None],
        _ => [None; 3],
    }
}

/// The nick that says or does something in a line that is no notice.
fn speaker(raw: &str) -> Option<&str> {
    let clock = raw.strip_prefix('[').and_then(|it| it.split_once("] "));
    let clock = clock.filter(|(time, _)| time.len() == 5 && time.as_bytes()[2] == b':');
    let rest = clock.map_or(raw, |(_, rest)| rest);
    let said = rest.strip_prefix('<').and_then(|it| it.split_once('>'));
    let done = rest.trim_start_matches(' ').strip_prefix("* ");
    let doer = || done?.trim_start().split(' ').next();
    said.map(|(nick, _)| nick).or_else(doer)
}

impl Plan {
    /// What at most `lines` lines of each log ask for.
    pub(super) fn new(folder: &Folder, logs: &[Log], lines: usize) -> Plan {
        let mut plan = Plan::default();
        for (room, log) in logs.iter().enumerate() {
            let indices = 0..log.lines.len().min(lines);
            let lines = indices.map(|at| plan.line(log, room, at)).collect();
            let nicks = 0..plan.nicks.len();
            let members = nicks.filter(|nick| plan.is_member(*nick, room)).count() as u64;
            plan.rooms.push(Room {
                name: folder.timeline(log),
                lines,
                members,
            });
        }
        plan
    }

    /// Takes a line of a room, the one behind those that were taken.
    fn line(&mut self, log: &Log, room: usize, at: usize) -> Line {
        let deed = deed(&log.lines[at]);
        let is_one_change = matches!(deed, [None, Some(_), None] | [None, None, Some(_)]);
        let [sender, leaves, joins] = deed.map(|nick| self.nick(nick?));
        // A nick that is renamed to itself neither leaves nor joins.
        let is_same = leaves == joins;
        let leaves = leaves.filter(|nick| !is_same && self.is_member(*nick, room));
        let joins = joins.filter(|nick| !is_same && !self.is_member(*nick, room));
        if let Some(stay) = leaves.and_then(|nick| self.stays[nick].last_mut()) {
            stay.to = at as u64;
        }
        if let Some(nick) = joins {
            let (from, to) = (at as u64 + 1, u64::MAX);
            self.stays[nick].push(Stay { room, from, to });
        }
        Line {
            // Through a map, whose names are sorted: as the server shows it.
            entry: to_raw_value(&log.entry(at)).expect("texts are JSON"),
            id: log.message_id(at),
            sender,
            leaves,
            joins,
            is_announced: is_one_change && (leaves.is_some() || joins.is_some()),
        }
    }

    /// Whether a nick is a member after the lines of the room that were taken so far.
    fn is_member(&self, nick: usize, room: usize) -> bool {
        let last = self.stays[nick].last();
        last.is_some_and(|stay| stay.room == room && stay.lasts())
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
        }
        Some(number)
    }

    /// The nicks that say the most lines.
    pub(super) fn busiest(&self, count: usize) -> Vec<usize> {
        let mut said = vec![0; self.nicks.len()];
        let lines = self.rooms.iter().flat_map(|room| &room.lines);
        lines
            .filter_map(|line| line.sender)
            .for_each(|nick| said[nick] += 1);
        let mut nicks: Vec<usize> = (0..said.len()).collect();
        nicks.sort_by_key(|nick| Reverse(said[*nick]));
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
        let joins = |nick| [None, None, Some(nick)];
        let leaves = |nick| [None, Some(nick), None];
        for (raw, due) in [
            ("[09:14] <will> hi", says("will")),
            ("[09:14] <bur[n] er> hi", says("bur[n] er")),
            ("[06:56]  * ghoti waves", says("ghoti")),
            ("=== L0sT [~x@y]  has joined #ubuntu", joins("L0sT")),
            ("=== [N] a [n=[c] x@y]  has joined #c", joins("[N] a")),
            ("=== x [y]  has left #c [\"has joined\"]", leaves("x")),
            ("=== x [y]  has quit", leaves("x")),
            (
                "=== a[z]  is now known as b",
                [None, Some("a[z] "), Some("b")],
            ),
            ("=== tsw has also windows now", [None; 3]),
            ("=== x [y]  has joy", [None; 3]),
            ("[05:12] -bot:#ubuntu- hello", [None; 3]),
            ("[09:14] <will> best player: VLC > all", says("will")),
            ("", [None; 3]),
            ("[", [None; 3]),
            ("[09:14]", [None; 3]),
            ("<", [None; 3]),
            ("[09:14] <never closed", [None; 3]),
            ("=== ", [None; 3]),
            ("[\u{fffd}\u{fffd}] <x> y", [None; 3]),
        ] {
            assert_eq!(deed(raw), due, "{raw}");
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
