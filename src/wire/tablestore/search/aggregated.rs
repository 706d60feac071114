//! What was computed of all rows that match, encoded.
//!
//! Owns: the messages of results. Must not: compute one.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::super::plainbuffer::{Variant, encode_variant};
use super::super::proto;
use tideline_model::Value;
use tideline_model::search::{
    Aggregated, Group, GroupForm, GroupKey, MeasureKind, Measured, Point,
};

/// Rows by their encoded keys.
pub(super) type Rows = BTreeMap<Vec<u8>, Bytes>;

/// The two lists of results; `None` = nothing of the kind was asked for.
pub(super) fn aggregated(
    of: &Aggregated,
    rows: &Rows,
) -> (
    Option<proto::AggregationsResult>,
    Option<proto::GroupBysResult>,
) {
    let metrics = of.metrics.iter().map(|(name, kind, result)| {
        let (kind, result) = measured(kind, result, rows);
        proto::AggregationResult {
            name: Some(name.clone()),
            r#type: Some(kind.into()),
            agg_result: Some(result.into()),
        }
    });
    let groups = of.groups.iter().map(|(name, kind, groups)| {
        let (kind, result) = grouped(groups, kind, rows);
        proto::GroupByResult {
            name: Some(name.clone()),
            r#type: Some(kind.into()),
            group_by_result: Some(result.into()),
        }
    });
    let metrics = proto::AggregationsResult {
        agg_results: metrics.collect(),
    };
    let groups = proto::GroupBysResult {
        group_by_results: groups.collect(),
    };
    (
        (!metrics.agg_results.is_empty()).then_some(metrics),
        (!groups.group_by_results.is_empty()).then_some(groups),
    )
}

fn measured(
    kind: &MeasureKind,
    result: &Measured,
    rows: &Rows,
) -> (proto::AggregationType, Vec<u8>) {
    let kind = match kind {
        MeasureKind::Avg => proto::AggregationType::AggAvg,
        MeasureKind::Max => proto::AggregationType::AggMax,
        MeasureKind::Min => proto::AggregationType::AggMin,
        MeasureKind::Sum => proto::AggregationType::AggSum,
        MeasureKind::Count => proto::AggregationType::AggCount,
        MeasureKind::DistinctCount => proto::AggregationType::AggDistinctCount,
        MeasureKind::Percentiles(_) => proto::AggregationType::AggPercentiles,
        MeasureKind::TopRows { .. } => proto::AggregationType::AggTopRows,
    };
    let result = match result {
        Measured::Nothing => proto::DoubleResult::default().encode_to_vec(),
        Measured::Number(number) => proto::DoubleResult {
            value: Some(*number),
        }
        .encode_to_vec(),
        Measured::Count(count) => proto::CountResult {
            value: Some(whole(*count)),
        }
        .encode_to_vec(),
        Measured::Rows(keys) => {
            // Those that are gone by now are left out.
            let found = keys.iter().filter_map(|key| rows.get(key));
            proto::TopRowsAggregationResult {
                rows: found.cloned().collect(),
            }
            .encode_to_vec()
        }
        Measured::Percentiles(items) => {
            let items = items.iter().map(|(percent, value)| proto::PercentilesItem {
                key: Some(*percent),
                value: Some(encode_variant(&variant(value))),
            });
            proto::PercentilesResult {
                percentiles_aggregation_items: items.collect(),
            }
            .encode_to_vec()
        }
    };
    (kind, result)
}

