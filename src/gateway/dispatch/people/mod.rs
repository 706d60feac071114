//! Calls on what lies at users.
//!
//! Owns: from each decoded call to the layer that does it. Promises: one decision about rights each. Must not: encode.

pub(in super::super) mod conversation;
pub(super) mod feed;
pub(super) mod position;
pub(super) mod receipt;
