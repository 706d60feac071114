//! Queries whose scores are their meaning, decoded.
//!
//! Owns: their messages. Promises: each of their numbers is one, and within its range. Must not: know which fields
//! there are.

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::proto;
use super::super::request::table::missing;
use super::parts::{Inside, field, many, point, unit_ms, weight};
use super::refusal::within;
use super::show::inner_hits;
use tideline_model::Value;
use tideline_model::search::{
    Best, Combine, Curve, DIMENSIONS_MAX, Decay, Fold, Function, FunctionKind, Functions,
    InvalidSearch, KEYWORD_BYTES_MAX, Modifier, NEAR_MAX, NEAR_PARTS, Near, Nested, ObjectScores,
    Origin, Query,
};

pub(super) fn near(body: Bytes, inside: &mut Inside<'_>) -> Result<Near, Failure> {
    inside.more(NEAR_PARTS)?;
    let message = proto::KnnVectorQuery::decode(body)?;
    let (field, vector) = (field(message.field_name)?, message.float32_query_vector);
    within("float32_query_vector", vector.len(), 1, DIMENSIONS_MAX)?;
    if !vector.iter().all(|number| number.is_finite()) {
        return Err(InvalidSearch::Value(field).into());
    }
    let top = usize::try_from(message.top_k.ok_or_else(missing)?).unwrap_or(0);
    within("top_k", top, 1, NEAR_MAX)?;
    let filter = message.filter.map(|filter| inside.query(&filter));
    Ok(Near {
        field,
        vector,
        top,
        filter: filter.transpose()?,
        min_score: score("min_score", message.min_score)?,
        weight: weight(message.weight)?,
    })
}

pub(super) fn nested(body: Bytes, inside: &mut Inside<'_>) -> Result<Nested, Failure> {
    let message = proto::NestedQuery::decode(body)?;
    let hits = message.inner_hits.clone().map(inner_hits).transpose()?;
    let scores = match message.score_mode.map(|_| message.score_mode()) {
        Some(proto::ObjectScoreMode::ScoreModeNone) => ObjectScores::None,
        Some(proto::ObjectScoreMode::ScoreModeMax) => ObjectScores::Max,
        Some(proto::ObjectScoreMode::ScoreModeTotal) => ObjectScores::Total,
        Some(proto::ObjectScoreMode::ScoreModeMin) => ObjectScores::Min,
        Some(proto::ObjectScoreMode::ScoreModeAvg) | None => ObjectScores::Avg,
    };
    Ok(Nested {
        path: field(message.path)?,
        query: inside.query(&message.query.ok_or_else(missing)?)?,
        scores,
        weight: weight(message.weight)?,
        hits: hits.map(Box::new),
    })
}

pub(super) fn best(body: Bytes, inside: &mut Inside<'_>) -> Result<Best, Failure> {
    let count = many(&body, 1..=1)?;
    within("queries", count, 1, usize::MAX)?;
    let message = proto::DisMaxQuery::decode(body)?;
    let queries = message.queries.iter();
    let queries = queries.map(|query| inside.query(query));
    let tie_breaker = message.tie_breaker.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&tie_breaker) {
        return Err(InvalidSearch::Range("tie_breaker", 0, 1).into());
    }
    Ok(Best {
        queries: queries.collect::<Result<_, _>>()?,
        tie_breaker,
        weight: weight(message.weight)?,
    })
}

/// The older form: the score times a field.
pub(super) fn function(body: Bytes, inside: &mut Inside<'_>) -> Result<Functions, Failure> {
    let message = proto::FunctionScoreQuery::decode(body)?;
    let factor = message.field_value_factor.ok_or_else(missing)?;
    let kind = FunctionKind::Field {
        field: field(factor.field_name)?,
        factor: 1.0,
        modifier: Modifier::None,
        missing: None,
    };
    Ok(Functions {
        query: inner(message.query, inside)?,
        functions: vec![Function {
            kind,
            filter: None,
            weight: 1.0,
        }],
        fold: Fold::Multiply,
        combine: Combine::Multiply,
        min_score: None,
        max_score: None,
    })
}

