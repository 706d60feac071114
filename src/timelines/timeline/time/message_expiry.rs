//! The sweep that buries what has expired.
//!
//! Owns: when a message is buried, and its due row deleted. Promises: each is buried once, however often the sweep
//! comes; what was deleted, trimmed or given up meanwhile is skipped. Must not: make tombstones by itself.

use tideline_table::{Malformed, ReadError, Txn, View, damaged};

use super::super::rows::head::HeadRow;
use super::super::write::edit::{bury, load_held};
use super::super::write::{Site, put_head};
use super::super::{Burial, Error};
use super::due::Due;

/// Reads what a sweep will read, so that the writer need not wait for the disk.
pub(super) fn warm(view: &View, rows: &[Due]) -> Result<(), ReadError> {
    for due in rows {
        let (incarnation, sequence) = place(due)?;
        let key = due.name.message_key(incarnation, sequence);
        view.get(key.as_bytes())?;
    }
    Ok(())
}

impl Site {
    /// Buries those messages of these rows of one timeline that have expired. Gives how many it buried.
    pub(super) fn expire(&self, txn: &mut Txn<'_>, rows: &[Due]) -> Result<u64, Error> {
        let Some(Due { name, .. }) = rows.first() else {
            return Ok(0);
        };
        let found = HeadRow::load_to_write(txn, name)?;
        let mut head = found.filter(|head| !head.dropped);
        let mut buried = 0;
        for due in rows {
            if due.at_ms > txn.now_ms() {
                // The clock was set back meanwhile.
                self.alarm().note(due.at_ms, txn.position());
                continue;
            }
            due.done(txn);
            let (incarnation, sequence) = place(due)?;
            let Some(head) = &mut head else { continue };
            if head.incarnation != incarnation || !head.holds(sequence) {
                continue;
            }
            let message = load_held(txn, name, head, sequence)?;
            if message.entry.is_some() && message.expires_at == Some(due.at_ms) {
                bury(txn, name, head, message, Burial::Expired)?;
                buried += 1;
            }
        }
        if let Some(head) = &head
            && buried > 0
        {
            put_head(txn, name, head);
        }
        Ok(buried)
    }
}

fn place(due: &Due) -> Result<(u64, u64), ReadError> {
    let read = || {
        let (incarnation, mut rest) = due.incarnation()?;
        Ok((incarnation, rest.u64()?))
    };
    read().map_err(|_: Malformed| damaged(&due.columns, "not the place of a message"))
}
