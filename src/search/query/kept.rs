//! Rows that are judged by what they keep as it was given.
//!
//! Owns: how that is read. Promises: it looks at the clock at each row; what can't be read ends the search. Must not:
//! know what is kept.

use std::sync::Arc;

use tantivy::query::{Scorer, Weight};
use tantivy::schema::Field;
use tantivy::{Score, SegmentReader};

use super::looked::{Look, LookedAt, Looks};
use crate::asked::Asked;
use crate::collect::Short;
use crate::index::stored::Stored;

/// Looks at what a row keeps.
pub(super) trait Judge: Send + Sync {
    /// The row's score; `None` = it does not match.
    fn score(&self, kept: &[u8]) -> Option<Score>;
}

/// Looks at what rows keep.
pub(super) struct Kept<J> {
    stored: Stored,
    at: Field,
    judge: Arc<J>,
    /// Whether rows are looked at; else all match, and have no scores.
    looks: bool,
    asked: Arc<Asked>,
}

/// Rows of another query whose kept values match.
pub(super) type KeptRows<J> = LookedAt<Kept<J>>;

/// Bytes that count as one step for the deadline.
const STEP_BYTES: usize = 256;

impl<J: Judge> KeptRows<J> {
    pub(super) fn of(
        rows: &dyn Weight,
        segment: &SegmentReader,
        (at, judge): (Field, &Arc<J>),
        (looks, boost): (bool, Score),
        asked: &Arc<Asked>,
    ) -> tantivy::Result<KeptRows<J>> {
        let kept = Kept {
            stored: Stored::new(segment)?,
            at,
            judge: Arc::clone(judge),
            looks,
            asked: Arc::clone(asked),
        };
        Ok(LookedAt::new(rows.scorer(segment, 1.0)?, kept, boost))
    }
}

impl<J: Judge> Looks for Kept<J> {
    fn look(&mut self, rows: &mut dyn Scorer) -> Option<Look> {
        if !self.looks {
            return None;
        }
        let judged = |kept: &[u8]| (self.judge.score(kept), kept.len());
        let Ok(found) = self.stored.with(rows.doc(), self.at, judged) else {
            self.asked.share.end(Short::Damaged);
            return Some(Look::End);
        };
        let (score, bytes) = found.unwrap_or_default();
        let effort = u32::try_from(1 + bytes / STEP_BYTES).unwrap_or(u32::MAX);
        Some(match (self.asked.deadline.is_over_after(effort), score) {
            (true, _) => Look::End,
            (false, Some(score)) => Look::Is(score),
            (false, None) => Look::IsNot,
        })
    }
}
