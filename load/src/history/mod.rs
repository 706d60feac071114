//! The checker: what was sent, acknowledged, seen and stored of one timeline must be one history.
//!
//! Owns: the rules (numbers 1..n, every acknowledged message once at the number of its acknowledgement, in order, with
//! the same bytes; subscribers saw contiguous parts of just that). Promises: linear time but for one sort; each broken
//! rule is reported, with the place. Must not: know how the messages were sent; crash and replay both feed it. Its own
//! tests break good histories.

use std::cmp::Reverse;
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
    /// `head` in the scan.
    pub head: u64,
    /// What each subscriber saw.
    pub watched: Vec<Watched>,
}

/// One message of a writer.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its message ID, unique within the timeline.
    pub id: String,
    /// Its writer: messages of one writer keep their order.
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
    /// The message's number.
    pub sequence: u64,
    /// The message's time, ms since 1970.
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
    /// A message is not at the number of its acknowledgement, or its time differs.
    Moved,
    /// Numbers, a writer's messages or times are in the wrong order.
    OutOfOrder,
    /// The bytes differ from what was sent.
    Altered,
    /// It was never sent.
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
    let mut check = Check {
        history,
        places: HashMap::with_capacity(history.stored.len()),
        faults: Vec::new(),
    };
    check.numbers();
    check.contents();
    check.acknowledged();
    check.writers_order();
    check.real_time();
    for watched in &history.watched {
        check.subscriber(watched);
    }
    check.faults
}

struct Check<'a> {
    history: &'a History,
    /// By message ID: where it is stored.
    places: HashMap<&'a str, &'a Mark>,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn fault(&mut self, rule: Rule, what: String) {
        let what = format!("{}: {what}", self.history.name);
        self.faults.push(Fault { rule, what });
    }

    /// Numbers are 1..n and times do not fall.
    fn numbers(&mut self) {
        let (mut last, mut time) = (0, 0);
        for mark in &self.history.stored {
            let at = mark.sequence;
            if at <= last {
                self.fault(Rule::OutOfOrder, format!("{at} comes after {last}"));
            } else if at != last + 1 {
                self.fault(Rule::Hole, format!("{at} follows {last}"));
            }
            if mark.timestamp < time {
                self.fault(Rule::OutOfOrder, format!("the time falls at {at}"));
            }
            last = last.max(at);
            time = time.max(mark.timestamp);
        }
        let head = self.history.head;
        if head != last {
            self.fault(
                Rule::Hole,
                format!("head is {head}, the last number is {last}"),
            );
        }
    }

    /// Each stored message was sent, once, with these bytes.
    fn contents(&mut self) {
        let sent = self
            .history
            .sent
            .iter()
            .map(|sent| (&*sent.id, sent.digest));
        let sent: HashMap<&str, u64> = sent.collect();
        for mark in &self.history.stored {
            let (id, at) = (&*mark.id, mark.sequence);
            match sent.get(id) {
                None => self.fault(Rule::Foreign, format!("{id} at {at} was never sent")),
                Some(digest) if *digest != mark.digest => {
                    self.fault(
                        Rule::Altered,
                        format!("{id} at {at} differs from what was sent"),
                    );
                }
                Some(_) => {}
            }
            if let Some(first) = self.places.insert(id, mark) {
                self.fault(
                    Rule::Doubled,
                    format!("{id} at {} and {at}", first.sequence),
                );
            }
        }
    }

    /// Each acknowledged message is at its place.
    fn acknowledged(&mut self) {
        let mut acknowledged = HashSet::new();
        for sent in &self.history.sent {
            let Some(ack) = sent.ack else { continue };
            let (id, at) = (&*sent.id, ack.sequence);
            if !acknowledged.insert(at) {
                self.fault(
                    Rule::Doubled,
                    format!("{at} was acknowledged twice, also for {id}"),
                );
            }
            match self.places.get(id) {
                None => self.fault(Rule::Lost, format!("{id}, acknowledged as {at}")),
                Some(mark) if mark.sequence != at => {
                    let now = mark.sequence;
                    self.fault(
                        Rule::Moved,
                        format!("{id} was acknowledged as {at} and is at {now}"),
                    );
                }
                Some(mark) if mark.timestamp != ack.timestamp => {
                    self.fault(Rule::Moved, format!("{id} at {at} changed its time"));
                }
                Some(_) => {}
            }
        }
    }

    /// The messages of one writer are stored in the order in which it sent them.
    fn writers_order(&mut self) {
        let mut last: HashMap<u32, u64> = HashMap::new();
        for sent in self.history.sent.iter().filter(|sent| !sent.refused) {
            let Some(mark) = self.places.get(&*sent.id) else {
                continue;
            };
            let at = mark.sequence;
            let before = last.entry(sent.writer).or_insert(0);
            if at < *before {
                let what = format!("{} at {at} was sent after the one at {before}", sent.id);
                self.fault(Rule::OutOfOrder, what);
            }
            *before = at.max(*before);
        }
    }

    /// What was acknowledged before another was sent is stored before it.
    fn real_time(&mut self) {
        let place = |sent: &'_ Sent| Some(self.places.get(&*sent.id)?.sequence);
        let stored = self
            .history
            .sent
            .iter()
            .filter_map(|sent| Some((place(sent)?, sent)));
        let mut stored: Vec<(u64, &Sent)> = stored.collect();
        stored.sort_by_key(|(at, _)| Reverse(*at));
        let mut earliest = u64::MAX;
        for (at, sent) in stored {
            if earliest < sent.sent_ns {
                let what = format!(
                    "{} at {at} was sent after a higher number was known",
                    sent.id
                );
                self.fault(Rule::OutOfOrder, what);
            }
            earliest = earliest.min(sent.ack.map_or(u64::MAX, |ack| ack.at_ns));
        }
    }

    /// Each subscription is contiguous from its position and equal to what is stored; the next goes on where it ended.
    fn subscriber(&mut self, watched: &Watched) {
        let (name, mut position) = (&watched.subscriber, 0);
        for (index, span) in watched.spans.iter().enumerate() {
            let after = span.after;
            if index > 0 && after != position {
                let what = format!("{name} resumed after {after}, not {position}");
                self.fault(Rule::Subscriber, what);
            }
            position = after;
            for mark in &span.marks {
                let at = mark.sequence;
                if at != position + 1 {
                    self.fault(
                        Rule::Subscriber,
                        format!("{name} saw {at} after {position}"),
                    );
                }
                if !self.is_stored(mark) {
                    let what = format!("{name} saw something else at {at} than is stored");
                    self.fault(Rule::Subscriber, what);
                }
                position = at;
            }
        }
        let head = self.history.head;
        if watched.to_the_end && position != head {
            self.fault(
                Rule::Subscriber,
                format!("{name} got as far as {position} of {head}"),
            );
        }
    }

    fn is_stored(&self, seen: &Mark) -> bool {
        let index = seen
            .sequence
            .checked_sub(1)
            .and_then(|at| usize::try_from(at).ok());
        let stored = index.and_then(|index| self.history.stored.get(index));
        let same = |mark: &Mark| (mark.sequence, mark.timestamp, mark.digest);
        stored.is_some_and(|stored| same(stored) == same(seen))
    }
}

#[cfg(test)]
mod tests;
