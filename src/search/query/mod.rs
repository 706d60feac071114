//! From a query to the engine's.
//!
//! Owns: what each query means for each type of field. Promises: a query that an index can't answer is refused before
//! anything runs; whatever is no text scores its weight. Must not: run one.

mod between;
mod check;
mod functions;
mod geo;
mod guarded;
mod kept;
mod looked;
mod marks;
mod near;
mod nested;
mod pattern;
mod shown;
mod value;
mod words;

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use tantivy::Term;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, EmptyQuery, Occur, Query as Engine,
    RangeQuery, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};

use tideline_model::Value;
use tideline_model::search::{ASKED_BYTES_MAX, Bool, FieldType, InvalidSearch, Query};

use crate::asked::Asked;
use crate::deadline::Deadline;
use crate::index::layout::{Layout, Placed, VERSION};
use between::Between;
use guarded::Guarded;
pub(crate) use shown::{SHOWN_BYTES_MAX, Shows, shows};
pub(crate) use value::term_of_key;

/// A query of the engine.
pub(crate) type Compiled = Box<dyn Engine>;

/// What a query is compiled for.
struct Scope<'s> {
    layout: &'s Layout,
    deadline: &'s Arc<Deadline>,
    asked: &'s Arc<Asked>,
    /// The place of the nested field whose objects are asked about.
    inside: Option<usize>,
    /// What its texts may have yet, all together.
    words: &'s Cell<usize>,
    text_bytes: &'s Cell<usize>,
}

impl<'s> Scope<'s> {
    /// A field that can be asked about here.
    fn field(&self, name: &str) -> Result<&'s Placed, InvalidSearch> {
        let placed = self.layout.field(name)?;
        match placed.inside == self.inside {
            true => Ok(placed),
            false => Err(placed.no("query outside of the objects of its path")),
        }
    }

    /// For the objects of a nested field.
    fn inside(&self, path: &str) -> Result<Scope<'s>, InvalidSearch> {
        let mut fields = self.layout.fields.iter();
        let at = fields.position(|placed| placed.field.name == path);
        let inside = Some(at.ok_or_else(|| InvalidSearch::NoField(path.to_owned()))?);
        Ok(Scope { inside, ..*self })
    }
}

/// The engine's query for one of an index, which ends at its deadline.
pub(crate) fn compile(
    layout: &Layout,
    asked: &Arc<Asked>,
    query: &Query,
) -> Result<Compiled, InvalidSearch> {
    let scope = Scope {
        layout,
        deadline: &asked.deadline,
        asked,
        inside: None,
        words: &Cell::new(words::WORDS_MAX),
        text_bytes: &Cell::new(ASKED_BYTES_MAX),
    };
    compiled(&scope, query)
}

fn compiled(scope: &Scope<'_>, query: &Query) -> Result<Compiled, InvalidSearch> {
    Ok(match query {
        Query::All => Box::new(AllQuery),
        Query::Terms {
            field,
            values,
            weight,
        } => {
            let placed = scope.field(field)?;
            placed.searched("term query")?;
            let terms = values.iter().map(|value| placed.term(value, "term query"));
            let terms = terms.collect::<Result<Vec<_>, _>>()?;
            constant(any_of(terms), *weight)
        }
        Query::Range { field, from, to } => constant(range(scope, field, from, to)?, 1.0),
        Query::Prefix {
            field,
            prefix,
            weight,
        } => constant(
            pattern::prefix(scope, scope.field(field)?, prefix)?,
            *weight,
        ),
        Query::Wildcard {
            field,
            pattern,
            weight,
        } => {
            let placed = scope.field(field)?;
            constant(pattern::wildcard(scope, placed, pattern)?, *weight)
        }
        Query::Suffix {
            field,
            suffix,
            weight,
        } => {
            let placed = scope.field(field)?;
            constant(pattern::suffix(scope, placed, suffix)?, *weight)
        }
        Query::Match(asked) => words::matches(scope, scope.field(&asked.field)?, asked)?,
        Query::Phrase {
            field,
            text,
            slop,
            weight,
        } => words::phrase(scope, scope.field(field)?, (text, *slop), *weight)?,
        Query::Bool(parts) => bool_query(scope, parts)?,
        Query::Constant(inner) => constant(compiled(scope, inner)?, 1.0),
        Query::Exists { field } => {
            let number = &scope.field(field)?.number;
            let term = Term::from_field_text(scope.layout.has, number);
            constant(of_term(term), 1.0)
        }
        Query::Nested(asked) => nested::nested(scope, asked)?,
        Query::Near(near) => near::near(scope, near)?,
        Query::Functions(asked) => functions::functions(scope, asked)?,
        Query::Best(asked) => functions::best(scope, asked)?,
        Query::GeoBox { field, .. }
        | Query::GeoDistance { field, .. }
        | Query::GeoPolygon { field, .. } => constant(geo::points(scope, field, query)?, 1.0),
    })
}

