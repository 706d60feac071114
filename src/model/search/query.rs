//! What a search asks: queries and orders.
//!
//! Owns: the forms of queries and their limits. Promises: a query has so many parts at most, however it is built. Must
//! not: know which fields an index has.

use serde::{Deserialize, Serialize};

use super::{Best, Functions, InvalidSearch, Near, Nested, Point};
use crate::Value;

/// Which rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// All.
    All,
    /// Whose field has one of these values.
    Terms {
        /// The field.
        field: String,
        /// Integers, doubles, booleans or texts.
        values: Vec<Value>,
        /// What a hit adds to the score.
        weight: f32,
    },
    /// Whose field has a value between two others.
    Range {
        /// The field.
        field: String,
        /// The lower bound and whether it is included.
        from: Option<(Value, bool)>,
        /// The upper one.
        to: Option<(Value, bool)>,
    },
    /// Whose field begins with a text.
    Prefix {
        /// The field.
        field: String,
        /// The text.
        prefix: String,
        /// What a hit adds to the score.
        weight: f32,
    },
    /// Whose field ends with a text.
    Suffix {
        /// The field.
        field: String,
        /// The text.
        suffix: String,
        /// What a hit adds to the score.
        weight: f32,
    },
    /// Whose field is as a pattern: `*` is any text, `?` any character.
    Wildcard {
        /// The field.
        field: String,
        /// The pattern.
        pattern: String,
        /// What a hit adds to the score.
        weight: f32,
    },
    /// Whose field has words of a text.
    Match(Match),
    /// Whose field has the words of a text one behind the other.
    Phrase {
        /// The field.
        field: String,
        /// The text.
        text: String,
        /// By so many places words may be off.
        slop: u32,
        /// What scores are multiplied by.
        weight: f32,
    },
    /// Of which other queries hold.
    Bool(Box<Bool>),
    /// The same rows, all with the same score.
    Constant(Box<Query>),
    /// Which have the field.
    Exists {
        /// The field.
        field: String,
    },
    /// Whose vector is near to another one.
    Near(Box<Near>),
    /// With an object of a nested field that matches.
    Nested(Box<Nested>),
    /// The rows of another query, with other scores.
    Functions(Box<Functions>),
    /// The rows of several queries, each with its best score.
    Best(Best),
    /// Whose point lies in a box.
    GeoBox {
        /// The field.
        field: String,
        /// The corner with the highest latitude and the lowest longitude.
        top_left: Point,
        /// The other corner.
        bottom_right: Point,
    },
    /// Whose point lies in a circle.
    GeoDistance {
        /// The field.
        field: String,
        /// Its middle.
        center: Point,
        /// Its radius.
        metres: f64,
    },
    /// Whose point lies in a polygon.
    GeoPolygon {
        /// The field.
        field: String,
        /// Its corners, three or more.
        points: Vec<Point>,
    },
}

/// Words of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The field.
    pub field: String,
    /// The text.
    pub text: String,
    /// Whether all words have to be there.
    pub is_and: bool,
    /// Without that, how many.
    pub minimum: Option<MinimumMatch>,
    /// What scores are multiplied by.
    pub weight: f32,
}

/// Queries together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bool {
    /// All hold, and score.
    pub must: Vec<Query>,
    /// None holds.
    pub must_not: Vec<Query>,
    /// All hold, and score nothing.
    pub filter: Vec<Query>,
    /// Of these so many hold.
    pub should: Vec<Query>,
    /// How many; `None` = one if there is nothing but these, else none.
    pub minimum: Option<MinimumMatch>,
    /// What scores are multiplied by.
    pub weight: Option<f32>,
}

impl Bool {
    /// How many of those that should hold have to.
    #[must_use]
    pub fn least(&self) -> usize {
        let others = self.must.len() + self.filter.len() + self.must_not.len();
        match &self.minimum {
            Some(minimum) => minimum.of(self.should.len()),
            None => usize::from(others == 0 && !self.should.is_empty()),
        }
    }
}

/// How many of some parts have to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MinimumMatch {
    /// So many; below 0 all but so many.
    Count(i64),
    /// So many percent of them; below 0 all but so many percent.
    Percent(i64),
    /// All of up to so many, and of more as the other says.
    Above(usize, Box<MinimumMatch>),
}

