//! Appending scheduled messages when their time has come.
//!
//! Owns: the step from a scheduled message to an appended or a refused one. Promises: once: the batch that appends
//! deletes the scheduled row, and a step whose row is gone or another one does nothing, so a repeat after a crash finds
//! nothing to do; decided is what the append's own tests say at that moment. Must not: test anything by itself.

use std::sync::Arc;

use bytes::Bytes;

use tideline_base::ids::PartitionId;
use tideline_model::access::{CurrentRules, Right, Rights};
use tideline_table::{Malformed, ReadError, Source as _, Txn, View, damaged, delete, put};

use super::super::write::append::Prepared;
use super::super::write::{Site, version};
use super::super::{Append, AppendOne, Error};
use super::due::Due;
use super::schedule::{read, sender_and_id};
use super::scheduled_row::{Refused, ScheduledRow};

/// A scheduled message that is due, ready for the writer.
pub(super) struct Delivery {
    due: Due,
    /// `None` = the due row led to nothing.
    message: Option<(Bytes, ScheduledRow, Prepared)>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    Appended,
    Refused,
    /// There was nothing to deliver.
    Nothing,
}

impl Delivery {
    /// Reads and encodes what a due row leads to.
    pub(super) fn read(
        view: &View,
        (partition, rules): (PartitionId, Option<&Arc<CurrentRules>>),
        now_ms: u64,
        due: Due,
    ) -> Result<Delivery, ReadError> {
        let key = due.name.scheduled_key(&due.columns);
        let Some(value) = view.row(&key)? else {
            return Ok(Delivery { due, message: None });
        };
        let row = read(key.as_bytes(), &value)?;
        let prepared = prepare((partition, rules), now_ms, &due, &row);
        let prepared = prepared.map_err(|_| damaged(key.as_bytes(), "not a scheduled message"))?;
        Ok(Delivery {
            due,
            message: Some((value, row, prepared)),
        })
    }

    /// About how many bytes this holds.
    pub(super) fn bytes(&self) -> usize {
        let message = self.message.as_ref();
        message.map_or(0, |(value, _, prepared)| value.len() + prepared.bytes()) + 256
    }

    /// Runs on the writer's thread.
    pub(super) fn run(&mut self, txn: &mut Txn<'_>, site: &Site) -> Result<Delivered, Error> {
        let (name, columns) = (&self.due.name, &self.due.columns);
        let key = name.scheduled_key(columns);
        let Some(found) = txn.row(&key)? else {
            self.due.done(txn);
            return Ok(Delivered::Nothing);
        };
        let Some((value, row, prepared)) = &mut self.message else {
            // Scheduled since the view.
            return Ok(Delivered::Nothing);
        };
        if row.deliver_at != self.due.at_ms || row.refused.is_some() {
            self.due.done(txn);
            return Ok(Delivered::Nothing);
        }
        if found != *value || txn.now_ms() < row.deliver_at {
            return Ok(Delivered::Nothing);
        }
        // A refused append has written nothing: its tests come first.
        let refused = match prepared.run(txn, site) {
            Ok(_) => None,
            Err(Error::TimelineNotFound) => Some(Refused::TimelineNotFound),
            Err(Error::NoRight) => Some(Refused::Forbidden),
            Err(Error::EpochChanged { .. }) => Some(Refused::EpochChanged),
            Err(Error::TimelineClosed) => Some(Refused::Closed),
            Err(error) => return Err(error),
        };
        self.due.done(txn);
        let Some(reason) = refused else {
            delete(txn, key);
            return Ok(Delivered::Appended);
        };
        let now = txn.now_ms();
        row.refused = Some((reason, now));
        put(txn, key, row.encode(), version(now));
        delete(txn, name.id_key(row.incarnation, columns));
        Ok(Delivered::Refused)
    }
}

fn prepare(
    (partition, rules): (PartitionId, Option<&Arc<CurrentRules>>),
    now_ms: u64,
    due: &Due,
    row: &ScheduledRow,
) -> Result<Prepared, Malformed> {
    let (sender, message_id) = sender_and_id(&due.columns)?;
    let timeline = due.name.text()?;
    let needs = Rights::NONE.with(Right::Append);
    let append = Append {
        asker: row.given.asker(rules, &sender, &timeline, needs),
        timeline,
        messages: vec![AppendOne {
            entry: row.entry.clone(),
            message_id: Some(message_id),
            expires_in_ms: row.expires_in_ms,
            deliver_at: None,
            open: None,
        }],
        expect_head: None,
        create: false,
        epoch: None,
    };
    let prepared = Prepared::new(partition, append, || now_ms, String::new);
    Ok(prepared.delivering(row.incarnation))
}
