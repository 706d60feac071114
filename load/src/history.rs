//! The checker: what was sent, acknowledged, seen and stored of one timeline must be one history.
//!
//! Owns: the rules (numbers 1..n, every acknowledged message once at the number it was told, in order, with the same
//! bytes; subscribers saw contiguous parts of just that). Promises: linear time; each broken rule is reported, with the
//! place. Must not: know how the messages were sent; crash and replay both feed it. Its own tests break good histories.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// Everything known about one timeline.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The timeline's name, for the reports.
    pub name: String,
    /// Messages that were sent at least once.
    pub sent: Vec<Sent>,
    /// What a scan from the first number shows at the end, as it came.
    pub stored: Vec<Mark>,
    /// `head` as the scan told it.
    pub head: u64,
    /// What each subscriber saw.
    pub watched: Vec<Watched>,
}

/// One message of a writer.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its message ID, unique within the timeline.
    pub id: String,
    /// Who sent it: messages of one writer keep their order.
    pub writer: u32,
    /// Its digest (see [`digest`]).
    pub digest: u64,
    /// When it was first handed to a socket, ns since the run began.
    pub sent_ns: u64,
    /// The first acknowledgement.
    pub ack: Option<Ack>,
    /// The server refused it once while others were on the way, so its place among them is open.
    pub refused: bool,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The number it told.
    pub sequence: u64,
    /// The time it told, ms since 1970.
    pub timestamp: u64,
    /// When it came, ns since the run began.
    pub at_ns: u64,
}

/// A message as stored or pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number.
    pub sequence: u64,
    /// Its time, ms since 1970.
    pub timestamp: u64,
    /// Its message ID; left empty for pushes, whose digest covers it.
    pub id: String,
    /// Its digest.
    pub digest: u64,
}

/// What one subscriber saw of the timeline.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Which one.
    pub subscriber: String,
    /// One for each subscription, in order.
    pub spans: Vec<Span>,
    /// It must have reached the end.
    pub to_the_end: bool,
}

/// One subscription: everything from the reply and the pushes, in the order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// The position it asked for.
    pub after: u64,
    /// What came.
    pub marks: Vec<Mark>,
}

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A number is missing, or the head is not the last number.
    Hole,
    /// An acknowledged message is not there.
    Lost,
    /// A message is there twice.
    Doubled,
    /// A message is not at the number that the acknowledgement told, or its time differs.
    Moved,
    /// Numbers, a writer's messages or times stand in the wrong order.
    OutOfOrder,
    /// The bytes differ from what was sent.
    Altered,
    /// Nobody sent it.
    Foreign,
    /// A subscriber saw something else, or not each number once in order, or not all.
    Subscriber,
}

/// A broken rule and where.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which rule.
    pub rule: Rule,
    /// Where and how.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.rule, self.what)
    }
}

/// A number for sender, message ID and entry; equal entries have equal digests whatever the order of their names.
#[must_use]
pub fn digest(sender: Option<&str>, id: &str, entry: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    sender.unwrap_or("").hash(&mut hasher);
    id.hash(&mut hasher);
    // serde_json's map is sorted by name, so its text is canonical.
    entry.map(Value::to_string).hash(&mut hasher);
    hasher.finish()
}

/// Every broken rule of one timeline's history.
#[must_use]
pub fn check(history: &History) -> Vec<Fault> {
    let mut faults = Faults {
        name: &history.name,
        list: Vec::new(),
    };
    numbers(history, &mut faults);
    let places = contents(history, &mut faults);
    acknowledged(history, &places, &mut faults);
    writers_order(history, &places, &mut faults);
    real_time(history, &places, &mut faults);
    for watched in &history.watched {
        subscriber(history, watched, &mut faults);
    }
    faults.list
}

struct Faults<'a> {
    name: &'a str,
    list: Vec<Fault>,
}

impl Faults<'_> {
    fn add(&mut self, rule: Rule, what: impl fmt::Display) {
        let what = format!("{}: {what}", self.name);
        self.list.push(Fault { rule, what });
    }
}

/// Numbers are 1..n and times do not fall.
fn numbers(history: &History, faults: &mut Faults<'_>) {
    let (mut last, mut time) = (0, 0);
    for mark in &history.stored {
        let Mark {
            sequence,
            timestamp,
            ..
        } = *mark;
        if sequence <= last {
            faults.add(
                Rule::OutOfOrder,
                format_args!("{sequence} stands after {last}"),
            );
        } else if sequence != last + 1 {
            faults.add(Rule::Hole, format_args!("{sequence} follows {last}"));
        }
        if timestamp < time {
            faults.add(
                Rule::OutOfOrder,
                format_args!("the time falls at {sequence}"),
            );
        }
        last = last.max(sequence);
        time = time.max(timestamp);
    }
    if history.head != last {
        let head = history.head;
        faults.add(
            Rule::Hole,
            format_args!("head is {head}, the last number is {last}"),
        );
    }
}

