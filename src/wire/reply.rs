//! What a request is answered with, one variant for each method.
//!
//! Owns: the list. Promises: each variant serialises as its result alone, without a tag. Must not: carry failures or
//! ids; a dialect adds those.

use serde::Serialize;

use super::openrpc::Discovered;
use super::{message, session, sync, timeline};

/// The result of a call that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// `session.open`.
    SessionOpen(Box<session::Opened>),
    /// `ping`.
    Ping(session::Pong),
    /// `rpc.discover`: the OpenRPC document.
    Discover(Discovered),
    /// `timeline.create`.
    TimelineCreate(timeline::Created),
    /// `timeline.get`.
    TimelineGet(Box<timeline::Info>),
    /// `timeline.update`.
    TimelineUpdate(timeline::Updated),
    /// `timeline.delete`.
    TimelineDelete(timeline::Deleted),
    /// `timeline.trim`.
    TimelineTrim(timeline::Trimmed),
    /// `timeline.list`.
    TimelineList(timeline::Listed),
    /// `message.append`.
    MessageAppend(message::Appended),
    /// `message.append_batch`.
    MessageAppendBatch(message::AppendedBatch),
    /// `message.get`.
    MessageGet(Box<message::Got>),
    /// `message.range`.
    MessageRange(message::Page),
    /// `message.update`.
    MessageUpdate(Box<message::Got>),
    /// `message.delete`.
    MessageDelete(message::Deleted),
    /// `sync`.
    Sync(sync::Synced),
    /// `subscribe`.
    Subscribe(Box<sync::Subscribed>),
    /// `unsubscribe`.
    Unsubscribe(sync::Unsubscribed),
}
