//! A message becomes open.
//!
//! Owns: how many there may be, and the row that says when one is to be looked at. Must not: append it.

use tideline_model::timelines::Open;
use tideline_table::{RowWriter, Txn, put};

use super::super::Error;
use super::super::rows::head::HeadRow;
use super::super::rows::stored::put_number;
use super::super::rows::tables::Name;
use super::super::time::{Kind, expiry_columns, put_due};
use super::super::write::{Site, version};
use super::{DUE_AT, OPEN_MAX};

impl Site {
    /// A message that was appended is open. The caller puts the head.
    pub(in super::super) fn opened(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &mut HeadRow,
        (sequence, open): (u64, &Open),
    ) -> Result<(), Error> {
        if head.open >= OPEN_MAX {
            return Err(Error::TooMany {
                field: "open",
                limit: u64::from(OPEN_MAX),
                actual: u64::from(head.open) + 1,
            });
        }
        head.open += 1;
        let key = name.message_key(head.incarnation, sequence);
        self.heard().note(key.as_bytes(), self.time.steady_ms());
        let at_ms = txn.now_ms().saturating_add(open.idle_ms);
        self.put_open(txn, name, head, (sequence, at_ms));
        Ok(())
    }

    /// Writes when an open message is to be looked at, if nothing closes it before.
    pub(super) fn put_open(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &HeadRow,
        (sequence, at_ms): (u64, u64),
    ) {
        let mut row = RowWriter::new(16);
        put_number(&mut row, DUE_AT, at_ms);
        let now = version(txn.now_ms());
        put(txn, name.open_key(head.incarnation, sequence), row, now);
        let columns = expiry_columns(head.incarnation, sequence);
        put_due(txn, &self.alarm(), (Kind::Abandon, at_ms), name, &columns);
    }
}
