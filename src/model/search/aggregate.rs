//! What a search computes of all rows that match: metrics, and groups of rows with metrics of their own.
//!
//! Owns: the forms of aggregations, their limits and their results. Must not: know which fields an index has.

use super::{DateSteps, Point, Query, Sort};
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
    /// Of which field; empty = of none.
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
    /// The first rows.
    TopRows {
        /// So many at most.
        limit: usize,
        /// In this order; `None` = in that of their keys.
        sort: Option<Sort>,
    },
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
    /// How far a field's point is from another one, metres: ranges as above, in the order of the answer.
    Distance {
        /// The field.
        field: String,
        /// From where.
        origin: Point,
        /// From the first, below the second.
        ranges: Vec<(f64, f64)>,
    },
    /// Cells of the globe that a field's point is in.
    Grid {
        /// The field.
        field: String,
        /// How many characters the names of cells have.
        precision: u32,
        /// So many groups at most are wanted.
        size: usize,
    },
    /// Queries.
    Filter(Vec<Query>),
    /// Steps of a field's values.
    Histogram {
        /// The field.
        field: String,
        /// A step, above 0.
        interval: f64,
        /// Where a step begins.
        offset: f64,
        /// What rows without a value count as.
        missing: Option<Value>,
        /// Groups with fewer rows are left out; 0 = none is, and steps without rows are groups too.
        least: u64,
        /// Only values from the first to the second.
        range: Option<(f64, f64)>,
        /// In this order; then by key.
        order: Vec<GroupOrder>,
    },
    /// Steps of the calendar that a field's dates are in.
    Dates {
        /// The field.
        field: String,
        /// The steps.
        steps: DateSteps,
        /// As of a histogram.
        missing: Option<Value>,
        /// As of a histogram.
        least: u64,
        /// As of a histogram, as the field has dates.
        range: Option<(Value, Value)>,
        /// In this order; then by key.
        order: Vec<GroupOrder>,
    },
    /// Several of these at once: fields and steps. Rows that have one of them not are in a group without it.
    Several {
        /// By name.
        sources: Vec<(String, GroupKind)>,
        /// So many groups at most are wanted.
        size: usize,
        /// Goes on behind earlier groups, as those said.
        after: Option<String>,
    },
}

/// What is the key of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupForm {
    /// A value.
    Field,
    /// A range.
    Range,
    /// A range of metres.
    Distance,
    /// A cell of the globe.
    Grid,
    /// A query.
    Filter,
    /// A step.
    Histogram,
    /// A step of the calendar.
    Dates,
    /// One of each of several groupings.
    Several {
        /// Their names.
        names: Vec<String>,
        /// Behind which more groups are; `None` = that was all.
        next: Option<String>,
    },
}

impl GroupKind {
    /// What is the key of its groups.
    #[must_use]
    pub fn form(&self) -> GroupForm {
        match self {
            GroupKind::Field { .. } => GroupForm::Field,
            GroupKind::Range { .. } => GroupForm::Range,
            GroupKind::Distance { .. } => GroupForm::Distance,
            GroupKind::Grid { .. } => GroupForm::Grid,
            GroupKind::Filter(_) => GroupForm::Filter,
            GroupKind::Histogram { .. } => GroupForm::Histogram,
            GroupKind::Dates { .. } => GroupForm::Dates,
            GroupKind::Several { sources, .. } => GroupForm::Several {
                names: sources.iter().map(|(name, _)| name.clone()).collect(),
                next: None,
            },
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
    /// Rows, by their encoded keys.
    Rows(Vec<Vec<u8>>),
}

impl Aggregated {
    /// The encoded keys of all rows that it names.
    #[must_use]
    pub fn rows(&self) -> Vec<&[u8]> {
        let own = self
            .metrics
            .iter()
            .flat_map(|(.., measured)| match measured {
                Measured::Rows(keys) => keys.iter().map(Vec::as_slice).collect(),
                _ => Vec::new(),
            });
        let groups = self.groups.iter().flat_map(|(.., groups)| groups);
        own.chain(groups.flat_map(|group| group.inner.rows()))
            .collect()
    }
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
    /// A step of the calendar: when it begins, ms since 1970.
    Time(i64),
    /// A cell: its name, its highest latitude with its lowest longitude, and the other corner.
    Cell(String, Point, Point),
    /// A key of each of several groupings, as a text; `None` = its rows have none.
    Several(Vec<Option<String>>),
}

/// Aggregations in each other.
pub const AGGREGATES_DEPTH_MAX: usize = 5;
/// Metrics, or groupings, beside each other, and filters of one.
pub const AGGREGATES_MAX: usize = 10;
/// Metrics and groupings of one search.
pub const AGGREGATES_ALL_MAX: usize = 100;
/// Rows that one metric gives.
pub const TOP_ROWS_MAX: usize = 100;
/// Groupings that are done at once.
pub const SOURCES_MAX: usize = 20;
/// Groups of one grouping that are returned.
pub const GROUPS_MAX: usize = 2_000;
/// Groups of one search that are made on the way.
pub const GROUPS_ALL_MAX: usize = 100_000;
