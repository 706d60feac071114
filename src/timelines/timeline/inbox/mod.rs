//! Which messages go into which inboxes, and the inboxes' own rows.
//!
//! Owns: followers, the number of a head from which its messages go into inboxes, the recipients of a message by its
//! place in the log, and the write of an entry at its user. Promises: the batch of an append says whether its messages
//! go into inboxes; the recipients of a message are the same whenever they are asked for. Must not: know the relay, or
//! what a user follows.

mod audience;
mod entry;
pub(super) mod follower;
mod post;
mod turn;
mod verify;

pub use audience::Recipients;
pub use entry::{Inbox, InboxEntry, InboxWriter, StoredEntry};
pub(in crate::timeline) use follower::user_of;
pub use follower::{FollowerChange, followings};
pub(in crate::timeline) use post::record_posts;
pub use post::{Post, posts};
pub use verify::EachEntry;
