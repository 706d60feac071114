//! Values between two others.
//!
//! Owns: the walk over a column, and what a bound is in each segment. Promises: it looks at the clock while it finds
//! nothing. Must not: know which value a text of a query is (`value.rs`).

use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use tantivy::columnar::Column;
use tantivy::query::{ConstScorer, EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::schema::Type;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, TantivyError, Term};
use tantivy::{f64_to_u64, i64_to_u64};

use crate::deadline::Deadline;

/// Rows with a value of a column between two others.
#[derive(Clone, Debug)]
pub(super) struct Between {
    pub(super) column: String,
    pub(super) from: Bound<Term>,
    pub(super) to: Bound<Term>,
    pub(super) deadline: Arc<Deadline>,
}

/// Rows of one step, and how many steps it is for the deadline.
const STEP: DocId = 1_024;
const EFFORT: u32 = 16;

impl Between {
    /// The column of a segment, and which numbers in it lie between the bounds; `None` = none can.
    fn range(
        &self,
        segment: &SegmentReader,
    ) -> tantivy::Result<Option<(Column<u64>, RangeInclusive<u64>)>> {
        let columns = segment.fast_fields();
        let is_text = [&self.from, &self.to].into_iter().any(|bound| match bound {
            Bound::Included(term) | Bound::Excluded(term) => term.typ() == Type::Str,
            Bound::Unbounded => false,
        });
        let (column, from, to) = if is_text {
            let Some(texts) = columns.str(&self.column)? else {
                return Ok(None);
            };
            let (texts, ordinals) = texts.into_parts();
            let bytes = |bound: &Bound<Term>| bound.as_ref().map(bytes_of);
            let (from, to) = texts.term_bounds_to_ord(bytes(&self.from), bytes(&self.to))?;
            (ordinals, from, to)
        } else {
            let Some((column, _)) = columns.u64_lenient(&self.column)? else {
                return Ok(None);
            };
            let number = |bound: &Bound<Term>| bound.as_ref().map(number_of);
            (column, number(&self.from), number(&self.to))
        };
        let from = match from {
            Bound::Included(from) => Some(from),
            Bound::Excluded(from) => from.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let to = match to {
            Bound::Included(to) => Some(to),
            Bound::Excluded(to) => to.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        let (Some(from), Some(to)) = (from, to) else {
            return Ok(None);
        };
        let is_empty = from > to || from > column.max_value() || to < column.min_value();
        Ok((!is_empty).then_some((column, from..=to)))
    }
}

fn bytes_of(term: &Term) -> Vec<u8> {
    term.value().as_str().unwrap_or("").as_bytes().to_vec()
}

/// As columns compare it.
fn number_of(term: &Term) -> u64 {
    let value = term.value();
    let of_integer = value.as_i64().map(i64_to_u64);
    let of_double = || value.as_f64().map(f64_to_u64);
    let of_flag = || value.as_bool().map(u64::from);
    of_integer.or_else(of_double).or_else(of_flag).unwrap_or(0)
}

impl Query for Between {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for Between {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let Some((column, range)) = self.range(segment)? else {
            return Ok(Box::new(EmptyScorer));
        };
        let mut rows = Rows {
            end: column.num_docs(),
            column,
            range,
            next: 0,
            found: Vec::new(),
            at: 0,
            deadline: Arc::clone(&self.deadline),
        };
        rows.look();
        Ok(Box::new(ConstScorer::new(rows, boost)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        let what = "a range is not explained";
        Err(TantivyError::InvalidArgument(what.to_owned()))
    }
}

struct Rows {
    column: Column<u64>,
    range: RangeInclusive<u64>,
    /// Rows from here on are not looked at yet, up to the end.
    next: DocId,
    end: DocId,
    /// Of the last step, and which of them it is at.
    found: Vec<DocId>,
    at: usize,
    deadline: Arc<Deadline>,
}

impl Rows {
    /// Looks at the next rows until there is one.
    fn look(&mut self) -> DocId {
        self.found.clear();
        self.at = 0;
        while self.found.is_empty() && self.next < self.end {
            if self.deadline.is_over_after(EFFORT) {
                self.next = self.end;
                break;
            }
            let rows = self.next..self.next.saturating_add(STEP).min(self.end);
            self.next = rows.end;
            let range = self.range.clone();
            self.column
                .get_docids_for_value_range(range, rows, &mut self.found);
        }
        self.doc()
    }
}

impl DocSet for Rows {
    fn advance(&mut self) -> DocId {
        self.at += 1;
        match self.at < self.found.len() {
            true => self.doc(),
            false => self.look(),
        }
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if target < self.next {
            while self.doc() < target && self.at < self.found.len() {
                self.at += 1;
            }
        } else {
            self.at = self.found.len();
            self.next = target;
        }
        match self.at < self.found.len() {
            true => self.doc(),
            false => self.look(),
        }
    }

    fn doc(&self) -> DocId {
        self.found.get(self.at).copied().unwrap_or(TERMINATED)
    }

    fn size_hint(&self) -> u32 {
        self.end
    }
}
