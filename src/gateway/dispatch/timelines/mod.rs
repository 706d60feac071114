//! Calls on timelines, their messages and members.
//!
//! Owns: the way from each decoded call to the layer that does it. Promises: a call's rights go with it to that layer,
//! which decides where it looks at the rows. Must not: encode.

pub(super) mod marks;
pub(super) mod member;
pub(in super::super) mod message;
pub(super) mod schedule;
pub(in super::super) mod signal;
pub(super) mod timeline;
