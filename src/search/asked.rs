//! What all parts of one search have in common.
//!
//! Owns: its deadline, its memory, and which rows it may find at all. Promises: whatever a part holds counts for the
//! search. Must not: know a query.

use std::sync::Arc;

use crate::collect::Share;
use crate::deadline::Deadline;

/// See the top.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) deadline: Arc<Deadline>,
    /// What it may hold.
    pub(crate) share: Arc<Share>,
    /// Only rows whose newest version is not older, ms since 1970.
    pub(crate) since_ms: Option<i64>,
    /// Rows of its page; 0 = it is no page.
    pub(crate) limit: usize,
}
