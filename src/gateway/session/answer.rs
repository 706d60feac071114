//! From decoded calls to encoded answers: one, or a batch as one array.
//!
//! Owns: what a notification may do, and how answers are put together. Promises: a notification is never answered;
//! writes of a batch are queued in its order before anything of it is awaited; its answers are in its order too. Must
//! not: know sockets.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::super::Shared;
use super::super::dispatch::{self, Caller, Outcome, Work};
use crate::feed::Subscription;
use crate::wire::jsonrpc::{self, Call, Dialect, Encoding, Id, Incoming};
use crate::wire::{Failure, Reason, Reply, Request};

/// What a subscribe comes to: its reply, and the subscription unless the reply's state says that there is none.
pub(super) type Subscribing = BoxFuture<'static, Result<(Reply, Option<Subscription>), Failure>>;

/// One call that has begun.
pub(in crate::gateway) struct Begun {
    /// `None` = a notification.
    id: Option<Id>,
    method: &'static str,
    encoding: Encoding,
    pub(super) pending: Pending,
}

/// What a call waits for.
pub(super) enum Pending {
    /// Nothing.
    Now(Option<Outcome>),
    /// A write, or a read that was given its turn, or a wait.
    Work(BoxFuture<'static, Outcome>),
    /// A subscription in the session's slot.
    Subscribing(Opening, Subscribing),
}

/// Names a place for a subscription; the generation tells it from later ones in the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) slot: u32,
    pub(super) generation: u64,
}

/// An answered call.
pub(super) struct Answered {
    /// What to send; `None` for a notification.
    pub(super) reply: Option<Bytes>,
    /// The place that waited for this answer, and what is to follow it.
    pub(super) opened: Option<(Opening, Option<Subscription>)>,
    failed: bool,
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

impl Begun {
    pub(super) fn new(
        id: Option<Id>,
        method: &'static str,
        encoding: Encoding,
        pending: Pending,
    ) -> Begun {
        Begun {
            id,
            method,
            encoding,
            pending,
        }
    }

    /// Polls the call; the future is done when it is ready.
    pub(super) fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Answered> {
        let (outcome, opened) = match &mut self.pending {
            Pending::Now(outcome) => {
                let nothing = || Err(Reason::InternalError.into());
                (outcome.take().unwrap_or_else(nothing), None)
            }
            Pending::Work(work) => (ready!(work.as_mut().poll(context)), None),
            Pending::Subscribing(opening, work) => match ready!(work.as_mut().poll(context)) {
                Ok((reply, subscription)) => (Ok(reply), Some((*opening, subscription))),
                Err(failure) => (Err(failure), Some((*opening, None))),
            },
        };
        shared.counters.count(
            self.method,
            outcome.as_ref().map(drop).map_err(|why| why.reason),
        );
        let reply = self.id.as_ref().map(|id| match &outcome {
            Ok(reply) => jsonrpc::reply(id, reply, self.encoding),
            Err(failure) => jsonrpc::failure(id, failure, self.encoding.dialect),
        });
        Poll::Ready(Answered {
            reply,
            opened,
            failed: outcome.is_err(),
        })
    }

