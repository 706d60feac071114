//! Retention: how much of a timeline is kept.
//!
//! Owns: the floor by number, by bytes and by age. Promises: number and bytes hold after each append, in its own batch
//! (bytes, where marks are close); what is too old goes within a small share of its age, by one small write, however
//! much it is; a timeline without a retention costs nothing. Must not: look at timelines that nothing is due for.
//!
//! By bytes, each append adds what its rows hold to a sum in the head, and each 64th part of the limit leaves a mark:
//! the sum at a sequence. The floor goes behind the first mark with at most the limit above it; where marks are so far
//! apart that less than half of the limit would be left, it waits for the next ones. Messages from before the retention
//! count nothing, and go first.
//!
//! By age, a timeline that holds messages has one due row, whose time is in its head. When that has come, the floor is
//! found by halving, because times never fall, and the row moves to when the oldest message left is too old.

use std::ops::Bound;

use tideline_model::Direction;
use tideline_table::{
    Malformed, ReadError, RowWriter, Source, Txn, damaged, delete, number_in, put, version_of,
};

use super::super::growth;
use super::super::rows::head::{HAS_SETTINGS, HeadRow};
use super::super::rows::tables::Name;
use super::super::write::{Site, put_head, version};
use super::due::{Due, Kind, due_key, put_due};
use tideline_model::timelines::Retention;

impl Site {
    /// Keeps a timeline within its retention when messages were appended, each with its sequence and its bytes, or when
    /// the retention `is_new`. The caller puts the head.
    pub(in super::super) fn keep(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &mut HeadRow,
        (new, is_new): (impl Iterator<Item = (u64, u64)>, bool),
    ) -> Result<(), ReadError> {
        if head.flags & HAS_SETTINGS == 0 && self.policies.of_name(name).is_none() {
            return Ok(());
        }
        let kept = self.kept(txn, name, head)?;
        let before = head.floor;
        if let Some(messages) = kept.messages {
            head.floor = head.floor.max((head.last + 1).saturating_sub(messages));
        }
        if let Some(bytes) = kept.bytes {
            let step = step(bytes);
            let mut is_marked = false;
            // By message: a batch may hold more than the limit.
            for (sequence, new_bytes) in new {
                let before = head.bytes / step;
                head.bytes += new_bytes;
                if before != head.bytes / step {
                    put_mark(txn, (name, head, sequence), head.bytes);
                    is_marked = true;
                }
            }
            if head.bytes > bytes && (is_new || is_marked) {
                pass_marks(txn, name, head, bytes)?;
            }
        }
        if let Some(age_ms) = kept.age_ms
            && head.floor <= head.last
            && (head.trim_at == 0 || is_new)
        {
            let oldest = timestamp(txn, name, head, head.floor)?;
            let at_ms = oldest.saturating_add(age_ms).max(txn.now_ms());
            self.trim_at(txn, name, head, at_ms);
        }
        growth::trimmed(txn, name, head, before)
    }

    /// Leaves a mark at the last message, as it or one of its batch is open: what that one will grow by is added there.
    pub(in super::super) fn mark(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &HeadRow,
    ) -> Result<(), ReadError> {
        if self.kept(txn, name, head)?.bytes.is_some() {
            put_mark(txn, (name, head, head.last), head.bytes);
        }
        Ok(())
    }

    /// As `keep`, when a message that was open has grown by so many bytes: they lie at its place, not at the end. What
    /// a message from before the retention grew by is not counted, as it has no mark.
    pub(in super::super) fn keep_grown(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &mut HeadRow,
        (sequence, grown_bytes): (u64, u64),
    ) -> Result<(), ReadError> {
        let Some(bytes) = self.kept(txn, name, head)?.bytes else {
            return Ok(());
        };
        let all = (sequence, head.last + 1);
        let marks = marks(txn, (name, head), all, Direction::Forward);
        let marks = marks.collect::<Result<Vec<_>, _>>()?;
        if marks.is_empty() {
            return Ok(());
        }
        for (at, sum) in marks {
            put_mark(txn, (name, head, at), sum + grown_bytes);
        }
        head.bytes += grown_bytes;
        let before = head.floor;
        if head.bytes > bytes {
            pass_marks(txn, name, head, bytes)?;
        }
        growth::trimmed(txn, name, head, before)
    }

