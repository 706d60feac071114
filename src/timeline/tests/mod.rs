//! Tests of the timelines as a whole.
//!
//! Promises: one file per subject. Must not: be in a build that is not a test.

mod virtual_tables;
