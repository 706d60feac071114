//! Aggregations and groupings, decoded.
//!
//! Owns: their messages. Promises: how many there are, and how deep, is bounded before they are looked at; each name
//! among its neighbours is there once. Must not: know which fields there are.

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::fields::count;
use super::super::proto;
use super::super::request::table::missing;
use super::parts::at_most;
use super::query::filter;
use super::refusal::within;
use super::sort::{POINTS_MAX, sort};
use super::stepped::{dates, histogram, order, value};
use tideline_model::search::{
    AGGREGATES_ALL_MAX, AGGREGATES_DEPTH_MAX, AGGREGATES_MAX, Aggregates, CELL_CHARS_MAX,
    GROUPS_MAX, GroupBy, GroupKind, InvalidSearch, Measure, MeasureKind, Point, QueryNodes,
    SORTERS_MAX, SOURCES_MAX, TOP_ROWS_MAX,
};

/// Groups of a field, if nobody says how many.
const SIZE_DEFAULT: i32 = 10;
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // it fits
const GROUPS_MAX_I32: i32 = GROUPS_MAX as i32;
/// Percents of one measure, and ranges of one grouping.
const PERCENTILES_MAX: usize = 100;
const RANGES_MAX: usize = 100;

/// What all aggregations of a search have so far.
#[derive(Default)]
struct All {
    count: usize,
    /// Of their filters.
    nodes: QueryNodes,
}

impl All {
    fn more(&mut self, count: usize) -> Result<(), Failure> {
        self.count += count;
        within("aggregations", self.count, 0, AGGREGATES_ALL_MAX)
    }
}

/// What a search computes.
pub(super) fn aggregates(
    metrics: Option<Bytes>,
    groups: Option<Bytes>,
) -> Result<Aggregates, Failure> {
    decode(metrics, groups, &mut All::default(), 1)
}

fn decode(
    metrics: Option<Bytes>,
    groups: Option<Bytes>,
    all: &mut All,
    depth: usize,
) -> Result<Aggregates, Failure> {
    let (metrics, groups) = (metrics.unwrap_or_default(), groups.unwrap_or_default());
    if metrics.is_empty() && groups.is_empty() {
        return Ok(Aggregates::default());
    }
    let counts = [count(&metrics, 1)?, count(&groups, 1)?];
    within(
        "aggregations beside each other",
        counts[0].max(counts[1]),
        0,
        AGGREGATES_MAX,
    )?;
    within("aggregations in each other", depth, 1, AGGREGATES_DEPTH_MAX)?;
    all.more(counts[0] + counts[1])?;
    let metrics = proto::Aggregations::decode(metrics)?.aggs;
    let groups = proto::GroupBys::decode(groups)?.group_bys;
    let metrics = metrics.into_iter().map(measure);
    let groups = groups.into_iter().map(|one| group(one, all, depth));
    let decoded = Aggregates {
        metrics: metrics.collect::<Result<_, _>>()?,
        groups: groups.collect::<Result<_, _>>()?,
    };
    once(decoded.metrics.iter().map(|one| &one.name))?;
    once(decoded.groups.iter().map(|one| &one.name))?;
    Ok(decoded)
}

fn once<'n>(names: impl Iterator<Item = &'n String>) -> Result<(), Failure> {
    let mut known = Vec::new();
    for name in names {
        if name.is_empty() || known.contains(&name) {
            return Err(InvalidSearch::AggregateName(name.clone()).into());
        }
        known.push(name);
    }
    Ok(())
}

fn measure(message: proto::Aggregation) -> Result<Measure, Failure> {
    let code = message.r#type.ok_or_else(missing)?;
    let kind = proto::AggregationType::try_from(code);
    let kind = kind.map_err(|_| Failure::invalid(format!("Invalid aggregation type: {code}.")))?;
    let (name, body) = (
        message.name.ok_or_else(missing)?,
        message.body.unwrap_or_default(),
    );
    let kind = match kind {
        proto::AggregationType::AggTopRows => {
            at_most("sorters", SORTERS_MAX, &body, &[2, 1])?;
            at_most("points", SORTERS_MAX * POINTS_MAX, &body, &[2, 1, 2, 2])?;
            let body = proto::TopRowsAggregation::decode(body)?;
            let limit = usize::try_from(body.limit.unwrap_or(1)).unwrap_or(0);
            within("limit of top rows", limit, 1, TOP_ROWS_MAX)?;
            let sort = body.sort.map(sort).transpose()?;
            return Ok(Measure {
                name,
                missing: None,
                field: String::new(),
                kind: MeasureKind::TopRows { limit, sort },
            });
        }
        proto::AggregationType::AggPercentiles => {
            let body = proto::PercentilesAggregation::decode(body)?;
            let field = body.field_name.ok_or_else(missing)?;
            within("percentiles", body.percentiles.len(), 1, PERCENTILES_MAX)?;
            let is_percent = |percent: &f64| (0.0..=100.0).contains(percent);
            if !body.percentiles.iter().all(is_percent) {
                return Err(InvalidSearch::Range("percentiles", 0, 100).into());
            }
            return Ok(Measure {
                name,
                missing: value(body.missing_value, &field)?,
                field,
                kind: MeasureKind::Percentiles(body.percentiles),
            });
        }
        proto::AggregationType::AggAvg => MeasureKind::Avg,
        proto::AggregationType::AggMax => MeasureKind::Max,
        proto::AggregationType::AggMin => MeasureKind::Min,
        proto::AggregationType::AggSum => MeasureKind::Sum,
        proto::AggregationType::AggCount => MeasureKind::Count,
        proto::AggregationType::AggDistinctCount => MeasureKind::DistinctCount,
    };
    let body = proto::MetricAggregation::decode(body)?;
    let field = body.field_name.ok_or_else(missing)?;
    Ok(Measure {
        name,
        missing: value(body.missing, &field)?,
        field,
        kind,
    })
}

