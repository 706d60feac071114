//! Rows with an object that matches.
//!
//! Owns: which rows may have one. Promises: rows are found by what their objects have together, and each of them is
//! judged by its objects alone; what is excluded excludes objects, not rows. Must not: say what an object matches
//! (`check.rs`).

use std::sync::Arc;

use tantivy::query::{
    BooleanQuery, EnableScoring, Explanation, Occur, Query as Engine, Scorer, Weight,
};
use tantivy::schema::Field;
use tantivy::{DocId, Score, SegmentReader, TantivyError, Term};

use tideline_model::search::{Bool, InvalidSearch, MinimumMatch, Nested, ObjectScores, Query};

use super::check::Inner;
use super::kept::{Judge, KeptRows};
use super::{Compiled, Scope, compiled, constant, of_term};
use crate::asked::Asked;
use crate::index::object::objects;

/// Rows with an object of a nested field that matches.
pub(super) fn nested(scope: &Scope<'_>, asked: &Nested) -> Result<Compiled, InvalidSearch> {
    let placed = scope.layout.field(&asked.path)?;
    if let (Some(around), None) = (placed.inside, scope.inside) {
        // Of an object inside of others, wherever it is.
        return nested(
            scope,
            &Nested {
                path: scope.layout.fields[around].field.name.clone(),
                query: Query::Nested(Box::new(asked.clone())),
                scores: ObjectScores::Avg,
                weight: 1.0,
                hits: None,
            },
        );
    }
    let placed = scope.field(&asked.path)?;
    if !placed.is_nested() {
        return Err(placed.no("nested query"));
    }
    let has = of_term(Term::from_field_text(scope.layout.has, &placed.number));
    let may = compiled(
        &scope.inside(&asked.path)?,
        &without_exclusions(&asked.query),
    )?;
    let rows = Box::new(BooleanQuery::new(vec![
        (Occur::Must, constant(has, 0.0)),
        (Occur::Must, constant(may, 0.0)),
    ]));
    let Some(at) = placed.at else {
        // Inside of another one, which judges the row.
        return Ok(rows);
    };
    Ok(Box::new(Objects {
        rows,
        at,
        judge: Arc::new(Inner::new(scope, asked)?),
        asked: Arc::clone(scope.asked),
    }))
}

/// A query that finds all that another one finds, whatever objects it is asked about together.
fn without_exclusions(query: &Query) -> Query {
    let all = |queries: &[Query]| queries.iter().map(without_exclusions).collect::<Vec<_>>();
    match query {
        Query::Bool(parts) => {
            let least = i64::try_from(parts.least()).unwrap_or(i64::MAX);
            Query::Bool(Box::new(Bool {
                must: all(&parts.must),
                must_not: Vec::new(),
                filter: all(&parts.filter),
                should: all(&parts.should),
                minimum: Some(MinimumMatch::Count(least)),
                weight: parts.weight,
            }))
        }
        Query::Constant(inner) => Query::Constant(Box::new(without_exclusions(inner))),
        Query::Best(best) => {
            let mut best = best.clone();
            best.queries = all(&best.queries);
            Query::Best(best)
        }
        other => other.clone(),
    }
}

impl Judge for Inner {
    fn score(&self, kept: &[u8]) -> Option<Score> {
        let objects = objects(kept)?;
        Inner::score(self, objects.iter())
    }
}

struct Objects {
    rows: Compiled,
    at: Field,
    judge: Arc<Inner>,
    asked: Arc<Asked>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Objects")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Clone for Objects {
    fn clone(&self) -> Objects {
        Objects {
            rows: self.rows.box_clone(),
            at: self.at,
            judge: Arc::clone(&self.judge),
            asked: Arc::clone(&self.asked),
        }
    }
}

impl Engine for Objects {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let unscored = match scoring.searcher() {
            Some(searcher) => EnableScoring::disabled_from_searcher(searcher),
            None => scoring,
        };
        Ok(Box::new(ObjectsWeight {
            rows: self.rows.weight(unscored)?,
            of: self.clone(),
        }))
    }
}

struct ObjectsWeight {
    rows: Box<dyn Weight>,
    of: Objects,
}

impl Weight for ObjectsWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let of = &self.of;
        let judged = (of.at, &of.judge);
        let rows = KeptRows::of(&*self.rows, segment, judged, (true, boost), &of.asked)?;
        Ok(Box::new(rows))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        let what = "an object is not explained";
        Err(TantivyError::InvalidArgument(what.to_owned()))
    }
}
