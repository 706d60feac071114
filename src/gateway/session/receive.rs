//! From frames to calls that have begun.
//!
//! Owns: reading the socket, while there is room for what it brings. Promises: whatever is decoded begins in the order
//! of the frames, at once unless a change of partitions or a token's keys are waited for, and then nothing more is
//! read; a frame of the wrong kind ends the connection. Must not: read while the client is not reading.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Control;

use super::super::dispatch;
use super::super::dispatch::audit::Noted;
use super::super::dispatch::people::conversation;
use super::super::dispatch::shape::size;
use super::super::dispatch::timelines::message::Appending;
use super::super::dispatch::timelines::{message, signal};
use super::super::spans::Span;
use super::answer::{self, Begun, Pending};
use super::inbound::Inbound;
use super::jobs::WAITS_MAX;
use super::login::open_session;
use super::subscriptions::opening;
use super::{Decoded, Draining, End, Session};
use tideline_wire::{Call, Close, Failure, Id, Incoming, Reason, Request};

/// The size of a message before a credential was shown: a token has 8 KiB at most, and calls may come with it.
const STRANGER_BYTES_MAX: usize = 64 << 10;
/// The same of the Centrifuge dialect: SDKs send all their subscriptions behind the token, 115 bytes each.
const FIRST_FRAME_BYTES_MAX: usize = 1 << 20;

impl Session {
    /// Whether the socket is to be read now.
    pub(super) fn reads(&self) -> bool {
        self.draining == Draining::No
            && self.outbox.has_room()
            && self.jobs.has_room(&self.shared)
            && self.held.is_none()
            && !self
                .login
                .as_ref()
                .is_some_and(|login| login.holds_frames())
            && !self.holds_commands()
    }

    fn holds_commands(&self) -> bool {
        self.centrifuge
            .as_ref()
            .is_some_and(|own| own.holds_frames())
    }

    /// How large a message may be: less for strangers, whose unfinished messages take memory that all share.
    fn message_bytes_max(&self) -> usize {
        let all = size(self.shared.options.limits.inbound_frame_bytes_max);
        if tideline_base::faults::is_named("echoes") {
            return all;
        }
        match (&self.login, &self.centrifuge) {
            (Some(login), _) if !login.is_known() => all.min(STRANGER_BYTES_MAX),
            (None, Some(own)) if !own.is_known() => all.min(FIRST_FRAME_BYTES_MAX),
            _ => all,
        }
    }

    /// Takes frames and begins what they ask for. Appends that came together are queued together.
    pub(super) fn poll_receive(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        if self.is_stream() {
            return self.poll_listen(context);
        }
        let mut bytes = 0;
        let received = self.poll_frames(context, &mut bytes);
        if bytes > 0 {
            let received = &self.shared.metrics.gateway.received_bytes;
            received.increment(bytes as u64);
        }
        self.submit_appends();
        self.jobs.inside = None;
        received
    }

    /// Passes the gate at which calls wait for splits, merges and hand-overs, before the first call of this turn;
    /// whether calls may begin. Until then the frame is held, and the socket is not read.
    fn poll_pass(&mut self, context: &mut Context<'_>) -> bool {
        if self.jobs.inside.is_none() && self.passing.is_none() {
            self.jobs.inside = self.shared.gate.enter();
        }
        if self.jobs.inside.is_some() {
            return true;
        }
        let gate = &self.shared.gate;
        let passing = self
            .passing
            .get_or_insert_with(|| gate.clone().pass().boxed());
        match passing.as_mut().poll(context) {
            Poll::Ready(inside) => (self.passing, self.jobs.inside) = (None, Some(inside)),
            Poll::Pending => self.is_deaf = true,
        }
        self.jobs.inside.is_some()
    }

    pub(super) fn submit_appends(&mut self) {
        self.jobs.submit(&self.shared, self.form.dialect);
    }