#[allow(clippy::too_many_lines)] // a message for each form
fn grouped(groups: &[Group], form: &GroupForm, rows: &Rows) -> (proto::GroupByType, Vec<u8>) {
    // What all messages of groups have.
    let parts = |group: &Group| {
        let (aggs, group_bys) = aggregated(&group.inner, rows);
        (Some(whole(group.rows)), aggs, group_bys)
    };
    macro_rules! encoded {
        ($result:ident { $items:ident }, |$group:ident| $item:ident { $($field:ident: $value:expr),* }) => {{
            let items = groups.iter().map(|$group| {
                let (row_count, sub_aggs_result, sub_group_bys_result) = parts($group);
                proto::$item { $($field: $value,)* row_count, sub_aggs_result, sub_group_bys_result }
            });
            proto::$result { $items: items.collect() }.encode_to_vec()
        }};
    }
    match form {
        GroupForm::Field => (
            proto::GroupByType::GroupByField,
            encoded!(
                GroupByFieldResult {
                    group_by_field_result_items
                },
                |group| GroupByFieldResultItem {
                    key: text(&group.key)
                }
            ),
        ),
        GroupForm::Range => (
            proto::GroupByType::GroupByRange,
            encoded!(
                GroupByRangeResult {
                    group_by_range_result_items
                },
                |group| GroupByRangeResultItem {
                    range_from: range(&group.key).0,
                    range_to: range(&group.key).1
                }
            ),
        ),
        GroupForm::Distance => (
            proto::GroupByType::GroupByGeoDistance,
            encoded!(
                GroupByGeoDistanceResult {
                    group_by_geo_distance_result_items
                },
                |group| GroupByGeoDistanceResultItem {
                    range_from: range(&group.key).0,
                    range_to: range(&group.key).1
                }
            ),
        ),
        GroupForm::Grid => (
            proto::GroupByType::GroupByGeoGrid,
            encoded!(
                GroupByGeoGridResult {
                    group_by_geo_grid_result_items
                },
                |group| GroupByGeoGridResultItem {
                    key: text(&group.key),
                    geo_grid: grid(&group.key)
                }
            ),
        ),
        GroupForm::Filter => (
            proto::GroupByType::GroupByFilter,
            encoded!(
                GroupByFilterResult {
                    group_by_filter_result_items
                },
                |group| GroupByFilterResultItem {}
            ),
        ),
        GroupForm::Dates => (
            proto::GroupByType::GroupByDateHistogram,
            encoded!(
                GroupByDateHistogramResult {
                    group_by_date_histogram_items
                },
                |group| GroupByDateHistogramItem {
                    timestamp: time(&group.key)
                }
            ),
        ),
        GroupForm::Histogram => {
            let items = groups.iter().map(|group| {
                let (value, sub_aggs_result, sub_group_bys_result) = parts(group);
                let key = match &group.key {
                    GroupKey::Step(value) => Some(encode_variant(&variant(value))),
                    _ => None,
                };
                proto::GroupByHistogramItem {
                    key,
                    value,
                    sub_aggs_result,
                    sub_group_bys_result,
                }
            });
            let result = proto::GroupByHistogramResult {
                group_by_histogra_items: items.collect(),
            };
            (proto::GroupByType::GroupByHistogram, result.encode_to_vec())
        }
        GroupForm::Several { names, next } => {
            let items = groups.iter().map(|group| {
                let (row_count, sub_aggs_result, sub_group_bys_result) = parts(group);
                let keys = match &group.key {
                    GroupKey::Several(keys) => &keys[..],
                    _ => &[],
                };
                proto::GroupByCompositeResultItem {
                    keys: keys
                        .iter()
                        .map(|key| key.clone().unwrap_or_default())
                        .collect(),
                    is_null_keys: keys.iter().map(Option::is_none).collect(),
                    row_count,
                    sub_aggs_result,
                    sub_group_bys_result,
                }
            });
            let result = proto::GroupByCompositeResult {
                group_by_composite_result_items: items.collect(),
                source_group_by_names: names.clone(),
                next_token: next.clone(),
            };
            (proto::GroupByType::GroupByComposite, result.encode_to_vec())
        }
    }
}

fn text(key: &GroupKey) -> Option<String> {
    match key {
        GroupKey::Text(text) | GroupKey::Cell(text, ..) => Some(text.clone()),
        _ => None,
    }
}

fn range(key: &GroupKey) -> (Option<f64>, Option<f64>) {
    match key {
        GroupKey::Range(from, to) => (Some(*from), Some(*to)),
        _ => (None, None),
    }
}

fn grid(key: &GroupKey) -> Option<proto::GeoGrid> {
    let point = |point: &Point| proto::GeoPoint {
        lat: Some(point.lat),
        lon: Some(point.lon),
    };
    match key {
        GroupKey::Cell(_, top_left, bottom_right) => Some(proto::GeoGrid {
            top_left: Some(point(top_left)),
            bottom_right: Some(point(bottom_right)),
        }),
        _ => None,
    }
}

fn time(key: &GroupKey) -> Option<i64> {
    match key {
        GroupKey::Time(ms) => Some(*ms),
        _ => None,
    }
}

fn variant(value: &Value) -> Variant {
    match value {
        Value::Integer(number) => Variant::Integer(*number),
        Value::Double(number) => Variant::Double(*number),
        Value::Boolean(flag) => Variant::Boolean(*flag),
        Value::String(text) => Variant::String(text.clone()),
        _ => Variant::InfMin,
    }
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
