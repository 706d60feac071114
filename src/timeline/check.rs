//! All timelines of one view, from first to last: for checking and dumping a data directory that nobody serves.
//!
//! Owns: what must hold between a timeline's rows. Promises: every standing timeline is walked once, in the order of
//! names, and a row that contradicts another is told with its place. Must not: write, or stop at the first problem.

use crate::ids::{HistoryId, PartitionId};
use crate::model::Direction;
use crate::ordered::Reader;
use crate::table::{Key, ReadError, View, damaged, scan, split_key};

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

    /// Checks every timeline: messages from the floor to the head without a hole, time and change numbers in order,
    /// changes and message IDs that lead to what they say. Each contradiction goes to `problem`.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::model_test::directory;
    use super::super::tables::{Name, id_columns};
    use super::super::{Append, AppendOne, EntryLimits, Limits, Timelines, UpdateMessage};
    use super::*;
    use crate::ids::Clock;
    use crate::model::Value;
    use crate::partition::{Options, Partitions, Txn};

    const AT: PartitionId = PartitionId(0);

    /// The problems of a timeline of five messages, the fourth edited, after `bend` wrote into its rows.
    fn with_timeline(
        bend: impl FnOnce(&mut Txn<'_>, &Name, HeadRow) + Send + 'static,
    ) -> Vec<String> {
        let home = directory();
        let limits = Limits {
            message_id_window_ms: 1_000,
            message_id_window_count: 100,
            heads_max: 10,
        };
        let clock = Arc::new(Clock::fixed(1_000_000));
        let rules = Timelines::rules(&limits);
        let options = Options::default();
        let partitions = Partitions::open(home.path(), options, rules, Arc::clone(&clock)).unwrap();
        let timelines = Timelines::new(partitions.clone(), limits, Arc::clone(&clock));
        let one = |n: i64| AppendOne {
            entry: vec![("n".to_owned(), Value::Integer(n))],
            message_id: Some(format!("m{n}")),
        };
        let append = |n: i64| Append {
            timeline: "room".to_owned(),
            sender: "u".to_owned(),
            messages: vec![one(n)],
            expect_head: None,
            create: true,
            epoch: None,
        };
        let edit = UpdateMessage {
            timeline: "room".to_owned(),
            sequence: 4,
            set: vec![("n".to_owned(), Value::Integer(40))],
            remove: Vec::new(),
            expect_change: None,
            epoch: None,
            limits: EntryLimits {
                entry_bytes_max: 1_000,
                entry_names_max: 10,
            },
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            for n in 1..=5 {
                clock.set(1_000_000 + n as u64);
                timelines.append(append(n)).await.unwrap();
            }
            timelines.update_message(edit).await.unwrap();
            let bent = partitions.submit::<_, (), _>(AT, 0, move |txn| {
                let name = Name::new("room");
                let head = txn.get(name.head_key().as_bytes()).unwrap().unwrap();
                bend(txn, &name, HeadRow::decode(&head).unwrap());
                Ok(())
            });
            bent.await.unwrap();
        });
        partitions.settle(AT);
        let view = partitions.view(AT).unwrap();
        let mut problems = Vec::new();
        let surveyed = Survey::new(&view, AT, partitions.history())
            .check(&mut |problem| problems.push(problem))
            .unwrap();
        assert_eq!(surveyed.timelines, 1);
        drop(view);
        runtime.block_on(partitions.close());
        problems
    }

    fn bytes(key: &Key) -> Vec<u8> {
        key.as_bytes().to_vec()
    }

    #[test]
    fn a_sound_timeline_has_no_problem() {
        assert_eq!(with_timeline(|_, _, _| ()), Vec::<String>::new());
    }

    #[test]
    fn a_hole_is_told() {
        let told = with_timeline(|txn, name, head| {
            txn.delete(bytes(&name.message_key(head.incarnation, 3)));
        });
        assert_eq!(told, ["timeline \"room\": message 3 is missing, 4 is next"]);
    }

    #[test]
    fn a_head_that_promises_more_or_less_than_there_is_is_told() {
        for (last, what) in [
            (7, "messages 6 to 7 are missing"),
            (4, "1 messages are beyond what the head says"),
        ] {
            let told = with_timeline(move |txn, name, head| {
                let head = HeadRow { last, ..head };
                txn.put(bytes(&name.head_key()), head.encode().finish(1));
            });
            assert!(
                told.contains(&format!("timeline \"room\": {what}")),
                "{told:?}"
            );
        }
    }

    #[test]
    fn rows_that_lead_nowhere_are_told() {
        let told = with_timeline(|txn, name, head| {
            txn.delete(bytes(&name.change_key(head.incarnation, 1)));
            let id = name.id_key(head.incarnation, &id_columns("u", "m2"));
            txn.put(bytes(&id), IdRow::encode(9, 1).finish(1));
        });
        let expected = [
            "timeline \"room\": change 1 of message 4 is not in its place",
            "timeline \"room\": a message ID leads to 9, beyond 5",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn time_that_falls_and_changes_beyond_the_head_are_told() {
        let told = with_timeline(|txn, name, head| {
            let first = txn.get(name.message_key(head.incarnation, 1).as_bytes());
            txn.put(
                bytes(&name.message_key(head.incarnation, 3)),
                first.unwrap().unwrap(),
            );
            let head = HeadRow { change: 0, ..head };
            txn.put(bytes(&name.head_key()), head.encode().finish(1));
        });
        let expected = [
            "timeline \"room\": message 3 is older than the one before it",
            "timeline \"room\": message 4 has change 1, beyond 0",
            "timeline \"room\": 1 changes are beyond what the head says",
        ];
        assert_eq!(told, expected);
    }
}
