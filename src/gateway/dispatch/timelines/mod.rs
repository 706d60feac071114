//! Calls on timelines, their messages and members.
//!
//! Owns: from each decoded call to the layer that does it. Promises: one decision about rights each. Must not: encode.

pub(super) mod marks;
pub(super) mod member;
pub(in super::super) mod message;
pub(super) mod schedule;
pub(in super::super) mod signal;
pub(super) mod timeline;
