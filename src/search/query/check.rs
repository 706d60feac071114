//! Whether an object matches a query.
//!
//! Owns: the meaning of queries for one object, which no index has. Promises: the same as for rows, but for scores of
//! words: each that is found counts 1. Must not: read a row.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use tantivy::Term;

use tideline_model::Value;
use tideline_model::search::{
    Bool, FieldType, InvalidSearch, Match, Nested, ObjectScores, Point, Query,
};

use super::geo;
use super::pattern::Pattern;
use super::{Scope, bounds};
use crate::analyze::{asked_words, words};
use crate::index::document::Item;
use crate::index::layout::Placed;
use crate::index::object::{Object, objects_in};

/// A query against one object.
#[derive(Clone)]
pub(super) enum Check {
    All,
    /// One of the values of a field.
    Value(Arc<Placed>, Test, f32),
    /// So many words of a text.
    Words(Arc<Placed>, Vec<Term>, usize, f32),
    /// Words in their places, which may be off by so many.
    Phrase(Arc<Placed>, Vec<(usize, Term)>, usize, f32),
    Bool(Box<Parts>),
    Constant(Box<Check>),
    Best(Vec<Check>, f32, f32),
    Inner(Box<Inner>),
}

/// What is asked of a value.
#[derive(Clone)]
pub(super) enum Test {
    IsThere,
    Terms(Vec<Term>),
    Range(Bound<Term>, Bound<Term>),
    Prefix(String),
    Pattern(Arc<Pattern>),
    Point(Arc<dyn Fn(Point) -> bool + Send + Sync>),
}

#[derive(Clone)]
pub(super) struct Parts {
    must: Vec<Check>,
    must_not: Vec<Check>,
    filter: Vec<Check>,
    should: Vec<Check>,
    least: usize,
    weight: f32,
}

/// The objects of a nested field, of which one matches.
#[derive(Clone)]
pub(super) struct Inner {
    placed: Arc<Placed>,
    check: Check,
    scores: ObjectScores,
    weight: f32,
}

impl Inner {
    pub(super) fn new(scope: &Scope<'_>, asked: &Nested) -> Result<Inner, InvalidSearch> {
        Ok(Inner {
            placed: Arc::new(scope.field(&asked.path)?.clone()),
            check: check(&scope.inside(&asked.path)?, &asked.query)?,
            scores: asked.scores,
            weight: asked.weight,
        })
    }

    /// The score of some objects; `None` = none matches.
    pub(super) fn score<'o>(&self, objects: impl Iterator<Item = &'o Object>) -> Option<f32> {
        let scores = objects.filter_map(|object| self.check.score(object));
        Some(self.scores.of(scores)? * self.weight)
    }
}

/// What a query asks of an object of the scope's nested field.
pub(super) fn check(scope: &Scope<'_>, query: &Query) -> Result<Check, InvalidSearch> {
    let placed = |name: &str| Ok::<_, InvalidSearch>(Arc::new(scope.field(name)?.clone()));
    Ok(match query {
        Query::All => Check::All,
        Query::Terms {
            field,
            values,
            weight,
        } => {
            let placed = placed(field)?;
            let terms = values.iter().map(|value| placed.term(value, "term query"));
            let terms = Test::Terms(terms.collect::<Result<_, _>>()?);
            Check::Value(placed, terms, *weight)
        }
        Query::Range { field, from, to } => {
            let placed = placed(field)?;
            let (from, to) = bounds(&placed, from, to)?;
            Check::Value(placed, Test::Range(from, to), 1.0)
        }
        Query::Prefix {
            field,
            prefix,
            weight,
        } => Check::Value(placed(field)?, Test::Prefix(prefix.clone()), *weight),
        Query::Suffix {
            field,
            suffix,
            weight,
        } => {
            let pattern = Arc::new(Pattern::Suffix(suffix.clone()));
            Check::Value(placed(field)?, Test::Pattern(pattern), *weight)
        }
        Query::Wildcard {
            field,
            pattern,
            weight,
        } => {
            let pattern = Arc::new(Pattern::Wildcard(pattern.chars().collect()));
            Check::Value(placed(field)?, Test::Pattern(pattern), *weight)
        }
        Query::Match(asked) => of_words(placed(&asked.field)?, asked)?,
        Query::Phrase {
            field,
            text,
            slop,
            weight,
        } => of_phrase(placed(field)?, (text, *slop as usize), *weight)?,
        Query::Bool(parts) => Check::Bool(Box::new(of_parts(scope, parts)?)),
        Query::Constant(inner) => Check::Constant(Box::new(check(scope, inner)?)),
        Query::Exists { field } => {
            let placed = placed(field)?;
            Check::Value(placed, Test::IsThere, 1.0)
        }
        Query::Nested(nested) => Check::Inner(Box::new(Inner::new(scope, nested)?)),
        Query::Best(best) => {
            let queries = best.queries.iter().map(|query| check(scope, query));
            let queries = queries.collect::<Result<_, _>>()?;
            Check::Best(queries, best.tie_breaker, best.weight)
        }
        Query::Near(_) => {
            return Err(InvalidSearch::Unsupported(
                "a vector inside of a nested query",
            ));
        }
        Query::Functions(_) => {
            let what = "function scores inside of a nested query";
            return Err(InvalidSearch::Unsupported(what));
        }
        Query::GeoBox { field, .. }
        | Query::GeoDistance { field, .. }
        | Query::GeoPolygon { field, .. } => {
            Check::Value(placed(field)?, Test::Point(geo::holds(query)), 1.0)
        }
    })
}