    /// An answer that does not fit into its batch's array.
    fn too_large(&self, limit: u64, actual: usize) -> Option<Bytes> {
        let failure = Failure::too_large("", "outbound_frame_bytes_max", limit, actual as u64);
        self.id
            .as_ref()
            .map(|id| jsonrpc::failure(id, &failure, self.encoding.dialect))
    }
}

/// Begins a call by way of `call`, unless it is one that must not be answered and would do nothing else.
pub(super) fn begin(
    call: Call,
    encoding: Encoding,
    start: impl FnOnce(Request) -> (Pending, Weight),
) -> Option<(Begun, Weight)> {
    let Call { id, request } = call;
    match request {
        Ok(request) => {
            if id.is_none() && !does_something(&request) {
                return None;
            }
            let method = request.method();
            let (pending, weight) = start(request);
            Some((Begun::new(id, method, encoding, pending), weight))
        }
        Err(failure) => {
            let pending = Pending::Now(Some(Err(failure)));
            Some((Begun::new(id, "?", encoding, pending), Weight::Light))
        }
    }
}

/// Whether a request is worth doing if nobody hears the answer.
fn does_something(request: &Request) -> bool {
    match request {
        Request::SessionOpen(_)
        | Request::TimelineCreate(_)
        | Request::TimelineUpdate(_)
        | Request::TimelineDelete(_)
        | Request::TimelineTrim(_)
        | Request::MessageAppend(_)
        | Request::MessageAppendBatch(_)
        | Request::MessageUpdate(_)
        | Request::MessageDelete(_)
        | Request::Unsubscribe(_) => true,
        Request::Ping
        | Request::Discover
        | Request::TimelineGet(_)
        | Request::TimelineList(_)
        | Request::MessageGet(_)
        | Request::MessageRange(_)
        | Request::Sync(_)
        | Request::Subscribe(_) => false,
    }
}

/// Starts a request that needs no session.
pub(super) fn start(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    request: Request,
) -> (Pending, Weight) {
    match dispatch::call(shared, caller, request) {
        Work::Now(outcome) => (Pending::Now(Some(outcome)), Weight::Light),
        Work::Write(work) => (Pending::Work(work), Weight::Light),
        Work::Read(work) => (Pending::Work(work), Weight::Page),
        Work::Wait(work) => (Pending::Work(work), Weight::Wait),
    }
}

/// What a batch came to.
pub(super) struct Batch {
    /// One array; `None` if all members were notifications.
    pub(super) reply: Option<Bytes>,
    /// Subscriptions whose pushes may begin after the array.
    pub(super) opened: Vec<(Opening, Option<Subscription>)>,
}

/// Awaits the members of a batch one after the other, so that at most one page more than the array is in memory.
pub(super) async fn all(shared: Arc<Shared>, members: Vec<Begun>, dialect: Dialect) -> Batch {
    let limit = shared.options.limits.outbound_frame_bytes_max;
    let (mut replies, mut opened, mut bytes) = (Vec::new(), Vec::new(), 0);
    for mut member in members {
        // What a read has found can be asked for again; what a write has done must be told.
        let repeatable = !matches!(member.pending, Pending::Work(_)) || is_read(member.method);
        let answered = Poller {
            member: &mut member,
            shared: &shared,
        }
        .await;
        opened.extend(answered.opened);
        let Some(mut reply) = answered.reply else {
            continue;
        };
        if (bytes + reply.len()) as u64 > limit
            && repeatable
            && !answered.failed
            && !replies.is_empty()
        {
            reply = member
                .too_large(limit, bytes + reply.len())
                .unwrap_or_default();
        }
        bytes += reply.len() + 1;
        replies.push(reply);
    }
    let reply = (!replies.is_empty()).then(|| jsonrpc::batch(&replies, dialect));
    Batch { reply, opened }
}

fn is_read(method: &str) -> bool {
    matches!(
        method,
        "message.get" | "message.range" | "timeline.get" | "timeline.list" | "sync"
    )
}

struct Poller<'a> {
    member: &'a mut Begun,
    shared: &'a Shared,
}

impl Future for Poller<'_> {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        let shared = self.shared;
        self.member.poll(shared, context)
    }
}

/// Answers what came in one HTTP body.
pub(in crate::gateway) async fn run(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    incoming: Incoming,
    dialect: Dialect,
) -> Option<Bytes> {
    let encoding = Encoding {
        dialect,
        integers: caller.integers,
    };
    let mut one = |call| begin(call, encoding, |request| start(shared, caller, request));
    match incoming {
        Incoming::Single(call) => {
            let (mut begun, _) = one(call)?;
            Poller {
                member: &mut begun,
                shared,
            }
            .await
            .reply
        }
        Incoming::Batch(calls) => {
            let members = calls
                .into_iter()
                .filter_map(one)
                .map(|(begun, _)| begun)
                .collect();
            all(Arc::clone(shared), members, dialect).await.reply
        }
    }
}
