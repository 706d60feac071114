//! What messages of queries and aggregations have in common.
//!
//! Owns: their names, weights, points and units, and how many there are of what repeats. Must not: know a kind of
//! query.

use std::ops::RangeInclusive;

use super::super::failure::Failure;
use super::super::fields::walk;
use super::super::proto;
use super::super::request::table::missing;
use super::refusal::within;
use tideline_model::search::{InvalidSearch, Point, Query, QueryNodes};

/// Decodes queries inside of another one.
pub(super) struct Inside<'n> {
    pub(super) decode: fn(&proto::Query, &mut QueryNodes, usize) -> Result<Query, Failure>,
    pub(super) nodes: &'n mut QueryNodes,
    pub(super) depth: usize,
}

impl Inside<'_> {
    /// A query.
    pub(super) fn query(&mut self, message: &proto::Query) -> Result<Query, Failure> {
        (self.decode)(message, self.nodes, self.depth)
    }

    /// So many more parts.
    pub(super) fn more(&mut self, count: usize) -> Result<(), Failure> {
        Ok(self.nodes.more(count, self.depth)?)
    }
}

/// How many fields of these numbers there are. More than a query may have parts are refused before they are decoded: an
/// empty one takes two bytes here and many in memory.
pub(super) fn many(body: &[u8], numbers: RangeInclusive<u32>) -> Result<usize, Failure> {
    let mut count = 0;
    walk(body, |number, _| {
        count += usize::from(numbers.contains(&number));
        Ok(QueryNodes::default().more(count, 0)?)
    })?;
    Ok(count)
}

pub(super) fn field(name: Option<String>) -> Result<String, Failure> {
    let name = name.ok_or_else(missing)?;
    match name.is_empty() || name.len() > 255 {
        true => Err(InvalidSearch::NoField(name).into()),
        false => Ok(name),
    }
}

pub(super) fn weight(weight: Option<f32>) -> Result<f32, Failure> {
    match weight {
        None => Ok(1.0),
        Some(weight) if weight >= 0.0 && weight.is_finite() => Ok(weight),
        Some(_) => Err(Failure::invalid("The weight must be 0 or more.")),
    }
}

pub(super) fn point(text: Option<String>) -> Result<Point, Failure> {
    Ok(Point::parse(&text.ok_or_else(missing)?)?)
}

/// How long a unit is that is always as long, ms.
pub(super) fn unit_ms(unit: proto::DateTimeUnit) -> Result<i64, Failure> {
    Ok(match unit {
        proto::DateTimeUnit::Week => 604_800_000,
        proto::DateTimeUnit::Day => 86_400_000,
        proto::DateTimeUnit::Hour => 3_600_000,
        proto::DateTimeUnit::Minute => 60_000,
        proto::DateTimeUnit::Second => 1_000,
        proto::DateTimeUnit::Millisecond => 1,
        proto::DateTimeUnit::Year
        | proto::DateTimeUnit::QuarterYear
        | proto::DateTimeUnit::Month => {
            return Err(InvalidSearch::Unsupported("a span of months or years").into());
        }
    })
}

/// Refuses more fields of a place than may be decoded: an empty one takes two bytes here and hundreds in memory.
pub(super) fn at_most(
    what: &'static str,
    most: usize,
    body: &[u8],
    path: &[u32],
) -> Result<(), Failure> {
    fn count(message: &[u8], path: &[u32], found: &mut usize) -> Result<(), Failure> {
        let Some((number, rest)) = path.split_first() else {
            *found += 1;
            return Ok(());
        };
        walk(message, |field, content| match field == *number {
            true => count(content, rest, found),
            false => Ok(()),
        })
    }
    let mut found = 0;
    count(body, path, &mut found)?;
    within(what, found, 0, most)
}
