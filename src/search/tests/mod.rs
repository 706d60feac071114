//! Tests of search indexes over real tables and logs.
//!
//! Owns: what they share. Must not: be in a build that is not a test.

mod aggregates;
mod bed;
mod bounds;
mod expiry;
mod merged;
mod pages;
mod plain;
mod random;
mod scored;
mod searches;
mod shown;

pub(crate) use bed::field;
