//! Time series: what names one, its points, what is kept of it, and how it is looked for.
//!
//! Owns: the types that the wire, the tables and the catalog share (the JSON of [`SeriesPart`] is a format on disk),
//! and why a request of them is refused. Promises: what passed the checks of `check.rs` breaks no documented limit.
//! Must not: know how a series is stored.

mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{KeyColumn, PrimaryKey, Value};

pub use check::{check_field_name, check_lives, check_series_table_name, parse_pairs, tags_text};

/// Points of a write.
pub const POINTS_MAX: usize = 200;
/// Points of a page, also without a limit.
pub const POINTS_PAGE_MAX: usize = 5_000;
/// Series of a page.
pub const METAS_PAGE_MAX: usize = 1_000;
/// Series of a page without a limit.
pub const METAS_PAGE: usize = 100;
/// Series whose attributes one request changes, or that it deletes.
pub const METAS_MAX: usize = 200;
/// Columns that name a series, if a table has its own.
pub const SERIES_KEYS_MAX: usize = 6;
/// Fields that are part of a point's key.
pub const KEY_FIELDS_MAX: usize = 4;
/// Bytes of the name of a table, of a field, and of a measurement.
pub const SERIES_NAME_BYTES_MAX: usize = 128;
/// Bytes of a data source.
pub const SOURCE_BYTES_MAX: usize = 256;
/// Bytes of a series' tags as they are written.
pub const TAGS_BYTES_MAX: usize = 512;
/// Bytes of a series' attributes as they are written; ours.
pub const ATTRIBUTES_BYTES_MAX: usize = 4 << 10;
/// Attributes of a series: as many values of a list as a search index has; ours.
pub const ATTRIBUTES_MAX: usize = 256;
/// Points may live so short a time, s.
pub const POINTS_LIFE_S_MIN: i64 = 86_400;
/// What is kept of a series may live so short a time, s.
pub const METAS_LIFE_S_MIN: i64 = 604_800;
/// Conditions of a query, those inside of others counted; ours.
pub const CONDITIONS_MAX: usize = 100;
/// How deep conditions lie in each other; ours.
pub const CONDITIONS_DEPTH_MAX: usize = 10;

/// The column of the measurement.
pub const MEASUREMENT: &str = "_m_name";
/// The column of the data source.
pub const SOURCE: &str = "_data_source";
/// The column of the tags that have none of their own.
pub const TAGS: &str = "_tags";

/// Behind the name of a field, in a point's row, its type; in the order in which clients number types, from 1.
pub const FIELD_TYPES: [&str; 5] = ["long", "bool", "double", "string", "binary"];

/// The column of a field with this value: one field may have points of several types.
#[must_use]
pub fn point_column(field: &str, value: &Value) -> String {
    let kind = match value {
        Value::Integer(_) => 0,
        Value::Boolean(_) => 1,
        Value::Double(_) => 2,
        Value::String(_) | Value::Json(_) => 3,
        Value::Binary(_) => 4,
    };
    format!("{field}:{}", FIELD_TYPES[kind])
}

/// What names a series.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesKey {
    /// What is measured.
    pub measurement: String,
    /// Where; may be empty.
    pub source: String,
    /// What else tells it apart.
    pub tags: BTreeMap<String, String>,
}

/// Of a table of the catalog: that it holds a part of a table of series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesPart {
    /// The columns that name a series, in order.
    pub keys: Vec<String>,
    /// It has what is kept of each series, and not the points.
    #[serde(default)]
    pub is_meta: bool,
    /// Whether attributes may be changed.
    pub allows_attributes: bool,
}

/// A table of series as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSeries {
    /// Its name.
    pub name: String,
    /// Its columns that name a series; none = measurement, source and tags.
    pub keys: Vec<String>,
    /// Fields that are part of a point's key.
    pub fields: Vec<KeyColumn>,
    /// Seconds that a point lives, counted from its own time; -1 = for ever.
    pub points_life_s: i64,
    /// Seconds for which what is known of a series is kept, counted from its last change; -1 = for ever.
    pub metas_life_s: i64,
    /// Whether attributes may be changed.
    pub allows_attributes: bool,
}

