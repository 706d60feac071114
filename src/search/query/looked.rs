//! Rows of another query that are looked at one by one.
//!
//! Owns: the walk over them. Promises: a row is looked at once, when the walk comes to it; once a look ends the search
//! there are no more rows. Must not: know what is looked at.

use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, Score, TERMINATED};

/// What a look at a row says.
pub(super) enum Look {
    /// It matches, with this score.
    Is(Score),
    /// It does not.
    IsNot,
    /// The search is over.
    End,
}

/// Looks at the row that a walk has come to.
pub(super) trait Looks: Send {
    /// `None` = rows are not looked at: all match, and have no scores.
    fn look(&mut self, rows: &mut dyn Scorer) -> Option<Look>;
}

/// Rows of another query that match.
pub(super) struct LookedAt<L> {
    rows: Box<dyn Scorer>,
    looks: L,
    pub(super) score: Score,
    boost: Score,
    is_over: bool,
}

impl<L: Looks> LookedAt<L> {
    pub(super) fn new(rows: Box<dyn Scorer>, looks: L, boost: Score) -> LookedAt<L> {
        let mut made = LookedAt {
            rows,
            looks,
            score: 0.0,
            boost,
            is_over: false,
        };
        made.settle();
        made
    }

    /// Goes on until a row matches.
    fn settle(&mut self) {
        while self.rows.doc() != TERMINATED {
            match self.looks.look(&mut *self.rows) {
                None => return,
                Some(Look::Is(score)) => {
                    self.score = score;
                    return;
                }
                Some(Look::IsNot) => drop(self.rows.advance()),
                Some(Look::End) => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }
}

impl<L: Looks + 'static> DocSet for LookedAt<L> {
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

impl<L: Looks + 'static> Scorer for LookedAt<L> {
    fn score(&mut self) -> Score {
        self.score * self.boost
    }
}
