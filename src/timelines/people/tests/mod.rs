//! Tests of what lies at a user, on a partition.
//!
//! Owns: one file a subject. Promises: rows are looked at from outside, through views. Must not: look below the
//! partition.

mod bed;
mod conversations;
mod feed;
mod inboxes;
mod positions;
mod verify;
