//! All timelines of one view, from first to last: for checking and dumping a data directory that nobody serves.
//!
//! Owns: what must hold between a timeline's rows. Promises: every standing timeline is walked once, in the order of names,
//! and a row that contradicts another is told with its place. Must not: write, or stop at the first problem.

use crate::ids::{HistoryId, PartitionId};
use crate::ordered::Reader;
use crate::partition::{Direction, ReadError, View};
use crate::table::{Key, damaged, scan, split_key};

use super::head::{Epochs, HeadRow};
use super::stored::{self, IdRow};
use super::tables::{HEADS, IDS, Name};
use super::write::load_meta;
use super::{Head, Message, TimelineInfo};

/// The timelines of one partition as one view shows them.
pub struct Survey<'v> {
    view: &'v View,
    partition: PartitionId,
    epochs: Epochs,
}

/// What was found in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// Standing timelines.
    pub timelines: u64,
    /// Their messages, tombstones too.
    pub messages: u64,
    /// Their remembered message IDs.
    pub message_ids: u64,
}

impl<'v> Survey<'v> {
    /// Over one view of a partition of a data directory.
    #[must_use]
    pub fn new(view: &'v View, partition: PartitionId, history: HistoryId) -> Survey<'v> {
        Survey {
            view,
            partition,
            epochs: Epochs::new(history),
        }
    }

    /// Checks every timeline: messages from the floor to the head without a hole, time and change numbers in order, changes
    /// and message IDs that lead to what they say. Each contradiction goes to `problem`.
    pub fn check(&self, problem: &mut dyn FnMut(String)) -> Result<Surveyed, ReadError> {
        let mut surveyed = Surveyed::default();
        for row in self.heads() {
            let (timeline, head) = row?;
            surveyed.timelines += 1;
            let mut told = |what: String| problem(format!("timeline {timeline:?}: {what}"));
            surveyed.messages += self.check_messages(&timeline, &head, &mut told)?;
            surveyed.message_ids += self.check_ids(&timeline, &head, &mut told)?;
        }
        Ok(surveyed)
    }

    /// Gives each standing timeline, or the one named, and then its messages, to `each`.
    pub fn dump<E: From<ReadError>>(
        &self,
        only: Option<&str>,
        each: &mut dyn FnMut(Dumped<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for row in self.heads() {
            let (timeline, head) = row?;
            if only.is_some_and(|only| only != timeline) {
                continue;
            }
            let name = Name::new(&timeline);
            let meta = load_meta(self.view, &name)?;
            let info = TimelineInfo {
                timeline,
                head: self.head(&head),
                meta: meta.meta,
                version: meta.version,
                created_at: meta.created_at,
                updated_at: meta.updated_at,
                last_at: (head.last > 0).then_some(head.last_at),
            };
            each(Dumped::Timeline(&info))?;
            for message in self.messages(&name, &head) {
                each(Dumped::Message(&info, message?))?;
            }
        }
        Ok(())
    }

    fn head(&self, head: &HeadRow) -> Head {
        self.epochs.head(self.partition, head)
    }

    fn heads(&self) -> impl Iterator<Item = Result<(String, HeadRow), ReadError>> + use<'v> {
        let (from, to) = (
            Key::new(HEADS, &[], 1).below_all(),
            Key::new(HEADS, &[], 1).above_all(),
        );
        let rows = scan(self.view, &from, &to, Direction::Forward);
        let standing = |row: Result<(bytes::Bytes, bytes::Bytes), ReadError>| {
            let (key, value) = match row {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let name = split_key(&key).and_then(|(_, name)| Reader::new(name).string().ok());
            match (name, HeadRow::decode(&value)) {
                (Some(_), Ok(head)) if head.dropped => None,
                (Some(name), Ok(head)) => Some(Ok((name.into_owned(), head))),
                _ => Some(Err(damaged(&key, "not a timeline's head"))),
            }
        };
        rows.filter_map(standing)
    }

    fn messages(
        &self,
        name: &Name,
        head: &HeadRow,
    ) -> impl Iterator<Item = Result<Message, ReadError>> + use<'v> {
        let from = name.message_key(head.incarnation, head.floor);
        let to = name.message_key(head.incarnation, head.last + 1);
        let name = name.clone();
        scan(self.view, &from, &to, Direction::Forward).map(move |row| {
            let (key, value) = row?;
            let sequence = name
                .number_of(&key)
                .map_err(|_| damaged(&key, "not a message's key"))?;
            stored::message(sequence, &value, None).map_err(|_| damaged(&key, "not a message"))
        })
    }

    fn check_messages(
        &self,
        timeline: &str,
        head: &HeadRow,
        told: &mut dyn FnMut(String),
    ) -> Result<u64, ReadError> {
        let name = Name::new(timeline);
        let (mut next, mut last_at, mut count) = (head.floor, 0, 0);
        for message in self.messages(&name, head) {
            let Message {
                sequence,
                timestamp,
                change,
                ..
            } = message?;
            count += 1;
            if sequence != next {
                told(format!("message {next} is missing, {sequence} is next"));
            }
            if timestamp < last_at {
                told(format!(
                    "message {sequence} is older than the one before it"
                ));
            }
            if change > head.change {
                told(format!(
                    "message {sequence} has change {change}, beyond {}",
                    head.change
                ));
            }
            if change > 0 && self.changed_by(&name, head, change)? != Some(sequence) {
                told(format!(
                    "change {change} of message {sequence} is not in its place"
                ));
            }
            (next, last_at) = (sequence + 1, timestamp);
        }
        if next != head.last + 1 {
            told(format!("messages {next} to {} are missing", head.last));
        }
        let beyond = [
            (
                "messages",
                name.message_key(head.incarnation, head.last + 1),
                name.message_key(head.incarnation, u64::MAX),
            ),
            (
                "changes",
                name.change_key(head.incarnation, head.change + 1),
                name.change_key(head.incarnation, u64::MAX),
            ),
        ];
        for (what, from, to) in beyond {
            let rows = scan(self.view, &from, &to, Direction::Forward).count();
            if rows > 0 {
                told(format!("{rows} {what} are beyond what the head says"));
            }
        }
        Ok(count)
    }

    /// The message that a change was of.
    fn changed_by(
        &self,
        name: &Name,
        head: &HeadRow,
        change: u64,
    ) -> Result<Option<u64>, ReadError> {
        let key = name.change_key(head.incarnation, change);
        let row = self.view.get(key.as_bytes())?;
        let sequence = row.map(|row| stored::changed_sequence(&row)).transpose();
        sequence.map_err(|_| damaged(key.as_bytes(), "not a change"))
    }

    fn check_ids(
        &self,
        timeline: &str,
        head: &HeadRow,
        told: &mut dyn FnMut(String),
    ) -> Result<u64, ReadError> {
        let name = Name::new(timeline);
        let of = || Key::new(IDS, name.as_bytes(), 16).number(head.incarnation);
        let mut count = 0;
        for row in scan(
            self.view,
            &of().below_all(),
            &of().above_all(),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            count += 1;
            let id = IdRow::decode(&value).map_err(|_| damaged(&key, "not a message ID"))?;
            if !(1..=head.last).contains(&id.sequence) {
                told(format!(
                    "a message ID leads to {}, beyond {}",
                    id.sequence, head.last
                ));
            }
        }
        Ok(count)
    }
}

/// What a dump gives, in order: a timeline, then its messages.
pub enum Dumped<'d> {
    /// A timeline begins.
    Timeline(&'d TimelineInfo),
    /// One of its messages.
    Message(&'d TimelineInfo, Message),
}