/// A change of a table of series: only what is given changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesUpdate {
    /// See [`NewSeries::points_life_s`].
    pub points_life_s: Option<i64>,
    /// See [`NewSeries::metas_life_s`].
    pub metas_life_s: Option<i64>,
    /// See [`NewSeries::allows_attributes`].
    pub allows_attributes: Option<bool>,
}

/// A point of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The series.
    pub key: SeriesKey,
    /// When, µs since 1970.
    pub time_us: i64,
    /// Each name once.
    pub fields: Vec<(String, Value)>,
}

/// Points that are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct PointsAsked {
    /// The series.
    pub key: SeriesKey,
    /// From this time on, µs since 1970.
    pub begin_us: i64,
    /// Before this time.
    pub end_us: i64,
    /// The latest ones first.
    pub is_backward: bool,
    /// So many at most.
    pub limit: usize,
    /// Only these fields, as columns; none = all.
    pub columns: Vec<String>,
    /// Where an earlier page ended, as that said.
    pub next: Option<PrimaryKey>,
}

/// What is kept of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesMeta {
    /// The series.
    pub key: SeriesKey,
    /// What programs say of it.
    pub attributes: BTreeMap<String, String>,
    /// When it was last changed or noted again, µs since 1970.
    pub updated_us: i64,
}

/// How a value compares with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesOperator {
    /// Is it.
    Equal,
    /// Is above.
    GreaterThan,
    /// Is it or above.
    GreaterEqual,
    /// Is below.
    LessThan,
    /// Is it or below.
    LessEqual,
    /// Begins with it.
    Prefix,
}

/// Which series are looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesCondition {
    /// All of these hold.
    And(Vec<SeriesCondition>),
    /// One of these holds.
    Or(Vec<SeriesCondition>),
    /// This does not hold.
    Not(Box<SeriesCondition>),
    /// The measurement compares.
    Measurement(SeriesOperator, String),
    /// The source compares.
    Source(SeriesOperator, String),
    /// The tag of this name compares.
    Tag(SeriesOperator, String, String),
    /// The attribute of this name compares.
    Attribute(SeriesOperator, String, String),
    /// The time of the last change compares, µs since 1970.
    Updated(SeriesOperator, i64),
}

/// Series that are looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesAsked {
    /// Which; `None` = all.
    pub condition: Option<SeriesCondition>,
    /// Whether they are counted.
    pub counts: bool,
    /// So many at most.
    pub limit: usize,
    /// Goes on behind an earlier page, as that said.
    pub token: Option<Vec<u8>>,
}

/// Why a request of series is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidSeries {
    /// A measurement is empty, too long, or has characters that it may not have.
    Measurement(String),
    /// A data source is too long.
    Source(usize),
    /// A tag's or attribute's name or value is empty or has characters that it may not have.
    Pair(String),
    /// Tags or attributes are not written as such.
    Pairs,
    /// A name comes twice.
    Duplicate(String),
    /// Tags, or attributes, are too long.
    PairsTooLong {
        /// Of what.
        what: &'static str,
        /// The most bytes.
        most: usize,
        /// The given ones.
        length: usize,
    },
    /// The name of a field, or of a column that names series, is not one.
    Field(String),
    /// A point without fields.
    NoFields,
    /// A time before 1970, or too late.
    Time(i64),
    /// A value of the series' name for which the table has no column.
    NoColumn(&'static str),
    /// A series without what a column of the table names.
    MissingKey(String),
    /// A point without a field that is part of its key.
    MissingField(String),
    /// A field that is part of the key has another type.
    FieldType(String),
    /// A table has so many columns of a kind at most, or a series so many attributes.
    Count(&'static str, usize),
    /// A time to live is too short.
    Life(i64),
    /// What is known of series ends before their points do, or attributes can be changed and it ends.
    MetasLife,
    /// Neither options of points nor of series are given, or both.
    Options,
    /// Attributes of this table can't be changed.
    Attributes,
    /// The begin of a range of times does not lie before its end.
    Range,
    /// A limit out of its range.
    Limit(usize),
    /// An unknown condition.
    Condition,
    /// A token that is not of this query.
    Token,
    /// The client knows only tables with the usual columns.
    Version,
}
