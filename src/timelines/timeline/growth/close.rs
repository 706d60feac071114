//! The end of an open message.
//!
//! Owns: `message.finish`, `message.stop`, and what is done to a message without parts for too long. Promises: a
//! message is closed once, by one change, with its whole text in its row. Must not: bury.

use std::future::Future;

use tideline_model::timelines::Outcome;
use tideline_table::{Action, Malformed, Purpose, ReadError, Txn, damaged};

use super::super::marks;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::Name;
use super::super::time::{Due, shown};
use super::super::unread;
use super::super::write::edit::{load, write};
use super::super::write::{Site, check_size, merge, put_head};
use super::super::{Columns, EntryLimits, Error, Message, SMALL_BYTES, Target, Timelines};
use super::end::end;
use super::extend::{check_sender, closed};
use super::row::{last_part, look_up};

/// Closes a message by its sender.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Where, and the asker.
    pub target: Target,
    /// Which message.
    pub sequence: u64,
    /// How many parts there must be.
    pub parts: u64,
    /// How it went.
    pub outcome: Outcome,
    /// Columns that get a new value with it, unique names.
    pub set: Columns,
    /// Names that go away with it; none of them is in `set`.
    pub remove: Vec<String>,
    /// Refuse what would be larger than this.
    pub limits: EntryLimits,
}

/// A closed message.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// In its newest form.
    pub message: Message,
    /// It was closed so already.
    pub duplicate: bool,
}

impl Timelines {
    /// Closes an open message.
    pub fn finish(
        &self,
        finish: Finish,
    ) -> impl Future<Output = Result<Finished, Error>> + Send + use<> {
        let bytes = SMALL_BYTES + tideline_model::json_bytes(&finish.set);
        let partition = self.place(&finish.target.timeline);
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.finish(txn, finish)
        })
    }

    /// Closes an open message for a caller that wants no more of it; a closed one stays as it is.
    pub fn stop(
        &self,
        target: Target,
        sequence: u64,
        reason: Option<String>,
    ) -> impl Future<Output = Result<Message, Error>> + Send + use<> {
        let partition = self.place(&target.timeline);
        self.submit(Purpose::Adds, partition, SMALL_BYTES, move |txn, site| {
            site.stop(txn, &target, sequence, reason)
        })
    }
}

impl Site {
    fn finish(&self, txn: &mut Txn<'_>, finish: Finish) -> Result<Finished, Error> {
        let (name, mut head, reader) = self.enter(txn, &finish.target)?;
        let message = load(txn, &name, &reader.sees(head), finish.sequence)?;
        let mut message = shown(message, &self.time);
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        check_sender(&finish.target.asker, &message.sender)?;
        if message.open.is_none() {
            let by_other = message.stopped_by.is_some() || message.abandoned;
            let is_same =
                message.outcome == Some(finish.outcome) && message.parts == Some(finish.parts);
            return match is_same && !by_other {
                true => Ok(Finished {
                    message,
                    duplicate: true,
                }),
                false => Err(closed(&message)),
            };
        }
        let last = last_part(txn, &name, &head, finish.sequence)?;
        let parts = last.map_or(0, |(last, ..)| last);
        if parts != finish.parts {
            return Err(Error::ConditionFailed { actual: parts });
        }
        look_up(txn, &name, &head, &mut message, None)?;
        // Parts were checked when they came: only a change of columns is checked now.
        let changes = !(finish.set.is_empty() && finish.remove.is_empty());
        if let Some(entry) = message.entry.as_mut().filter(|_| changes) {
            let named = unread::named(entry);
            merge(entry, finish.set, &finish.remove);
            check_size(entry, finish.limits)?;
            unread::edited(txn, &name, &head, &message, &named);
        }
        message.outcome = Some(finish.outcome);
        self.close(txn, &name, &mut head, &mut message)?;
        Ok(Finished {
            message,
            duplicate: false,
        })
    }

    fn stop(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        sequence: u64,
        reason: Option<String>,
    ) -> Result<Message, Error> {
        let (name, mut head, reader) = self.enter(txn, target)?;
        let message = load(txn, &name, &reader.sees(head), sequence)?;
        let mut message = shown(message, &self.time);
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        if message.open.is_none() {
            return match message.outcome {
                Some(_) => Ok(message),
                None => Err(closed(&message)),
            };
        }
        self.check_stop(txn, (&name, &head), &target.asker, &message.sender)?;
        look_up(txn, &name, &head, &mut message, None)?;
        message.outcome = Some(Outcome::Cancelled);
        message.stopped_by = Some(target.asker.sender().to_owned());
        message.reason = reason;
        self.close(txn, &name, &mut head, &mut message)?;
        Ok(message)
    }