    /// Moves the floor of the timeline that a due row leads to, or ends it as a stream. `false` = nothing was too old.
    pub(super) fn trim_old(&self, txn: &mut Txn<'_>, due: &Due) -> Result<bool, ReadError> {
        let name = &due.name;
        due.done(txn);
        let found = HeadRow::load_to_write(txn, name)?;
        let Some(mut head) = found.filter(|head| !head.dropped && is_current(due, head)) else {
            return Ok(false);
        };
        if due.is_end() {
            return self.end_stream(txn, due, head);
        }
        if head.trim_at != due.at_ms {
            return Ok(false);
        }
        let now = txn.now_ms();
        head.trim_at = 0;
        let before = head.floor;
        if let Some(age_ms) = self.kept(txn, name, &head)?.age_ms {
            head.floor = first_younger(txn, name, &head, now.saturating_sub(age_ms))?;
            if head.floor <= head.last {
                let oldest = timestamp(txn, name, &head, head.floor)?;
                let rest = (age_ms / PACE).clamp(REST_MS_MIN, REST_MS_MAX);
                let next = oldest.saturating_add(age_ms).max(now + rest);
                self.trim_at(txn, name, &mut head, next);
            }
        }
        growth::trimmed(txn, name, &mut head, before)?;
        put_head(txn, name, &head);
        Ok(head.floor > before)
    }

    /// The retention in force.
    fn kept(
        &self,
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
    ) -> Result<Retention, ReadError> {
        let settings = self.configured(rows, name, head)?.settings;
        Ok(settings.retention.unwrap_or_default())
    }

    /// Puts the due row of a timeline to another time.
    fn trim_at(&self, txn: &mut Txn<'_>, name: &Name, head: &mut HeadRow, at_ms: u64) {
        let columns = trim_columns(head.incarnation);
        if head.trim_at != 0 {
            delete(txn, due_key(Kind::Trim, head.trim_at, name, &columns));
        }
        head.trim_at = at_ms;
        put_due(txn, &self.alarm(), (Kind::Trim, at_ms), name, &columns);
    }
}

/// Bytes from one mark to the next.
fn step(bytes: u64) -> u64 {
    (bytes / MARKS).max(1)
}

/// Moves the floor behind the first mark that has at most so many bytes above it. The marks before it go; it stays, as
/// what comes next lies above it. Marks may be far apart: the limit was higher, or the one below the floor went with a
/// merge. Then what lies before that mark is not known to be too much, and goes only when it is.
fn pass_marks(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    bytes: u64,
) -> Result<(), ReadError> {
    let (mut passed, mut floor) = (Vec::new(), None);
    // The mark before, or the floor; the sum there.
    let mut before = (head.floor.saturating_sub(1), 0);
    // The last mark below the floor. Before it there may be nothing but deleted rows, which are not walked over.
    let first = marks(txn, (name, head), (0, head.floor), Direction::Backward).next();
    let first = first
        .transpose()?
        .map_or(head.floor, |(sequence, _)| sequence);
    let all = (first, head.last + 1);
    for mark in marks(txn, (name, head), all, Direction::Forward) {
        let (sequence, sum) = mark?;
        let left = head.bytes.saturating_sub(sum);
        if left > bytes {
            passed.push(sequence);
            before = (sequence, sum);
            continue;
        }
        let (from, between) = (before.0 + 1, sum.saturating_sub(before.1));
        floor = Some(sequence + 1);
        if left < bytes / 2 && sequence > from {
            let value = txn.row(&name.message_key(head.incarnation, sequence))?;
            let own = value.map_or(0, |value| value.len() as u64);
            if between.saturating_sub(own) > step(bytes) {
                floor = Some(from);
                passed.pop();
            }
        }
        break;
    }
    if let Some(floor) = floor {
        head.floor = head.floor.max(floor);
        for sequence in passed {
            delete(txn, name.mark_key(head.incarnation, sequence));
        }
    }
    Ok(())
}

