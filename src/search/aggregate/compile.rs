//! From aggregations to a tree.
//!
//! Owns: which fields they take. Promises: what can't be computed is refused before anything runs. Must not: read a
//! row.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::Searcher;
use tantivy::query::EnableScoring;

use tideline_model::search::{
    Aggregates, FieldType, GroupKind, InvalidSearch, Measure, MeasureKind, Query, Sort, Sorter,
};
use tideline_model::{Error, Value};

use super::key::Several;
use super::values::{Source, SourceKind};
use super::{By, Dates, Key, Measuring, Node, Of, Steps, Texts, Tree};
use crate::asked::Asked;
use crate::collect::Order;
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
        let key = key(scope, &one.by)?;
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
    let made = |of| Measuring {
        of,
        asked: asked.clone(),
        of_groups: Vec::new(),
        texts: Texts::default(),
    };
    let what = match &asked.kind {
        MeasureKind::Avg => "avg agg",
        MeasureKind::Max => "max agg",
        MeasureKind::Min => "min agg",
        MeasureKind::Sum => "sum agg",
        MeasureKind::Count => "count agg",
        MeasureKind::DistinctCount => "distinct count agg",
        MeasureKind::Percentiles(_) => "percentiles agg",
        MeasureKind::TopRows { sort, .. } => {
            let by_key = || Sort {
                sorters: vec![Sorter::Key { is_desc: false }],
                keys_last: true,
            };
            let sort = sort.clone().unwrap_or_else(by_key);
            return Ok(made(Of::Rows(Order::new(scope.layout, &sort)?)));
        }
    };
    let allowed = match asked.kind {
        MeasureKind::Count | MeasureKind::DistinctCount => ANY,
        MeasureKind::Sum => NUMBERS,
        _ => NUMBERS_AND_DATES,
    };
    let source = source(scope.layout, (&asked.field, what), allowed, &asked.missing)?;
    Ok(made(Of::Values(source)))
}

#[allow(clippy::too_many_lines)] // a few lines for each kind of grouping
fn key(scope: &Scope<'_>, asked: &GroupKind) -> Result<Key, Error> {
    let of = |field: &str, what, allowed, missing: &Option<Value>| {
        source(scope.layout, (field, what), allowed, missing).map_err(Error::Search)
    };
    Ok(match asked {
        GroupKind::Field { field, .. } => Key::Values(of(field, "group by field", GROUPED, &None)?),
        GroupKind::Range { field, ranges } => Key::Ranges(
            of(field, "group by range", NUMBERS_AND_DATES, &None)?,
            ranges.clone(),
        ),
        GroupKind::Histogram {
            field,
            interval,
            offset,
            missing,
            range,
            ..
        } => Key::Steps(
            of(field, "group by histogram", NUMBERS, missing)?,
            Steps {
                interval: *interval,
                offset: *offset,
                range: *range,
            },
        ),
        GroupKind::Dates {
            field,
            steps,
            missing,
            range,
            ..
        } => {
            let source = of(field, "group by date histogram", DATES, missing)?;
            let placed = scope.layout.field(field).map_err(Error::Search)?;
            let ms = |value: &Value| match filled(placed, value).map_err(Error::Search)? {
                Value::Integer(ms) => Ok(ms),
                _ => Err(Error::Search(InvalidSearch::Value(field.clone()))),
            };
            let range = range.as_ref().map(|(from, to)| {
                let range = (ms(from)?, ms(to)?);
                Ok::<_, Error>(range)
            });
            let range = range.transpose()?;
            let steps = *steps;
            Key::Dates(source, Dates { steps, range })
        }
        GroupKind::Distance {
            field,
            origin,
            ranges,
        } => Key::Distances(
            of(field, "group by geo distance", POINTS, &None)?,
            *origin,
            ranges.clone(),
        ),
        GroupKind::Grid {
            field, precision, ..
        } => Key::Cells(of(field, "group by geo grid", POINTS, &None)?, *precision),
        GroupKind::Several { sources, after, .. } => {
            let keys = sources.iter().map(|(_, kind)| key(scope, kind));
            let keys = keys.collect::<Result<_, _>>()?;
            let several = Several::new(keys, sources, after.as_ref());
            Key::Several(several.map_err(Error::Search)?)
        }
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
const DATES: Allowed = (&[FieldType::Date], "date");
const POINTS: Allowed = (&[FieldType::GeoPoint], "geo_point");
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
        // Some SDKs send each number as a double.
        (FieldType::Long, Value::Double(_)) => {
            Value::Integer(placed.integer(value).ok_or_else(bad)?)
        }
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
