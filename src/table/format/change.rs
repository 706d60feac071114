//! Change records: what a follower of the log learns of a batch beside its entries.
//!
//! Owns: the record's bytes. Promises: a record names entries of its own batch and adds only what they lack. A whole
//! run of rows that were treated alike is one record. Must not: hold row contents that the entries do.
//!
//! ```text
//! record = action, table, first entry, entries, [original], [former], [delta]     numbers in 7-bit groups
//! action = 1 put  2 update  3 delete | 10 has an original | 20 has a former     these two: length, bytes
//! ```
//! The delta is there where an update was written as the whole row that came of it, which does not show what changed.
//! Original and former are there for a table's stream alone. The original is a row: what the stream's original columns
//! held before. The former is what this entry of the batch was until this change replaced it, so that the record before
//! it can still be read.

use tideline_base::ids::TableId;

use super::super::Malformed;
use super::cell::{Input, push_bytes, push_number};

/// What was done to rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// A whole row was written.
    #[default]
    Put = 1,
    /// Cells of a row were changed.
    Update = 2,
    /// A row was deleted.
    Delete = 3,
}

/// One change record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change<'a> {
    /// Whose rows.
    pub table: TableId,
    /// What was done to them.
    pub action: Action,
    /// The first entry's index in its batch.
    pub first: u32,
    /// How many entries one after the other.
    pub entries: u32,
    /// Of an update that was written as a whole row: the delta that led to it; else empty.
    pub delta: &'a [u8],
    /// What the stream's original columns held before, as a row; empty if there was none or nobody wants it.
    pub original: &'a [u8],
    /// What the entry was in this batch before this change; empty if this is its first, or nobody wants it.
    pub former: &'a [u8],
}

const ORIGINAL: u8 = 0x10;
const FORMER: u8 = 0x20;

impl<'a> Change<'a> {
    pub(in super::super) fn encode(self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(16 + self.delta.len() + self.original.len() + self.former.len());
        let optional = [(ORIGINAL, self.original), (FORMER, self.former)];
        let optional = optional.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        let flags = optional.clone().fold(0, |flags, (flag, _)| flags | flag);
        out.push(self.action as u8 | flags);
        push_number(&mut out, u64::from(self.table.0));
        push_number(&mut out, u64::from(self.first));
        push_number(&mut out, u64::from(self.entries));
        optional.for_each(|(_, bytes)| push_bytes(&mut out, bytes));
        out.extend_from_slice(self.delta);
        out
    }

    /// Reads a record of a batch.
    pub fn decode(record: &'a [u8]) -> Result<Change<'a>, Malformed> {
        let (&action, rest) = record.split_first().ok_or(Malformed)?;
        let flags = action & (ORIGINAL | FORMER);
        let action = match action & !flags {
            1 => Action::Put,
            2 => Action::Update,
            3 => Action::Delete,
            _ => return Err(Malformed),
        };
        let mut input = Input(rest);
        let mut number = || u32::try_from(input.number()?).map_err(|_| Malformed);
        let (table, first, entries) = (number()?, number()?, number()?);
        let mut optional = |flag| match flags & flag {
            0 => Ok(&[][..]),
            _ => input.bytes().and_then(|bytes| match bytes {
                [] => Err(Malformed),
                bytes => Ok(bytes),
            }),
        };
        let (original, former) = (optional(ORIGINAL)?, optional(FORMER)?);
        if !input.0.is_empty() && action != Action::Update {
            return Err(Malformed);
        }
        Ok(Change {
            table: TableId(table),
            action,
            first,
            entries,
            delta: input.0,
            original,
            former,
        })
    }

    /// The table of a record, without looking further.
    pub(in super::super) fn table_of(record: &[u8]) -> Option<TableId> {
        let table = Input(record.get(1..)?).number().ok()?;
        u32::try_from(table).ok().map(TableId)
    }

    /// The indexes of its entries.
    #[must_use]
    pub fn indexes(&self) -> std::ops::Range<usize> {
        let first = self.first as usize;
        first..first + self.entries as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_come_back(
            table: u32,
            first: u32,
            entries: u32,
            delta: Vec<u8>,
            original: Vec<u8>,
            former: Vec<u8>,
            bytes: Vec<u8>,
        ) {
            for action in [Action::Put, Action::Update, Action::Delete] {
                let is_update = action == Action::Update;
                let delta = if is_update { &delta[..] } else { &[] };
                let table = TableId(table);
                let (original, former) = (&original[..], &former[..]);
                let change = Change { table, action, first, entries, delta, original, former };
                let mut record = change.encode();
                prop_assert_eq!(Change::decode(&record), Ok(change));
                prop_assert_eq!(Change::table_of(&record), Some(table));
                record.push(0);
                prop_assert_eq!(Change::decode(&record).is_ok(), is_update);
            }
            if let Ok(change) = Change::decode(&bytes) {
                prop_assert_eq!(change.encode(), bytes);
            }
        }
    }
}
