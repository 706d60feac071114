//! From aggregations to a tree.
//!
//! Owns: which fields they take. Promises: what can't be computed is refused before anything runs. Must not: read a
//! row.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::Searcher;
use tantivy::query::EnableScoring;

use tideline_model::search::{
    Aggregates, FieldType, GroupBy, GroupKind, InvalidSearch, Measure, MeasureKind, Query,
};
use tideline_model::{Error, Value};

use super::part::{Source, SourceKind};
use super::{By, Key, Measuring, Node, Steps, Texts, Tree};
use crate::asked::Asked;
use crate::index::layout::{Layout, Placed};
use crate::query::compile;

/// What aggregations are resolved for.
struct Scope<'s> {
    layout: &'s Layout,
    asked: &'s Arc<Asked>,
    searcher: &'s Searcher,
}

impl Tree {
    /// The tree of a search; `None` = it computes nothing.
    pub(crate) fn new(
        layout: &Layout,
        of: &Arc<Asked>,
        searcher: &Searcher,
        asked: &Aggregates,
    ) -> Result<Option<Tree>, Error> {
        if *asked == Aggregates::default() {
            return Ok(None);
        }
        let scope = Scope {
            layout,
            asked: of,
            searcher,
        };
        let mut root = node(&scope, None, asked)?;
        root.add(0);
        Ok(Some(Tree { root, groups: 0 }))
    }
}

fn node(scope: &Scope<'_>, by: Option<By>, asked: &Aggregates) -> Result<Node, Error> {
    let measures = asked.metrics.iter().map(|one| measuring(scope, one));
    let inner = asked.groups.iter().map(|one| {
        let key = key(scope, one)?;
        let by = By {
            asked: one.clone(),
            key,
        };
        node(scope, Some(by), &one.inner)
    });
    Ok(Node {
        by,
        found: HashMap::new(),
        inside: HashMap::new(),
        groups: Vec::new(),
        measures: measures
            .collect::<Result<_, InvalidSearch>>()
            .map_err(Error::Search)?,
        inner: inner.collect::<Result<_, _>>()?,
        texts: Texts::default(),
    })
}

fn measuring(scope: &Scope<'_>, asked: &Measure) -> Result<Measuring, InvalidSearch> {
    let what = match asked.kind {
        MeasureKind::Avg => "avg agg",
        MeasureKind::Max => "max agg",
        MeasureKind::Min => "min agg",
        MeasureKind::Sum => "sum agg",
        MeasureKind::Count => "count agg",
        MeasureKind::DistinctCount => "distinct count agg",
        MeasureKind::Percentiles(_) => "percentiles agg",
    };
    let allowed = match asked.kind {
        MeasureKind::Count | MeasureKind::DistinctCount => ANY,
        MeasureKind::Sum => NUMBERS,
        _ => NUMBERS_AND_DATES,
    };
    Ok(Measuring {
        source: source(scope.layout, (&asked.field, what), allowed, &asked.missing)?,
        asked: asked.clone(),
        of_groups: Vec::new(),
        texts: Texts::default(),
    })
}

fn key(scope: &Scope<'_>, asked: &GroupBy) -> Result<Key, Error> {
    let of = |field: &str, what, allowed, missing: &Option<Value>| {
        source(scope.layout, (field, what), allowed, missing).map_err(Error::Search)
    };
    Ok(match &asked.by {
        GroupKind::Field { field, .. } => Key::Values(of(field, "group by field", GROUPED, &None)?),
        GroupKind::Range { field, ranges } => Key::Ranges(
            of(field, "group by range", NUMBERS_AND_DATES, &None)?,
            ranges.clone(),
        ),
        GroupKind::Histogram {
            field,
            interval,
            missing,
            range,
            ..
        } => Key::Steps(
            of(field, "group by histogram", NUMBERS, missing)?,
            Steps {
                interval: *interval,
                range: *range,
            },
        ),
        GroupKind::Filter(filters) => {
            let weight = |filter: &Query| {
                let compiled = compile(scope.layout, scope.asked, filter);
                let compiled = compiled.map_err(Error::Search)?;
                let scoring = EnableScoring::disabled_from_searcher(scope.searcher);
                let weight = compiled.weight(scoring);
                weight.map_err(|error| Error::Unavailable(format!("a search failed: {error}")))
            };
            Key::Filters(filters.iter().map(weight).collect::<Result<_, _>>()?)
        }
    })
}

/// The types that go, as refusals name them.
type Allowed = (&'static [FieldType], &'static str);

const NUMBERS: Allowed = (&[FieldType::Long, FieldType::Double], "long, double");
const NUMBERS_AND_DATES: Allowed = (
    &[FieldType::Long, FieldType::Double, FieldType::Date],
    "long, double, date",
);
const GROUPED: Allowed = (
    &[
        FieldType::Long,
        FieldType::Double,
        FieldType::Date,
        FieldType::Boolean,
        FieldType::Keyword,
        FieldType::FuzzyKeyword,
    ],
    "long, double, date, boolean, keyword",
);
const ANY: Allowed = (
    &[
        FieldType::Long,
        FieldType::Double,
        FieldType::Date,
        FieldType::Boolean,
        FieldType::Keyword,
        FieldType::FuzzyKeyword,
        FieldType::GeoPoint,
    ],
    "long, double, date, boolean, keyword, geo_point",
);

fn source(
    layout: &Layout,
    (field, what): (&str, &'static str),
    (allowed, names): Allowed,
    missing: &Option<Value>,
) -> Result<Source, InvalidSearch> {
    let placed = layout.field(field);
    let placed = placed.map_err(|_| InvalidSearch::AggregateField(what, field.to_owned()))?;
    let kind = placed.field.kind;
    if !allowed.contains(&kind) {
        let field = field.to_owned();
        return Err(InvalidSearch::AggregateKind(
            what,
            field,
            kind.name(),
            names,
        ));
    }
    if !placed.field.can_sort() {
        return Err(placed.no(what));
    }
    let missing = missing.as_ref().map(|value| filled(placed, value));
    Ok(Source {
        column: placed.name.clone(),
        kind: match kind {
            FieldType::Long | FieldType::Date => SourceKind::Integer,
            FieldType::Double => SourceKind::Double,
            FieldType::Boolean => SourceKind::Boolean,
            FieldType::GeoPoint => SourceKind::Point,
            _ => SourceKind::Text,
        },
        missing: missing.transpose()?,
    })
}

/// What rows without a value count as, as the field has values.
#[allow(clippy::cast_precision_loss)] // as comparing them does
fn filled(placed: &Placed, value: &Value) -> Result<Value, InvalidSearch> {
    let bad = || InvalidSearch::Value(placed.field.name.clone());
    Ok(match (placed.field.kind, value) {
        (FieldType::Long, Value::Integer(_))
        | (FieldType::Double, Value::Double(_))
        | (FieldType::Boolean, Value::Boolean(_)) => value.clone(),
        (FieldType::Double, Value::Integer(number)) => Value::Double(*number as f64),
        (FieldType::Date, Value::Integer(number)) => {
            Value::Integer(placed.formats.of_integer(*number).ok_or_else(bad)?)
        }
        (FieldType::Date, Value::String(text)) => {
            Value::Integer(placed.formats.read(text).ok_or_else(bad)?)
        }
        (kind, Value::String(_)) if kind.is_keyword() => value.clone(),
        _ => return Err(bad()),
    })
}
