//! Calls on timelines, their messages and members.
//!
//! Owns: the way from each decoded call to the layer that does it. Promises: the rights that a call needs go with it to
//! that layer, which decides about them when it looks at the rows. Must not: encode.

pub(super) mod grow;
pub(super) mod marks;
pub(super) mod member;
pub(in super::super) mod message;
pub(super) mod schedule;
pub(in super::super) mod signal;
pub(super) mod timeline;
