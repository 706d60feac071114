//! What a client can ask for, one variant for each method.
//!
//! Owns: the list and the names of the methods. Promises: a request that a dialect hands out has passed its family's
//! checks. Must not: know ids, batches or encodings; a dialect does.

use serde::Serialize;

use super::{message, session, sync, timeline};

/// A decoded and checked call. Serialises as its parameters alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Request {
    /// `session.open`.
    SessionOpen(session::Open),
    /// `ping`.
    Ping,
    /// `rpc.discover`.
    Discover,
    /// `timeline.create`.
    TimelineCreate(timeline::Create),
    /// `timeline.get`.
    TimelineGet(timeline::Get),
    /// `timeline.update`.
    TimelineUpdate(timeline::Update),
    /// `timeline.delete`.
    TimelineDelete(timeline::Delete),
    /// `timeline.trim`.
    TimelineTrim(timeline::Trim),
    /// `timeline.list`.
    TimelineList(timeline::List),
    /// `message.append`.
    MessageAppend(message::Append),
    /// `message.append_batch`.
    MessageAppendBatch(message::AppendBatch),
    /// `message.get`.
    MessageGet(message::Get),
    /// `message.range`.
    MessageRange(message::Range),
    /// `message.update`.
    MessageUpdate(message::Update),
    /// `message.delete`.
    MessageDelete(message::Delete),
    /// `sync`.
    Sync(sync::Sync),
    /// `subscribe`.
    Subscribe(sync::Subscribe),
    /// `unsubscribe`.
    Unsubscribe(sync::Unsubscribe),
}

impl Request {
    /// The name of the method on the wire; also the label in metrics.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Request::SessionOpen(_) => "session.open",
            Request::Ping => "ping",
            Request::Discover => "rpc.discover",
            Request::TimelineCreate(_) => "timeline.create",
            Request::TimelineGet(_) => "timeline.get",
            Request::TimelineUpdate(_) => "timeline.update",
            Request::TimelineDelete(_) => "timeline.delete",
            Request::TimelineTrim(_) => "timeline.trim",
            Request::TimelineList(_) => "timeline.list",
            Request::MessageAppend(_) => "message.append",
            Request::MessageAppendBatch(_) => "message.append_batch",
            Request::MessageGet(_) => "message.get",
            Request::MessageRange(_) => "message.range",
            Request::MessageUpdate(_) => "message.update",
            Request::MessageDelete(_) => "message.delete",
            Request::Sync(_) => "sync",
            Request::Subscribe(_) => "subscribe",
            Request::Unsubscribe(_) => "unsubscribe",
        }
    }
}