/// The marks from a sequence to before another, each with its sum.
fn marks(
    txn: &Txn<'_>,
    (name, head): (&Name, &HeadRow),
    (from, to): (u64, u64),
    direction: Direction,
) -> impl Iterator<Item = Result<(u64, u64), ReadError>> {
    let from = name.mark_key(head.incarnation, from);
    let to = name.mark_key(head.incarnation, to);
    let bounds = (
        Bound::Included(from.as_bytes()),
        Bound::Excluded(to.as_bytes()),
    );
    let rows = txn.range(bounds.0, bounds.1, direction);
    rows.map(|row| {
        let (key, value) = row?;
        let bad = || damaged(&key, "not a sum of bytes");
        let sequence = name.number_of(&key).map_err(|_| bad())?;
        let sum = sum_of(&value).map_err(|_| bad())?;
        Ok((sequence, sum))
    })
}

fn put_mark(txn: &mut Txn<'_>, (name, head, sequence): (&Name, &HeadRow, u64), sum: u64) {
    let now = version(txn.now_ms());
    let key = name.mark_key(head.incarnation, sequence);
    put(txn, key, RowWriter::of(SUM, sum.into()), now);
}

/// What a mark says: the sum of bytes up to it.
pub(super) fn sum_of(mark: &[u8]) -> Result<u64, Malformed> {
    number_in(mark, SUM)
}

/// Reads what a trim will read, so that the writer need not wait for the disk.
pub(super) fn warm_trim(rows: &impl Source, due: &Due, now_ms: u64) -> Result<(), ReadError> {
    let head = HeadRow::existing(rows, &due.name)?;
    match head.filter(|head| is_its(due, head)) {
        Some(head) => first_younger(rows, &due.name, &head, now_ms).map(|_| ()),
        None => Ok(()),
    }
}

/// Whether a due row is the one that the head names.
fn is_its(due: &Due, head: &HeadRow) -> bool {
    is_current(due, head) && head.trim_at == due.at_ms && !due.is_end()
}

fn is_current(due: &Due, head: &HeadRow) -> bool {
    let is_current = |(incarnation, _)| incarnation == head.incarnation;
    due.incarnation().is_ok_and(is_current)
}

/// The first sequence whose message is younger than `until_ms`; the head's next one if there is none.
fn first_younger(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    until_ms: u64,
) -> Result<u64, ReadError> {
    let (mut low, mut high) = (head.floor, head.last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if timestamp(rows, name, head, middle)? <= until_ms {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// A message's timestamp: the version of its row.
pub(in super::super) fn timestamp(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<u64, ReadError> {
    let key = name.message_key(head.incarnation, sequence);
    let bad = |what| damaged(key.as_bytes(), what);
    let value = rows.row(&key)?;
    let value = value.ok_or_else(|| bad("missing between floor and head"))?;
    version_of(&value).map_err(|_| bad("not a message"))
}

/// The columns of a trim's due row behind the timeline.
pub(super) fn trim_columns(incarnation: u64) -> Vec<u8> {
    let mut columns = Vec::with_capacity(9);
    tideline_base::ordered::push_u64(&mut columns, incarnation);
    columns
}

const SUM: &str = "$sum";

/// A limit of bytes is kept to within this part of it.
const MARKS: u64 = 64;
/// A timeline is trimmed by age at most so many times within that age …
const PACE: u64 = 64;
/// … and rests at least so long, ms, …
const REST_MS_MIN: u64 = if cfg!(test) { 1 } else { 1_000 };
/// … and at most so long.
const REST_MS_MAX: u64 = 3_600_000;
