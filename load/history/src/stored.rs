//! What is stored in the end: the truth that all else is compared with.
//!
//! Owns: the rows of each timeline, V1 (sequences without holes, each message once, times that do not fall) and V8 (all
//! nodes store the same). Promises: a hundred bytes a message; a row is found by its sequence or its message at once.
//! Must not: keep entries.

use std::collections::{BTreeMap, HashMap};

use crate::content::{content, key};
use crate::order::Order;
use crate::record::{Call, Conversation, Event, Final, Message, What};
use crate::report::{Anomaly, HistoryError, Place, Report};

/// Numbers for names.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<String, u32>);

impl Names {
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len() as u32;
        self.0.insert(name.to_owned(), number);
        number
    }
}

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) sequence: u64,
    pub(crate) timestamp: u64,
    pub(crate) key: u64,
    pub(crate) content: u64,
    pub(crate) sender: u32,
    line: u32,
    /// Its append was invoked.
    pub(crate) sent: bool,
}

/// What a message was at some time, if it is edited anywhere in the history.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    pub(crate) contents: Vec<u64>,
    /// The write of what is stored in the end was acknowledged.
    pub(crate) settled: bool,
}

/// A timeline.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) name: String,
    head: u64,
    pub(crate) floor: u64,
    /// By sequence.
    pub(crate) rows: Vec<Row>,
    /// By key: the sequence.
    places: HashMap<u64, u64>,
    order: Order,
    /// Of its line.
    place: Place,
    /// How many messages of a further dump are compared.
    twins: Option<u64>,
    pub(crate) versions: HashMap<u64, Versions>,
    /// The highest sequence that was acknowledged so far.
    pub(crate) acknowledged: u64,
    /// Tombstones, and when they were acknowledged.
    pub(crate) dead: BTreeMap<u64, Option<u64>>,
    /// By sender, of those that were asked for: the sequences.
    own: HashMap<u32, Vec<u64>>,
}

impl Versions {
    /// A write of `version` was acknowledged; `stored` is what is there in the end. Two writes of the same do not tell
    /// which one it is.
    pub(crate) fn settle(&mut self, version: u64, stored: Option<u64>) {
        let same = self.contents.iter().filter(|one| **one == version);
        self.settled |= stored == Some(version) && same.count() == 1;
    }
}

impl Timeline {
    fn at(&self, sequence: u64) -> Result<usize, usize> {
        let first = self.rows.first().map_or(0, |row| row.sequence);
        let guess = sequence.wrapping_sub(first) as usize;
        match self.rows.get(guess) {
            Some(row) if row.sequence == sequence => Ok(guess),
            _ => self
                .rows
                .binary_search_by_key(&sequence, |row| row.sequence),
        }
    }

    pub(crate) fn row(&self, sequence: u64) -> Option<&Row> {
        self.rows.get(self.at(sequence).ok()?)
    }

    /// Where a message is.
    pub(crate) fn find(&self, key: u64) -> Option<u64> {
        self.places.get(&key).copied()
    }

    pub(crate) fn row_mut(&mut self, sequence: u64) -> Option<&mut Row> {
        let at = self.at(sequence).ok()?;
        self.rows.get_mut(at)
    }

    /// Where a row stands in the dump.
    pub(crate) fn place(&self, row: &Row) -> Place {
        let file = self.place.file;
        Place {
            file,
            line: row.line,
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.sequence)
    }

    /// Whether a row may have been shown with this.
    pub(crate) fn fits(&self, row: &Row, content: u64) -> bool {
        match self.versions.get(&row.sequence) {
            Some(versions) => versions.contents.contains(&content),
            None => row.content == content,
        }
    }

    /// Messages of a sender above `low` up to `head`.
    pub(crate) fn of_sender(&mut self, sender: u32, low: u64, head: u64) -> u64 {
        let rows = &self.rows;
        let own = self.own.entry(sender).or_insert_with(|| {
            let own = rows.iter().filter(|row| row.sender == sender);
            own.map(|row| row.sequence).collect()
        });
        let below = |bound: u64| own.partition_point(|sequence| *sequence <= bound);
        below(head).saturating_sub(below(low)) as u64
    }

    fn take(&mut self, message: &Message, sender: u32, place: Place, report: &mut Report) {
        let (sequence, name) = (message.sequence, &self.name);
        let key = key(&message.sender, &message.message_id);
        let mut row = Row {
            sequence,
            timestamp: message.timestamp,
            key,
            content: content(message.entry.as_ref(), message.digest),
            sender,
            line: place.line,
            sent: false,
        };
        let at = self.at(sequence);
        if let Some(twins) = &mut self.twins {
            *twins += 1;
            let same = |at: usize| {
                let first = &self.rows[at];
                (first.timestamp, first.key, first.content) == (row.timestamp, key, row.content)
            };
            if !at.is_ok_and(same) {
                let what = format_args!("{name}: {sequence} is not the same in both dumps");
                report.found(Anomaly::Diverged, what, &[place]);
            }
            return;
        }
        if let Some(anomaly) = self.order.step(sequence) {
            report.found(
                anomaly,
                format_args!("{name}: {sequence} in the dump"),
                &[place],
            );
        }
        if self
            .rows
            .last()
            .is_some_and(|last| last.timestamp > row.timestamp)
        {
            let what = format_args!("{name}: the time goes back at {sequence}");
            report.found(Anomaly::TimeReversal, what, &[place]);
        }
        let Err(at) = at else { return };
        if let Some(first) = self.places.insert(key, sequence) {
            let what = format_args!(
                "{name}: {} is at {first} and {sequence}",
                message.message_id
            );
            report.found(Anomaly::Duplicate, what, &[place]);
            self.places.insert(key, first);
            row.sent = true;
        }
        self.rows.insert(at, row);
    }

