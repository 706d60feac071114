//! Messages that are to be appended later, as rows.
//!
//! Owns: the columns of a scheduled message, and how long a refused one is listed. Promises: a client's columns and
//! ours never meet, because ours begin with `$`. Must not: read or write a store.
//!
//! ```text
//! scheduled  (timeline, sender, message ID)    the entry's columns, $at, $expires, $given, $inc, $issued, $key, $reason,
//!                                              $refused
//! ```
//! The incarnation is no key column: what was scheduled on a timeline that is gone is still to be listed.

use tideline_model::access::Given;
use tideline_table::{Malformed, Row, RowWriter, number, push_other};

use super::super::Columns;
use super::super::rows::stored::{put_number, put_text, text};

/// How long a message that was refused is listed.
const REFUSED_LISTED_MS: u64 = 7 * 86_400_000;

const AT: &str = "$at";
const EXPIRES: &str = "$expires";
const GIVEN: &str = "$given";
const INCARNATION: &str = "$inc";
const ISSUED: &str = "$issued";
const KEY: &str = "$key";
const REASON: &str = "$reason";
const REFUSED: &str = "$refused";

/// Why a scheduled message was not appended when its time came. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such timeline any more, or none that the sender may see.
    TimelineNotFound = 1,
    /// The timeline was deleted and made again.
    EpochChanged = 2,
    /// The sender may read the timeline, but not append to it any more.
    Forbidden = 3,
    /// The timeline was closed.
    Closed = 4,
}

/// A message of an append that is to take effect later.
pub(in super::super) struct Later {
    pub(in super::super) deliver_at: u64,
    pub(in super::super) expires_in_ms: Option<u64>,
    /// What the sender's credential gave.
    pub(in super::super) given: Given,
    /// Sorted.
    pub(in super::super) entry: Columns,
}

/// A scheduled message as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct ScheduledRow {
    pub(in super::super) deliver_at: u64,
    pub(in super::super) expires_in_ms: Option<u64>,
    /// What the sender's credential gave: the credential may have ended when the time comes.
    pub(in super::super) given: Given,
    pub(in super::super) incarnation: u64,
    /// Why and when it was refused.
    pub(in super::super) refused: Option<(Refused, u64)>,
    pub(in super::super) entry: Columns,
}

impl ScheduledRow {
    pub(in super::super) fn encode(&self) -> RowWriter {
        let (mut row, behind) = RowWriter::beside(&self.entry, 64);
        put_number(&mut row, AT, self.deliver_at);
        put_number(&mut row, EXPIRES, self.expires_in_ms.unwrap_or(0));
        let (given, issued_at, key) = self.given.stored();
        put_number(&mut row, GIVEN, given);
        put_number(&mut row, INCARNATION, self.incarnation);
        put_number(&mut row, ISSUED, issued_at);
        put_text(&mut row, KEY, key);
        if let Some((reason, at_ms)) = self.refused {
            put_number(&mut row, REASON, reason as u64);
            put_number(&mut row, REFUSED, at_ms);
        }
        row.put_all(behind);
        row
    }

    pub(in super::super) fn decode(value: &[u8]) -> Result<ScheduledRow, Malformed> {
        let mut row = ScheduledRow {
            deliver_at: 0,
            expires_in_ms: None,
            given: Given::default(),
            incarnation: 0,
            refused: None,
            entry: Columns::new(),
        };
        let (mut reason, mut refused_at) = (0, 0);
        let (mut given, mut issued_at, mut key) = (0, 0, String::new());
        for cell in Row::parse(value)?.columns() {
            let cell = cell?;
            match cell.name {
                AT => row.deliver_at = number(cell.value)?,
                EXPIRES => row.expires_in_ms = Some(number(cell.value)?),
                GIVEN => given = number(cell.value)?,
                INCARNATION => row.incarnation = number(cell.value)?,
                ISSUED => issued_at = number(cell.value)?,
                KEY => key = text(cell.value)?,
                REASON => reason = number(cell.value)?,
                REFUSED => refused_at = number(cell.value)?,
                _ => push_other(Some(&mut row.entry), cell)?,
            }
        }
        row.given = Given::of_stored((given, issued_at, &key)).ok_or(Malformed)?;
        row.refused = match reason {
            0 => None,
            1 => Some((Refused::TimelineNotFound, refused_at)),
            2 => Some((Refused::EpochChanged, refused_at)),
            3 => Some((Refused::Forbidden, refused_at)),
            4 => Some((Refused::Closed, refused_at)),
            _ => return Err(Malformed),
        };
        Ok(row)
    }

    /// When a stored one is to be appended, and when it was refused. The entry is not decoded.
    pub(super) fn outline(value: &[u8]) -> Result<(u64, Option<u64>), Malformed> {
        let (mut deliver_at, mut reason, mut refused_at) = (0, 0, 0);
        for cell in Row::parse(value)?.pick([AT, REASON, REFUSED]) {
            let cell = cell?;
            match cell.name {
                AT => deliver_at = number(cell.value)?,
                REASON => reason = number(cell.value)?,
                _ => refused_at = number(cell.value)?,
            }
        }
        Ok((deliver_at, (reason != 0).then_some(refused_at)))
    }

    /// Whether it was refused so long ago that it is listed no more.
    pub(in super::super) fn is_forgotten(&self, now_ms: u64) -> bool {
        self.refused
            .is_some_and(|(_, at_ms)| at_ms.saturating_add(REFUSED_LISTED_MS) <= now_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tideline_model::arbitrary;

    proptest! {
        #[test]
        fn rows_come_back(
            entry in arbitrary::columns(),
            deliver_at in 1u64..1 << 53,
            expires_in_ms in proptest::option::of(1u64..1 << 53),
            given in 0u64..1 << 15,
            issued_at in 0u64..1 << 53,
            key in "[a-z0-9]{12}",
            incarnation in 1u64..1 << 53,
            refused in proptest::option::of((any::<bool>(), 1u64..1 << 53)),
            bytes: Vec<u8>,
        ) {
            let refused = refused.map(|(gone, at_ms)| match gone {
                true => (Refused::TimelineNotFound, at_ms),
                false => (Refused::EpochChanged, at_ms),
            });
            let key = if given & 1 == 1 { &key } else { "" };
            let given = Given::of_stored((given, issued_at, key)).unwrap();
            let row = ScheduledRow { deliver_at, expires_in_ms, given, incarnation, refused, entry };
            let stored = row.encode().finish(7);
            let outline = (deliver_at, refused.map(|(_, at_ms)| at_ms));
            prop_assert_eq!(ScheduledRow::outline(&stored), Ok(outline));
            prop_assert_eq!(&ScheduledRow::decode(&stored), &Ok(row));
            let _ = (ScheduledRow::decode(&bytes), ScheduledRow::outline(&bytes));
        }
    }
}