fn of_parts(scope: &Scope<'_>, parts: &Bool) -> Result<Parts, InvalidSearch> {
    let all = |queries: &[Query]| {
        let checks = queries.iter().map(|query| check(scope, query));
        checks.collect::<Result<Vec<_>, _>>()
    };
    Ok(Parts {
        must: all(&parts.must)?,
        must_not: all(&parts.must_not)?,
        filter: all(&parts.filter)?,
        should: all(&parts.should)?,
        least: parts.least(),
        weight: parts.weight.unwrap_or(1.0),
    })
}

fn of_words(placed: Arc<Placed>, asked: &Match) -> Result<Check, InvalidSearch> {
    if placed.field.kind != FieldType::Text {
        let term = placed.term(&Value::String(asked.text.clone()), "match query")?;
        return Ok(Check::Value(placed, Test::Terms(vec![term]), asked.weight));
    }
    let at = placed.searched("match query")?;
    let words = asked_words(&placed.analyzer, &asked.text).into_iter();
    let terms: Vec<Term> = words
        .map(|word| Term::from_field_text(at, &word.text))
        .collect();
    let least = match (&asked.minimum, asked.is_and) {
        (_, true) => terms.len(),
        (None, false) => 1,
        (Some(minimum), false) => minimum.of(terms.len()),
    };
    Ok(Check::Words(placed, terms, least.max(1), asked.weight))
}

fn of_phrase(
    placed: Arc<Placed>,
    (text, slop): (&str, usize),
    weight: f32,
) -> Result<Check, InvalidSearch> {
    if placed.field.kind != FieldType::Text {
        let term = placed.term(&Value::String(text.to_owned()), "match query")?;
        return Ok(Check::Value(placed, Test::Terms(vec![term]), weight));
    }
    let at = placed.searched("match phrase query")?;
    let words = asked_words(&placed.analyzer, text).into_iter();
    let words = words.map(|word| (word.place, Term::from_field_text(at, &word.text)));
    Ok(Check::Phrase(placed, words.collect(), slop, weight))
}

/// The words of each value of an object's field, with their places.
fn words_of(placed: &Placed, object: &Object) -> Vec<Vec<(usize, Term)>> {
    let items = object
        .get(&placed.key)
        .and_then(|value| placed.items_of(value));
    let (Some(items), Some(at)) = (items, placed.at) else {
        return Vec::new();
    };
    let texts = items.into_iter().map(|item| {
        let Item::Text(text) = item else {
            return Vec::new();
        };
        let words = words(&placed.analyzer, &text).into_iter();
        words
            .map(|word| (word.place, Term::from_field_text(at, &word.text)))
            .collect()
    });
    texts.collect()
}

/// The values of an object's field, as they are compared.
pub(super) fn terms_of(placed: &Placed, object: &Object) -> Vec<Term> {
    if placed.field.kind == FieldType::Text {
        let words = words_of(placed, object).into_iter().flatten();
        return words.map(|(_, term)| term).collect();
    }
    let items = object
        .get(&placed.key)
        .and_then(|value| placed.items_of(value));
    let (Some(items), Some(at)) = (items, placed.at) else {
        return Vec::new();
    };
    let terms = items.into_iter().filter_map(|item| match item {
        Item::Integer(number) => Some(Term::from_field_i64(at, number)),
        Item::Double(number) => Some(Term::from_field_f64(at, number)),
        Item::Boolean(flag) => Some(Term::from_field_bool(at, flag)),
        Item::Text(text) => Some(Term::from_field_text(at, &text)),
        Item::Point(_) | Item::Kept(_) => None,
    });
    terms.collect()
}

