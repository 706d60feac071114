//! What a search computes of all rows that match: metrics, and groups of rows with metrics of their own.
//!
//! Owns: the forms of aggregations, their limits and their results. Must not: know which fields an index has.

use super::Query;
use crate::Value;

/// What is computed of some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregates {
    /// Each gives one value.
    pub metrics: Vec<Measure>,
    /// Each gives groups.
    pub groups: Vec<GroupBy>,
}

/// A value of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Its name, among its neighbours.
    pub name: String,
    /// Which value.
    pub kind: MeasureKind,
    /// Of which field.
    pub field: String,
    /// What rows without a value count as; `None` = they do not count.
    pub missing: Option<Value>,
}

/// Which value.
#[derive(Clone, Debug, PartialEq)]
pub enum MeasureKind {
    /// The mean.
    Avg,
    /// The highest.
    Max,
    /// The lowest.
    Min,
    /// All together.
    Sum,
    /// How many values.
    Count,
    /// How many that differ.
    DistinctCount,
    /// The values that so many percent of all are below.
    Percentiles(Vec<f64>),
}

/// How rows become groups.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupBy {
    /// Its name, among its neighbours.
    pub name: String,
    /// By what.
    pub by: GroupKind,
    /// What is computed of each group.
    pub inner: Aggregates,
}

/// By what rows are grouped.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupKind {
    /// Each value of a field.
    Field {
        /// The field.
        field: String,
        /// So many groups at most are wanted.
        size: usize,
        /// In this order; then by key.
        order: Vec<GroupOrder>,
    },
    /// Ranges of a field: from the first, below the second.
    Range {
        /// The field.
        field: String,
        /// In the order of the answer.
        ranges: Vec<(f64, f64)>,
    },
    /// Queries.
    Filter(Vec<Query>),
    /// Steps of a field's values.
    Histogram {
        /// The field.
        field: String,
        /// A step, above 0.
        interval: f64,
        /// What rows without a value count as.
        missing: Option<Value>,
        /// Groups with fewer rows are left out; 0 = none is, and steps without rows are groups too.
        least: u64,
        /// Only values from the first to the second.
        range: Option<(f64, f64)>,
        /// In this order; then by key.
        order: Vec<GroupOrder>,
    },
}

/// What is the key of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupForm {
    /// A value.
    Field,
    /// A range.
    Range,
    /// A query.
    Filter,
    /// A step.
    Histogram,
}

impl GroupKind {
    /// What is the key of its groups.
    #[must_use]
    pub fn form(&self) -> GroupForm {
        match self {
            GroupKind::Field { .. } => GroupForm::Field,
            GroupKind::Range { .. } => GroupForm::Range,
            GroupKind::Filter(_) => GroupForm::Filter,
            GroupKind::Histogram { .. } => GroupForm::Histogram,
        }
    }
}

/// By what groups are sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupOrder {
    /// By what.
    pub by: GroupOrderBy,
    /// Whether the highest comes first.
    pub is_desc: bool,
}

/// What groups are compared by.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupOrderBy {
    /// Their keys.
    Key,
    /// How many rows they have.
    Rows,
    /// A metric of theirs, by name.
    Metric(String),
}

/// What was computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregated {
    /// In the order of the request, by name.
    pub metrics: Vec<(String, MeasureKind, Measured)>,
    /// In the order of the request, by name.
    pub groups: Vec<(String, GroupForm, Vec<Group>)>,
}

/// What was computed of one metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// There was no value.
    Nothing,
    /// A number.
    Number(f64),
    /// How many.
    Count(u64),
    /// Percents and values, ascending.
    Percentiles(Vec<(f64, Value)>),
}

/// A group of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What its rows have in common.
    pub key: GroupKey,
    /// How many rows.
    pub rows: u64,
    /// What was computed of them.
    pub inner: Aggregated,
}

/// What the rows of a group have in common.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupKey {
    /// A value, as a text.
    Text(String),
    /// A range.
    Range(f64, f64),
    /// A query.
    Filter,
    /// A step.
    Step(Value),
}

/// Aggregations in each other.
pub const AGGREGATES_DEPTH_MAX: usize = 5;
/// Metrics, or groupings, beside each other, and filters of one.
pub const AGGREGATES_MAX: usize = 10;
/// Metrics and groupings of one search.
pub const AGGREGATES_ALL_MAX: usize = 100;
/// Groups of one grouping that are returned.
pub const GROUPS_MAX: usize = 2_000;
/// Groups of one search that are made on the way.
pub const GROUPS_ALL_MAX: usize = 100_000;