    /// Closes the message that a due row leads to, if no part came for too long; else it is looked at again when that
    /// can be. Whether it was closed.
    pub(in super::super) fn abandon(&self, txn: &mut Txn<'_>, due: &Due) -> Result<bool, Error> {
        if due.at_ms > txn.now_ms() {
            // The clock was set back meanwhile.
            self.alarm().note(due.at_ms, txn.position());
            return Ok(false);
        }
        self.abandon_from(txn, due, 0)
    }

    /// As `abandon`, after the clock was set back: a row whose time has not come is right, or has its time put right.
    pub(in super::super) fn abandon_again(
        &self,
        txn: &mut Txn<'_>,
        due: &Due,
    ) -> Result<bool, Error> {
        self.abandon_from(txn, due, AGAIN_MS)
    }

    /// A row stays that is too late by less than this.
    fn abandon_from(&self, txn: &mut Txn<'_>, due: &Due, late_ms: u64) -> Result<bool, Error> {
        let name = &due.name;
        let place = || {
            let (incarnation, mut rest) = due.incarnation()?;
            Ok((incarnation, rest.u64()?))
        };
        let place = place();
        let (incarnation, sequence) =
            place.map_err(|_: Malformed| damaged(&due.columns, "not the place of a message"))?;
        let found = HeadRow::load_to_write(txn, name)?;
        let Some(mut head) = found.filter(|head| {
            !head.dropped && head.incarnation == incarnation && head.holds(sequence)
        }) else {
            due.done(txn);
            return Ok(false);
        };
        let mut message = stored::load(txn, name, &head, sequence, None)?;
        let Some(open) = message.open.as_deref() else {
            due.done(txn);
            return Ok(false);
        };
        let idle_ms = self.idle_ms(txn, name, &head, &message)?;
        let rest_ms = open.idle_ms.saturating_sub(idle_ms);
        if rest_ms > 0 {
            let at_ms = txn.now_ms().saturating_add(rest_ms);
            if late_ms == 0 || at_ms + late_ms < due.at_ms {
                due.done(txn);
                self.put_open(txn, name, &head, (sequence, at_ms));
            }
            return Ok(false);
        }
        due.done(txn);
        marks::look_up(txn, name, &head, &mut message)?;
        look_up(txn, name, &head, &mut message, None)?;
        (message.outcome, message.abandoned) = (Some(Outcome::Failed), true);
        self.close(txn, name, &mut head, &mut message)?;
        Ok(true)
    }

    /// For how long no part of an open message has come though one could: by the steady clock, because the system's may
    /// have been set; of one that has been silent since a restart, by the times in its rows, unless these are still to
    /// come, and no longer than since that.
    fn idle_ms(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &HeadRow,
        message: &Message,
    ) -> Result<u64, ReadError> {
        let key = name.message_key(head.incarnation, message.sequence);
        let (heard, steady_ms) = (self.heard(), self.time.steady_ms());
        if let Some(heard_ms) = heard.of(key.as_bytes()) {
            return Ok(steady_ms.saturating_sub(heard_ms));
        }
        let last = last_part(txn, name, head, message.sequence)?;
        let last_ms = last.map_or(message.timestamp, |(.., at_ms)| at_ms);
        if last_ms > txn.now_ms() {
            // The clock was set back. It may be years until then: it is silent from now on.
            heard.note(key.as_bytes(), steady_ms);
        }
        let silent_ms = txn.now_ms().saturating_sub(last_ms);
        Ok(silent_ms.min(self.time.served_ms()))
    }

    /// Writes a message with all its text, which is not open any more.
    fn close(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &mut HeadRow,
        message: &mut Message,
    ) -> Result<(), ReadError> {
        let last = last_part(txn, name, head, message.sequence)?;
        end(txn, name, head, message.sequence)?;
        message.open = None;
        write(txn, name, head, message, Action::Update);
        let grown_bytes = last.map_or(0, |(_, end, _)| end);
        self.keep_grown(txn, name, head, (message.sequence, grown_bytes))?;
        put_head(txn, name, head);
        Ok(())
    }
}

/// By so much the time of a due row may be too late after the clock was set back.
const AGAIN_MS: u64 = 500;
