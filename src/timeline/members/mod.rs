//! Who belongs to a timeline, what its settings are, and what a user may see of it.
//!
//! Owns: member rows, settings, policies, and the floor of each reader. Promises: every read of a client goes by
//! [`reader`], and every write decides on membership in its own batch; a timeline without members and settings costs
//! no look-up. Must not: know unread counts or a user's own list.

mod conversation;
mod membership;
mod reader;
mod row;
mod settings;

pub use conversation::{Conversation, Pulse};
pub use membership::{MemberChange, memberships};
pub(in crate::timeline) use reader::Reader;
pub use row::MemberRow;
pub use settings::{Edit, EditBy, FanOut, Kept, Policies, Policy, Settings};
