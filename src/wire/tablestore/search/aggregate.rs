//! Aggregations and groupings, decoded.
//!
//! Owns: their messages. Promises: how many there are, and how deep, is bounded before they are looked at; each name
//! among its neighbours is there once. Must not: know which fields there are.

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::fields::count;
use super::super::plainbuffer::{Variant, decode_variant};
use super::super::proto;
use super::super::request::table::missing;
use super::query::query;
use super::refusal::within;
use tideline_model::Value;
use tideline_model::search::{
    AGGREGATES_ALL_MAX, AGGREGATES_DEPTH_MAX, AGGREGATES_MAX, Aggregates, GROUPS_MAX, GroupBy,
    GroupKind, GroupOrder, GroupOrderBy, InvalidSearch, Measure, MeasureKind,
};

/// Groups of a field, if nobody says how many.
const SIZE_DEFAULT: i32 = 10;
/// Percents of one measure, ranges of one grouping, and parts of an order.
const PERCENTILES_MAX: usize = 100;
const RANGES_MAX: usize = 100;
const ORDERS_MAX: usize = 10;

/// What a search computes.
pub(super) fn aggregates(
    metrics: Option<Bytes>,
    groups: Option<Bytes>,
) -> Result<Aggregates, Failure> {
    decode(metrics, groups, &mut 0, 1)
}

