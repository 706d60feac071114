//! Names of series, what is said of them, and conditions on them, as messages have them.
//!
//! Owns: the messages of keys, metas and conditions, both ways. Promises: what leaves this module keeps every rule that
//! needs no table; conditions are bounded in number and depth before they are read. Must not: know which columns a
//! table has.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::proto;
use super::super::request::table::missing;
use tideline_model::Error;
use tideline_model::series::{
    CONDITIONS_DEPTH_MAX, CONDITIONS_MAX, InvalidSeries, SeriesCondition, SeriesKey, SeriesMeta,
    SeriesOperator, parse_pairs, tags_text,
};

pub(super) fn refused(why: InvalidSeries) -> Failure {
    Error::Series(why).into()
}

/// The name of a series.
pub(super) fn series_key(message: Option<proto::TimeseriesKey>) -> Result<SeriesKey, Failure> {
    let message = message.ok_or_else(missing)?;
    let tag = |tag: proto::TimeseriesTag| tag.name.zip(tag.value).ok_or_else(missing);
    let list = message.tag_list.into_iter().map(tag);
    let key = SeriesKey {
        measurement: message.measurement.unwrap_or_default(),
        source: message.source.unwrap_or_default(),
        tags: tags_of(
            list.collect::<Result<_, _>>()?,
            &message.tags.unwrap_or_default(),
        )?,
    };
    key.check().map_err(refused)?;
    Ok(key)
}

/// Tags in a list, or from older clients as a text.
pub(super) fn tags_of(
    list: Vec<(String, String)>,
    text: &str,
) -> Result<BTreeMap<String, String>, Failure> {
    if list.is_empty() {
        return parse_pairs(text).map_err(refused);
    }
    let mut tags = BTreeMap::new();
    for (name, value) in list {
        if tags.insert(name.clone(), value).is_some() {
            return Err(refused(InvalidSeries::Duplicate(name)));
        }
    }
    Ok(tags)
}

/// What is said of a series.
pub(super) fn series_meta(message: proto::TimeseriesMeta) -> Result<SeriesMeta, Failure> {
    let attributes = message.attributes.unwrap_or_default();
    let meta = SeriesMeta {
        key: series_key(message.time_series_key)?,
        attributes: parse_pairs(&attributes).map_err(refused)?,
        updated_us: 0,
    };
    meta.check().map_err(refused)?;
    Ok(meta)
}

/// What is known of a series, for clients.
pub(super) fn meta_message(meta: SeriesMeta) -> proto::TimeseriesMeta {
    let SeriesKey {
        measurement,
        source,
        tags,
    } = meta.key;
    let tag = |(name, value)| proto::TimeseriesTag {
        name: Some(name),
        value: Some(value),
    };
    proto::TimeseriesMeta {
        time_series_key: Some(proto::TimeseriesKey {
            measurement: Some(measurement),
            source: Some(source),
            tags: None,
            tag_list: tags.into_iter().map(tag).collect(),
        }),
        attributes: (!meta.attributes.is_empty()).then(|| tags_text(&meta.attributes)),
        update_time: Some(meta.updated_us),
    }
}

/// `MetaQueryConditionType`.
const COMPOSITE: i32 = 1;
const MEASUREMENT: i32 = 2;
const SOURCE: i32 = 3;
const TAG: i32 = 4;
const UPDATED: i32 = 5;
const ATTRIBUTE: i32 = 6;
/// `MetaQueryCompositeOperator`.
const AND: i32 = 1;
const OR: i32 = 2;
const NOT: i32 = 3;

/// A condition.
pub(super) fn condition(message: proto::MetaQueryCondition) -> Result<SeriesCondition, Failure> {
    let mut left = CONDITIONS_MAX;
    one_condition(message, CONDITIONS_DEPTH_MAX, &mut left)
}

fn one_condition(
    message: proto::MetaQueryCondition,
    depth: usize,
    left: &mut usize,
) -> Result<SeriesCondition, Failure> {
    if depth == 0 || *left == 0 {
        return Err(refused(InvalidSeries::Condition));
    }
    *left -= 1;
    let body = message.proto_data.ok_or_else(missing)?;
    let (kind, unknown) = (
        message.r#type.ok_or_else(missing)?,
        InvalidSeries::Condition,
    );
    match kind {
        COMPOSITE => composite(&body, depth, left),
        MEASUREMENT | SOURCE => {
            let text = proto::MetaQueryText::decode(body)?;
            let (operator, value) = (operator(text.op)?, text.value.ok_or_else(missing)?);
            Ok(match kind {
                MEASUREMENT => SeriesCondition::Measurement(operator, value),
                _ => SeriesCondition::Source(operator, value),
            })
        }
        TAG | ATTRIBUTE => {
            let pair = proto::MetaQueryPair::decode(body)?;
            let operator = operator(pair.op)?;
            let (name, value) = pair.name.zip(pair.value).ok_or_else(missing)?;
            Ok(match kind {
                TAG => SeriesCondition::Tag(operator, name, value),
                _ => SeriesCondition::Attribute(operator, name, value),
            })
        }
        UPDATED => {
            let time = proto::MetaQueryTime::decode(body)?;
            let operator = operator(time.op)?;
            match operator {
                SeriesOperator::Prefix => Err(refused(unknown)),
                _ => Ok(SeriesCondition::Updated(
                    operator,
                    time.value.ok_or_else(missing)?,
                )),
            }
        }
        _ => Err(refused(unknown)),
    }
}

fn composite(body: &Bytes, depth: usize, left: &mut usize) -> Result<SeriesCondition, Failure> {
    let wrong = || refused(InvalidSeries::Condition);
    // An empty condition takes two bytes here, and many times as much in memory.
    if super::super::fields::count(body, 2)? > CONDITIONS_MAX {
        return Err(wrong());
    }
    let message = proto::MetaQueryComposite::decode(body.clone())?;
    let conditions = message.sub_conditions.into_iter();
    let conditions = conditions.map(|one| one_condition(one, depth - 1, left));
    let mut conditions = conditions.collect::<Result<Vec<_>, _>>()?;
    match (message.op, conditions.len()) {
        (_, 0) => Err(wrong()),
        (Some(AND), _) => Ok(SeriesCondition::And(conditions)),
        (Some(OR), _) => Ok(SeriesCondition::Or(conditions)),
        (Some(NOT), 1) => Ok(SeriesCondition::Not(Box::new(conditions.remove(0)))),
        _ => Err(wrong()),
    }
}

fn operator(op: Option<i32>) -> Result<SeriesOperator, Failure> {
    match op.ok_or_else(missing)? {
        1 => Ok(SeriesOperator::Equal),
        2 => Ok(SeriesOperator::GreaterThan),
        3 => Ok(SeriesOperator::GreaterEqual),
        4 => Ok(SeriesOperator::LessThan),
        5 => Ok(SeriesOperator::LessEqual),
        6 => Ok(SeriesOperator::Prefix),
        _ => Err(refused(InvalidSeries::Condition)),
    }
}
