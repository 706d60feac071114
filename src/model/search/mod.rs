//! Search indexes as they are asked for: fields, analyzers, queries, sorts, and why one of them is refused.
//!
//! Owns: the words of searches that the wire, the definitions of tables and the engine share. Promises: a schema or a
//! query that passed its checks breaks no documented limit; the JSON of a schema is a format on disk. Must not: analyse
//! a text or look into an index.

mod aggregate;
mod ask;
mod date;
mod field;
mod find;
mod geo;
mod invalid;
mod query;
mod schema;
mod scored;
mod show;
mod sort;
mod steps;

pub use aggregate::{
    AGGREGATES_ALL_MAX, AGGREGATES_DEPTH_MAX, AGGREGATES_MAX, Aggregated, Aggregates,
    GROUPS_ALL_MAX, GROUPS_MAX, Group, GroupBy, GroupForm, GroupKey, GroupKind, GroupOrder,
    GroupOrderBy, Measure, MeasureKind, Measured, SOURCES_MAX, TOP_ROWS_MAX,
};
pub use ask::{Columns, Scan, Search, Total};
use date::DateFormat;
pub use date::{DateFormats, zone_ms};
pub use field::{Analyzer, Field, FieldType, KEYWORD_BYTES_MAX, Metric, VectorOptions};
pub use find::{
    FIND_LIMIT_MAX, FIND_TIMELINES_MAX, FIND_WHERE_MAX, FindOrder, FoundMessage, FoundPart,
    FoundText, MESSAGE_INDEX, QUERY_BYTES_MAX, TIMELINE_INDEX, WHERE_BYTES_MAX, WHERE_NAMES_MAX,
    fields, message_index, timeline_index,
};
pub use geo::{CELL_CHARS_MAX, Point, StoredPoint, cell_corners, cell_name, distance_m, is_inside};
pub use invalid::InvalidSearch;
pub use query::{
    ASKED_BYTES_MAX, Best, Bool, Function, FunctionKind, Functions, Match, MinimumMatch, Near,
    Nested, Query, QueryNodes,
};
pub use schema::{SearchIndex, SearchIndexUpdate, SearchSchema};
pub use scored::{
    Combine, Curve, DIMENSIONS_MAX, Decay, Fold, Modifier, NEAR_MAX, NEAR_PARTS, ObjectScores,
    Origin,
};
pub use show::{
    FRAGMENT_CHARS_MAX, FRAGMENTS_MAX, Fragments, HIGHLIGHTS_MAX, Highlight, HighlightField,
    Highlighted, INNER_HITS_MAX, InnerHit, InnerHits, Inside, Shown, TAG_BYTES_MAX,
};
pub use sort::{Missing, SORTERS_MAX, Sort, SortMode, Sorter};
pub use steps::{DateSteps, DateUnit};
