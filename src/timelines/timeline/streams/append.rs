//! An append to a stream, under the conditions of its protocol.
//!
//! Owns: which append is a repeat, which is refused, and what is remembered of one that is taken. Promises: decided and
//! written in one closure with the messages; a refused append and a repeat write nothing. Must not: check names and
//! sizes; the caller has.

use tideline_base::faults::is_named;
use tideline_base::trace::TraceParent;
use tideline_table::{Purpose, ReadError, Source, Txn};

use super::super::growth::whole_up_to;
use super::super::members::MemberRow;
use super::super::rows::head::{CLOSED, HeadRow};
use super::super::rows::tables::Name;
use super::super::write::append::Prepared;
use super::super::write::{Site, load_meta, put_head};
use super::super::{Append, Error, Meta, SMALL_BYTES, Target, Timelines};
use super::PRODUCERS_MAX;
use super::row::{Producer, ProducerRow, StreamRow};

/// What an append to a stream says beside its messages.
#[derive(Clone, Debug, Default)]
pub struct StreamAppend {
    /// `None` = the append has none, and its repeat is not known.
    pub producer: Option<Producer>,
    /// Refuse unless this is above that of the last append that said one; not empty.
    pub seq: Option<String>,
    /// Nothing can be appended afterwards.
    pub closes: bool,
    /// Content of another type than the stream's is refused, unless an earlier check refuses it; `None` = there is
    /// none.
    pub content: Option<Content>,
}

/// What the content of an append is.
#[derive(Clone, Debug)]
pub struct Content {
    /// Its type.
    pub kind: String,
    /// What a stream's type is by its meta.
    pub of: fn(&Meta) -> String,
}

/// The stream that took an append, or refused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlace {
    /// Its epoch.
    pub epoch: String,
    /// It is a fork.
    pub is_fork: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAppended {
    /// The last sequence before the first message that still grows; if none does, or the stream is closed, the head.
    pub end: u64,
    /// The stream is closed.
    pub closed: bool,
    /// It is a repeat of one that was taken.
    pub duplicate: bool,
    /// The highest number of the producer that was taken.
    pub seq: Option<u64>,
}

/// Why a stream did not take it. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRefused {
    /// The stream is closed; its last sequence.
    Closed(u64),
    /// A producer of the same ID has come with this higher epoch.
    StaleEpoch(u64),
    /// Appends of the producer before this one are missing; the one that is next.
    Gap(u64),
    /// A producer begins each epoch with 0.
    NotFirst,
    /// The content is of another type than the stream's.
    OtherType,
    /// `seq` is not above the last one.
    SeqNotAbove,
}

type Outcome = Result<StreamAppended, StreamRefused>;

impl Timelines {
    /// Appends to a timeline as a stream: the messages, if there are some, and what `asked` says, or nothing of it.
    pub async fn append_to_stream(
        &self,
        append: Append,
        trace: Option<TraceParent>,
        asked: StreamAppend,
    ) -> Result<(StreamPlace, Outcome), Error> {
        let target = Target {
            timeline: append.timeline.clone(),
            epoch: append.epoch.clone(),
            asker: append.asker.clone(),
        };
        let count = append.messages.len() as u64;
        let prepared = (count > 0).then(|| self.prepare(append, trace));
        let bytes = prepared.as_ref().map_or(SMALL_BYTES, Prepared::bytes);
        let partition = self.place(&target.timeline);
        let queued = self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.append_to_stream(txn, &target, prepared, asked)
        });
        let (place, outcome) = queued.await?;
        if outcome.is_ok_and(|one| !one.duplicate) {
            let metrics = self.inner.partitions.metrics();
            metrics.server.messages.increment(count);
        }
        Ok((place, outcome))
    }
}

