//! The vocabulary of timelines: what their layer gives is what clients get.
//!
//! Owns: messages and reactions, settings, members, and what is known of a timeline and of a reader's position in it.
//! Promises: a type here serialises as the protocol says, and is its schema. Must not: know a row, a right or a call.

mod growth;
mod info;
mod member;
mod message;
pub mod reaction;
mod settings;
mod state;

pub use growth::{Grown, Open, Outcome, TEXT};
pub use info::{Head, TimelineInfo};
pub use member::{DEFAULT_ROLE, ListedMembers, Member, NewMember, NextMembers, Receipt, Receipts};
pub use message::{Burial, FeedMessage, Message};
pub use reaction::{Reaction, ReactionPage, Reactions};
pub use settings::{Edit, EditBy, FanOut, Retention, Settings, SettingsPatch};
pub use state::{Ended, Hidden, Lane, Part, SyncState};