/// Of what a query finds, only rows whose newest version is from this time on, ms since 1970.
pub(crate) fn living(layout: &Layout, asked: &Asked, query: Compiled) -> Compiled {
    let Some(since_ms) = asked.since_ms else {
        return query;
    };
    let lives: Compiled = Box::new(Between {
        column: VERSION.to_owned(),
        from: Bound::Included(Term::from_field_i64(layout.version, since_ms)),
        to: Bound::Unbounded,
        deadline: Arc::clone(&asked.deadline),
    });
    let both = vec![(Occur::Must, query), (Occur::Must, constant(lives, 0.0))];
    Box::new(BooleanQuery::new(both))
}

/// Of what a query finds, only rows whose newest version is from this time on, and before that one, ms since 1970.
pub(crate) fn within(
    (layout, deadline): (&Layout, &Arc<Deadline>),
    query: Compiled,
    (from_ms, to_ms): (Option<i64>, Option<i64>),
) -> Compiled {
    if from_ms.is_none() && to_ms.is_none() {
        return query;
    }
    let time = |ms: i64| Term::from_field_i64(layout.version, ms);
    let between: Compiled = Box::new(Between {
        column: VERSION.to_owned(),
        from: from_ms.map_or(Bound::Unbounded, |ms| Bound::Included(time(ms))),
        to: to_ms.map_or(Bound::Unbounded, |ms| Bound::Excluded(time(ms))),
        deadline: Arc::clone(deadline),
    });
    let both = vec![(Occur::Must, query), (Occur::Must, constant(between, 0.0))];
    Box::new(BooleanQuery::new(both))
}

/// Of what a query finds, the row with a key, with its score.
pub(crate) fn with_key(layout: &Layout, query: Compiled, key: &[u8]) -> Compiled {
    let row = constant(of_term(term_of_key(layout, key)), 0.0);
    Box::new(BooleanQuery::new(vec![
        (Occur::Must, Box::new(Guarded(query))),
        (Occur::Must, row),
    ]))
}

/// Rows whose newest version is from before a time, ms since 1970.
pub(crate) fn older(layout: &Layout, since_ms: i64) -> Compiled {
    let to = Bound::Excluded(Term::from_field_i64(layout.version, since_ms));
    Box::new(RangeQuery::new(Bound::Unbounded, to))
}

/// Rows of which some columns are from before a time, ms since 1970, and some are not.
pub(crate) fn partly_older(layout: &Layout, since_ms: i64) -> Compiled {
    let older = Bound::Excluded(Term::from_field_i64(layout.oldest, since_ms));
    let living = Bound::Included(Term::from_field_i64(layout.version, since_ms));
    let both: [Compiled; 2] = [
        Box::new(RangeQuery::new(Bound::Unbounded, older)),
        Box::new(RangeQuery::new(living, Bound::Unbounded)),
    ];
    Box::new(BooleanQuery::intersection(both.into()))
}

