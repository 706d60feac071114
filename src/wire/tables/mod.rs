//! What is said of tables, rows and streams.
//!
//! Owns: these families' parameters and results. Promises: a type is what its schema says. Must not: decide.

pub mod changes;
pub mod row;
pub mod row_filter;
pub mod sql;
pub mod stream;
pub mod table;