impl MinimumMatch {
    /// Reads `2`, `-1`, `75%`, `-25%` or `2<75%`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<MinimumMatch, InvalidSearch> {
        let bad = || InvalidSearch::MinimumMatch(text.to_owned());
        let plain = |text: &str| {
            let (number, is_percent) = match text.strip_suffix('%') {
                Some(number) => (number, true),
                None => (text, false),
            };
            let number: i64 = number.trim().parse().map_err(|_| bad())?;
            match is_percent {
                true if (-100..=100).contains(&number) => Ok(MinimumMatch::Percent(number)),
                true => Err(bad()),
                false => Ok(MinimumMatch::Count(number)),
            }
        };
        match text.trim().split_once('<') {
            None => plain(text.trim()),
            Some((up_to, then)) => {
                let up_to = up_to.trim().parse().map_err(|_| bad())?;
                Ok(MinimumMatch::Above(up_to, Box::new(plain(then.trim())?)))
            }
        }
    }

    /// How many of so many parts; from 0 to all.
    #[must_use]
    pub fn of(&self, parts: usize) -> usize {
        let all = i64::try_from(parts).unwrap_or(i64::MAX);
        let count = match self {
            MinimumMatch::Above(up_to, then) if parts > *up_to => return then.of(parts),
            MinimumMatch::Above(..) => all,
            MinimumMatch::Count(count) if *count < 0 => all.saturating_add(*count),
            MinimumMatch::Count(count) => *count,
            MinimumMatch::Percent(percent) if *percent < 0 => all + all * percent / 100,
            MinimumMatch::Percent(percent) => all * percent / 100,
        };
        usize::try_from(count.clamp(0, all)).unwrap_or(0)
    }
}

/// Counts the parts of a query while it is read.
#[derive(Debug, Default)]
pub struct QueryNodes {
    count: usize,
}

/// Sorters of one order.
pub const SORTERS_MAX: usize = 32;
/// Bytes of a text whose words are looked for, and of all of these in one search.
pub const ASKED_BYTES_MAX: usize = 64 << 10;

/// Parts of a query, values of it included.
const NODES_MAX: usize = 1_024;
/// Queries in each other.
const DEPTH_MAX: usize = 32;

impl QueryNodes {
    /// So many more, at this depth.
    ///
    /// # Errors
    /// Too many, or too deep.
    pub fn more(&mut self, count: usize, depth: usize) -> Result<(), InvalidSearch> {
        self.count = self.count.saturating_add(count);
        match self.count > NODES_MAX || depth > DEPTH_MAX {
            true => Err(InvalidSearch::QueryNodes(NODES_MAX)),
            false => Ok(()),
        }
    }
}

/// Of a row that has more than one value: by which it is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SortMode {
    /// The lowest.
    Min,
    /// The highest.
    Max,
    /// Their mean.
    Avg,
}

/// Where rows without a value are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Behind all others.
    #[default]
    Last,
    /// Before all others.
    First,
    /// As if they had this integer.
    Integer(i64),
    /// As if they had this double.
    Double(f64),
    /// As if they had this text.
    Text(String),
}

/// By what rows are sorted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sorter {
    /// By a field's value.
    Field {
        /// The field.
        name: String,
        /// Whether the highest comes first.
        is_desc: bool,
        /// `None` = the lowest value if the lowest comes first, else the highest.
        mode: Option<SortMode>,
        /// Rows without a value.
        missing: Missing,
        /// The field whose value they have in its place, if they have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing_field: Option<String>,
    },
    /// By the distance of a field's point from the nearest of some others.
    Geo {
        /// The field.
        name: String,
        /// At least one.
        points: Vec<Point>,
        /// Whether the farthest comes first.
        is_desc: bool,
        /// As of a field.
        mode: Option<SortMode>,
    },
    /// By the score.
    Score {
        /// Whether the highest comes first.
        is_desc: bool,
    },
    /// By the primary key.
    Key {
        /// Whether the highest comes first.
        is_desc: bool,
    },
    /// As the index has them.
    Doc {
        /// The other way round.
        is_desc: bool,
    },
}

/// The order of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// One after the other.
    pub sorters: Vec<Sorter>,
    /// Whether rows that are equal by all of them come in the order of their keys.
    pub keys_last: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimum_is_read_and_counted() {
        for (text, parts, expected) in [
            ("2", 5, 2),
            ("9", 5, 5),
            ("-1", 5, 4),
            ("-9", 5, 0),
            ("75%", 4, 3),
            ("75%", 5, 3),
            ("-25%", 4, 3),
            ("2<75%", 2, 2),
            ("2<75%", 4, 3),
        ] {
            assert_eq!(
                MinimumMatch::parse(text).unwrap().of(parts),
                expected,
                "{text} of {parts}"
            );
        }
        for text in ["", "a", "%", "101%", "<2", "1<", "1<2<3"] {
            let bad = InvalidSearch::MinimumMatch(text.to_owned());
            assert_eq!(MinimumMatch::parse(text), Err(bad));
        }
    }
}
