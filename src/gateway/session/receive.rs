//! From frames to calls that have begun.
//!
//! Owns: reading the socket, while there is room for what it brings. Promises: whatever is decoded begins at once and
//! in the order of the frames; a frame of the wrong kind ends the connection. Must not: read while the client is not
//! reading.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Control;

use super::super::Shared;
use super::super::dispatch::people::conversation;
use super::super::dispatch::timelines::{message, signal};
use super::super::dispatch::{Caller, Outcome};
use super::answer::{self, Begun, Cost, Pending, Weight};
use super::batch;
use super::inbound::Inbound;
use super::jobs::WAITS_MAX;
use super::login::open_session;
use super::subscriptions::Subscriptions;
use super::subscriptions::opening;
use super::{Draining, End, Session};
use crate::reshape::Inside;
use crate::wire::{self, Call, Close, Failure, Id, Incoming, Reason, Request, Together};

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
            && !self
                .login
                .as_ref()
                .is_some_and(|login| login.holds_frames())
            && !self
                .centrifuge
                .as_ref()
                .is_some_and(|own| own.holds_frames())
    }

    /// How large a message may be: less for strangers, whose unfinished messages take memory that all share.
    fn message_bytes_max(&self) -> usize {
        let limits = &self.shared.options.limits;
        let all = usize::try_from(limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
        match (&self.login, &self.centrifuge) {
            (Some(login), _) if !login.is_known() => all.min(STRANGER_BYTES_MAX),
            (None, Some(own)) if !own.is_known() => all.min(FIRST_FRAME_BYTES_MAX),
            _ => all,
        }
    }

    /// Takes frames and begins what they ask for. Appends that came together are queued together.
    pub(super) fn poll_receive(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let Some(inside) = self.poll_pass(context) else {
            return Ok(false);
        };
        self.jobs.inside = Some(inside);
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

    /// Passes the gate at which calls wait while partitions are split or merged: until then the socket is not read.
    fn poll_pass(&mut self, context: &mut Context<'_>) -> Option<Inside> {
        if self.passing.is_none() {
            let inside = self.shared.gate.enter();
            if inside.is_some() {
                return inside;
            }
            self.passing = Some(self.shared.gate.clone().pass().boxed());
        }
        match self.passing.as_mut()?.as_mut().poll(context) {
            Poll::Ready(inside) => {
                self.passing = None;
                Some(inside)
            }
            Poll::Pending => {
                self.is_deaf = true;
                None
            }
        }
    }

    pub(super) fn submit_appends(&mut self) {
        self.jobs.submit(&self.shared, self.form.dialect);
    }

    /// Adds the length of each message that it takes to `bytes`.
    fn poll_frames(&mut self, context: &mut Context<'_>, bytes: &mut usize) -> Result<bool, End> {
        let mut received = false;
        if let Some((incoming, of_frame)) = self.unparked() {
            self.begin_all(incoming, of_frame);
            return Ok(true);
        }
        for _ in 0..FRAMES_MAX {
            if self.centrifuge.is_some() {
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
                Inbound::Data(frames, payload) if frames == self.form.dialect.frames() => {
                    *bytes += payload.len();
                    match &mut self.centrifuge {
                        Some(own) => own.take(payload)?,
                        None => self.take(&payload),
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

    fn take(&mut self, frame: &[u8]) {
        let dialect = self.form.dialect;
        match dialect.decode(frame, &self.shared.options.limits) {
            Ok(mut incoming) => {
                let limits = &self.shared.per_client;
                limits.bound((&self.caller.asker).into(), &mut incoming, frame.len());
                if let Some(incoming) = self.park(incoming, frame.len()) {
                    self.begin_all(incoming, frame.len());
                }
            }
            Err(failure) => {
                let counters = &self.shared.counters;
                counters.count(None, Err(&failure), Duration::ZERO);
                self.send(dialect.encode(&Id::Null, Err(&failure)));
            }
        }
    }

    /// Begins what came in a frame of so many bytes.
    pub(super) fn begin_all(&mut self, incoming: Incoming, bytes: usize) {
        match incoming {
            Incoming::One(call) => self.one(call, bytes),
            Incoming::Several(calls) => {
                let bytes = bytes / calls.len().max(1);
                calls.into_iter().for_each(|call| self.one(call, bytes));
            }
            Incoming::Batch(calls, together) => self.batch(calls, together, bytes),
        }
    }

    /// Takes calls that came in a frame of so many bytes and are answered together.
    fn batch(&mut self, calls: Vec<Call>, together: Box<dyn Together>, bytes: usize) {
        self.submit_appends();
        let count = calls.len();
        let mut begun = Vec::with_capacity(count);
        let mut weight = Weight::Light;
        for call in calls {
            let call = self.admit(call);
            let Some((call, of_call)) = self.begin(call) else {
                continue;
            };
            if of_call == Weight::Page {
                weight = Weight::Page;
            }
            begun.push(call);
        }
        let batch = batch::all(Arc::clone(&self.shared), begun, together);
        let cost = Cost {
            calls: count,
            bytes,
            weight,
        };
        self.jobs.many(&self.shared, batch.boxed(), cost);
    }

    /// Takes a call that came by itself in a frame of so many bytes.
    pub(super) fn one(&mut self, call: Call, bytes: usize) {
        let Call {
            id,
            method,
            request,
        } = self.admit(call);
        let appending = match request {
            Ok(Request::MessageAppend(append)) => {
                message::append(&self.shared, &self.caller, *append)
            }
            Ok(Request::MessageAppendBatch(batch)) => {
                message::append_all(&self.shared, &self.caller, batch)
            }
            request => {
                // It must not overtake them.
                self.submit_appends();
                let call = Call {
                    id,
                    method,
                    request,
                };
                if let Some((begun, weight)) = self.begin(call) {
                    let cost = Cost {
                        calls: 1,
                        bytes,
                        weight,
                    };
                    self.jobs.one(&self.shared, begun, cost);
                }
                return;
            }
        };
        if self.jobs.append(id, appending, bytes) {
            self.submit_appends();
        }
    }

    fn begin(&mut self, call: Call) -> Option<(Begun, Weight)> {
        let opens = matches!(call.request, Ok(Request::SessionOpen(_)));
        let begun = self.begin_for(call);
        if opens {
            self.is_of_caller();
        }
        begun
    }

    fn begin_for(&mut self, call: Call) -> Option<(Begun, Weight)> {
        let voice = (self.form.dialect, self.caller.integers);
        let may_wait = self.jobs.may_wait();
        let Session {
            shared,
            caller,
            subscriptions,
            streams,
            signals,
            login,
            places,
            ..
        } = self;
        answer::begin(call, voice, |request| match request {
            Request::Signal(signal) => {
                let paced = signals.take(SIGNALS_PER_SECOND, std::time::Instant::now());
                match paced {
                    Ok(()) => signalling(shared, caller, subscriptions, signal),
                    Err(wait) => now(Err(too_many_signals(wait))),
                }
            }
            Request::StreamOpen(open) => streams.begin(shared, caller, open),
            Request::StreamClose(close) => now(streams.close(caller, &close)),
            Request::SessionOpen(open) => {
                let opened = open_session(shared, login.as_deref_mut(), caller, places, open);
                subscriptions.name(caller.who());
                now(opened)
            }
            request => start(shared, caller, subscriptions, request, may_wait),
        })
    }
}

/// Starts a request, those included that only a session has.
fn start(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    subscriptions: &mut Subscriptions,
    request: Request,
    may_wait: bool,
) -> (Pending, Weight) {
    match request {
        Request::Subscribe(subscribe) => opening::begin(shared, caller, subscriptions, *subscribe),
        Request::Unsubscribe(unsubscribe) => now(opening::end(subscriptions, unsubscribe)),
        request if !may_wait && conversation::waits(&request) => {
            let limit = WAITS_MAX as u64;
            let failure = Failure::new(Reason::RateLimited)
                .saying("too many waiting syncs on this connection")
                .over(limit, limit + 1)
                .named("session_waits_max");
            now(Err(failure))
        }
        request => answer::start(shared, caller, request),
    }
}

fn now(outcome: Outcome) -> (Pending, Weight) {
    (Pending::Now(Some(outcome)), Weight::Light)
}

fn signalling(
    shared: &Arc<Shared>,
    caller: &Caller,
    subscriptions: &mut Subscriptions,
    request: wire::timelines::signal::Signal,
) -> (Pending, Weight) {
    let from = signal::From {
        turn: subscriptions.turn(&request.timeline),
        mailbox: &subscriptions.mailbox,
    };
    answer::pending(signal::signal(shared, caller, request, Some(from)))
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
