//! What was computed of all rows that match, encoded.
//!
//! Owns: the messages of results. Must not: compute one.

use prost::Message;

use super::super::plainbuffer::{Variant, encode_variant};
use super::super::proto;
use tideline_model::Value;
use tideline_model::search::{Aggregated, Group, GroupForm, GroupKey, MeasureKind, Measured};

/// The two lists of results; `None` = nothing of the kind was asked for.
pub(super) fn aggregated(
    of: &Aggregated,
) -> (
    Option<proto::AggregationsResult>,
    Option<proto::GroupBysResult>,
) {
    let metrics = of.metrics.iter().map(|(name, kind, result)| {
        let (kind, result) = measured(kind, result);
        proto::AggregationResult {
            name: Some(name.clone()),
            r#type: Some(kind.into()),
            agg_result: Some(result.into()),
        }
    });
    let groups = of.groups.iter().map(|(name, kind, groups)| {
        let (kind, result) = grouped(groups, kind);
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

fn measured(kind: &MeasureKind, result: &Measured) -> (proto::AggregationType, Vec<u8>) {
    let kind = match kind {
        MeasureKind::Avg => proto::AggregationType::AggAvg,
        MeasureKind::Max => proto::AggregationType::AggMax,
        MeasureKind::Min => proto::AggregationType::AggMin,
        MeasureKind::Sum => proto::AggregationType::AggSum,
        MeasureKind::Count => proto::AggregationType::AggCount,
        MeasureKind::DistinctCount => proto::AggregationType::AggDistinctCount,
        MeasureKind::Percentiles(_) => proto::AggregationType::AggPercentiles,
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

fn grouped(groups: &[Group], kind: &GroupForm) -> (proto::GroupByType, Vec<u8>) {
    let rows = |group: &Group| Some(whole(group.rows));
    match kind {
        GroupForm::Field => {
            let items = groups.iter().map(|group| {
                let (sub_aggs_result, sub_group_bys_result) = aggregated(&group.inner);
                let key = match &group.key {
                    GroupKey::Text(text) => Some(text.clone()),
                    _ => None,
                };
                proto::GroupByFieldResultItem {
                    key,
                    row_count: rows(group),
                    sub_aggs_result,
                    sub_group_bys_result,
                }
            });
            let result = proto::GroupByFieldResult {
                group_by_field_result_items: items.collect(),
            };
            (proto::GroupByType::GroupByField, result.encode_to_vec())
        }
        GroupForm::Range => {
            let items = groups.iter().map(|group| {
                let (sub_aggs_result, sub_group_bys_result) = aggregated(&group.inner);
                let (range_from, range_to) = match group.key {
                    GroupKey::Range(from, to) => (Some(from), Some(to)),
                    _ => (None, None),
                };
                proto::GroupByRangeResultItem {
                    range_from,
                    range_to,
                    row_count: rows(group),
                    sub_aggs_result,
                    sub_group_bys_result,
                }
            });
            let result = proto::GroupByRangeResult {
                group_by_range_result_items: items.collect(),
            };
            (proto::GroupByType::GroupByRange, result.encode_to_vec())
        }
        GroupForm::Filter => {
            let items = groups.iter().map(|group| {
                let (sub_aggs_result, sub_group_bys_result) = aggregated(&group.inner);
                proto::GroupByFilterResultItem {
                    row_count: rows(group),
                    sub_aggs_result,
                    sub_group_bys_result,
                }
            });
            let result = proto::GroupByFilterResult {
                group_by_filter_result_items: items.collect(),
            };
            (proto::GroupByType::GroupByFilter, result.encode_to_vec())
        }
        GroupForm::Histogram => (proto::GroupByType::GroupByHistogram, steps(groups)),
    }
}

fn steps(groups: &[Group]) -> Vec<u8> {
    let items = groups.iter().map(|group| {
        let (sub_aggs_result, sub_group_bys_result) = aggregated(&group.inner);
        let key = match &group.key {
            GroupKey::Step(value) => Some(encode_variant(&variant(value))),
            _ => None,
        };
        proto::GroupByHistogramItem {
            key,
            value: Some(whole(group.rows)),
            sub_aggs_result,
            sub_group_bys_result,
        }
    });
    let result = proto::GroupByHistogramResult {
        group_by_histogra_items: items.collect(),
    };
    result.encode_to_vec()
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
