//! What must hold between due rows, scheduled messages, marks of bytes and their timelines.
//!
//! Owns: these rules. Promises: each contradiction is reported with its place. Must not: write, or say that something
//! should have been trimmed or delivered: what is late is no damage.

use tideline_table::{ReadError, Source as _, damaged, split_key};

use super::super::check::dump::StoredTimelines;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::stored::IdRow;
use super::super::rows::tables::{DUE, MARKS, Name, SCHEDULED};
use super::super::streams::is_of_end;
use super::retention::{sum_of, trim_columns};
use super::{Due, Kind, ScheduledRow, due_key};

type Problem<'p> = &'p mut dyn FnMut(String);

impl StoredTimelines<'_> {
    /// Whether there is a due row.
    pub(in super::super) fn is_due(
        &self,
        kind: Kind,
        at_ms: u64,
        name: &Name,
        columns: &[u8],
    ) -> Result<bool, ReadError> {
        Ok(self
            .view
            .row(&due_key(kind, at_ms, name, columns))?
            .is_some())
    }

    /// Checks the scheduled messages of the partition: each that waits has a due row and, while its timeline is still
    /// the one, its ID. Gives their number.
    pub(in super::super) fn check_scheduled(&self, problem: Problem<'_>) -> Result<u64, ReadError> {
        let mut count = 0;
        for row in self.all(SCHEDULED) {
            let (key, value) = row?;
            let bad = || damaged(&key, "not a scheduled message");
            count += 1;
            let row = ScheduledRow::decode(&value).map_err(|_| bad())?;
            let (_, columns) = split_key(&key).ok_or_else(bad)?;
            let name = Name::of(columns).map_err(|_| bad())?;
            let columns = &columns[name.as_bytes().len()..];
            let timeline = name.text().map_err(|_| bad())?;
            if row.refused.is_some() {
                continue;
            }
            let at_ms = row.deliver_at;
            let mut problem = |what| {
                problem(format!(
                    "timeline {timeline:?}: what is scheduled for {at_ms} {what}"
                ));
            };
            if !self.is_due(Kind::Deliver, at_ms, &name, columns)? {
                problem("has no due row");
            }
            let id = self.view.row(&name.id_key(row.incarnation, columns))?;
            let id = id.map(|value| IdRow::decode(&value)).transpose();
            let leads_here = id.map_err(|_| bad())?.and_then(|id| id.scheduled());
            let head = HeadRow::existing(self.view, &name)?;
            let is_current = head.is_some_and(|head| head.incarnation == row.incarnation);
            if is_current && leads_here != Some(at_ms) {
                problem("has not its message ID");
            }
        }
        Ok(count)
    }

    /// Checks that each due row of the partition leads to something that is due then, or to what is gone.
    pub(in super::super) fn check_due(&self, problem: Problem<'_>) -> Result<(), ReadError> {
        for row in self.all(DUE) {
            let (key, _) = row?;
            let bad = || damaged(&key, "not a due row");
            let (_, columns) = split_key(&key).ok_or_else(bad)?;
            let due = Due::of(columns).map_err(|_| bad())?;
            if let Some(what) = self.contradicts(&due)? {
                let timeline = due.name.text().map_err(|_| bad())?;
                let at_ms = due.at_ms;
                problem(format!(
                    "timeline {timeline:?}: the due row for {at_ms} leads to {what}"
                ));
            }
        }
        Ok(())
    }

    /// What a due row leads to that it should not lead to.
    fn contradicts(&self, due: &Due) -> Result<Option<&'static str>, ReadError> {
        let bad = || damaged(&due.columns, "not the columns of a due row");
        if due.kind() == Kind::Deliver {
            let row = self.view.row(&due.name.scheduled_key(&due.columns))?;
            let row = row.map(|value| ScheduledRow::decode(&value)).transpose();
            let row = row.map_err(|_| bad())?;
            let fits = row.is_some_and(|row| row.refused.is_none() && row.deliver_at == due.at_ms);
            return Ok((!fits).then_some("no message that is scheduled for then"));
        }
        let (incarnation, mut rest) = due.incarnation().map_err(|_| bad())?;
        let head = match HeadRow::load(self.view, &due.name)? {
            Some(head) if head.incarnation >= incarnation => head,
            _ => return Ok(Some("a timeline that never was")),
        };
        if head.incarnation > incarnation || head.dropped {
            return Ok(None);
        }
        if due.kind() == Kind::Trim {
            let (fits, what) = match due.is_end() {
                true => (
                    is_of_end(self.view, due, &head)?,
                    "a stream that does not end then",
                ),
                false => (
                    head.trim_at == due.at_ms,
                    "a timeline that is not to be trimmed then",
                ),
            };
            return Ok((!fits).then_some(what));
        }
        let sequence = rest.u64().map_err(|_| bad())?;
        if sequence > head.last {
            return Ok(Some("a message beyond the head"));
        }
        let key = due.name.message_key(incarnation, sequence);
        // One that is missing is reported with its timeline.
        let Some(value) = self.view.row(&key)?.filter(|_| head.holds(sequence)) else {
            return Ok(None);
        };
        let message = stored::message(sequence, &value, None);
        let message = message.map_err(|_| damaged(key.as_bytes(), "not a message"))?;
        if due.kind() == Kind::Abandon {
            return Ok(message
                .open
                .is_none()
                .then_some("a message that is not open"));
        }
        let fits = message.entry.is_none() || message.expires_at == Some(due.at_ms);
        Ok((!fits).then_some("a message that does not expire then"))
    }

    /// Checks what a timeline's retention goes by: the due row that its head names, and its marks of bytes.
    pub(in super::super) fn check_kept(
        &self,
        (name, head): (&Name, &HeadRow),
        problem: Problem<'_>,
    ) -> Result<(), ReadError> {
        let columns = trim_columns(head.incarnation);
        if head.trim_at != 0 && !self.is_due(Kind::Trim, head.trim_at, name, &columns)? {
            problem(format!(
                "there is no due row to trim it by at {}",
                head.trim_at
            ));
        }
        let mut before = 0;
        for row in self.of_timeline((name, head), MARKS) {
            let (key, value) = row?;
            let bad = || damaged(&key, "not a sum of bytes");
            let sequence = name.number_of(&key).map_err(|_| bad())?;
            let sum = sum_of(&value).map_err(|_| bad())?;
            if sum < before || sum > head.bytes || sequence > head.last {
                problem(format!(
                    "the sum of bytes at {sequence} is not between those beside it"
                ));
            }
            before = sum;
        }
        Ok(())
    }
}
