//! Scores by functions of a row.
//!
//! Owns: how a row's values become numbers. Promises: a row without a value has the value that its query says, or 1;
//! no score is anything but a number. Must not: change which rows match, but for those below a least score.

use std::sync::Arc;

use tantivy::columnar::{BytesColumn, Column};
use tantivy::query::{
    BoostQuery, DisjunctionMaxQuery, EnableScoring, Explanation, Query, Scorer, Weight,
};
use tantivy::{DocId, Score, SegmentReader, TantivyError};
use xxhash_rust::xxh3::xxh3_64;

use tideline_model::search::{
    Best, Combine, Decay, FieldType, Fold, Function, FunctionKind, Functions, InvalidSearch,
    Modifier, Origin, Point, StoredPoint, distance_m,
};

use super::guarded::Guarded;
use super::looked::{Look, LookedAt, Looks};
use super::{Compiled, Scope, compiled};
use crate::deadline::Deadline;
use crate::index::key_in;
use crate::index::layout::{KEY, Placed};

/// Rows of several queries, each with its best score.
pub(super) fn best(scope: &Scope<'_>, asked: &Best) -> Result<Compiled, InvalidSearch> {
    let queries = asked.queries.iter().map(|query| {
        let query = compiled(scope, query)?;
        Ok::<_, InvalidSearch>(Box::new(Guarded(query)) as Compiled)
    });
    let queries = queries.collect::<Result<_, _>>()?;
    let best = DisjunctionMaxQuery::with_tie_breaker(queries, asked.tie_breaker);
    Ok(Box::new(BoostQuery::new(Box::new(best), asked.weight)))
}

/// The rows of a query, with other scores.
pub(super) fn functions(scope: &Scope<'_>, asked: &Functions) -> Result<Compiled, InvalidSearch> {
    let query = compiled(scope, &asked.query)?;
    let functions = asked.functions.iter().map(|one| resolved(scope, one));
    Ok(Box::new(Scored {
        query,
        functions: functions.collect::<Result<_, _>>()?,
        how: How {
            fold: asked.fold,
            combine: asked.combine,
            min_score: asked.min_score,
            max_score: asked.max_score.unwrap_or(f32::MAX),
            deadline: Arc::clone(scope.deadline),
        },
    }))
}

fn resolved(scope: &Scope<'_>, asked: &Function) -> Result<Resolved, InvalidSearch> {
    let number = |name: &str, kinds: &[FieldType]| {
        let placed = scope.field(name)?;
        let is_there = kinds.contains(&placed.field.kind) && placed.field.can_sort();
        let refused = || placed.no("function score query");
        is_there.then_some(placed).ok_or_else(refused)
    };
    let kind = match &asked.kind {
        FunctionKind::One => Kind::One,
        FunctionKind::Random => Kind::Random,
        FunctionKind::Field {
            field,
            factor,
            modifier,
            missing,
        } => Kind::Field {
            column: column(number(field, &[FieldType::Long, FieldType::Double])?),
            factor: *factor,
            modifier: *modifier,
            missing: *missing,
        },
        FunctionKind::Decay(decay) => {
            let kinds: &[FieldType] = match decay.origin {
                Origin::Number(_) => &[FieldType::Long, FieldType::Double],
                Origin::Date(_) => &[FieldType::Date],
                Origin::Point(_) => &[FieldType::GeoPoint],
            };
            let placed = number(&decay.field, kinds)?;
            let from = match &decay.origin {
                Origin::Number(number) => From::Number(*number),
                Origin::Date(date) => From::Number(placed.ms(date)?),
                Origin::Point(point) => From::Point(*point),
            };
            Kind::Decay(column(placed), from, decay.clone())
        }
    };
    let filter = asked.filter.as_ref().map(|filter| compiled(scope, filter));
    Ok(Resolved {
        kind,
        filter: filter.transpose()?,
        weight: asked.weight,
    })
}

