//! Keys that tokens are verified with.
//!
//! Owns: where they come from, their algorithms, and the check of a signature. Promises: a key is of one algorithm.
//! Must not: read what a token says.

pub(super) mod files;
pub(super) mod jwks;
pub(super) mod jwks_url;
pub(super) mod parse;
pub(super) mod ring_provider;
