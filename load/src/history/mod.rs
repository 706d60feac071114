//! The checker: what was sent, acknowledged, seen and stored of one timeline must be one history.
//!
//! Owns: the rules (numbers 1..n, every acknowledged message once at the number of its acknowledgement, in order, with
//! the same bytes; subscribers saw just that). Promises: linear time but for one sort; each broken
//! rule is reported, with the place. Must not: know how the messages were sent; crash and replay both feed it. Its own
//! tests break good histories.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::client::rpc::Message;

/// Everything known about one timeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) name: String,
    /// Messages that were sent at least once.
    pub(crate) sent: Vec<Sent>,
    /// What a scan from the first number shows at the end, as it came.
    pub(crate) stored: Vec<Mark>,
    /// `head` in the scan.
    pub(crate) head: u64,
    /// What came to each subscriber, under its name, from the first message to the end.
    pub(crate) watched: Vec<(String, Vec<Mark>)>,
}

/// One message of a writer.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Its message ID, unique within the timeline.
    pub(crate) id: String,
    /// Its writer: messages of one writer keep their order.
    pub(crate) writer: usize,
    /// See [`digest`].
    pub(crate) digest: u64,
    /// When it was first handed to a socket, since the run began.
    pub(crate) at: Duration,
    pub(crate) ack: Option<Ack>,
    /// The server refused it once while others were on the way, so its place among them is open.
    pub(crate) refused: bool,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) sequence: u64,
    pub(crate) timestamp: u64,
    /// When it came, since the run began.
    pub(crate) at: Duration,
}

/// A message as stored or pushed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Message")]
pub(crate) struct Mark {
    pub(crate) sequence: u64,
    pub(crate) timestamp: u64,
    /// Its message ID; left empty for pushes, whose digest covers it.
    pub(crate) id: String,
    pub(crate) digest: u64,
}

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A number is missing, or the head is not the last number.
    Hole,
    /// An acknowledged message is not there.
    Lost,
    /// A message was never acknowledged.
    Unanswered,
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
    /// A subscriber saw something else than what is stored, or not all of it.
    Subscriber,
}

/// A number for sender, message ID and entry; equal entries have equal digests whatever the order of their names.
pub(crate) fn digest(sender: Option<&str>, id: &str, entry: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    sender.unwrap_or("").hash(&mut hasher);
    id.hash(&mut hasher);
    // serde_json's map is sorted by name, so its text is canonical.
    entry.map(Value::to_string).hash(&mut hasher);
    hasher.finish()
}

impl TryFrom<Message> for Mark {
    type Error = serde_json::Error;

    fn try_from(message: Message) -> serde_json::Result<Mark> {
        let entry = message.entry.map(|entry| serde_json::from_str(entry.get()));
        let (sender, entry) = (message.sender.as_deref(), entry.transpose()?);
        Ok(Mark {
            sequence: message.sequence,
            timestamp: message.timestamp,
            digest: digest(sender, &message.message_id, entry.as_ref()),
            id: message.message_id,
        })
    }
}

/// Every broken rule of one timeline's history, and where and how.
pub(crate) fn check(history: &History) -> Vec<(Rule, String)> {
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
    for (name, saw) in &history.watched {
        check.subscriber(name, saw);
    }
    check.faults
}

struct Check<'a> {
    history: &'a History,
    /// By message ID: where it is stored.
    places: HashMap<&'a str, &'a Mark>,
    faults: Vec<(Rule, String)>,
}

impl<'a> Check<'a> {
    fn fault(&mut self, rule: Rule, what: String) {
        let what = format!("{}: {what}", self.history.name);
        self.faults.push((rule, what));
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
            let what = format!("head is {head}, the last number is {last}");
            self.fault(Rule::Hole, what);
        }
    }

    /// Each stored message was sent, once, with these bytes.
    fn contents(&mut self) {
        let sent = self.history.sent.iter();
        let sent: HashMap<&str, u64> = sent.map(|sent| (&*sent.id, sent.digest)).collect();
        for mark in &self.history.stored {
            let (id, at) = (&*mark.id, mark.sequence);
            match sent.get(id) {
                None => self.fault(Rule::Foreign, format!("{id} at {at} was never sent")),
                Some(digest) if *digest != mark.digest => {
                    let what = format!("{id} at {at} differs from what was sent");
                    self.fault(Rule::Altered, what);
                }
                Some(_) => {}
            }
            if let Some(first) = self.places.insert(id, mark) {
                let first = first.sequence;
                self.fault(Rule::Doubled, format!("{id} at {first} and {at}"));
            }
        }
    }

    /// Each message is acknowledged, and at the place that its acknowledgement says.
    fn acknowledged(&mut self) {
        for sent in &self.history.sent {
            let id = &*sent.id;
            let Some(ack) = sent.ack else {
                self.fault(Rule::Unanswered, format!("{id} was never acknowledged"));
                continue;
            };
            let at = ack.sequence;
            match self.places.get(id) {
                None => self.fault(Rule::Lost, format!("{id}, acknowledged as {at}")),
                Some(mark) if mark.sequence != at => {
                    let now = mark.sequence;
                    let what = format!("{id} was acknowledged as {at} and is at {now}");
                    self.fault(Rule::Moved, what);
                }
                Some(mark) if mark.timestamp != ack.timestamp => {
                    self.fault(Rule::Moved, format!("{id} at {at} changed its time"));
                }
                Some(_) => {}
            }
        }
    }

    /// What was sent and is stored, with its number, in the order of sending.
    fn stored(&self) -> Vec<(u64, &'a Sent)> {
        let number = |sent: &'a Sent| Some((self.places.get(&*sent.id)?.sequence, sent));
        self.history.sent.iter().filter_map(number).collect()
    }

    /// The messages of one writer are stored in the order in which it sent them.
    fn writers_order(&mut self) {
        let mut last: HashMap<usize, u64> = HashMap::new();
        for (at, sent) in self.stored() {
            if sent.refused {
                continue;
            }
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
        let mut stored = self.stored();
        stored.sort_by_key(|(at, _)| Reverse(*at));
        let mut earliest = Duration::MAX;
        for (at, sent) in stored {
            if earliest < sent.at {
                let id = &sent.id;
                let what = format!("{id} at {at} was sent after a higher number was known");
                self.fault(Rule::OutOfOrder, what);
            }
            earliest = earliest.min(sent.ack.map_or(Duration::MAX, |ack| ack.at));
        }
    }

    /// A subscriber saw just what is stored, from the first message to the last, in order.
    fn subscriber(&mut self, name: &str, saw: &[Mark]) {
        let bare = |mark: &Mark| (mark.sequence, mark.timestamp, mark.digest);
        let stored = &self.history.stored;
        let pairs = saw.iter().zip(stored);
        let same = pairs.take_while(|(a, b)| bare(a) == bare(b)).count();
        let (saw, stored) = (saw.get(same), stored.get(same));
        if saw.or(stored).is_some() {
            let what = format!("{name} saw {saw:?} instead of {stored:?}");
            self.fault(Rule::Subscriber, what);
        }
    }
}

#[cfg(test)]
mod tests;
