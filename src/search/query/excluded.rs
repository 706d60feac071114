//! What a query excludes.
//!
//! Owns: one rule that the engine's rows do not keep. What excludes asks about rows in rising order, from the first one
//! on, also about those before the row where the excluded ones stand, and before one that was named as the next one.
//! To phrases, and to what has several parts or ranges, both are faults. Promises: they are asked about no such row.
//! Must not: decide which rows those are.

use tantivy::query::{EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader};

use super::Compiled;

/// A query that stands below one that excludes it.
#[derive(Debug)]
pub(super) struct Excluded(pub(super) Compiled);

impl Clone for Excluded {
    fn clone(&self) -> Excluded {
        Excluded(self.0.box_clone())
    }
}

impl Query for Excluded {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(Weighed(self.0.weight(scoring)?)))
    }
}

struct Weighed(Box<dyn Weight>);

impl Weight for Weighed {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let rows = self.0.scorer(segment, boost)?;
        let next = rows.doc();
        Ok(Box::new(Rows { rows, next }))
    }

    fn explain(&self, segment: &SegmentReader, row: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(segment, row)
    }
}

struct Rows {
    rows: Box<dyn Scorer>,
    /// None of them is before this one.
    next: DocId,
}

impl DocSet for Rows {
    fn advance(&mut self) -> DocId {
        self.next = self.rows.advance();
        self.next
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target < self.next {
            return SeekDangerResult::SeekLowerBound(self.next);
        }
        let found = self.rows.seek_danger(target);
        self.next = match found {
            SeekDangerResult::Found => target,
            SeekDangerResult::SeekLowerBound(next) => next,
        };
        found
    }

    fn doc(&self) -> DocId {
        self.rows.doc()
    }

    fn size_hint(&self) -> u32 {
        self.rows.size_hint()
    }
}

impl Scorer for Rows {
    fn score(&mut self) -> Score {
        self.rows.score()
    }
}