    /// Adds the length of each message that it takes to `bytes`.
    fn poll_frames(&mut self, context: &mut Context<'_>, bytes: &mut usize) -> Result<bool, End> {
        if self.draining == Draining::No
            && let Some(held) = self.held.take()
        {
            return Ok(self.begin_all(context, *held));
        }
        let mut received = false;
        for _ in 0..FRAMES_MAX {
            if self.holds_commands() {
                if !self.poll_pass(context) {
                    return Ok(received);
                }
                received |= self.poll_commands(context)?;
            }
            if !self.reads() {
                self.is_deaf = true;
                return Ok(received);
            }
            if std::mem::take(&mut self.is_deaf) {
                self.reader.excuse(Instant::now());
            }
            self.reader.bound(self.message_bytes_max());
            let message = match self.reader.poll(&mut self.socket, context) {
                Poll::Pending => return Ok(received),
                Poll::Ready(message) => message?,
            };
            if !received {
                self.heard = Instant::now();
                received = true;
            }
            match message {
                // For a suite that asks a WebSocket for an echo.
                #[cfg(feature = "faults")]
                Inbound::Data(frames, payload) if tideline_base::faults::is_named("echoes") => {
                    self.outbox.echo(frames, payload);
                }
                Inbound::Data(frames, payload) if frames == self.form.dialect.frames() => {
                    *bytes += payload.len();
                    match &mut self.centrifuge {
                        Some(own) => own.take(payload)?,
                        None => self.take(context, &payload),
                    }
                }
                Inbound::Data(..) => return Err(End::Close(Close::UnsupportedData)),
                Inbound::Ping(payload) => self.outbox.control(Control::Pong, payload),
                Inbound::Pong => {}
                Inbound::Close(answer) => return Err(End::Goodbye(answer)),
            }
        }
        Ok(received)
    }

    fn take(&mut self, context: &mut Context<'_>, frame: &[u8]) {
        let dialect = self.form.dialect;
        match dialect.decode(frame, &self.shared.options.limits) {
            Ok(incoming) => {
                if let Some(decoded) = self.park((incoming, frame.len())) {
                    self.begin_all(context, decoded);
                }
            }
            Err(failure) => {
                let counters = &self.shared.counters;
                counters.count(None, Err(&failure), Duration::ZERO);
                self.send(dialect.encode(&Id::Null, Err(&failure)));
            }
        }
    }

    /// Begins the calls of a frame, or holds it until they may begin; whether they have begun.
    fn begin_all(&mut self, context: &mut Context<'_>, decoded: Decoded) -> bool {
        if !self.poll_pass(context) {
            self.held = Some(Box::new(decoded));
            return false;
        }
        let (incoming, bytes) = decoded;
        match incoming {
            Incoming::One(mut call) => {
                self.bound(&mut call, bytes);
                self.one(call, bytes);
            }
            Incoming::Several(calls) => {
                let bytes = bytes / calls.len().max(1);
                for mut call in calls {
                    self.bound(&mut call, bytes);
                    self.one(call, bytes);
                }
            }
            Incoming::Batch(calls, together) => {
                self.submit_appends();
                let of_frame = (calls.len(), bytes);
                let each = bytes / calls.len().max(1);
                let mut begun = Vec::with_capacity(calls.len());
                for mut call in calls {
                    self.bound(&mut call, each);
                    let span = self.take_up(&mut call);
                    begun.extend(self.begin(call, span));
                }
                self.jobs.many(&self.shared, of_frame, begun, together);
            }
        }
        true
    }

    /// Counts a call of so many bytes as one of its caller, whom a call before it in the frame may have named.
    fn bound(&self, call: &mut Call, bytes: usize) {
        let limits = &self.shared.per_client;
        limits.bound_one((&self.caller.asker).into(), call, bytes);
    }

