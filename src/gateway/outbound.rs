//! From what the feed brings to the frames that go out, and the queue in front of a socket.
//!
//! Owns: pushes as bytes; what waits to be written on one connection. Promises: a push is encoded once in each form,
//! from where its messages are, and shared; no message passes the outbound limit unless a single entry does; long
//! messages go out in fragments, so that a socket's buffer stays small. Must not: decide what is sent to whom.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures_util::Sink as _;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::dispatch::shape::{entry, shared_message};
use super::form::Form;
use crate::feed::{Body, Fresh, Names};
use crate::timeline::{Changed, Message, Meta};
use crate::wire::{self, Entry, Frames, Integers, Push, push};

/// `message` for a group of fresh messages.
pub(super) fn fresh(timeline: &str, fresh: &Fresh, form: Form) -> Bytes {
    let shared = |message| shared_message(message, form.integers);
    form.dialect.push(&Push::Message(push::Messages {
        timeline: timeline.into(),
        epoch: (*fresh.epoch).into(),
        messages: fresh.messages.iter().map(shared).collect(),
        head: fresh.head,
    }))
}

/// `message` and `message.changed` for a page of the store, in as many frames as the limit asks for.
pub(super) fn page(timeline: &str, changed: &Changed, form: Form, bytes_max: usize) -> Vec<Bytes> {
    let mut frames = Vec::new();
    for messages in split(&changed.messages, form.integers, bytes_max) {
        frames.push(form.dialect.push(&Push::Message(push::Messages {
            timeline: timeline.into(),
            epoch: changed.head.epoch.as_str().into(),
            messages,
            head: changed.head.head,
        })));
    }
    let all = changed.changed.as_deref().unwrap_or_default();
    let parts = split(all, form.integers, bytes_max);
    let last = parts.len().saturating_sub(1);
    for (part, messages) in parts.into_iter().enumerate() {
        // Readers store this number and resume behind it: it must not run ahead of what they were sent. They come in
        // change order, so a part reaches as far as its last message.
        let reached = messages.last().and_then(|message| message.change);
        frames.push(form.dialect.push(&Push::MessageChanged(push::Changed {
            timeline: timeline.into(),
            epoch: changed.head.epoch.as_str().into(),
            messages,
            change_head: match reached {
                Some(reached) if part < last => reached,
                _ => changed.change_position,
            },
        })));
    }
    frames
}

fn split(
    messages: &[Message],
    integers: Integers,
    bytes_max: usize,
) -> Vec<Vec<wire::message::Message<'_>>> {
    let mut parts: Vec<Vec<_>> = Vec::new();
    let mut left = 0;
    for message in messages {
        let message = shared_message(message, integers);
        let size = message.encoded_bytes_max();
        match parts.last_mut() {
            Some(part) if size <= left => {
                left -= size;
                part.push(message);
            }
            _ => {
                left = bytes_max.saturating_sub(ENVELOPE_BYTES + size);
                parts.push(vec![message]);
            }
        }
    }
    parts
}

/// `timeline.changed`.
pub(super) fn meta(timeline: &str, meta: Meta, version: u64, form: Form) -> Bytes {
    form.dialect
        .push(&Push::TimelineChanged(push::TimelineChanged {
            timeline: timeline.into(),
            meta: entry(meta, form.integers),
            version,
        }))
}

/// `signal`, `presence`: a push that is never stored.
pub(super) fn ephemeral(timeline: &str, body: &Body, form: Form) -> Bytes {
    match body {
        Body::Signal { who, columns } => form.dialect.push(&Push::Signal(push::Signal {
            timeline: timeline.into(),
            user: (*who.user).into(),
            device: who.device.as_deref().map(Cow::from),
            signal: Entry {
                columns: Cow::Borrowed(columns),
                integers: form.integers,
            },
        })),
        Body::Presence { online, names } => presence(timeline, *online, names.as_ref(), form),
    }
}

/// The same with numbers alone, for a reader that has missed what came before.
pub(super) fn numbers(timeline: &str, body: &Body, form: Form) -> Bytes {
    match body {
        Body::Presence { online, .. } => presence(timeline, *online, None, form),
        Body::Signal { .. } => ephemeral(timeline, body, form),
    }
}

