//! The members of a timeline, its settings, and what a user may see of it.
//!
//! Owns: member rows, settings, policies, and the floor of each reader. Promises: every read of a client goes by
//! [`Reader`], and every write decides on membership in its own batch; a timeline without members and settings costs
//! no look-up. Must not: know unread counts or a user's own list.

mod admit;
pub(super) mod call;
pub(super) mod change;
pub(super) mod change_row;
pub(super) mod configure;
mod conversation;
mod direct;
mod list;
mod membership;
mod row;
mod settings;
pub(super) mod settings_row;
mod verify;

pub use admit::DIRECT;
pub(in crate::timeline) use admit::{Reader, checked, rights_to_make};
pub use call::{
    AddMembers, Create, ListMembers, ListedMembers, Member, MembersChanged, NewMember, NextMembers,
    RemoveMembers, SettingsPatch, UpdateMember,
};
pub use conversation::{Conversation, Looked, Pulse};
pub(in crate::timeline) use membership::member as changed_member;
pub use membership::{MemberChange, memberships};
pub use row::{DEFAULT_ROLE, MemberRow};
pub(crate) use settings::INBOX;
pub use settings::{Configured, FAN_OUT_MEMBERS_MAX, Policies, Policy, Settings};
