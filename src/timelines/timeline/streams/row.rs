//! The rows of streams.
//!
//! Owns: their columns. Promises: a stream without a condition has none. Must not: decide anything.

use tideline_table::{ReadError, Source, Txn, columns, damaged, load, put};

use super::super::rows::head::{HAS_STREAM, HeadRow};
use super::super::rows::tables::Name;
use super::super::write::version;

/// One append of a producer, as it names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producer {
    /// Its ID; not empty.
    pub id: String,
    /// Of two producers with one ID the one with the higher epoch counts.
    pub epoch: u64,
    /// The append's number in the epoch, from 0.
    pub seq: u64,
}

/// Where a stream was forked, as its maker said it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fork {
    /// The timeline; empty = it was not.
    pub source: String,
    /// Behind this sequence; `None` = at the end.
    pub after: Option<u64>,
    /// And so many messages, or bytes, of the append that follows.
    pub sub: u64,
}

/// What a timeline keeps of its life as a stream: the row of no producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamRow {
    /// The last `Stream-Seq`; empty = none.
    pub(super) seq: String,
    /// The append that closed it. Without an ID: it is open, or an append without a producer closed it.
    pub(super) closed_by: Producer,
    /// Where it was forked.
    pub(super) fork: Fork,
    /// How many producers have a row.
    pub(super) producers: u32,
    /// How long it lives from its last use.
    pub(super) ttl_s: Option<u64>,
    /// When it ends if it is not used before, ms; 0 = never.
    pub(super) ends_at: u64,
    /// The time of the due row that leads to its end; 0 = there is none.
    pub(super) due_at: u64,
}

columns! { StreamRow {
    "$by": closed_by.id,
    "$by_epoch": closed_by.epoch,
    "$by_seq": closed_by.seq,
    "$due": due_at,
    "$ends": ends_at,
    "$from": fork.source,
    "$from_after": fork.after,
    "$from_sub": fork.sub,
    "$producers": producers,
    "$seq": seq,
    "$ttl": ttl_s,
} }

/// How far a producer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProducerRow {
    pub(super) epoch: u64,
    pub(super) seq: u64,
}

columns! { ProducerRow {
    "$epoch": epoch,
    "$seq": seq,
} }

impl StreamRow {
    pub(in super::super) fn load(
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
    ) -> Result<StreamRow, ReadError> {
        if head.flags & HAS_STREAM == 0 {
            return Ok(StreamRow::default());
        }
        let key = name.stream_key(head.incarnation, "");
        let row = load(rows, &key, "not the row of a stream", StreamRow::decode)?;
        row.ok_or_else(|| damaged(key.as_bytes(), "the row of the stream is missing"))
    }

    /// Writes it. The caller puts the head.
    pub(super) fn store(&self, txn: &mut Txn<'_>, name: &Name, head: &mut HeadRow) {
        head.flags |= HAS_STREAM;
        let now = version(txn.now_ms());
        put(
            txn,
            name.stream_key(head.incarnation, ""),
            self.encode(),
            now,
        );
    }
}

impl ProducerRow {
    pub(super) fn load(
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
        id: &str,
    ) -> Result<Option<ProducerRow>, ReadError> {
        let key = name.stream_key(head.incarnation, id);
        load(rows, &key, "not the row of a producer", ProducerRow::decode)
    }

    pub(super) fn store(&self, txn: &mut Txn<'_>, name: &Name, head: &HeadRow, id: &str) {
        let now = version(txn.now_ms());
        put(
            txn,
            name.stream_key(head.incarnation, id),
            self.encode(),
            now,
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_come_back(
            seq: String, id: String, source: String, after: Option<u64>, ttl_s: Option<u64>, producers: u32,
            numbers in any::<[u64; 4]>(), bytes: Vec<u8>,
        ) {
            let [epoch, number, ends_at, due_at] = numbers;
            let closed_by = Producer { id, epoch, seq: number };
            let fork = Fork { source, after, sub: number };
            let row = StreamRow { seq, closed_by, fork, producers, ttl_s, ends_at, due_at };
            prop_assert_eq!(StreamRow::decode(&row.encode().finish(1)), Ok(row));
            let row = ProducerRow { epoch, seq: number };
            prop_assert_eq!(ProducerRow::decode(&row.encode().finish(1)), Ok(row));
            let _ = (StreamRow::decode(&bytes), ProducerRow::decode(&bytes));
        }
    }
}
