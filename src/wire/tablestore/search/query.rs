//! Queries, decoded.
//!
//! Owns: the messages of queries. Promises: depth and number of a query's parts are bounded before they are looked at,
//! and so are the texts that are patterns. Must not: know which fields there are.

use std::ops::RangeInclusive;

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::plainbuffer::{Variant, decode_variant};
use super::super::proto;
use super::super::request::table::missing;
use super::parts::{Inside, field, many, point, weight};
use super::refusal::within;
use super::scored;
use tideline_model::Value;
use tideline_model::search::{
    ASKED_BYTES_MAX, Bool, InvalidSearch, Match, MinimumMatch, Query, QueryNodes,
};

/// Bytes of a prefix or a suffix.
const PREFIX_BYTES_MAX: usize = 1_000;
/// Characters of a pattern.
const PATTERN_CHARS_MAX: usize = 32;
/// Corners of a polygon.
const CORNERS_MAX: usize = 1_000;
/// How far words of a phrase may be off.
const SLOP_MAX: usize = 1_000;

/// A query of a request.
pub(super) fn query(message: &proto::Query) -> Result<Query, Failure> {
    filter(message, &mut QueryNodes::default())
}

/// A query of a request that has some of its parts together with others.
pub(super) fn filter(message: &proto::Query, nodes: &mut QueryNodes) -> Result<Query, Failure> {
    decode(message, nodes, 1)
}

/// What is inside of a query at a depth.
fn inside(nodes: &mut QueryNodes, depth: usize) -> Inside<'_> {
    Inside {
        decode,
        nodes,
        depth: depth + 1,
    }
}

/// A query at a depth of a request's.
#[allow(clippy::too_many_lines)] // a few lines for each kind of query
fn decode(message: &proto::Query, nodes: &mut QueryNodes, depth: usize) -> Result<Query, Failure> {
    nodes.more(1, depth)?;
    let code = message.r#type.ok_or_else(missing)?;
    let kind = proto::QueryType::try_from(code);
    let kind = kind.map_err(|_| Failure::invalid(format!("Invalid query type: {code}.")))?;
    let body = message.query.clone().unwrap_or_default();
    Ok(match kind {
        proto::QueryType::MatchAllQuery => Query::All,
        proto::QueryType::MatchQuery => {
            let message = proto::MatchQuery::decode(body)?;
            let is_and = message
                .operator
                .is_some_and(|_| message.operator() == proto::QueryOperator::And);
            Query::Match(Match {
                field: field(message.field_name)?,
                text: text(message.text)?,
                is_and,
                minimum: minimum(
                    message.new_minimum_should_match,
                    message.minimum_should_match,
                )?,
                weight: weight(message.weight)?,
            })
        }
        proto::QueryType::MatchPhraseQuery => {
            let message = proto::MatchPhraseQuery::decode(body)?;
            Query::Phrase {
                field: field(message.field_name)?,
                text: text(message.text)?,
                slop: slop(message.slop)?,
                weight: weight(message.weight)?,
            }
        }
        proto::QueryType::TermQuery => {
            let message = proto::TermQuery::decode(body)?;
            let name = field(message.field_name)?;
            let value = value(&message.term.ok_or_else(missing)?, &name)?;
            Query::Terms {
                field: name,
                values: vec![value],
                weight: weight(message.weight)?,
            }
        }
        proto::QueryType::TermsQuery => {
            nodes.more(many(&body, TERMS)?, depth)?;
            let message = proto::TermsQuery::decode(body)?;
            let name = field(message.field_name)?;
            let values = message.terms.iter().map(|term| value(term, &name));
            Query::Terms {
                values: values.collect::<Result<_, _>>()?,
                weight: weight(message.weight)?,
                field: name,
            }
        }
        proto::QueryType::RangeQuery => {
            let message = proto::RangeQuery::decode(body)?;
            let name = field(message.field_name)?;
            let bound = |bytes: Option<Bytes>, is_in: bool| match bytes {
                Some(bytes) if !bytes.is_empty() => {
                    let value = open_value(&bytes, &name)?;
                    Ok(value.map(|value| (value, is_in)))
                }
                _ => Ok::<_, Failure>(None),
            };
            let from = bound(message.range_from, message.include_lower.unwrap_or(true))?;
            let to = bound(message.range_to, message.include_upper.unwrap_or(false))?;
            Query::Range {
                field: name,
                from,
                to,
            }
        }
        proto::QueryType::PrefixQuery => {
            let message = proto::PatternQuery::decode(body)?;
            Query::Prefix {
                field: field(message.field_name)?,
                prefix: limited(message.pattern, "prefix", PREFIX_BYTES_MAX)?,
                weight: weight(message.weight)?,
            }
        }
        proto::QueryType::SuffixQuery => {
            let message = proto::PatternQuery::decode(body)?;
            Query::Suffix {
                field: field(message.field_name)?,
                suffix: limited(message.pattern, "suffix", PREFIX_BYTES_MAX)?,
                weight: weight(message.weight)?,
            }
        }
        proto::QueryType::WildcardQuery => {
            let message = proto::PatternQuery::decode(body)?;
            let pattern = message.pattern.ok_or_else(missing)?;
            if pattern.chars().nth(PATTERN_CHARS_MAX).is_some() {
                let text = "length of field value is longer than 32 for the [WILDCARD_QUERY] query";
                return Err(Failure::invalid(text));
            }
            Query::Wildcard {
                field: field(message.field_name)?,
                pattern,
                weight: weight(message.weight)?,
            }
        }
        proto::QueryType::BoolQuery => Query::Bool(Box::new(bool_query(body, nodes, depth)?)),
        proto::QueryType::ConstScoreQuery => {
            let inner = proto::ConstScoreQuery::decode(body)?.filter;
            let inner = decode(&inner.ok_or_else(missing)?, nodes, depth + 1)?;
            Query::Constant(Box::new(inner))
        }
        proto::QueryType::ExistsQuery => Query::Exists {
            field: field(proto::ExistsQuery::decode(body)?.field_name)?,
        },
        proto::QueryType::GeoBoundingBoxQuery => {
            let message = proto::GeoBoundingBoxQuery::decode(body)?;
            Query::GeoBox {
                field: field(message.field_name)?,
                top_left: point(message.top_left)?,
                bottom_right: point(message.bottom_right)?,
            }
        }
        proto::QueryType::GeoDistanceQuery => {
            let message = proto::GeoDistanceQuery::decode(body)?;
            let metres = message.distance.ok_or_else(missing)?;
            if !(metres >= 0.0 && metres.is_finite()) {
                return Err(Failure::invalid("The distance must be 0 or more metres."));
            }
            Query::GeoDistance {
                field: field(message.field_name)?,
                center: point(message.center_point)?,
                metres,
            }
        }
        proto::QueryType::GeoPolygonQuery => {
            // A corner costs as much as a part.
            nodes.more(many(&body, POINTS)?, depth)?;
            let message = proto::GeoPolygonQuery::decode(body)?;
            within("points", message.points.len(), 3, CORNERS_MAX)?;
            let points = message.points.into_iter().map(|one| point(Some(one)));
            Query::GeoPolygon {
                points: points.collect::<Result<_, _>>()?,
                field: field(message.field_name)?,
            }
        }
        proto::QueryType::NestedQuery => {
            Query::Nested(Box::new(scored::nested(body, &mut inside(nodes, depth))?))
        }
        proto::QueryType::KnnVectorQuery => {
            Query::Near(Box::new(scored::near(body, &mut inside(nodes, depth))?))
        }
        proto::QueryType::FunctionScoreQuery => {
            Query::Functions(Box::new(scored::function(body, &mut inside(nodes, depth))?))
        }
        proto::QueryType::FunctionsScoreQuery => Query::Functions(Box::new(scored::functions(
            body,
            &mut inside(nodes, depth),
        )?)),
        proto::QueryType::DisMaxQuery => {
            Query::Best(scored::best(body, &mut inside(nodes, depth))?)
        }
    })
}

