//! A search, or a step of a scan, as it is asked for.
//!
//! Owns: the two requests. Must not: know what a query means.

use super::{Aggregates, Highlight, Query, Sort};

/// Whether the rows that match are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Total {
    /// They are not.
    #[default]
    No,
    /// All of them.
    All,
}

/// Which columns of the rows are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// None but the key.
    #[default]
    None,
    /// All.
    All,
    /// These.
    These(Vec<String>),
    /// Those of the index's fields.
    OfIndex,
}

/// A search, as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Which rows.
    pub query: Query,
    /// In which order; `None` = in the index's.
    pub sort: Option<Sort>,
    /// So many rows are left out first.
    pub offset: usize,
    /// So many rows at most are wanted.
    pub limit: usize,
    /// Goes on behind an earlier page, as that said.
    pub token: Option<Vec<u8>>,
    /// Whether the rows that match are counted.
    pub total: Total,
    /// Of these, rows that are returned and counted; aggregations are of all.
    pub filter: Option<Query>,
    /// Of rows that have this field alike, only the first; those without it are alike.
    pub collapse: Option<String>,
    /// What is computed of all that match.
    pub aggregates: Aggregates,
    /// Pieces of texts around what was looked for.
    pub highlight: Highlight,
    /// What of the rows.
    pub columns: Columns,
    /// How long the caller waits, ms; `None` = as long as may be.
    pub timeout_ms: Option<u64>,
}

/// A step of a scan, as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Which rows; the same in each step.
    pub query: Query,
    /// So many rows at most are wanted.
    pub limit: usize,
    /// How long what it reads is kept for the next step, ms.
    pub alive_ms: u64,
    /// The session that it belongs to; `None` = one of its own.
    pub session: Option<Vec<u8>>,
    /// Goes on behind an earlier step, as that said.
    pub token: Option<Vec<u8>>,
    /// What of the rows.
    pub columns: Columns,
    /// How long the caller waits, ms; `None` = as long as may be.
    pub timeout_ms: Option<u64>,
}
