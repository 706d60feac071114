//! Queries into which the engine's shortcuts do not reach, and one that ends.
//!
//! Owns: three things that the engine does not get right. First: it asks an excluded query about each row that it
//! comes to, also about rows that the excluded query has passed, or has said to be before its next one. Phrases, and
//! queries with several parts or ranges, answer that wrongly; a [`Guarded`] one is not asked about such rows. Second:
//! it takes the parts that match all rows out of a query, and their score with them; a [`Guarded`] part keeps its
//! score. Third: it looks for the next phrase as long as there is none, whatever the time; a [`Timed`] one ends. Must
//! not: decide which rows match.

use std::sync::Arc;

use tantivy::query::{EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader, TERMINATED};

use super::Compiled;
use crate::deadline::Deadline;

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

/// A query that goes from one row that may match to the next, and ends at a deadline.
#[derive(Debug)]
pub(super) struct Timed(pub(super) Compiled, pub(super) Arc<Deadline>);

impl Clone for Timed {
    fn clone(&self) -> Timed {
        Timed(self.0.box_clone(), Arc::clone(&self.1))
    }
}

impl Query for Timed {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let weight = self.0.weight(scoring)?;
        Ok(Box::new(TimedWeight(weight, Arc::clone(&self.1))))
    }
}

struct TimedWeight(Box<dyn Weight>, Arc<Deadline>);

impl Weight for TimedWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let (first, rows) = self.0.scorer_danger(segment, 0, boost)?;
        let mut rows = TimedRows {
            rows,
            at: 0,
            deadline: Arc::clone(&self.1),
        };
        rows.settle(0, first);
        Ok(Box::new(rows))
    }

    fn explain(&self, segment: &SegmentReader, row: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(segment, row)
    }
}

struct TimedRows {
    rows: Box<dyn Scorer>,
    at: DocId,
    deadline: Arc<Deadline>,
}

impl TimedRows {
    /// Goes on until a row matches. What the engine calls dangerous is to ask for anything else before.
    fn settle(&mut self, mut target: DocId, mut found: SeekDangerResult) -> DocId {
        while let SeekDangerResult::SeekLowerBound(next) = found {
            target = next;
            if target >= TERMINATED || self.deadline.is_over() {
                target = TERMINATED;
                break;
            }
            found = self.rows.seek_danger(target);
        }
        self.at = target;
        target
    }
}

impl DocSet for TimedRows {
    fn advance(&mut self) -> DocId {
        match self.at {
            TERMINATED => TERMINATED,
            at => self.seek(at + 1),
        }
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if target <= self.at {
            return self.at;
        }
        if target >= TERMINATED {
            self.at = TERMINATED;
            return TERMINATED;
        }
        let found = self.rows.seek_danger(target);
        self.settle(target, found)
    }

    fn doc(&self) -> DocId {
        self.at
    }

    fn size_hint(&self) -> u32 {
        self.rows.size_hint()
    }

    fn cost(&self) -> u64 {
        self.rows.cost()
    }
}

impl Scorer for TimedRows {
    fn score(&mut self) -> Score {
        self.rows.score()
    }
}