fn column(placed: &Placed) -> (String, FieldType) {
    (placed.name.clone(), placed.field.kind)
}

/// A function, resolved.
#[derive(Debug)]
struct Resolved {
    kind: Kind,
    filter: Option<Compiled>,
    weight: f32,
}

impl Clone for Resolved {
    fn clone(&self) -> Resolved {
        Resolved {
            kind: self.kind.clone(),
            filter: self.filter.as_ref().map(|filter| filter.box_clone()),
            weight: self.weight,
        }
    }
}

#[derive(Clone, Debug)]
enum Kind {
    One,
    Random,
    Field {
        column: (String, FieldType),
        factor: f64,
        modifier: Modifier,
        missing: Option<f64>,
    },
    Decay((String, FieldType), From, Decay),
}

#[derive(Clone, Copy, Debug)]
enum From {
    Number(f64),
    Point(Point),
}

#[derive(Clone, Debug)]
struct How {
    fold: Fold,
    combine: Combine,
    min_score: Option<f32>,
    max_score: f32,
    deadline: Arc<Deadline>,
}

#[derive(Debug)]
struct Scored {
    query: Compiled,
    functions: Vec<Resolved>,
    how: How,
}

impl Clone for Scored {
    fn clone(&self) -> Scored {
        Scored {
            query: self.query.box_clone(),
            functions: self.functions.clone(),
            how: self.how.clone(),
        }
    }
}

impl Query for Scored {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let searcher = scoring.searcher().ok_or_else(|| {
            let what = "scores are of a whole index";
            TantivyError::InvalidArgument(what.to_owned())
        })?;
        let scores = scoring.is_scoring_enabled() || self.how.min_score.is_some();
        let of_query = match scores {
            true => EnableScoring::enabled_from_searcher(searcher),
            false => EnableScoring::disabled_from_searcher(searcher),
        };
        let functions = self.functions.iter().map(|one| {
            let filter = one.filter.as_ref();
            let unscored = EnableScoring::disabled_from_searcher(searcher);
            let filter = filter.map(|filter| filter.weight(unscored)).transpose()?;
            Ok::<_, TantivyError>((one.kind.clone(), filter, one.weight))
        });
        Ok(Box::new(ScoredWeight {
            rows: self.query.weight(of_query)?,
            functions: functions.collect::<Result<_, _>>()?,
            how: self.how.clone(),
            scores,
        }))
    }
}

struct ScoredWeight {
    rows: Box<dyn Weight>,
    functions: Vec<(Kind, Option<Box<dyn Weight>>, f32)>,
    how: How,
    scores: bool,
}

impl Weight for ScoredWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let functions = self.functions.iter().map(|(kind, filter, weight)| {
            let filter = filter.as_ref().map(|filter| filter.scorer(segment, 1.0));
            Ok::<_, TantivyError>(OfSegment {
                values: Values::new(kind, segment)?,
                kind: kind.clone(),
                filter: filter.transpose()?,
                weight: *weight,
            })
        });
        let rows = self.rows.scorer(segment, 1.0)?;
        let looks = Scores {
            functions: functions.collect::<Result<_, _>>()?,
            how: self.how.clone(),
            looks: self.scores,
        };
        Ok(Box::new(LookedAt::new(rows, looks, boost)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        let what = "a function is not explained";
        Err(TantivyError::InvalidArgument(what.to_owned()))
    }
}

enum Values {
    None,
    Keys(Option<BytesColumn>),
    Integers(Column<i64>),
    Doubles(Column<f64>),
    Points(Column<u64>),
}

