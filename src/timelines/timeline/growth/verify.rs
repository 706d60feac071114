//! What must hold between open messages, their parts and their due rows.
//!
//! Owns: these rules. Promises: each contradiction is reported with its place. Must not: write, or call a part of a
//! closed message damage: merges drop it in time.

use tideline_table::{ReadError, Source as _, damaged, number_in};

use super::super::Message;
use super::super::check::dump::StoredTimelines;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{Name, OPEN};
use super::super::time::{Kind, expiry_columns};
use super::DUE_AT;

/// Counts the open messages of a timeline.
#[derive(Default)]
pub(in super::super) struct OpenRows {
    seen: u32,
}

impl OpenRows {
    /// Takes a message, read with its parts.
    pub(in super::super) fn check(
        &mut self,
        stored: &StoredTimelines<'_>,
        (name, head): (&Name, &HeadRow),
        message: &Message,
        problem: &mut dyn FnMut(String),
    ) -> Result<(), ReadError> {
        if message.open.is_none() {
            return Ok(());
        }
        self.seen += 1;
        let sequence = message.sequence;
        let key = name.open_key(head.incarnation, sequence);
        let Some(row) = stored.view.row(&key)? else {
            problem(format!(
                "message {sequence} is open without a row that says so"
            ));
            return Ok(());
        };
        let at_ms = number_in(&row, DUE_AT);
        let at_ms = at_ms.map_err(|_| damaged(key.as_bytes(), "not an open message"))?;
        let columns = expiry_columns(head.incarnation, sequence);
        if !stored.is_due(Kind::Abandon, at_ms, name, &columns)? {
            problem(format!("message {sequence} is open and has no due row"));
        }
        Ok(())
    }

    /// After the last one.
    pub(in super::super) fn end(
        self,
        stored: &StoredTimelines<'_>,
        (name, head): (&Name, &HeadRow),
        problem: &mut dyn FnMut(String),
    ) -> Result<(), ReadError> {
        let mut rows = 0;
        for row in stored.of_timeline((name, head), OPEN) {
            row?;
            rows += 1;
        }
        if rows != self.seen || head.open != self.seen {
            problem(format!(
                "{} messages are open, the head counts {}, and {rows} rows say so",
                self.seen, head.open
            ));
        }
        Ok(())
    }
}