pub(super) fn functions(body: Bytes, inside: &mut Inside<'_>) -> Result<Functions, Failure> {
    let count = many(&body, 2..=2)?;
    within("functions", count, 1, usize::MAX)?;
    inside.more(count)?;
    let message = proto::FunctionsScoreQuery::decode(body)?;
    let fold = match message.score_mode.map(|_| message.score_mode()) {
        Some(proto::FunctionScoreMode::FsmAvg) => Fold::Avg,
        Some(proto::FunctionScoreMode::FsmMax) => Fold::Max,
        Some(proto::FunctionScoreMode::FsmSum) => Fold::Sum,
        Some(proto::FunctionScoreMode::FsmMin) => Fold::Min,
        Some(proto::FunctionScoreMode::FsmFirst) => Fold::First,
        Some(proto::FunctionScoreMode::FsmMultiply) | None => Fold::Multiply,
    };
    let combine = match message.combine_mode.map(|_| message.combine_mode()) {
        Some(proto::FunctionCombineMode::FcmAvg) => Combine::Avg,
        Some(proto::FunctionCombineMode::FcmMax) => Combine::Max,
        Some(proto::FunctionCombineMode::FcmSum) => Combine::Sum,
        Some(proto::FunctionCombineMode::FcmMin) => Combine::Min,
        Some(proto::FunctionCombineMode::FcmReplace) => Combine::Replace,
        Some(proto::FunctionCombineMode::FcmMultiply) | None => Combine::Multiply,
    };
    let (min_score, max_score) = (message.min_score, message.max_score);
    let functions = message.functions.into_iter();
    let functions = functions.map(|one| one_function(one, inside));
    Ok(Functions {
        functions: functions.collect::<Result<_, _>>()?,
        query: inner(message.query, inside)?,
        fold,
        combine,
        min_score: score("min_score", min_score)?,
        max_score: score("max_score", max_score)?,
    })
}

/// The query whose scores change; none = all rows.
fn inner(query: Option<proto::Query>, inside: &mut Inside<'_>) -> Result<Query, Failure> {
    query.map_or(Ok(Query::All), |query| inside.query(&query))
}

fn one_function(
    message: proto::ScoreFunction,
    inside: &mut Inside<'_>,
) -> Result<Function, Failure> {
    let kind = match (message.field_value_factor, message.decay, message.random) {
        (Some(factor), None, None) => FunctionKind::Field {
            modifier: modifier(factor.modifier()),
            field: field(factor.field_name)?,
            factor: number("factor", factor.factor.map_or(1.0, f64::from))?,
            missing: factor
                .missing
                .map(|one| number("missing", one))
                .transpose()?,
        },
        (None, Some(message), None) => FunctionKind::Decay(decay(message)?),
        (None, None, Some(_)) => FunctionKind::Random,
        (None, None, None) => FunctionKind::One,
        _ => return Err(Failure::invalid("A function is one of its kinds only.")),
    };
    let filter = message.filter.map(|filter| inside.query(&filter));
    Ok(Function {
        kind,
        filter: filter.transpose()?,
        weight: weight(message.weight)?,
    })
}

fn modifier(modifier: proto::FunctionModifier) -> Modifier {
    match modifier {
        proto::FunctionModifier::FmNone => Modifier::None,
        proto::FunctionModifier::FmLog => Modifier::Log,
        proto::FunctionModifier::FmLog1p => Modifier::Log1p,
        proto::FunctionModifier::FmLog2p => Modifier::Log2p,
        proto::FunctionModifier::FmLn => Modifier::Ln,
        proto::FunctionModifier::FmLn1p => Modifier::Ln1p,
        proto::FunctionModifier::FmLn2p => Modifier::Ln2p,
        proto::FunctionModifier::FmSquare => Modifier::Square,
        proto::FunctionModifier::FmSqrt => Modifier::Sqrt,
        proto::FunctionModifier::FmReciprocal => Modifier::Reciprocal,
    }
}

