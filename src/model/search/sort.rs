//! In which order rows come.
//!
//! Owns: the forms of orders (their JSON is a part of definitions and of tokens), and their limit. Must not: know which
//! fields an index has.

use serde::{Deserialize, Serialize};

use super::Point;

/// Sorters of one order.
pub const SORTERS_MAX: usize = 32;

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
