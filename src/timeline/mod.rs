//! Timelines: messages in gapless order, their meta, idempotence, changes, sync positions.
//!
//! Owns: what PROTOCOL calls promises 1 to 7. Must not: know JSON-RPC or sockets.

mod message;

pub use message::{
    Append, AppendOne, Appended, Changed, Columns, Error, Head, Limits, Message, Meta, Page, Range,
    Resume, ResumeState, Sender, SyncPosition, SyncState, Synced, TimelineEvent, TimelineInfo,
};
