//! Schemas and the description of the protocol, made from the types.
//!
//! Owns: how types become schemas. Promises: what a schema forbids is refused, and the other way round but for what no
//! schema can say (byte lengths, names twice, opaque texts). Must not: check input; the families and `check.rs` do.

pub(super) mod generator;
pub(super) mod openrpc;
pub(super) mod rules;
pub mod schemas;