/// The same rows, all with this score.
fn constant(query: Compiled, score: f32) -> Compiled {
    Box::new(ConstScoreQuery::new(query, score))
}

/// What has a term.
fn of_term(term: Term) -> Compiled {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

/// What has one of some terms.
fn any_of(mut terms: Vec<Term>) -> Compiled {
    terms.sort_unstable();
    terms.dedup();
    if terms.len() == 1 {
        return of_term(terms.swap_remove(0));
    }
    let terms = terms.into_iter().map(of_term);
    Box::new(BooleanQuery::union(terms.collect()))
}

fn range(
    scope: &Scope<'_>,
    field: &str,
    from: &Option<(Value, bool)>,
    to: &Option<(Value, bool)>,
) -> Result<Compiled, InvalidSearch> {
    let placed = scope.field(field)?;
    let at = placed.searched("range query")?;
    match bounds(placed, from, to)? {
        (Bound::Unbounded, Bound::Unbounded) => {
            let has = Term::from_field_text(scope.layout.has, &placed.number);
            Ok(of_term(has))
        }
        bounds => Ok(between(scope, placed, at, bounds)),
    }
}

/// The bounds of a range, as the field has values.
fn bounds(
    placed: &Placed,
    from: &Option<(Value, bool)>,
    to: &Option<(Value, bool)>,
) -> Result<(Bound<Term>, Bound<Term>), InvalidSearch> {
    if matches!(
        placed.field.kind,
        FieldType::GeoPoint | FieldType::Vector | FieldType::Nested
    ) {
        return Err(placed.no("range query"));
    }
    let bound = |of: &Option<(Value, bool)>| match of {
        None => Ok(Bound::Unbounded),
        Some((value, is_in)) => {
            let term = placed.term(value, "range query")?;
            Ok::<_, InvalidSearch>(match is_in {
                true => Bound::Included(term),
                false => Bound::Excluded(term),
            })
        }
    };
    Ok((bound(from)?, bound(to)?))
}

/// Rows with a value of a field between two others; of a text with a word.
fn between(
    scope: &Scope<'_>,
    placed: &Placed,
    at: Field,
    (from, to): (Bound<Term>, Bound<Term>),
) -> Compiled {
    if placed.field.kind == FieldType::Text {
        let text = |bound: Bound<Term>| {
            bound.map(|term| term.value().as_str().unwrap_or_default().to_owned())
        };
        return pattern::words_between(scope, at, text(from), text(to));
    }
    Box::new(Between {
        column: placed.name.clone(),
        from,
        to,
        deadline: Arc::clone(scope.deadline),
    })
}

fn bool_query(scope: &Scope<'_>, parts: &Bool) -> Result<Compiled, InvalidSearch> {
    let mut clauses = Vec::new();
    let mut add = |occur: Occur, queries: &[Query], scores: bool| {
        for query in queries {
            let query = compiled(scope, query)?;
            let query = match occur {
                Occur::MustNot => Box::new(Guarded(constant(query, 0.0))),
                _ if scores => query,
                _ => constant(query, 0.0),
            };
            clauses.push((occur, query));
        }
        Ok::<_, InvalidSearch>(())
    };
    add(Occur::Must, &parts.must, true)?;
    add(Occur::Must, &parts.filter, false)?;
    add(Occur::MustNot, &parts.must_not, false)?;
    let minimum = parts.least();
    add(Occur::Should, &parts.should, true)?;
    if parts.must.is_empty() && parts.filter.is_empty() && minimum == 0 {
        // Whatever is not excluded; the engine has nothing to begin with otherwise.
        clauses.push((Occur::Must, constant(Box::new(AllQuery), 0.0)));
    }
    let all = BooleanQuery::with_minimum_required_clauses(clauses, minimum);
    Ok(match parts.weight {
        Some(weight) => Box::new(BoostQuery::new(Box::new(all), weight)),
        None => Box::new(all),
    })
}

/// What no row is.
fn nothing() -> Compiled {
    Box::new(EmptyQuery)
}