fn presence(timeline: &str, online: usize, names: Option<&Names>, form: Form) -> Bytes {
    form.dialect.push(&Push::Presence(push::Presence {
        timeline: timeline.into(),
        online: online as u64,
        joined: names.map(|names| texts(&names.joined)),
        left: names.map(|names| texts(&names.left)),
    }))
}

fn texts(names: &[Arc<str>]) -> Vec<Cow<'_, str>> {
    names.iter().map(|name| Cow::from(&**name)).collect()
}

/// `subscription.ended`.
pub(super) fn ended(timeline: &str, epoch: &str, reason: push::Ended, form: Form) -> Bytes {
    form.dialect
        .push(&Push::SubscriptionEnded(push::SubscriptionEnded {
            timeline: timeline.into(),
            epoch: epoch.into(),
            reason,
            resubscribe: reason.resubscribe(),
        }))
}

/// `draining`.
pub(super) fn draining(reconnect_in_ms: u64, form: Form) -> Bytes {
    let push = push::Draining { reconnect_in_ms };
    form.dialect.push(&Push::Draining(push))
}

/// Around the messages of a push: names, the timeline's ID at its longest and escaped, the epoch.
const ENVELOPE_BYTES: usize = 2_048;

/// What waits to be written on one connection.
pub(super) struct Outbox {
    queue: VecDeque<Bytes>,
    bytes: usize,
    /// How much of the first message has gone out already.
    sent: usize,
    data: Data,
    /// Something was written that the socket has not taken yet.
    flushing: bool,
    /// Since when the socket takes nothing.
    stalled: Option<Instant>,
}

impl Outbox {
    pub(super) fn new(frames: Frames) -> Outbox {
        Outbox {
            queue: VecDeque::new(),
            bytes: 0,
            sent: 0,
            data: match frames {
                Frames::Text => Data::Text,
                Frames::Binary => Data::Binary,
            },
            flushing: false,
            stalled: None,
        }
    }

    /// Whether more should be put in; what is in already is at most one message more than this.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < ROOM_BYTES
    }

    /// Since when the socket has taken nothing.
    pub(super) fn stalled(&self) -> Option<Instant> {
        self.stalled
    }

    /// The client could not read for a while that is not its fault: its time begins anew.
    pub(super) fn excuse(&mut self, now: Instant) {
        if self.stalled.is_some() {
            self.stalled = Some(now);
        }
    }

    /// What waits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.queue.push_back(message);
    }

    /// A ping or a pong was given to the socket.
    pub(super) fn flush_soon(&mut self) {
        self.flushing = true;
    }

    /// Writes as much as the socket takes; pending = it takes no more now.
    pub(super) fn poll_write(
        &mut self,
        socket: &mut WebSocketStream<TcpStream>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), tungstenite::Error>> {
        let written = self.poll_all(socket, context);
        match &written {
            Poll::Pending => {
                self.stalled.get_or_insert_with(Instant::now);
            }
            Poll::Ready(_) => self.stalled = None,
        }
        written
    }

    fn poll_all(
        &mut self,
        socket: &mut WebSocketStream<TcpStream>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), tungstenite::Error>> {
        while let Some(message) = self.queue.front() {
            ready!(Pin::new(&mut *socket).poll_ready(context))?;
            self.stalled = None;
            let begin = self.sent;
            let end = message.len().min(begin + FRAGMENT_BYTES);
            let data = if begin == 0 {
                self.data
            } else {
                Data::Continue
            };
            let last = end == message.len();
            let frame = Frame::message(message.slice(begin..end), OpCode::Data(data), last);
            Pin::new(&mut *socket).start_send(tungstenite::Message::Frame(frame))?;
            self.flushing = true;
            if last {
                self.bytes -= message.len();
                self.sent = 0;
                self.queue.pop_front();
            } else {
                self.sent = end;
            }
        }
        if self.flushing {
            ready!(Pin::new(&mut *socket).poll_flush(context))?;
            self.flushing = false;
        }
        Poll::Ready(Ok(()))
    }
}

/// With this much waiting, nothing more is fetched for the connection.
const ROOM_BYTES: usize = 64 << 10;
/// The socket's buffer never shrinks, so no more than this goes in at a time.
pub(super) const FRAGMENT_BYTES: usize = 32 << 10;
