//! The vocabulary of rows, timelines and people: what the tables, the timelines and the wires all speak of.
//!
//! Owns: keys, values, cells and rows; what a read selects and a write changes; tables' definitions; the limits of all
//! of them, and [`Error`], every reason to refuse a call on rows or tables. [`timelines`], [`people`] and [`server`]
//! have the types that those layers give and clients get, [`entry`] how values are read and written there, [`access`]
//! who calls and what they may do. Promises: pure data and pure rules, but for [`access`], which also keeps the rules
//! in force and which credential of a session counts. A request of rows is checked once, by the constructors and checks
//! here, when it is decoded; the tables check only what needs a definition or a stored row. Must not: know the catalog,
//! a format on disk or a dialect.

pub mod access;
#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
mod check;
mod definition;
pub mod entry;
mod error;
mod filter;
mod key;
pub mod limits;
pub mod people;
mod read;
mod row;
pub mod search;
pub mod series;
pub mod server;
mod stream;
pub mod timelines;
mod transaction;
mod value;
mod write;

pub use check::{KeyUse, NO_CONTROL, check_column_name, check_table_name, check_version};
pub use definition::defined::{ColumnType, DefinedColumn};
pub use definition::index::{IndexDefinition, IndexKind, IndexMeta, IndexState};
pub use definition::mapping::{
    InvalidMapping, MAPPED_COLUMNS_MAX, MAPPINGS_MAX, MappedColumn, Mapping, MappingOptions,
};
pub use definition::options::{OptionsUpdate, TableOptions};
pub use definition::{
    Definition, NewTable, TableUpdate, Throughput, check_defined_columns, check_key_columns,
};
pub use error::Error;
pub use filter::{
    Cast, ColumnPage, Comparator, Condition, EXPRESSIONS_BYTES_MAX, Effort, Existence, Filter,
    Predicate, REQUEST_EXPRESSIONS_BYTES_MAX, Relation, TooCostly, Transfer,
};
pub use key::{KeyColumn, KeyType, KeyValue, PrimaryKey, key_size};
pub use read::{Asking, Direction, GetRange, Selection};
pub use row::{Cell, Consumed, FoundCell, FoundRow, RowRef, RowSink, column, units};
pub use stream::{
    ChangeKind, ChangeRef, ChangeSink, ChangedCell, STREAM_HOURS_MAX, Stream, StreamSpec,
};
pub use transaction::TransactionId;
pub use value::{Value, ValueRef, json_bytes, json_text_bytes};
pub use write::{CellChange, PutCell, ReturnContent, RowChange, RowWrite};
