//! A phrase below a query that excludes.
//!
//! Owns: one rule that the engine's phrase does not keep. What excludes asks about rows in rising order, but from the
//! first row on, and a phrase stands at its first match then: to be asked about a row before it is a fault to the
//! engine. Promises: the answer is "not here, look from where it stands". Must not: decide what a phrase is.

use tantivy::query::{EnableScoring, Explanation, PhraseQuery, Query, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader, Term};

/// A phrase that may be asked about rows before its first one.
#[derive(Clone, Debug)]
pub(super) struct Phrase(pub(super) PhraseQuery);

impl Query for Phrase {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(Weighed(self.0.weight(scoring)?)))
    }

    fn query_terms<'t>(&'t self, visitor: &mut dyn FnMut(&'t Term, bool)) {
        self.0.query_terms(visitor);
    }
}

struct Weighed(Box<dyn Weight>);

impl Weight for Weighed {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(Rows(self.0.scorer(segment, boost)?)))
    }

    fn scorer_danger(
        &self,
        segment: &SegmentReader,
        target: DocId,
        boost: Score,
    ) -> tantivy::Result<(SeekDangerResult, Box<dyn Scorer>)> {
        let (result, rows) = self.0.scorer_danger(segment, target, boost)?;
        Ok((result, Box::new(Rows(rows))))
    }

    fn explain(&self, segment: &SegmentReader, row: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(segment, row)
    }
}

struct Rows(Box<dyn Scorer>);

impl DocSet for Rows {
    fn advance(&mut self) -> DocId {
        self.0.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.0.seek(target)
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        // Also after a miss: no match is before the row where the phrase's first word stands.
        match self.0.doc() {
            doc if target < doc => SeekDangerResult::SeekLowerBound(doc),
            _ => self.0.seek_danger(target),
        }
    }

    fn doc(&self) -> DocId {
        self.0.doc()
    }

    fn size_hint(&self) -> u32 {
        self.0.size_hint()
    }

    fn cost(&self) -> u64 {
        self.0.cost()
    }
}

impl Scorer for Rows {
    fn score(&mut self) -> Score {
        self.0.score()
    }
}