impl Site {
    fn append_to_stream(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        prepared: Option<Prepared>,
        asked: StreamAppend,
    ) -> Result<(StreamPlace, Outcome), Error> {
        let name = Name::new(&target.timeline);
        let existing = HeadRow::load_to_write(txn, &name)?.filter(|head| !head.dropped);
        self.check_asker(txn, &name, existing.as_ref(), &target.asker, false)?;
        let mut head = existing.ok_or(Error::TimelineNotFound)?;
        self.check_epoch(&name, &head, target.epoch.as_deref())?;
        let mut stream = StreamRow::living(txn, &name, &head, txn.now_ms())?;
        let known = match &asked.producer {
            Some(producer) => ProducerRow::load(txn, &name, &head, &producer.id)?,
            None => None,
        };
        let place = StreamPlace {
            epoch: self.epochs.text(&target.timeline, head.incarnation),
            is_fork: !stream.fork.source.is_empty(),
        };
        let is_other = match &asked.content {
            // Content that came to no messages is taken by no stream.
            Some(_) if prepared.is_none() => true,
            Some(content) => (content.of)(&load_meta(txn, &name)?.meta) != content.kind,
            None => false,
        };
        let closes_only = asked.closes && prepared.is_none() && !is_other;
        let is_new = match decide(&asked, (&head, &stream), known, (closes_only, is_other)) {
            Ok(is_new) => is_new,
            Err(refused) => return Ok((place, Err(refused))),
        };
        if is_new {
            if let Some(mut prepared) = prepared {
                prepared.run(txn, self)?;
                head = HeadRow::load_to_write(txn, &name)?.unwrap_or(head);
            }
            remember(
                txn,
                (&name, &mut head, &mut stream),
                &asked,
                known.is_none(),
            )?;
        }
        let own = asked.producer.as_ref().map(|producer| producer.seq);
        let taken = known.map(|known| known.seq);
        let appended = StreamAppended {
            end: match head.is_closed() {
                true => head.last,
                false => end_for(txn, &name, &head, target.asker.user())?,
            },
            closed: head.is_closed(),
            duplicate: !is_new,
            seq: if is_new { own } else { own.and(taken) },
        };
        Ok((place, Ok(appended)))
    }
}

/// The offset that a caller reads on from: what lies behind a message that grows comes when that is whole.
fn end_for(rows: &impl Source, name: &Name, head: &HeadRow, user: &str) -> Result<u64, ReadError> {
    if head.open == 0 || user.is_empty() {
        return whole_up_to(rows, name, head);
    }
    let member = MemberRow::load(rows, name, head, user)?;
    let own = member.as_ref().map_or(0, MemberRow::floor);
    let floor = head.floor.max(own);
    whole_up_to(rows, name, &HeadRow { floor, ..*head })
}

/// Whether an append is to be done; `false` = it is a repeat.
fn decide(
    asked: &StreamAppend,
    (head, stream): (&HeadRow, &StreamRow),
    known: Option<ProducerRow>,
    (closes_only, is_other): (bool, bool),
) -> Result<bool, StreamRefused> {
    let closed = StreamRefused::Closed(head.last);
    if let Some(producer) = &asked.producer {
        let expected = match known {
            Some(known) if producer.epoch < known.epoch => {
                return Err(StreamRefused::StaleEpoch(known.epoch));
            }
            Some(known) if producer.epoch == known.epoch => known.seq + 1,
            _ => 0,
        };
        if head.is_closed() {
            return if stream.closed_by == *producer {
                Ok(false)
            } else {
                Err(closed)
            };
        }
        if is_other {
            return Err(StreamRefused::OtherType);
        }
        if producer.seq < expected && !is_named("producer_repeats_taken") {
            return Ok(false);
        }
        if producer.seq > expected {
            return Err(match expected {
                0 => StreamRefused::NotFirst,
                expected => StreamRefused::Gap(expected),
            });
        }
    } else if head.is_closed() {
        return if closes_only { Ok(false) } else { Err(closed) };
    }
    if is_other {
        return Err(StreamRefused::OtherType);
    }
    let is_above = |seq: &String| seq.as_bytes() > stream.seq.as_bytes();
    match asked.seq.as_ref().is_none_or(is_above) {
        true => Ok(true),
        false => Err(StreamRefused::SeqNotAbove),
    }
}