/// Each stored message was sent, once, with these bytes. Returns message ID → number.
fn contents<'a>(history: &'a History, faults: &mut Faults<'_>) -> HashMap<&'a str, &'a Mark> {
    let sent: HashMap<&str, &Sent> = history
        .sent
        .iter()
        .map(|sent| (sent.id.as_str(), sent))
        .collect();
    let mut places = HashMap::with_capacity(history.stored.len());
    for mark in &history.stored {
        let (id, at) = (mark.id.as_str(), mark.sequence);
        match sent.get(id) {
            None => faults.add(Rule::Foreign, format_args!("{id} at {at} was never sent")),
            Some(sent) if sent.digest != mark.digest => {
                faults.add(
                    Rule::Altered,
                    format_args!("{id} at {at} differs from what was sent"),
                );
            }
            Some(_) => {}
        }
        if let Some(first) = places.insert(id, mark) {
            let first: &Mark = first;
            faults.add(
                Rule::Doubled,
                format_args!("{id} at {} and {at}", first.sequence),
            );
        }
    }
    places
}

/// Each acknowledged message is at its place.
fn acknowledged(history: &History, places: &HashMap<&str, &Mark>, faults: &mut Faults<'_>) {
    let mut told = HashSet::new();
    for sent in &history.sent {
        let Some(ack) = sent.ack else { continue };
        let (id, at) = (&sent.id, ack.sequence);
        if !told.insert(at) {
            faults.add(
                Rule::Doubled,
                format_args!("number {at} was told twice, also to {id}"),
            );
        }
        match places.get(id.as_str()) {
            None => faults.add(Rule::Lost, format_args!("{id}, acknowledged as {at}")),
            Some(mark) if mark.sequence != at => {
                let now = mark.sequence;
                faults.add(
                    Rule::Moved,
                    format_args!("{id} was told {at} and is at {now}"),
                );
            }
            Some(mark) if mark.timestamp != ack.timestamp => {
                faults.add(Rule::Moved, format_args!("{id} at {at} changed its time"));
            }
            Some(_) => {}
        }
    }
}

/// The messages of one writer stand in the order in which it sent them.
fn writers_order(history: &History, places: &HashMap<&str, &Mark>, faults: &mut Faults<'_>) {
    let mut last: HashMap<u32, u64> = HashMap::new();
    for sent in history.sent.iter().filter(|sent| !sent.refused) {
        let Some(mark) = places.get(sent.id.as_str()) else {
            continue;
        };
        let before = last.entry(sent.writer).or_insert(0);
        if mark.sequence < *before {
            let (id, at) = (&sent.id, mark.sequence);
            let what = format_args!("{id} at {at} was sent after the one at {before}");
            faults.add(Rule::OutOfOrder, what);
        }
        *before = mark.sequence.max(*before);
    }
}

/// What was acknowledged before another was sent stands before it.
fn real_time(history: &History, places: &HashMap<&str, &Mark>, faults: &mut Faults<'_>) {
    let mut by_place: Vec<(u64, &Sent)> = history
        .sent
        .iter()
        .filter_map(|sent| Some((places.get(sent.id.as_str())?.sequence, sent)))
        .collect();
    by_place.sort_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
    let mut earliest = u64::MAX;
    for (sequence, sent) in by_place {
        if earliest < sent.sent_ns {
            let id = &sent.id;
            let what = format_args!("{id} at {sequence} was sent after a higher number was told");
            faults.add(Rule::OutOfOrder, what);
        }
        earliest = earliest.min(sent.ack.map_or(u64::MAX, |ack| ack.at_ns));
    }
}

/// Each subscription is contiguous from its position and equal to what is stored; the next goes on where it ended.
fn subscriber(history: &History, watched: &Watched, faults: &mut Faults<'_>) {
    let who = &watched.subscriber;
    let mut position = 0;
    for (index, span) in watched.spans.iter().enumerate() {
        if index > 0 && span.after != position {
            let after = span.after;
            let what = format_args!("{who} resumed after {after}, not {position}");
            faults.add(Rule::Subscriber, what);
        }
        position = span.after;
        for mark in &span.marks {
            let at = mark.sequence;
            if at != position + 1 {
                let what = format_args!("{who} saw {at} after {position}");
                faults.add(Rule::Subscriber, what);
            }
            let stored = at
                .checked_sub(1)
                .and_then(|index| history.stored.get(usize::try_from(index).ok()?));
            let same = stored.is_some_and(|stored| {
                (stored.sequence, stored.timestamp, stored.digest)
                    == (at, mark.timestamp, mark.digest)
            });
            if !same {
                let what = format_args!("{who} saw something else at {at} than is stored");
                faults.add(Rule::Subscriber, what);
            }
            position = at;
        }
    }
    if watched.to_the_end && position != history.head {
        let head = history.head;
        let what = format_args!("{who} got as far as {position} of {head}");
        faults.add(Rule::Subscriber, what);
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
