//! The vocabulary of rows: what the tables, the timelines and the wires all speak of.
//!
//! Owns: values. Promises: pure data. Must not: know a schema in the catalog, a format on disk or an encoding.

#[cfg(test)]
pub(crate) mod arbitrary;
mod value;

pub use value::{Value, ValueRef, json_bytes, json_text_bytes};

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keys rising.
    Forward,
    /// Keys falling.
    Backward,
}
