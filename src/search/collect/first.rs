//! The first rows of a segment in some order.
//!
//! Owns: how they are kept. Promises: memory for as many rows as are wanted. Must not: compare segments.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::mem::{size_of, size_of_val, take};

use tantivy::columnar::BytesColumn;
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader};

use super::memory::{Share, Short};
use super::order::{Order, SortValue};
use super::part::{Rank, SegmentPart};
use super::{Hit, key_in};
use crate::index::layout::KEY;

/// An order in a segment.
pub(crate) struct SegmentOrder {
    parts: Vec<SegmentPart>,
    keys: Option<BytesColumn>,
    has_score: bool,
}

impl SegmentOrder {
    pub(crate) fn new(
        order: &Order,
        ordinal: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<SegmentOrder> {
        let parts = order.parts().iter();
        let parts = parts.map(|part| SegmentPart::new(part, ordinal, segment));
        Ok(SegmentOrder {
            parts: parts.collect::<tantivy::Result<_>>()?,
            keys: segment.fast_fields().bytes(KEY)?,
            has_score: order.has_score(),
        })
    }

    /// The place of a row, by all parts.
    pub(crate) fn ranks(&self, row: DocId, score: Score, ranks: &mut Vec<Rank>) {
        ranks.clear();
        ranks.extend(self.parts.iter().map(|part| part.rank(row, score)));
    }

    /// The place that values of another segment have in this one.
    pub(super) fn ranks_of(&self, values: &[SortValue]) -> tantivy::Result<Vec<Rank>> {
        let parts = self.parts.iter().zip(values);
        parts.map(|(part, value)| part.rank_of(value)).collect()
    }

    /// A row as it is outside of the segment.
    pub(crate) fn hit(&self, found: &Candidate) -> tantivy::Result<Hit> {
        let key = self.keys.as_ref().map(|keys| key_in(keys, found.row));
        let values = self.parts.iter().zip(&found.ranks);
        Ok(Hit {
            key: key.transpose()?.unwrap_or_default(),
            values: values
                .map(|(part, rank)| part.value_of(*rank))
                .collect::<tantivy::Result<_>>()?,
            score: self.has_score.then_some(found.score),
            alike: None,
        })
    }
}

/// A row that may be one of the first.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(super) ranks: Vec<Rank>,
    pub(super) row: DocId,
    pub(super) score: Score,
}

impl Candidate {
    fn place(&self) -> (&[Rank], DocId) {
        (&self.ranks, self.row)
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        self.place().cmp(&other.place())
    }
}

/// What a row takes here.
pub(super) fn bytes_of(ranks: &[Rank]) -> usize {
    size_of::<Candidate>() + size_of_val(ranks)
}

/// The first rows, the worst of them on top.
#[derive(Default)]
pub(crate) struct First {
    heap: BinaryHeap<Candidate>,
    held: usize,
}

impl First {
    /// One more row, of which so many are wanted.
    pub(crate) fn add(
        &mut self,
        ranks: &[Rank],
        (row, score): (DocId, Score),
        limit: usize,
        share: &Share,
    ) -> Result<(), Short> {
        if self.heap.len() == limit {
            if let Some(mut worst) = self.heap.peek_mut()
                && (ranks, row) < worst.place()
            {
                worst.ranks.clear();
                worst.ranks.extend_from_slice(ranks);
                (worst.row, worst.score) = (row, score);
            }
            return Ok(());
        }
        let bytes = bytes_of(ranks);
        share.take(bytes)?;
        self.held += bytes;
        self.heap.push(Candidate {
            ranks: ranks.to_vec(),
            row,
            score,
        });
        Ok(())
    }

    /// The rows in order; they are not held any more.
    pub(crate) fn take(&mut self, share: &Share) -> Vec<Candidate> {
        share.give(take(&mut self.held));
        take(&mut self.heap).into_sorted_vec()
    }
}
