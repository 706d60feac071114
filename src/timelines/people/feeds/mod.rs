//! Feeds: the timelines that a user follows, the inboxes that messages are written into, and what is read of both.
//!
//! Owns: follows, feeds, the jobs, and what the relay writes to followers and inboxes (their rows are those of
//! `timeline/inbox`). Promises: a message comes to an inbox once. Must not: decide which users a message is for.

pub(super) mod feed;
pub(super) mod followers;
pub(super) mod follows;
pub(super) mod inboxes;
pub(super) mod jobs;
