//! Keys that tokens are verified with.
//!
//! Owns: where they come from, and their algorithms. Promises: a key is of one algorithm. Must not: judge tokens.

pub(super) mod files;
pub(super) mod jwks;
pub(super) mod jwks_url;
pub(super) mod ring_provider;
pub(super) mod verifying_key;
