//! Search indexes as they are asked for: fields, analyzers, queries, sorts, and why one of them is refused.
//!
//! Owns: the words of searches that the wire, the definitions of tables and the engine share. Promises: a schema or a
//! query that passed its checks breaks no documented limit; the JSON of a schema is a format on disk. Must not: analyse
//! a text or look into an index.

mod date;
mod field;
mod geo;
mod invalid;
mod query;
mod schema;

use date::DateFormat;
pub use date::DateFormats;
pub use field::{Analyzer, Field, FieldType, KEYWORD_BYTES_MAX, Metric, VectorOptions};
pub use geo::{Point, StoredPoint, distance_m, is_inside};
pub use invalid::InvalidSearch;
pub use query::{
    ASKED_BYTES_MAX, Bool, Columns, Match, MinimumMatch, Missing, Query, QueryNodes, SORTERS_MAX,
    Scan, Search, Sort, SortMode, Sorter, Total,
};
pub use schema::{SearchIndex, SearchIndexUpdate, SearchSchema};