/// Writes what later appends are decided by.
fn remember(
    txn: &mut Txn<'_>,
    (name, head, stream): (&Name, &mut HeadRow, &mut StreamRow),
    asked: &StreamAppend,
    is_new_producer: bool,
) -> Result<(), Error> {
    let before = stream.clone();
    if let Some(producer) = &asked.producer {
        if is_new_producer {
            stream.producers += 1;
        }
        if stream.producers > PRODUCERS_MAX {
            return Err(Error::TooMany {
                field: "producer-id",
                limit: u64::from(PRODUCERS_MAX),
                actual: u64::from(stream.producers),
            });
        }
        let row = ProducerRow {
            epoch: producer.epoch,
            seq: producer.seq,
        };
        row.store(txn, name, head, &producer.id);
    }
    if let Some(seq) = &asked.seq {
        stream.seq.clone_from(seq);
    }
    if asked.closes {
        stream.closed_by = asked.producer.clone().unwrap_or_default();
        head.flags |= CLOSED;
    }
    stream.renew(txn.now_ms());
    if *stream != before || asked.closes {
        stream.store(txn, name, head);
        put_head(txn, name, head);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_append_of_a_producer_is_taken_once_and_in_turn() {
        let (head, stream) = (HeadRow::new(1), StreamRow::default());
        let decided = |known: Option<(u64, u64)>, epoch, seq| {
            let producer = Producer {
                id: "p".to_owned(),
                epoch,
                seq,
            };
            let asked = StreamAppend {
                producer: Some(producer),
                ..StreamAppend::default()
            };
            let known = known.map(|(epoch, seq)| ProducerRow { epoch, seq });
            decide(&asked, (&head, &stream), known, (false, false))
        };
        assert_eq!(decided(None, 3, 0), Ok(true));
        assert_eq!(decided(None, 3, 1), Err(StreamRefused::NotFirst));
        let known = Some((3, 5));
        assert_eq!(decided(known, 3, 6), Ok(true));
        assert_eq!(decided(known, 3, 5), Ok(false));
        assert_eq!(decided(known, 3, 0), Ok(false));
        assert_eq!(decided(known, 3, 7), Err(StreamRefused::Gap(6)));
        assert_eq!(decided(known, 2, 9), Err(StreamRefused::StaleEpoch(3)));
        assert_eq!(decided(known, 4, 0), Ok(true));
        assert_eq!(decided(known, 4, 1), Err(StreamRefused::NotFirst));
    }

    #[test]
    fn a_closed_stream_knows_only_what_closed_it() {
        let producer = |seq| Producer {
            id: "p".to_owned(),
            epoch: 1,
            seq,
        };
        let head = HeadRow {
            flags: CLOSED,
            last: 9,
            ..HeadRow::new(1)
        };
        let stream = StreamRow {
            closed_by: producer(5),
            ..StreamRow::default()
        };
        let known = Some(ProducerRow { epoch: 1, seq: 5 });
        let decided = |producer, closes| {
            let asked = StreamAppend {
                producer,
                seq: None,
                closes,
                content: None,
            };
            decide(&asked, (&head, &stream), known, (closes, false))
        };
        let closed = Err(StreamRefused::Closed(9));
        assert_eq!(decided(Some(producer(5)), true), Ok(false));
        assert_eq!(decided(Some(producer(4)), false), closed);
        assert_eq!(decided(Some(producer(6)), false), closed);
        assert_eq!(decided(None, true), Ok(false));
        assert_eq!(decided(None, false), closed);
        let old = Some(Producer {
            epoch: 0,
            ..producer(5)
        });
        assert_eq!(decided(old, true), Err(StreamRefused::StaleEpoch(1)));
    }

    #[test]
    fn stream_seq_rises_byte_by_byte() {
        let head = HeadRow::new(1);
        let decided = |last: &str, seq: &str| {
            let stream = StreamRow {
                seq: last.to_owned(),
                ..StreamRow::default()
            };
            let asked = StreamAppend {
                seq: Some(seq.to_owned()),
                ..StreamAppend::default()
            };
            decide(&asked, (&head, &stream), None, (false, false)).is_ok()
        };
        assert!(decided("", "1") && decided("1", "2") && decided("a", "aa") && decided("A", "a"));
        assert!(!decided("2", "10") && !decided("2", "2") && !decided("b", "a"));
    }
}
