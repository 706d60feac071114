//! Groupings by steps, of numbers and of the calendar, and orders of groups, decoded.
//!
//! Owns: their messages, and values of fields. Promises: a range that is asked for has no more steps than may be
//! returned. Must not: know which fields there are.

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::plainbuffer::{Variant, decode_variant};
use super::super::proto;
use super::super::request::table::missing;
use super::parts::unit_ms;
use super::refusal::within;
use tideline_model::Value;
use tideline_model::search::{
    Aggregates, DateSteps, DateUnit, GROUPS_MAX, GroupKind, GroupOrder, GroupOrderBy,
    InvalidSearch, Measure, MeasureKind, zone_ms,
};

/// Parts of an order.
const ORDERS_MAX: usize = 10;

/// Decodes what is computed of each group.
type Inner = Result<Aggregates, Failure>;

pub(super) fn histogram(
    body: Bytes,
    mut inside: impl FnMut(Option<Bytes>, Option<Bytes>) -> Inner,
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
            #[allow(clippy::cast_precision_loss)] // it is small
            if !(from <= to && (to - from) / interval <= GROUPS_MAX as f64) {
                let what = "steps of a histogram";
                return Err(InvalidSearch::Range(what, 0, GROUPS_MAX).into());
            }
            Some((from, to))
        }
    };
    let by = GroupKind::Histogram {
        interval,
        offset: number(body.offset, &field)?.unwrap_or(0.0),
        missing: value(body.missing_value, &field)?,
        least: least(body.min_doc_count)?,
        range,
        order: order(body.sort, &inner)?,
        field,
    };
    Ok((by, inner))
}

pub(super) fn dates(
    body: Bytes,
    mut inside: impl FnMut(Option<Bytes>, Option<Bytes>) -> Inner,
) -> Result<(GroupKind, Aggregates), Failure> {
    let body = proto::GroupByDateHistogram::decode(body)?;
    let inner = inside(body.sub_aggs, body.sub_group_bys)?;
    let field = body.field_name.ok_or_else(missing)?;
    let interval = body.interval.ok_or_else(missing)?;
    let count = i64::from(interval.value.unwrap_or(1));
    if count < 1 {
        return Err(Failure::invalid("The interval must be above 0."));
    }
    interval.unit.ok_or_else(missing)?;
    let (unit, count) = match interval.unit() {
        proto::DateTimeUnit::Year => (DateUnit::Month, 12 * count),
        proto::DateTimeUnit::QuarterYear => (DateUnit::Month, 3 * count),
        proto::DateTimeUnit::Month => (DateUnit::Month, count),
        proto::DateTimeUnit::Week => (DateUnit::Week, count),
        shorter => (DateUnit::Fixed(unit_ms(shorter)?), count),
    };
    let zone_ms = match body.time_zone.filter(|zone| !zone.is_empty()) {
        None => 0,
        Some(zone) => zone_ms(&zone)
            .ok_or_else(|| Failure::invalid("The time zone is as +08:00, -05:30 or Z."))?,
    };
    let offset_ms = match body.offset {
        None => 0,
        Some(offset) => {
            offset.unit.ok_or_else(missing)?;
            i64::from(offset.value.unwrap_or(0)) * unit_ms(offset.unit())?
        }
    };
    let bound = |bytes| value(bytes, &field)?.ok_or_else(missing);
    let range = body.field_range.map(|range| {
        let range = (bound(range.min)?, bound(range.max)?);
        Ok::<(Value, Value), Failure>(range)
    });
    let by = GroupKind::Dates {
        steps: DateSteps {
            unit,
            count,
            zone_ms,
            offset_ms,
        },
        missing: value(body.missing, &field)?,
        least: least(body.min_doc_count)?,
        range: range.transpose()?,
        order: order(body.sort, &inner)?,
        field,
    };
    Ok((by, inner))
}

fn least(count: Option<i64>) -> Result<u64, Failure> {
    let count = u64::try_from(count.unwrap_or(1));
    Ok(count.map_err(|_| InvalidSearch::Range("min_doc_count", 0, usize::MAX))?)
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

pub(super) fn order(
    sort: Option<proto::GroupBySort>,
    inner: &Aggregates,
) -> Result<Vec<GroupOrder>, Failure> {
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
            let has_number = |one: &Measure| {
                !matches!(
                    one.kind,
                    MeasureKind::Percentiles(_) | MeasureKind::TopRows { .. }
                )
            };
            if !measure.is_some_and(has_number) {
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

pub(super) fn value(bytes: Option<Bytes>, field: &str) -> Result<Option<Value>, Failure> {
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
