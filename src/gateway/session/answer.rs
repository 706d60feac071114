//! From a decoded call to its encoded answer.
//!
//! Owns: what a notification may do, and how a call is waited for. Promises: a notification is never answered; a write
//! is queued when its call has begun. Must not: know sockets, or other calls of the same batch; `batch.rs` does.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::super::Shared;
use super::super::dispatch::{self, Caller, Outcome, Work};
use super::subscriptions::parts::Opened;
use crate::wire::{Call, Dialect, Id, Integers, Method, Reason, Request, Together};

/// One call that has begun.
pub(in super::super) struct Begun {
    /// `None` = a notification.
    pub(super) id: Option<Id>,
    method: Option<Method>,
    voice: Voice,
    since: Instant,
    pub(super) pending: Pending,
}

/// In which dialect a call is answered, and how big integers are written there: as it was when the call began.
pub(super) type Voice = (&'static dyn Dialect, Integers);

/// What a call waits for.
pub(super) enum Pending {
    /// Nothing.
    Now(Option<Outcome>),
    /// A write, or a read that was given its turn, or a wait.
    Work(BoxFuture<'static, Outcome>),
    /// Subscriptions in the session's slots.
    Subscribing(BoxFuture<'static, (Outcome, Opened)>),
}

/// A call that is done.
pub(super) struct Finished {
    /// To be encoded, unless the call is a notification.
    pub(super) outcome: Outcome,
    /// Subscriptions that waited for this answer.
    pub(super) opened: Opened,
}

/// How much room a call takes besides being in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// None to speak of.
    Light,
    /// A page in memory when it is done.
    Page,
    /// Nothing, but for as long as the client said.
    Wait,
}

/// What calls that are answered together take while they are in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) calls: usize,
    pub(super) bytes: usize,
    pub(super) weight: Weight,
}

impl Begun {
    pub(super) fn new(
        id: Option<Id>,
        method: Option<Method>,
        voice: Voice,
        (since, pending): (Instant, Pending),
    ) -> Begun {
        Begun {
            id,
            method,
            voice,
            since,
            pending,
        }
    }

    /// Polls the call; the future is done when it is ready.
    pub(super) fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Finished> {
        let (outcome, opened) = match &mut self.pending {
            Pending::Now(outcome) => {
                let nothing = || Err(Reason::InternalError.into());
                (outcome.take().unwrap_or_else(nothing), Opened::default())
            }
            Pending::Work(work) => (ready!(work.as_mut().poll(context)), Opened::default()),
            Pending::Subscribing(work) => ready!(work.as_mut().poll(context)),
        };
        let took = self.since.elapsed();
        let result = outcome.as_ref().map(drop);
        shared.counters.count(self.method, result, took);
        Poll::Ready(Finished { outcome, opened })
    }

    /// The answer's bytes; `None` for a notification.
    pub(super) fn encode(&self, outcome: &Outcome) -> Option<Bytes> {
        let (id, (dialect, integers)) = (self.id.as_ref()?, self.voice);
        Some(integers.written(|| dialect.encode(id, outcome.as_ref())))
    }

    /// Puts the answer into that of a batch; whether it went in as it is. That of a notification has no place there.
    pub(super) fn add(&self, together: &mut dyn Together, outcome: Outcome) -> bool {
        let add = |id: &Id| self.voice.1.written(|| together.add(id, outcome));
        self.id.as_ref().is_none_or(add)
    }
}

/// Begins a call by way of `call`, unless it is one that must not be answered and would do nothing else.
pub(super) fn begin(
    call: Call,
    voice: Voice,
    start: impl FnOnce(Request) -> (Pending, Weight),
) -> Option<(Begun, Weight)> {
    let Call { id, request, .. } = call;
    let since = Instant::now();
    match request {
        Ok(request) => {
            if id.is_none() && !request.method().has_effect() {
                return None;
            }
            let method = request.method();
            let (pending, weight) = start(request);
            Some((
                Begun::new(id, Some(method), voice, (since, pending)),
                weight,
            ))
        }
        Err(failure) => {
            let pending = Pending::Now(Some(Err(failure)));
            Some((Begun::new(id, None, voice, (since, pending)), Weight::Light))
        }
    }
}

/// Starts a request that needs no session.
pub(super) fn start(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    request: Request,
) -> (Pending, Weight) {
    pending(dispatch::call(shared, caller, request))
}

/// How work is waited for.
pub(super) fn pending(work: Work) -> (Pending, Weight) {
    match work {
        Work::Now(outcome) => (Pending::Now(Some(outcome)), Weight::Light),
        Work::Write(work) => (Pending::Work(work), Weight::Light),
        Work::Read(work) => (Pending::Work(work), Weight::Page),
        Work::Wait(work) => (Pending::Work(work), Weight::Wait),
    }
}
