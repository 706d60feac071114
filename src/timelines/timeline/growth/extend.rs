//! The next part of an open message.
//!
//! Owns: `message.extend`. Promises: a part is taken if it is the next one, and known again if it is there: with the
//! same text it is a duplicate, with another a conflict. Nobody but the sender extends a message, or a back end. Must
//! not: make a change.

use std::future::Future;
use std::sync::Arc;

use tideline_base::faults::is_named;
use tideline_model::access::Asker;
use tideline_table::{Purpose, ReadError, RowWriter, Source, Txn, damaged, put};

use super::super::rows::head::HeadRow;
use super::super::rows::lately::Lately;
use super::super::rows::stored::{self, MessageRow};
use super::super::rows::tables::Name;
use super::super::write::{Site, check_limits, version};
use super::super::{EntryLimits, Error, Message, Target, Timelines};
use super::PARTS_MAX;
use super::row::{Growing, encode, inner_bytes, look_up, text_of};

/// A part of a message.
#[derive(Clone, Debug)]
pub struct Extend {
    /// Where, and the asker.
    pub target: Target,
    /// Which message.
    pub sequence: u64,
    /// The part's number, from 1 on.
    pub part: u64,
    /// What comes behind the text so far.
    pub text: String,
    /// Refuse what would become larger than this.
    pub limits: EntryLimits,
}

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// How many parts there are.
    pub parts: u64,
    /// It was there already.
    pub duplicate: bool,
}

impl Timelines {
    /// Extends an open message by a part.
    pub fn extend(
        &self,
        extend: Extend,
    ) -> impl Future<Output = Result<Extended, Error>> + Send + use<> {
        let bytes = PART_BYTES + extend.text.len();
        let partition = self.place(&extend.target.timeline);
        let metrics = Arc::clone(self.inner.partitions.metrics());
        let queued = self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.extend(txn, &extend)
        });
        async move {
            let extended = queued.await?;
            if !extended.duplicate {
                metrics.growth.parts.increment(1);
            }
            Ok(extended)
        }
    }
}

/// After so many parts each time, the message's row is written with the text so far. Tests come to it with few.
const FOLDED: u64 = if cfg!(test) { 5 } else { 1_000 };

/// Bytes that a part counts for in the queue, beside its text.
const PART_BYTES: usize = 128;

impl Site {
    fn extend(&self, txn: &mut Txn<'_>, extend: &Extend) -> Result<Extended, Error> {
        let name = Name::new(&extend.target.timeline);
        let sequence = extend.sequence;
        let (head, reader) = self.admit_to_write(txn, &name, &extend.target)?;
        if !reader.sees(head).holds(sequence) {
            return Err(Error::MessageNotFound);
        }
        let key = name.message_key(head.incarnation, sequence);
        let known = txn.memo::<Lately>().growing(key.as_bytes()).cloned();
        let mut growing = match known {
            Some(growing) => growing,
            None => open_message(txn, &name, &head, sequence)?,
        };
        if growing.expires_at.is_some_and(|at| at <= txn.now_ms()) {
            return Err(Error::Deleted);
        }
        check_sender(&extend.target.asker, &growing.sender)?;
        let is_there = extend.part <= growing.parts && !is_named("part_repeated");
        if is_there {
            let there = text_of(txn, &name, &head, (sequence, extend.part))?;
            let lacks = || damaged(key.as_bytes(), "a part is missing");
            if there.ok_or_else(lacks)? != extend.text {
                return Err(Error::PartConflict {
                    parts: growing.parts,
                });
            }
            txn.memo::<Lately>()
                .note_growing(key.as_bytes(), growing.clone());
            return Ok(Extended {
                parts: growing.parts,
                duplicate: true,
            });
        }
        if extend.part > growing.parts + 1 {
            return Err(Error::ConditionFailed {
                actual: growing.parts,
            });
        }
        growing.parts += 1;
        growing.end += inner_bytes(&extend.text);
        growing.bytes += inner_bytes(&extend.text);
        if growing.parts > PARTS_MAX {
            return Err(Error::TooMany {
                field: "part",
                limit: PARTS_MAX,
                actual: growing.parts,
            });
        }
        let bytes = usize::try_from(growing.bytes).unwrap_or(usize::MAX);
        check_limits([("entry_bytes_max", extend.limits.entry_bytes_max, bytes)])?;
        let parts = growing.parts;
        put_part(
            txn,
            (&name, &head),
            (sequence, parts),
            encode(growing.end, &extend.text),
        )?;
        txn.memo::<Lately>().note_growing(key.as_bytes(), growing);
        self.heard().note(key.as_bytes(), self.time.steady_ms());
        Ok(Extended {
            parts,
            duplicate: false,
        })
    }
}

/// Writes the row of a part. With each [`FOLDED`]th one the message's row gets the text so far, so that nobody has to
/// read more parts than that for it. That is no change.
fn put_part(
    txn: &mut Txn<'_>,
    (name, head): (&Name, &HeadRow),
    (sequence, part): (u64, u64),
    row: RowWriter,
) -> Result<(), ReadError> {
    let key = name.parts_of(head.incarnation, sequence).number(part);
    let now = version(txn.now_ms());
    put(txn, key, row, now);
    if part % FOLDED == 0 {
        let mut message = stored::load(txn, name, head, sequence, None)?;
        look_up(txn, name, head, &mut message, None)?;
        let key = name.message_key(head.incarnation, sequence);
        let row = MessageRow::of(&message).row;
        put(txn, key, row, version(message.timestamp));
    }
    Ok(())
}

/// What there is of an open message; an error if it is not open.
fn open_message(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<Growing, Error> {
    let message = stored::load(rows, name, head, sequence, None)?;
    if message.entry.is_none() {
        return Err(Error::Deleted);
    }
    if message.open.is_none() {
        return Err(closed(&message));
    }
    Ok(Growing::load(rows, name, head, &message)?)
}

/// The refusal of what only an open message takes.
pub(super) fn closed(message: &Message) -> Error {
    Error::MessageClosed {
        outcome: message.outcome,
        parts: message.parts.unwrap_or(0),
        stopped_by: message.stopped_by.clone(),
    }
}

/// Refuses a caller that is neither the sender nor a back end.
pub(super) fn check_sender(asker: &Asker, sender: &str) -> Result<(), Error> {
    let is_back_end = asker.claim().is_none() && asker.user().is_empty();
    match is_back_end || asker.sender() == sender {
        true => Ok(()),
        false => Err(Error::OtherSender),
    }
}
