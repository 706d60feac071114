//! Calls on what lies at users.
//!
//! Owns: the way from each decoded call to the layer that does it. Promises: the rights that a call needs go with it to
//! that layer, which decides about them when it looks at the rows. Must not: encode.

pub(in super::super) mod conversation;
pub(super) mod feed;
pub(super) mod position;
pub(super) mod receipt;