fn decay(message: proto::DecayFunction) -> Result<Decay, Failure> {
    let curve = match message.math_function() {
        proto::DecayMathFunction::Gauss => Curve::Gauss,
        proto::DecayMathFunction::Exp => Curve::Exponential,
        proto::DecayMathFunction::Linear => Curve::Linear,
    };
    let of_many = match message.multi_value_mode.map(|_| message.multi_value_mode()) {
        Some(proto::MultiValueMode::MvmMax) => Fold::Max,
        Some(proto::MultiValueMode::MvmSum) => Fold::Sum,
        Some(proto::MultiValueMode::MvmAvg) => Fold::Avg,
        Some(proto::MultiValueMode::MvmMin) | None => Fold::Min,
    };
    message.param_type.ok_or_else(missing)?;
    let (param, of) = (
        message.param.clone().unwrap_or_default(),
        message.param_type(),
    );
    let (origin, scale, offset) = match of {
        proto::DecayParamType::DfNumericParam => {
            let param = proto::DecayNumericParam::decode(param)?;
            let origin = number("origin", param.origin.ok_or_else(missing)?)?;
            (Origin::Number(origin), param.scale, param.offset)
        }
        proto::DecayParamType::DfGeoParam => {
            let param = proto::DecayGeoParam::decode(param)?;
            (
                Origin::Point(point(param.origin)?),
                param.scale,
                param.offset,
            )
        }
        proto::DecayParamType::DfDateParam => {
            let param = proto::DecayDateParam::decode(param)?;
            let origin = match (param.origin_long, param.origin_string) {
                (Some(number), _) => Value::Integer(number),
                (None, Some(text)) if text.len() > KEYWORD_BYTES_MAX => {
                    return Err(InvalidSearch::TooLong("origin", KEYWORD_BYTES_MAX).into());
                }
                (None, Some(text)) => Value::String(text),
                (None, None) => return Err(missing()),
            };
            let (scale, offset) = (param.scale.map(span), param.offset.map(span));
            (
                Origin::Date(origin),
                scale.transpose()?,
                offset.transpose()?,
            )
        }
    };
    let (scale, offset) = (scale.ok_or_else(missing)?, offset.unwrap_or(0.0));
    if !(scale > 0.0 && scale.is_finite() && offset >= 0.0 && offset.is_finite()) {
        return Err(Failure::invalid(
            "The scale must be above 0, and the offset 0 or more.",
        ));
    }
    let decay = message.decay.unwrap_or(DECAY_DEFAULT);
    if !(decay > 0.0 && decay < 1.0) {
        return Err(Failure::invalid("The decay must be between 0 and 1."));
    }
    Ok(Decay {
        field: field(message.field_name)?,
        origin,
        scale,
        offset,
        decay,
        curve,
        of_many,
    })
}

const DECAY_DEFAULT: f64 = 0.5;

/// A span of time, ms.
fn span(message: proto::DateTimeValue) -> Result<f64, Failure> {
    message.unit.ok_or_else(missing)?;
    #[allow(clippy::cast_precision_loss)] // a week of ms
    let unit = unit_ms(message.unit())? as f64;
    Ok(f64::from(message.value.unwrap_or(1)) * unit)
}

fn number(name: &'static str, number: f64) -> Result<f64, Failure> {
    match number.is_finite() {
        true => Ok(number),
        false => Err(Failure::invalid(format!("The {name} must be a number."))),
    }
}

fn score(name: &'static str, score: Option<f32>) -> Result<Option<f32>, Failure> {
    match score.is_none_or(f32::is_finite) {
        true => Ok(score),
        false => Err(Failure::invalid(format!("The {name} must be a number."))),
    }
}