fn decode(
    metrics: Option<Bytes>,
    groups: Option<Bytes>,
    all: &mut usize,
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
    *all += counts[0] + counts[1];
    within("aggregations", *all, 0, AGGREGATES_ALL_MAX)?;
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
            return Err(InvalidSearch::Unsupported("aggregation AGG_TOP_ROWS").into());
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

fn group(message: proto::GroupBy, all: &mut usize, depth: usize) -> Result<GroupBy, Failure> {
    let code = message.r#type.ok_or_else(missing)?;
    let kind = proto::GroupByType::try_from(code);
    let kind = kind.map_err(|_| Failure::invalid(format!("Invalid group by type: {code}.")))?;
    let (name, body) = (
        message.name.ok_or_else(missing)?,
        message.body.unwrap_or_default(),
    );
    let unsupported = |what| Err(InvalidSearch::Unsupported(what).into());
    let mut inside = |metrics, groups| decode(metrics, groups, all, depth + 1);
    let (by, inner) = match kind {
        proto::GroupByType::GroupByField => {
            let body = proto::GroupByField::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let size = usize::try_from(body.size.unwrap_or(SIZE_DEFAULT)).unwrap_or(0);
            within("size", size, 1, GROUPS_MAX)?;
            let by = GroupKind::Field {
                field: body.field_name.ok_or_else(missing)?,
                size,
                order: order(body.sort, &inner)?,
            };
            (by, inner)
        }
        proto::GroupByType::GroupByRange => {
            within("ranges", count(&body, 2)?, 1, RANGES_MAX)?;
            let body = proto::GroupByRange::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let ranges = body.ranges.iter().map(|range| {
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
            let mut ranges = ranges.collect::<Result<Vec<_>, _>>()?;
            ranges.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
            let field = body.field_name.ok_or_else(missing)?;
            (GroupKind::Range { field, ranges }, inner)
        }
        proto::GroupByType::GroupByFilter => {
            within("filters", count(&body, 1)?, 1, AGGREGATES_MAX)?;
            let body = proto::GroupByFilter::decode(body)?;
            let inner = inside(body.sub_aggs, body.sub_group_bys)?;
            let filters = body.filters.iter().map(query);
            (GroupKind::Filter(filters.collect::<Result<_, _>>()?), inner)
        }
        proto::GroupByType::GroupByHistogram => histogram(body, inside)?,
        proto::GroupByType::GroupByGeoDistance => {
            return unsupported("group by GROUP_BY_GEO_DISTANCE");
        }
        proto::GroupByType::GroupByDateHistogram => {
            return unsupported("group by GROUP_BY_DATE_HISTOGRAM");
        }
        proto::GroupByType::GroupByGeoGrid => return unsupported("group by GROUP_BY_GEO_GRID"),
        proto::GroupByType::GroupByComposite => return unsupported("group by GROUP_BY_COMPOSITE"),
    };
    Ok(GroupBy { name, by, inner })
}

fn histogram(
    body: Bytes,
    mut inside: impl FnMut(Option<Bytes>, Option<Bytes>) -> Result<Aggregates, Failure>,
) -> Result<(GroupKind, Aggregates), Failure> {
    let body = proto::GroupByHistogram::decode(body)?;
    let inner = inside(body.sub_aggs, body.sub_group_bys)?;
    let field = body.field_name.ok_or_else(missing)?;
    let bad = || Failure::from(InvalidSearch::Value(field.clone()));
    let interval = number(body.interval, &field)?.ok_or_else(missing)?;
    if !(interval > 0.0 && interval.is_finite()) {
        return Err(Failure::invalid("The interval must be above 0."));
    }
    let range = match body.field_range {
        None => None,
        Some(range) => {
            let from = number(range.min, &field)?.ok_or_else(bad)?;
            let to = number(range.max, &field)?.ok_or_else(bad)?;
            if !(from <= to && (to - from) / interval <= GROUPS_MAX as f64) {
                let what = "steps of a histogram";
                return Err(InvalidSearch::Range(what, 0, GROUPS_MAX).into());
            }
            Some((from, to))
        }
    };
    let least = body.min_doc_count.unwrap_or(1);
    let by = GroupKind::Histogram {
        interval,
        missing: value(body.missing_value, &field)?,
        least: u64::try_from(least)
            .map_err(|_| InvalidSearch::Range("min_doc_count", 0, usize::MAX))?,
        range,
        order: order(body.sort, &inner)?,
        field,
    };
    Ok((by, inner))
}

fn order(sort: Option<proto::GroupBySort>, inner: &Aggregates) -> Result<Vec<GroupOrder>, Failure> {
    let sorters = sort.unwrap_or_default().sorters;
    within("sorters", sorters.len(), 0, ORDERS_MAX)?;
    let orders = sorters.into_iter().map(|sorter| {
        let (by, order) = if let Some(by) = &sorter.group_key_sort {
            (GroupOrderBy::Key, by.order())
        } else if let Some(by) = &sorter.row_count_sort {
            (GroupOrderBy::Rows, by.order())
        } else {
            let by = sorter.sub_agg_sort.ok_or_else(missing)?;
            let order = by.order();
            let name = by.sub_agg_name.ok_or_else(missing)?;
            let mut metrics = inner.metrics.iter();
            let measure = metrics.find(|one| one.name == name);
            if measure.is_none_or(|one| matches!(one.kind, MeasureKind::Percentiles(_))) {
                return Err(InvalidSearch::AggregateName(name).into());
            }
            (GroupOrderBy::Metric(name), order)
        };
        Ok(GroupOrder {
            by,
            is_desc: order == proto::SortOrder::Desc,
        })
    });
    orders.collect()
}

fn value(bytes: Option<Bytes>, field: &str) -> Result<Option<Value>, Failure> {
    let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
        return Ok(None);
    };
    Ok(Some(match decode_variant(&bytes, field)? {
        Variant::Integer(number) => Value::Integer(number),
        Variant::Double(number) if number.is_finite() => Value::Double(number),
        Variant::Boolean(flag) => Value::Boolean(flag),
        Variant::String(text) => Value::String(text),
        _ => return Err(InvalidSearch::Value(field.to_owned()).into()),
    }))
}

#[allow(clippy::cast_precision_loss)] // steps of doubles
fn number(bytes: Option<Bytes>, field: &str) -> Result<Option<f64>, Failure> {
    Ok(match value(bytes, field)? {
        None => None,
        Some(Value::Integer(number)) => Some(number as f64),
        Some(Value::Double(number)) => Some(number),
        Some(_) => return Err(InvalidSearch::Value(field.to_owned()).into()),
    })
}
