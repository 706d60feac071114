//! Rows that are judged by what they keep as it was given.
//!
//! Owns: the walk over them. Promises: it looks at the clock at each row; what can't be read ends the search. Must not:
//! know what is kept.

use std::sync::Arc;

use tantivy::query::{Scorer, Weight};
use tantivy::schema::Field;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED};

use crate::asked::Asked;
use crate::collect::Short;
use crate::index::stored::Stored;

/// Looks at what a row keeps.
pub(super) trait Judge: Send + Sync {
    /// The row's score; `None` = it does not match.
    fn score(&self, kept: &[u8]) -> Option<Score>;
}

/// Rows of another query whose kept values match.
pub(super) struct KeptRows<J> {
    pub(super) rows: Box<dyn Scorer>,
    stored: Stored,
    at: Field,
    judge: Arc<J>,
    /// Whether rows are looked at; else all match, and have no scores.
    looks: bool,
    pub(super) score: Score,
    boost: Score,
    is_over: bool,
    asked: Arc<Asked>,
}

/// Bytes that count as one step for the deadline.
const STEP_BYTES: usize = 256;

impl<J: Judge> KeptRows<J> {
    pub(super) fn new(
        rows: &dyn Weight,
        segment: &SegmentReader,
        (at, judge): (Field, &Arc<J>),
        (looks, boost): (bool, Score),
        asked: &Arc<Asked>,
    ) -> tantivy::Result<KeptRows<J>> {
        let mut rows = KeptRows {
            rows: rows.scorer(segment, 1.0)?,
            stored: Stored::new(segment)?,
            at,
            judge: Arc::clone(judge),
            looks,
            score: 0.0,
            boost,
            is_over: false,
            asked: Arc::clone(asked),
        };
        rows.settle();
        Ok(rows)
    }

    /// Goes on until a row matches.
    fn settle(&mut self) {
        while self.looks && self.rows.doc() != TERMINATED {
            let look = |kept: &[u8]| (self.judge.score(kept), kept.len());
            let (found, bytes) = match self.stored.with(self.rows.doc(), self.at, look) {
                Ok(found) => found.unwrap_or_default(),
                Err(_) => {
                    self.asked.share.end(Short::Damaged);
                    self.is_over = true;
                    return;
                }
            };
            let effort = u32::try_from(1 + bytes / STEP_BYTES).unwrap_or(u32::MAX);
            if self.asked.deadline.is_over_after(effort) {
                self.is_over = true;
                return;
            }
            if let Some(score) = found {
                self.score = score;
                return;
            }
            self.rows.advance();
        }
    }
}

impl<J: Judge + 'static> DocSet for KeptRows<J> {
    fn advance(&mut self) -> DocId {
        if !self.is_over {
            self.rows.advance();
            self.settle();
        }
        self.doc()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if target > self.doc() {
            self.rows.seek(target);
            self.settle();
        }
        self.doc()
    }

    fn doc(&self) -> DocId {
        match self.is_over {
            true => TERMINATED,
            false => self.rows.doc(),
        }
    }

    fn size_hint(&self) -> u32 {
        self.rows.size_hint()
    }
}

impl<J: Judge + 'static> Scorer for KeptRows<J> {
    fn score(&mut self) -> Score {
        self.score * self.boost
    }
}
