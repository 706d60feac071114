//! Orders of searches and indexes, each way.
//!
//! Owns: the messages of sorters. Must not: know which fields can be sorted by.

use bytes::Bytes;

use super::super::failure::Failure;
use super::super::plainbuffer::{Variant, decode_variant};
use super::super::proto;
use super::super::request::table::missing;
use super::refusal::within;
use tideline_model::search::{
    InvalidSearch, KEYWORD_BYTES_MAX, Missing, Point, SORTERS_MAX, Sort, SortMode, Sorter,
};

/// Points of one sorter.
pub(super) const POINTS_MAX: usize = 100;

/// The order that a message gives.
pub(super) fn sort(message: proto::Sort) -> Result<Sort, Failure> {
    within("sorters", message.sorter.len(), 0, SORTERS_MAX)?;
    let sorters = message.sorter.into_iter().map(sorter);
    Ok(Sort {
        sorters: sorters.collect::<Result<_, _>>()?,
        keys_last: !message.disable_default_pk_sorter.unwrap_or(false),
    })
}

fn sorter(message: proto::Sorter) -> Result<Sorter, Failure> {
    let unsupported = |what| Failure::from(InvalidSearch::Unsupported(what));
    if let Some(by) = message.field_sort {
        let (is_desc, mode) = (is_desc(by.order()), by.mode.map(|_| mode(by.mode())));
        if by.nested_filter.is_some_and(|filter| !filter.is_empty()) {
            return Err(unsupported("sort with nested_filter"));
        }
        let name = by.field_name.ok_or_else(missing)?;
        let missing = match &by.missing_value {
            Some(value) if !value.is_empty() => missing_value(value, &name)?,
            _ => Missing::Last,
        };
        return Ok(Sorter::Field {
            name,
            is_desc,
            mode,
            missing,
            missing_field: by.missing_field.filter(|field| !field.is_empty()),
        });
    }
    if let Some(by) = message.geo_distance_sort {
        let (is_desc, mode) = (is_desc(by.order()), by.mode.map(|_| mode(by.mode())));
        if by.nested_filter.is_some_and(|filter| !filter.is_empty()) {
            return Err(unsupported("sort with nested_filter"));
        }
        let points = by.points.iter().map(|point| Point::parse(point));
        let points = points.collect::<Result<Vec<_>, _>>()?;
        within("points", points.len(), 1, POINTS_MAX)?;
        return Ok(Sorter::Geo {
            name: by.field_name.ok_or_else(missing)?,
            points,
            is_desc,
            mode,
        });
    }
    if let Some(by) = message.score_sort {
        let order = by.order.map_or(proto::SortOrder::Desc, |_| by.order());
        let is_desc = is_desc(order);
        return Ok(Sorter::Score { is_desc });
    }
    if let Some(by) = message.pk_sort {
        let is_desc = is_desc(by.order());
        return Ok(Sorter::Key { is_desc });
    }
    let by = message.doc_sort.ok_or_else(missing)?;
    let is_desc = is_desc(by.order());
    Ok(Sorter::Doc { is_desc })
}

fn is_desc(order: proto::SortOrder) -> bool {
    order == proto::SortOrder::Desc
}

fn mode(mode: proto::SortMode) -> SortMode {
    match mode {
        proto::SortMode::Min => SortMode::Min,
        proto::SortMode::Max => SortMode::Max,
        proto::SortMode::Avg => SortMode::Avg,
    }
}

fn missing_value(value: &Bytes, field: &str) -> Result<Missing, Failure> {
    Ok(match decode_variant(value, field)? {
        Variant::Integer(number) => Missing::Integer(number),
        Variant::Double(number) if number.is_finite() => Missing::Double(number),
        Variant::String(text) if text == "_first" => Missing::First,
        Variant::String(text) if text == "_last" => Missing::Last,
        Variant::String(text) if text.len() > KEYWORD_BYTES_MAX => {
            let long = InvalidSearch::TooLong("missing_value", KEYWORD_BYTES_MAX);
            return Err(long.into());
        }
        Variant::String(text) => Missing::Text(text),
        _ => return Err(InvalidSearch::Value(field.to_owned()).into()),
    })
}

/// The order of an index as it is described.
pub(super) fn sort_message(sorters: &[Sorter]) -> proto::Sort {
    proto::Sort {
        sorter: sorters.iter().filter_map(sorter_message).collect(),
        disable_default_pk_sorter: None,
    }
}

/// Of those that an index may have.
fn sorter_message(sorter: &Sorter) -> Option<proto::Sorter> {
    let order = |is_desc: bool| {
        let order = match is_desc {
            true => proto::SortOrder::Desc,
            false => proto::SortOrder::Asc,
        };
        Some(order.into())
    };
    let mut message = proto::Sorter::default();
    match sorter {
        Sorter::Key { is_desc } => {
            let order = order(*is_desc);
            message.pk_sort = Some(proto::PrimaryKeySort { order });
        }
        Sorter::Field {
            name,
            is_desc,
            mode,
            ..
        } => {
            let mode = mode.map(|mode| match mode {
                SortMode::Min => proto::SortMode::Min.into(),
                SortMode::Max => proto::SortMode::Max.into(),
                SortMode::Avg => proto::SortMode::Avg.into(),
            });
            message.field_sort = Some(proto::FieldSort {
                field_name: Some(name.clone()),
                order: order(*is_desc),
                mode,
                ..proto::FieldSort::default()
            });
        }
        Sorter::Geo { .. } | Sorter::Score { .. } | Sorter::Doc { .. } => return None,
    }
    Some(message)
}
