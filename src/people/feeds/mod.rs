//! Feeds: the timelines that a user follows, the inboxes that messages are written into, and what is read of both.
//!
//! Owns: follows, followers, inboxes and feeds. Promises: a message comes to an inbox once. Must not: know members.

pub(super) mod feed;
pub(super) mod followers;
pub(super) mod follows;
pub(super) mod inboxes;
pub(super) mod jobs;
