//! The seam between sessions and the protocols that clients speak.
//!
//! Owns: what a session needs of a [`Dialect`], and no more: which sub-protocol asks for it, which frames carry it,
//! from a frame to calls, from answers and pushes to bytes, and which pushes have the same bytes. Promises: a session
//! treats all dialects alike; ids, envelopes and batches are matters of the dialect. Must not: know any dialect.

use std::fmt;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::limits::Limits;
use super::messages::entry::Integers;
use super::methods::{Method, Reply, Request};
use super::push::Push;
use super::reasons::Reason;
use tideline_base::trace::TraceParent;

/// A protocol that clients speak over a WebSocket.
pub trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// The WebSocket sub-protocol that asks for it.
    fn subprotocol(&self) -> &'static str;

    /// The frames that carry it; one of the other kind ends the connection.
    fn frames(&self) -> Frames;

    /// Takes the payload of one frame (or the body of one HTTP request) apart into calls, each decoded and checked. A
    /// dialect whose frames the session takes apart itself has none.
    ///
    /// # Errors
    /// What can't be taken apart at all. It is answered by this failure with [`Id::Null`].
    fn decode(&self, _bytes: &[u8], _limits: &Limits) -> Result<Incoming, Failure> {
        Err(Reason::InvalidRequest.into())
    }

    /// Appends one answer, as a frame of its own.
    fn answer(&self, out: &mut Vec<u8>, id: &Id, answer: Result<&Reply, &Failure>);

    /// Encodes a push as one frame; an empty one is not sent: the dialect has no words for it.
    fn push(&self, push: &Push<'_>) -> Bytes;

    /// How many different forms a push can have in this dialect.
    fn forms(&self) -> usize;

    /// The form of pushes for a client that wants big integers like this, below [`Dialect::forms`]. Pushes of one form
    /// have the same bytes: they are encoded once and shared by all connections.
    fn form(&self, integers: Integers) -> usize;
}

/// A kind of WebSocket frames, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// UTF-8.
    Text,
    /// Bytes.
    Binary,
    /// It goes out as a response of HTTP.
    None,
}

/// What came in one frame or body.
#[derive(Debug)]
pub enum Incoming {
    /// One call.
    One(Call),
    /// Calls that are answered each by itself, as if each had come in a frame of its own: at most
    /// [`Limits::requests_in_flight_max`]; perhaps none.
    Several(Vec<Call>),
    /// Calls that are answered together, in one frame.
    Batch(Vec<Call>, Box<dyn Together>),
}

impl Incoming {
    /// The calls.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        match self {
            Incoming::One(call) => std::slice::from_ref(call),
            Incoming::Several(calls) | Incoming::Batch(calls, _) => calls,
        }
    }

    /// The calls, to refuse some before they begin.
    pub fn calls_mut(&mut self) -> &mut [Call] {
        match self {
            Incoming::One(call) => std::slice::from_mut(call),
            Incoming::Several(calls) | Incoming::Batch(calls, _) => calls,
        }
    }
}

/// The frame that answers a batch, while it is put together.
pub trait Together: fmt::Debug + Send {
    /// Takes the answer of the next call that has an id. If the frame has no room for it, a shorter answer goes in;
    /// returns whether it went in as it is.
    fn add(&mut self, id: &Id, answer: Result<Reply, Failure>) -> bool;

    /// The whole frame; `None` if there is nothing to answer.
    fn finish(self: Box<Self>) -> Option<Bytes>;
}

/// One call: what is asked, and what its answer names it by.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `None` = a notification: never answered, also not with a failure.
    pub id: Option<Id>,
    /// Which method is called; `None` = that could not be made out, or there is none of that name.
    pub method: Option<Method>,
    /// The place in a trace that it was called from.
    pub traceparent: Option<TraceParent>,
    /// What to do, or why not.
    pub request: Result<Request, Failure>,
}

/// What the client named a call by. A session only hands it back; what may be an id is up to the dialect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Id {
    /// Of a failure whose call's id could not be made out; never of a request.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A 64-bit integer above `i64::MAX`.
    Unsigned(u64),
    /// Text.
    Text(String),
    /// A number in a dialect that answers some calls without their result.
    #[serde(skip)]
    #[schemars(skip)]
    Numbered {
        /// The number.
        id: u32,
        /// Whether the answer has the result in it.
        has_result: bool,
    },
}

/// For the log.
impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Null => out.write_str("null"),
            Id::Integer(id) => id.fmt(out),
            Id::Unsigned(id) => id.fmt(out),
            Id::Text(id) => id.escape_debug().fmt(out),
            Id::Numbered { id, .. } => id.fmt(out),
        }
    }
}

impl dyn Dialect {
    /// Encodes one answer.
    #[must_use]
    pub fn encode(&self, id: &Id, answer: Result<&Reply, &Failure>) -> Bytes {
        let mut out = Vec::with_capacity(ANSWER_BYTES);
        self.answer(&mut out, id, answer);
        Bytes::from(out)
    }

    /// Encodes the answers of calls that were done together, each as a frame of its own; they share one buffer.
    #[must_use]
    pub fn encode_all<'a>(
        &self,
        answers: impl Iterator<Item = (&'a Id, Result<Reply, Failure>)>,
    ) -> Vec<Bytes> {
        let count = answers.size_hint().1.unwrap_or_default();
        let mut ends = Vec::with_capacity(count);
        let mut out = Vec::with_capacity(count * ANSWER_BYTES);
        for (id, answer) in answers {
            self.answer(&mut out, id, answer.as_ref());
            ends.push(out.len());
        }
        let all = Bytes::from(out);
        let mut start = 0;
        let cut = |end| all.slice(std::mem::replace(&mut start, end)..end);
        ends.into_iter().map(cut).collect()
    }
}

/// More than most short answers take.
const ANSWER_BYTES: usize = 224;