impl Test {
    fn holds(&self, placed: &Placed, object: &Object) -> bool {
        let is_there = || match object.get(&placed.key) {
            Some(value) if placed.is_nested() => {
                objects_in(value).is_some_and(|objects| !objects.is_empty())
            }
            Some(value) => placed.items_of(value).is_some(),
            None => false,
        };
        let any = |holds: &dyn Fn(&Term) -> bool| terms_of(placed, object).iter().any(holds);
        let text =
            |term: &Term, holds: &dyn Fn(&str) -> bool| term.value().as_str().is_some_and(holds);
        match self {
            Test::IsThere | Test::Range(Bound::Unbounded, Bound::Unbounded) => is_there(),
            Test::Terms(terms) => any(&|term| terms.contains(term)),
            Test::Range(from, to) => any(&|term| is_between(term, from, to)),
            Test::Prefix(prefix) => {
                any(&|term| text(term, &|text| text.starts_with(prefix.as_str())))
            }
            Test::Pattern(pattern) => {
                any(&|term| text(term, &|text| pattern.is_met(text.as_bytes())))
            }
            Test::Point(holds) => {
                let value = object.get(&placed.key);
                let items = value.and_then(|value| placed.items_of(value));
                let mut items = items.unwrap_or_default().into_iter();
                items.any(|item| matches!(item, Item::Point(steps) if holds(steps.into())))
            }
        }
    }
}

fn is_between(term: &Term, from: &Bound<Term>, to: &Bound<Term>) -> bool {
    let is_above = match from {
        Bound::Included(from) => compare(term, from) != Ordering::Less,
        Bound::Excluded(from) => compare(term, from) == Ordering::Greater,
        Bound::Unbounded => true,
    };
    let is_below = match to {
        Bound::Included(to) => compare(term, to) != Ordering::Greater,
        Bound::Excluded(to) => compare(term, to) == Ordering::Less,
        Bound::Unbounded => true,
    };
    is_above && is_below
}

/// Numbers of terms are written so that their bytes compare as they do.
fn compare(one: &Term, other: &Term) -> Ordering {
    one.serialized_value_bytes()
        .cmp(other.serialized_value_bytes())
}

impl Check {
    /// The score of an object; `None` = it does not match.
    pub(super) fn score(&self, object: &Object) -> Option<f32> {
        match self {
            Check::All => Some(1.0),
            Check::Value(placed, test, score) => test.holds(placed, object).then_some(*score),
            Check::Words(placed, asked, least, weight) => {
                let has = terms_of(placed, object);
                let found = asked.iter().filter(|term| has.contains(term)).count();
                #[allow(clippy::cast_precision_loss)] // few words
                let score = found as f32 * weight;
                (!asked.is_empty() && found >= *least).then_some(score)
            }
            Check::Phrase(placed, asked, slop, weight) => {
                let texts = words_of(placed, object);
                let is_there = texts.iter().any(|words| has_phrase(words, asked, *slop));
                is_there.then_some(*weight)
            }
            Check::Bool(parts) => parts.score(object),
            Check::Constant(inner) => inner.score(object).map(|_| 1.0),
            Check::Best(queries, tie_breaker, weight) => {
                let scores = queries.iter().filter_map(|query| query.score(object));
                let (mut best, mut sum, mut is_there) = (0.0_f32, 0.0, false);
                for score in scores {
                    (best, sum, is_there) = (best.max(score), sum + score, true);
                }
                is_there.then_some((best + tie_breaker * (sum - best)) * weight)
            }
            Check::Inner(inner) => {
                let objects = object.get(&inner.placed.key).and_then(objects_in);
                inner.score(objects.unwrap_or_default().into_iter())
            }
        }
    }
}

/// Whether words are there, each as far from its place as the others but for so much.
fn has_phrase(words: &[(usize, Term)], asked: &[(usize, Term)], slop: usize) -> bool {
    // Each place as if the phrase began at its first word.
    let all = asked.iter().map(|(place, asked)| {
        let found = words.iter().filter(|(_, term)| term == asked);
        let begins = found.map(|(own, _)| own.cast_signed() - place.cast_signed());
        begins.collect::<Vec<isize>>()
    });
    let all: Vec<Vec<isize>> = all.collect();
    let mut begins = all.iter().flatten();
    begins.any(|low| {
        let is_near = |begin: &isize| (*low..=low + slop.cast_signed()).contains(begin);
        all.iter().all(|begins| begins.iter().any(is_near))
    })
}

impl Parts {
    fn score(&self, object: &Object) -> Option<f32> {
        let all = |checks: &[Check]| {
            let scores = checks.iter().map(|check| check.score(object));
            scores.sum::<Option<f32>>()
        };
        let must = all(&self.must)?;
        all(&self.filter)?;
        if self
            .must_not
            .iter()
            .any(|check| check.score(object).is_some())
        {
            return None;
        }
        let should = self.should.iter().filter_map(|check| check.score(object));
        let should: Vec<f32> = should.collect();
        let score = (must + should.iter().sum::<f32>()) * self.weight;
        (should.len() >= self.least).then_some(score)
    }
}