#[allow(clippy::too_many_lines)] // a few lines for each kind of grouping
fn group(message: proto::GroupBy, all: &mut All, depth: usize) -> Result<GroupBy, Failure> {
    let code = message.r#type.ok_or_else(missing)?;
    let kind = proto::GroupByType::try_from(code);
    let kind = kind.map_err(|_| Failure::invalid(format!("Invalid group by type: {code}.")))?;
    let (name, body) = (
        message.name.ok_or_else(missing)?,
        message.body.unwrap_or_default(),
    );
    let mut inside = |metrics, groups| decode(metrics, groups, &mut *all, depth + 1);
    let (by, inner) = match kind {
        proto::GroupByType::GroupByField => {
            let body = proto::GroupByField::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let by = GroupKind::Field {
                field: body.field_name.ok_or_else(missing)?,
                size: size(body.size)?,
                order: order(body.sort, &inner)?,
            };
            (by, inner)
        }
        proto::GroupByType::GroupByRange => {
            within("ranges", count(&body, 2)?, 1, RANGES_MAX)?;
            let body = proto::GroupByRange::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let mut ranges = ranges(&body.ranges)?;
            ranges.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
            let field = body.field_name.ok_or_else(missing)?;
            (GroupKind::Range { field, ranges }, inner)
        }
        proto::GroupByType::GroupByFilter => {
            within("filters", count(&body, 1)?, 1, AGGREGATES_MAX)?;
            let body = proto::GroupByFilter::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let filters = body.filters.iter();
            let filters = filters.map(|one| filter(one, &mut all.nodes));
            (GroupKind::Filter(filters.collect::<Result<_, _>>()?), inner)
        }
        proto::GroupByType::GroupByHistogram => histogram(body, inside)?,
        proto::GroupByType::GroupByDateHistogram => dates(body, inside)?,
        proto::GroupByType::GroupByGeoDistance => {
            within("ranges", count(&body, 3)?, 1, RANGES_MAX)?;
            let body = proto::GroupByGeoDistance::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let mut ranges = ranges(&body.ranges)?;
            for (from, _) in &mut ranges {
                *from = from.max(0.0);
            }
            let by = GroupKind::Distance {
                field: body.field_name.ok_or_else(missing)?,
                origin: origin(body.origin.ok_or_else(missing)?)?,
                ranges,
            };
            (by, inner)
        }
        proto::GroupByType::GroupByGeoGrid => {
            let body = proto::GroupByGeoGrid::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let precision = u32::try_from(body.precision.ok_or_else(missing)?).unwrap_or(0);
            within("precision", precision as usize, 1, CELL_CHARS_MAX as usize)?;
            let by = GroupKind::Grid {
                field: body.field_name.ok_or_else(missing)?,
                precision,
                size: size(body.size)?,
            };
            (by, inner)
        }
        proto::GroupByType::GroupByComposite => {
            at_most("sources", SOURCES_MAX, &body, &[1, 1])?;
            let body = proto::GroupByComposite::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let sources = body.sources.ok_or_else(missing)?.group_bys;
            within("sources", sources.len(), 1, SOURCES_MAX)?;
            all.more(sources.len())?;
            let sources = sources.into_iter().map(|one| source(one, all));
            let sources = sources.collect::<Result<Vec<_>, Failure>>()?;
            once(sources.iter().map(|(name, _)| name))?;
            let suggested = body
                .suggested_size
                .map(|size| size.clamp(1, GROUPS_MAX_I32));
            let after = body.next_token.filter(|token| !token.is_empty());
            let size = size(body.size.or(suggested))?;
            let by = GroupKind::Several {
                sources,
                size,
                after,
            };
            (by, inner)
        }
    };
    Ok(GroupBy { name, by, inner })
}

/// A grouping that is done at once with others.
fn source(message: proto::GroupBy, all: &mut All) -> Result<(String, GroupKind), Failure> {
    let GroupBy { name, by, inner } = group(message, all, AGGREGATES_DEPTH_MAX)?;
    let can = matches!(
        by,
        GroupKind::Field { .. } | GroupKind::Histogram { .. } | GroupKind::Dates { .. }
    );
    match can && inner == Aggregates::default() {
        true => Ok((name, by)),
        false => {
            let what =
                "a source of a group by composite that is no field, histogram or date histogram";
            Err(InvalidSearch::Unsupported(what).into())
        }
    }
}

fn size(size: Option<i32>) -> Result<usize, Failure> {
    let size = usize::try_from(size.unwrap_or(SIZE_DEFAULT)).unwrap_or(0);
    within("size", size, 1, GROUPS_MAX)?;
    Ok(size)
}

fn ranges(messages: &[proto::GroupRange]) -> Result<Vec<(f64, f64)>, Failure> {
    let ranges = messages.iter().map(|range| {
        let (from, to) = (range.begin, range.end);
        let (from, to) = (
            from.unwrap_or(f64::NEG_INFINITY),
            to.unwrap_or(f64::INFINITY),
        );
        match from < to {
            true => Ok((from, to)),
            false => Err(Failure::invalid("A range begins below its end.")),
        }
    });
    ranges.collect()
}

fn origin(message: proto::GeoPoint) -> Result<Point, Failure> {
    let (lat, lon) = (
        message.lat.ok_or_else(missing)?,
        message.lon.ok_or_else(missing)?,
    );
    Ok(Point::parse(&format!("{lat},{lon}"))?)
}
