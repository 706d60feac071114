//! What must hold between the rows of a timeline.
//!
//! Owns: these rules. Promises: a row that contradicts another is reported with its place, and the check goes on. Must
//! not: write.

use tideline_model::Direction;
use tideline_table::{ReadError, damaged, scan, scan_all};

use super::super::Message;
use super::super::growth::OpenRows;
use super::super::marks;
use super::super::marks::Marks;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::stored::IdRow;
use super::super::rows::tables::{IDS, Name};
use super::super::time::{Kind, expiry_columns};
use super::dump::StoredTimelines;

/// What was found in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Timelines.
    pub timelines: u64,
    /// Their messages, tombstones too.
    pub messages: u64,
    /// Their remembered message IDs.
    pub message_ids: u64,
    /// Their members.
    pub members: u64,
    /// Scheduled messages, also of timelines that are gone.
    pub scheduled: u64,
}

impl Verified {
    /// Adds what was found in another partition.
    pub fn add(&mut self, other: Verified) {
        self.timelines += other.timelines;
        self.messages += other.messages;
        self.message_ids += other.message_ids;
        self.members += other.members;
        self.scheduled += other.scheduled;
    }
}

impl StoredTimelines<'_> {
    /// Checks every timeline: messages from the floor to the head without a hole, time and change numbers in order,
    /// changes and message IDs that lead to what they say, settings, members, and what is due. Each contradiction goes
    /// to `problem`.
    pub fn verify(&self, problem: &mut dyn FnMut(String)) -> Result<Verified, ReadError> {
        let mut found = Verified::default();
        for row in self.heads() {
            let (timeline, head) = row?;
            found.timelines += 1;
            let mut problem = |what: String| problem(format!("timeline {timeline:?}: {what}"));
            found.messages += self.check_messages(&timeline, &head, &mut problem)?;
            found.message_ids += self.check_ids(&timeline, &head, &mut problem)?;
            let of = (&Name::new(&timeline), &head);
            self.check_settings(of, &mut problem)?;
            self.check_kept(of, &mut problem)?;
            self.check_stream(of, &mut problem)?;
            self.check_members(&timeline, &head, &mut problem)?;
            self.check_followers(&timeline, &head, &mut problem)?;
            self.check_member_changes(of, &mut problem)?;
            found.members += u64::from(head.members);
        }
        found.scheduled = self.check_scheduled(problem)?;
        self.check_due(problem)?;
        Ok(found)
    }

    fn check_messages(
        &self,
        timeline: &str,
        head: &HeadRow,
        problem: &mut dyn FnMut(String),
    ) -> Result<u64, ReadError> {
        let name = Name::new(timeline);
        let (mut next, mut last_at, mut count) = (head.floor, 0, 0);
        let mut marks = Marks::new(self.view, &name, head);
        let mut open = OpenRows::default();
        for message in self.messages(&name, head) {
            let message = message?;
            marks.check(&message, problem)?;
            open.check(self, (&name, head), &message, problem)?;
            let Message {
                sequence,
                timestamp,
                change,
                expires_at,
                entry,
                ..
            } = message;
            count += 1;
            if sequence != next {
                problem(format!("message {next} is missing, {sequence} is next"));
            }
            if timestamp < last_at {
                problem(format!(
                    "message {sequence} is older than the one before it"
                ));
            }
            if change > head.change {
                problem(format!(
                    "message {sequence} has change {change}, beyond {}",
                    head.change
                ));
            }
            if change > 0 && self.changed_by(&name, head, change)? != Some(sequence) {
                problem(format!(
                    "change {change} of message {sequence} is not in its place"
                ));
            }
            if let (Some(at), Some(_)) = (expires_at, entry) {
                let columns = expiry_columns(head.incarnation, sequence);
                if !self.is_due(Kind::Expire, at, &name, &columns)? {
                    problem(format!("message {sequence} has no due row to expire by"));
                }
            }
            (next, last_at) = (sequence + 1, timestamp);
        }
        marks.end(problem)?;
        open.end(self, (&name, head), problem)?;
        self.check_changes(&name, head, problem)?;
        if next != head.last + 1 {
            problem(format!("messages {next} to {} are missing", head.last));
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
                problem(format!("{rows} {what} are beyond what the head says"));
            }
        }
        Ok(count)
    }

    /// Every change leads to a message whose last one it is, or to one below the floor.
    fn check_changes(
        &self,
        name: &Name,
        head: &HeadRow,
        problem: &mut dyn FnMut(String),
    ) -> Result<(), ReadError> {
        let key = |change| name.change_key(head.incarnation, change);
        for row in scan(
            self.view,
            &key(0),
            &key(head.change + 1),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            let change = name
                .number_of(&key)
                .map_err(|_| damaged(&key, "not a change's key"))?;
            let sequence =
                stored::changed_sequence(&value).map_err(|_| damaged(&key, "not a change"))?;
            if sequence < head.floor {
                continue;
            }
            let last = self.last_change(name, head, sequence)?;
            if last != Some(change) {
                problem(format!(
                    "change {change} leads to message {sequence}, which does not say so"
                ));
            }
        }
        Ok(())
    }

    /// The number of a message's last change; `None` = there is no such message.
    fn last_change(
        &self,
        name: &Name,
        head: &HeadRow,
        sequence: u64,
    ) -> Result<Option<u64>, ReadError> {
        let key = name.message_key(head.incarnation, sequence);
        let Some(value) = self.view.get(key.as_bytes())? else {
            return Ok(None);
        };
        let message = stored::message(sequence, &value, None);
        let mut message = message.map_err(|_| damaged(key.as_bytes(), "not a message"))?;
        marks::look_up(self.view, name, head, &mut message)?;
        Ok(Some(message.change))
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
        problem: &mut dyn FnMut(String),
    ) -> Result<u64, ReadError> {
        let name = Name::new(timeline);
        let of = name.rows_of(IDS, head.incarnation);
        let mut count = 0;
        for row in scan_all(self.view, &of) {
            let (key, value) = row?;
            count += 1;
            let id = IdRow::decode(&value).map_err(|_| damaged(&key, "not a message ID"))?;
            if id.scheduled().is_some() {
                let columns = &key[of.as_bytes().len()..];
                let scheduled = name.scheduled_key(columns);
                if self.view.get(scheduled.as_bytes())?.is_none() {
                    problem(
                        "a message ID leads to a scheduled message that is not there".to_owned(),
                    );
                }
            } else if id.sequence > head.last {
                problem(format!(
                    "a message ID leads to {}, beyond {}",
                    id.sequence, head.last
                ));
            }
        }
        Ok(count)
    }
}