    /// What is missing in the dump.
    fn end(&mut self, report: &mut Report) {
        let (name, head) = (&self.name, self.head);
        if self.place.line == 0 {
            return;
        }
        for (first, last) in std::mem::take(&mut self.order).missing(head) {
            let what = format_args!("{name}: {first} to {last} of {head} are not in the dump");
            report.found(Anomaly::Gap, what, &[self.place]);
        }
        if self.last() > head {
            let what = format_args!("{name}: the last is {}, the head {head}", self.last());
            report.found(Anomaly::Gap, what, &[self.place]);
        }
        self.end_twin(report, self.place);
    }

    fn end_twin(&self, report: &mut Report, place: Place) {
        let (name, all) = (&self.name, self.rows.len() as u64);
        if let Some(twins) = self.twins.filter(|twins| *twins != all) {
            let what = format_args!("{name}: {all} messages in one dump, {twins} in the other");
            report.found(Anomaly::Diverged, what, &[place]);
        }
    }
}

/// All that is stored in the end.
#[derive(Debug, Default)]
pub struct Stored {
    names: Names,
    pub(crate) users: Names,
    pub(crate) timelines: Vec<Timeline>,
    /// Members, and their read positions.
    pub(crate) members: Vec<(Place, u32, u32, u64)>,
    /// The conversations of users.
    pub(crate) lists: Vec<(Place, u32, Vec<Conversation>)>,
    pub(crate) report: Report,
}

impl Stored {
    /// Nothing yet.
    pub fn new() -> Stored {
        Stored::default()
    }

    /// The number of a timeline.
    pub(crate) fn timeline(&mut self, name: &str) -> u32 {
        let number = self.names.number(name);
        if number as usize == self.timelines.len() {
            let name = name.to_owned();
            self.timelines.push(Timeline {
                name,
                ..Timeline::default()
            });
        }
        number
    }

    /// Takes the next record of the final dump.
    pub fn take(&mut self, stored: &Final, place: Place) -> Result<(), HistoryError> {
        match stored {
            Final::Timeline {
                timeline,
                head,
                floor,
            } => {
                let number = self.timeline(timeline) as usize;
                let (timeline, report) = (&mut self.timelines[number], &mut self.report);
                if timeline.place.line == 0 {
                    (timeline.head, timeline.floor, timeline.place) = (*head, *floor, place);
                    timeline.order = Order::from(*floor);
                    return Ok(());
                }
                timeline.end_twin(report, place);
                timeline.twins = Some(0);
                if timeline.head != *head {
                    let what =
                        format_args!("{}: heads {} and {head}", timeline.name, timeline.head);
                    report.found(Anomaly::Diverged, what, &[timeline.place, place]);
                }
            }
            Final::Message { timeline, message } => {
                let number = self.timeline(timeline) as usize;
                let sender = self.users.number(&message.sender);
                let timeline = &mut self.timelines[number];
                if timeline.place.line == 0 {
                    let name = &timeline.name;
                    let what =
                        format!("a message of {name} stands before the line of its timeline");
                    return Err(HistoryError::Record(what));
                }
                timeline.take(message, sender, place, &mut self.report);
                self.report.looked("messages stored", 1);
            }
            Final::Member { timeline, member } => {
                let of = (self.timeline(timeline), self.users.number(&member.user));
                self.members.push((place, of.0, of.1, member.read));
            }
            Final::Conversations {
                user,
                conversations,
            } => {
                let user = self.users.number(user);
                self.lists.push((place, user, conversations.clone()));
            }
        }
        Ok(())
    }

    /// Looks at an event ahead of the check: what will be edited may be shown in each of its versions.
    pub fn expect(&mut self, event: &Event) {
        let Event(_, _, What::Invoke(_, calls)) = event else {
            return;
        };
        for call in calls {
            if let Call::Edit {
                timeline,
                sequence,
                entry,
                digest,
            } = call
            {
                let content = content(entry.as_ref(), *digest);
                let number = self.timeline(timeline) as usize;
                let versions = self.timelines[number].versions.entry(*sequence);
                versions.or_default().contents.push(content);
            }
        }
    }

    /// Whether there is anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.timelines
            .iter()
            .all(|timeline| timeline.place.line == 0)
    }

    /// No more comes.
    pub(crate) fn end(&mut self) {
        for timeline in &mut self.timelines {
            timeline.end(&mut self.report);
        }
    }
}