/// The numbers of repeated fields.
const TERMS: RangeInclusive<u32> = 2..=2;
const POINTS: RangeInclusive<u32> = 2..=2;
const QUERIES: RangeInclusive<u32> = 1..=4;

fn bool_query(body: Bytes, nodes: &mut QueryNodes, depth: usize) -> Result<Bool, Failure> {
    // Each counts itself when it is decoded.
    many(&body, QUERIES)?;
    let message = proto::BoolQuery::decode(body)?;
    let mut all = |messages: Vec<proto::Query>| {
        let queries = messages.iter().map(|one| decode(one, nodes, depth + 1));
        queries.collect::<Result<Vec<_>, _>>()
    };
    let minimum = minimum(
        message.new_minimum_should_match,
        message.minimum_should_match,
    )?;
    Ok(Bool {
        must: all(message.must_queries)?,
        must_not: all(message.must_not_queries)?,
        filter: all(message.filter_queries)?,
        should: all(message.should_queries)?,
        minimum,
        weight: message
            .weight
            .map(|given| weight(Some(given)))
            .transpose()?,
    })
}

fn text(text: Option<String>) -> Result<String, Failure> {
    limited(text, "text", ASKED_BYTES_MAX)
}

fn limited(text: Option<String>, what: &'static str, most: usize) -> Result<String, Failure> {
    let text = text.ok_or_else(missing)?;
    match text.len() > most {
        true => Err(InvalidSearch::TooLong(what, most).into()),
        false => Ok(text),
    }
}

fn slop(slop: Option<i32>) -> Result<u32, Failure> {
    let slop = u32::try_from(slop.unwrap_or(0)).ok();
    let slop = slop.filter(|slop| *slop as usize <= SLOP_MAX);
    slop.ok_or_else(|| InvalidSearch::Range("slop", 0, SLOP_MAX).into())
}

/// The newer form counts.
fn minimum(text: Option<String>, count: Option<i32>) -> Result<Option<MinimumMatch>, Failure> {
    let text = text.filter(|text| !text.is_empty());
    let of_text = text.map(|text| MinimumMatch::parse(&text)).transpose()?;
    Ok(of_text.or_else(|| count.map(|count| MinimumMatch::Count(count.into()))))
}

fn value(bytes: &Bytes, field: &str) -> Result<Value, Failure> {
    let value = open_value(bytes, field)?;
    value.ok_or_else(|| InvalidSearch::Value(field.to_owned()).into())
}

/// A value, or none where a range has no bound.
fn open_value(bytes: &Bytes, field: &str) -> Result<Option<Value>, Failure> {
    Ok(Some(match decode_variant(bytes, field)? {
        Variant::Integer(number) => Value::Integer(number),
        Variant::Double(number) if !number.is_nan() => Value::Double(number),
        Variant::Boolean(flag) => Value::Boolean(flag),
        Variant::String(text) => Value::String(text),
        Variant::InfMin | Variant::InfMax => return Ok(None),
        _ => return Err(InvalidSearch::Value(field.to_owned()).into()),
    }))
}
