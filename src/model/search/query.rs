//! What a search asks: queries.
//!
//! Owns: the forms of queries and their limits. Promises: a query has so many parts at most, however it is built. Must
//! not: know which fields an index has.

use super::{Combine, Decay, Fold, InnerHits, InvalidSearch, Modifier, ObjectScores, Point};
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

/// Rows whose vectors are near to another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// The field.
    pub field: String,
    /// The other vector: as many numbers as the field has.
    pub vector: Vec<f32>,
    /// So many rows, the nearest ones; all if a page has more.
    pub top: usize,
    /// Only rows of these; `None` = of all.
    pub filter: Option<Query>,
    /// Only rows with this score at least, before it is multiplied.
    pub min_score: Option<f32>,
    /// What scores are multiplied by.
    pub weight: f32,
}

/// Rows with an object of a nested field that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Nested {
    /// The nested field.
    pub path: String,
    /// What an object matches; its fields begin with the path.
    pub query: Query,
    /// How the scores of the objects that match become one.
    pub scores: ObjectScores,
    /// What that is multiplied by.
    pub weight: f32,
    /// Which of the objects are shown; `None` = none.
    pub hits: Option<Box<InnerHits>>,
}

/// The same rows as another query's, with other scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Functions {
    /// The other query.
    pub query: Query,
    /// At least one.
    pub functions: Vec<Function>,
    /// How the values of functions become one.
    pub fold: Fold,
    /// How that and the score of the query become one.
    pub combine: Combine,
    /// Only rows with this score at least.
    pub min_score: Option<f32>,
    /// The value of the functions is not higher.
    pub max_score: Option<f32>,
}

/// A function of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its value.
    pub kind: FunctionKind,
    /// Only for rows of these; `None` = for all.
    pub filter: Option<Query>,
    /// What its value is multiplied by.
    pub weight: f32,
}

/// What the value of a function is.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionKind {
    /// 1.
    One,
    /// From 0 to 1, the same for a row in each search.
    Random,
    /// Of a field's number.
    Field {
        /// The field.
        field: String,
        /// What the number is multiplied by first.
        factor: f64,
        /// What becomes of it then.
        modifier: Modifier,
        /// The number of rows without one; `None` = the value of these is 1.
        missing: Option<f64>,
    },
    /// 1 near to an origin, and less the farther a row is from it; 1 without a value.
    Decay(Decay),
}

/// Rows of several queries, each with its best score.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// At least one.
    pub queries: Vec<Query>,
    /// So much of the other scores counts too.
    pub tie_breaker: f32,
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