impl Values {
    fn new(kind: &Kind, segment: &SegmentReader) -> tantivy::Result<Values> {
        let columns = segment.fast_fields();
        let (name, kind) = match kind {
            Kind::One => return Ok(Values::None),
            Kind::Random => return Ok(Values::Keys(columns.bytes(KEY)?)),
            Kind::Field { column, .. } | Kind::Decay(column, ..) => column,
        };
        Ok(match kind {
            FieldType::Double => Values::Doubles(columns.f64(name)?),
            FieldType::GeoPoint => Values::Points(columns.u64(name)?),
            _ => Values::Integers(columns.i64(name)?),
        })
    }

    #[allow(clippy::cast_precision_loss)] // scores are no more exact
    fn numbers(&self, row: DocId) -> Vec<f64> {
        match self {
            Values::Integers(column) => {
                let numbers = column.values_for_doc(row);
                numbers.map(|number| number as f64).collect()
            }
            Values::Doubles(column) => column.values_for_doc(row).collect(),
            Values::None | Values::Keys(_) | Values::Points(_) => Vec::new(),
        }
    }

    fn distances(&self, row: DocId, from: From) -> Vec<f64> {
        match (self, from) {
            (Values::Points(column), From::Point(point)) => {
                let points = column.values_for_doc(row);
                let far = points.map(|steps| distance_m(point, StoredPoint(steps).into()));
                far.collect()
            }
            (_, From::Number(origin)) => {
                let numbers = self.numbers(row).into_iter();
                numbers.map(|number| (number - origin).abs()).collect()
            }
            (_, From::Point(_)) => Vec::new(),
        }
    }
}

/// A function in one segment.
struct OfSegment {
    kind: Kind,
    values: Values,
    filter: Option<Box<dyn Scorer>>,
    weight: f32,
}

impl OfSegment {
    /// The value of a row and its weight; `None` = it is not for this row. Rows come in their order.
    fn of(&mut self, row: DocId) -> Option<(f64, f64)> {
        if let Some(filter) = &mut self.filter {
            if filter.doc() < row {
                filter.seek(row);
            }
            if filter.doc() != row {
                return None;
            }
        }
        let value = match &self.kind {
            Kind::One => 1.0,
            Kind::Random => self.random(row),
            Kind::Field {
                factor,
                modifier,
                missing,
                ..
            } => {
                let number = self.values.numbers(row).first().copied().or(*missing);
                number.map_or(1.0, |number| modifier.of(factor * number))
            }
            Kind::Decay(_, from, decay) => {
                let distances = self.values.distances(row, *from).into_iter();
                let distance = decay.of_many.of(distances.map(|distance| (distance, 1.0)));
                distance.map_or(1.0, |distance| decay.at(distance))
            }
        };
        Some((value, f64::from(self.weight)))
    }

    #[allow(clippy::cast_precision_loss)] // fewer bits do
    fn random(&self, row: DocId) -> f64 {
        let Values::Keys(Some(keys)) = &self.values else {
            return 0.0;
        };
        let key = key_in(keys, row).unwrap_or_default();
        (xxh3_64(&key) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Looks at what functions make of rows.
struct Scores {
    functions: Vec<OfSegment>,
    how: How,
    /// Whether rows are looked at; else all match, and have no scores.
    looks: bool,
}

impl Looks for Scores {
    #[allow(clippy::cast_possible_truncation)] // scores are no more exact
    fn look(&mut self, rows: &mut dyn Scorer) -> Option<Look> {
        if !self.looks {
            return None;
        }
        if self.how.deadline.is_over() {
            return Some(Look::End);
        }
        let row = rows.doc();
        let values = self.functions.iter_mut().filter_map(|one| one.of(row));
        // What no function is for keeps its score.
        let value = self.how.fold.of(values).unwrap_or(1.0);
        let value = value.min(f64::from(self.how.max_score));
        let score = self.how.combine.of(f64::from(rows.score()), value);
        let score = if score.is_nan() { 0.0 } else { score };
        let score = score.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
        let is_enough = self.how.min_score.is_none_or(|least| score >= least);
        Some(if is_enough {
            Look::Is(score)
        } else {
            Look::IsNot
        })
    }
}
