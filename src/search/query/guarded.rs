//! A query into which the engine's shortcuts do not reach.
//!
//! Owns: two things that the engine does not get right. First: it asks an excluded query about each row that it comes
//! to, also about rows before the one where the excluded query is, and before the one that the excluded query has named
//! as its next. Phrases, and queries with several parts or ranges, take neither; in here they are not asked about such
//! rows. Second: it takes the parts that match all rows out of a query, and their score with them; a part in here keeps
//! its score. Must not: decide which rows match.

use tantivy::query::{EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader};

use super::Compiled;

/// A query as a part of another one.
#[derive(Debug)]
pub(super) struct Guarded(pub(super) Compiled);

impl Clone for Guarded {
    fn clone(&self) -> Guarded {
        Guarded(self.0.box_clone())
    }
}

impl Query for Guarded {
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
