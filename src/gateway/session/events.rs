//! A session that is one response of HTTP with server-sent events, and whose client says nothing more.
//!
//! Owns: its begin, its signs of life, and its end. Promises: what the client still sends is read and forgotten; the
//! stream ends with the last of what it follows. Must not: decide what is pushed, or how; the subscriptions do.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead as _, ReadBuf};

use super::inbound::Reader;
use super::subscriptions::response::EventStream;
pub(in super::super) use super::subscriptions::response::Streaming;
use super::subscriptions::{conversations, opening};
use super::{End, Session};
use crate::dispatch::audit::Noted;
use tideline_model::access::Asker;
use tideline_wire::events::COMMENT;

impl Session {
    /// Begins to follow what the request asked for.
    pub(super) fn stream(&mut self, streaming: Streaming) {
        let Session {
            shared,
            caller,
            reader,
            subscriptions,
            outbox,
            socket,
            ..
        } = self;
        // The socket's buffer has room for hours of comments, whether the client is there or not.
        let options = &shared.options;
        socket.expect_acknowledgements(options.slow_consumer.max(2 * options.heartbeat));
        *reader = Reader::deaf(shared.inbound.share(None));
        if let Some(user) = &streaming.user {
            caller.asker = Asker::believed(user.as_str());
        }
        caller.integers = streaming.asked.integers;
        caller.device.clone_from(&streaming.asked.subscribe.device);
        if let Some(live) = &caller.live {
            live.name(caller.device.clone(), streaming.client.clone());
            live.believe(caller.user().ok());
        }
        subscriptions.name(caller.who());
        let subscribe = streaming.asked.subscribe.clone();
        let noted = match caller.acts() {
            true => Noted::of(shared, caller, &streaming.asked.request()),
            false => None,
        };
        let mut stream = EventStream::new(streaming, Arc::clone(shared), noted);
        match subscribe.conversations {
            Some(_) => match conversations::begin(shared, caller, subscriptions, &subscribe) {
                Ok(_) => stream.begin(outbox),
                Err(failure) => stream.refuse(&failure, outbox),
            },
            None => opening::follow(shared, caller, subscriptions, subscribe),
        }
        subscriptions.events = Some(Box::new(stream));
    }

    /// Whether its client is one that only listens.
    pub(super) fn is_stream(&self) -> bool {
        self.subscriptions.events.is_some()
    }

    /// Says something that is not of a subscription.
    pub(super) fn tell(&mut self, push: Bytes) {
        if let Some(events) = &mut self.subscriptions.events {
            events.begin(&mut self.outbox);
        }
        self.outbox.push(push);
    }

    /// A sign of life. It keeps the ways of proxies open, and finds out whether the client is still there.
    pub(super) fn comment(&mut self) {
        let events = self.subscriptions.events.as_deref();
        if events.is_some_and(EventStream::has_begun) {
            self.outbox.push(Bytes::from_static(COMMENT));
        }
    }

    /// Reads and forgets what the client still sends, until it is gone or that was too much.
    pub(super) fn poll_listen(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut waste = [0; WASTE_BYTES];
        for _ in 0..READS_MAX {
            let mut buffer = ReadBuf::new(&mut waste);
            match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Err(End::Gone),
            }
            if let Some(events) = &mut self.subscriptions.events {
                events.wasted += buffer.filled().len();
                if events.wasted > WASTE_BYTES_MAX {
                    return Err(End::Gone);
                }
            }
        }
        Ok(true)
    }

    /// Whether nothing follows what was written.
    pub(super) fn has_streamed(&self) -> bool {
        let Some(events) = &self.subscriptions.events else {
            return false;
        };
        let waits = self.subscriptions.len() > 0
            || !self.subscriptions.rests.is_empty()
            || self.jobs.fetches > 0;
        events.is_over || !waits
    }
}

/// Read at a time of what nobody wants.
const WASTE_BYTES: usize = 512;
/// A client that sends more was not meant to listen.
const WASTE_BYTES_MAX: usize = 64 << 10;
/// Of those reads in one turn.
const READS_MAX: usize = 8;
