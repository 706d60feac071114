//! Schemas and the description of the protocol, made from the types.
//!
//! Owns: how types become schemas. Promises: what a schema allows is decoded. Must not: be needed to serve.

pub(super) mod generator;
pub(super) mod openrpc;
pub(super) mod rules;
pub mod schemas;