    /// Takes a call that came by itself in a frame of so many bytes.
    pub(super) fn one(&mut self, mut call: Call, bytes: usize) {
        let span = self.take_up(&mut call);
        // Those of a key that acts for a user are noted, so they go the way of other calls.
        let gathers = !self.caller.acts();
        let appending = match call.request {
            Ok(Request::MessageAppend(append)) if gathers => {
                message::append(&self.shared, &self.caller, *append)
            }
            Ok(Request::MessageAppendBatch(batch)) if gathers => {
                message::append_all(&self.shared, &self.caller, batch)
            }
            request => {
                // It must not overtake them.
                self.submit_appends();
                if let Some(begun) = self.begin(Call { request, ..call }, span) {
                    self.jobs.call(begun, bytes);
                }
                return;
            }
        };
        let appending = Appending { span, ..appending };
        if self.jobs.append(call.id, appending, bytes) {
            self.submit_appends();
        }
    }

    /// Has it decided whether a call may begin, and as which span; what it causes is a part of that.
    fn take_up(&mut self, call: &mut Call) -> Option<Box<Span>> {
        self.admit(call);
        self.caller.trace = call.traceparent;
        match &call.request {
            // Strangers fill no queue.
            Err(failure) if failure.reason == Reason::Unauthenticated => None,
            _ => self.shared.spans.begin(&mut self.caller.trace),
        }
    }

    fn begin(&mut self, call: Call, span: Option<Box<Span>>) -> Option<Begun> {
        let voice = (self.form.dialect, self.caller.integers);
        let shared = Arc::clone(&self.shared);
        answer::begin(shared, (call, span), voice, |request| {
            match Noted::of(&self.shared, &self.caller, &request) {
                Some(noted) => self.start(request).noted(noted),
                None => self.start(request),
            }
        })
    }

    /// Starts a request, those included that only a session has; `begin` has noted it.
    fn start(&mut self, request: Request) -> Pending {
        let may_wait = self.jobs.may_wait();
        let Session {
            shared,
            caller,
            subscriptions,
            ..
        } = self;
        match request {
            Request::Signal(signal) => {
                let now = std::time::Instant::now();
                if let Err(wait) = self.signals.take(SIGNALS_PER_SECOND, now) {
                    return Err(too_many_signals(wait)).into();
                }
                let from = signal::From {
                    turn: subscriptions.turn(&signal.timeline),
                    mailbox: &subscriptions.mailbox,
                };
                signal::signal(shared, caller, signal, Some(from)).into()
            }
            Request::StreamOpen(open) => self.streams.begin(shared, caller, open),
            Request::StreamClose(close) => self.streams.close(caller, &close).into(),
            Request::SessionOpen(open) => {
                let login = self.login.as_deref_mut();
                let opened = open_session(shared, login, caller, &mut self.guards, open);
                subscriptions.name(caller.who());
                self.is_of_caller();
                opened.into()
            }
            Request::Subscribe(subscribe) => {
                opening::begin(shared, caller, subscriptions, *subscribe)
            }
            Request::Unsubscribe(unsubscribe) => opening::end(subscriptions, unsubscribe).into(),
            request if !may_wait && conversation::waits(&request) => {
                let limit = WAITS_MAX as u64;
                let failure = Failure::new(Reason::RateLimited)
                    .saying("too many waiting syncs on this connection")
                    .over(limit, limit + 1)
                    .named("session_waits_max");
                Err(failure).into()
            }
            request => dispatch::call_noted(shared, caller, request).into(),
        }
    }
}

fn too_many_signals(wait: Duration) -> Failure {
    let limit = u64::from(SIGNALS_PER_SECOND);
    let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
    Failure::new(Reason::RateLimited)
        .saying("too many signals on this connection")
        .over(limit, limit + 1)
        .named("session_signals_max")
        .retry_after(wait_ms.saturating_add(1))
}

/// Signals of one connection a second.
const SIGNALS_PER_SECOND: u32 = 10;
/// Frames taken in one step; others want their turn.
const FRAMES_MAX: usize = 64;
