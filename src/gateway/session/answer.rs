//! From a decoded call to its encoded answer.
//!
//! Owns: what a notification may do, and how a call is waited for. Promises: a notification is never answered; a write
//! is queued when its call has begun. Must not: know sockets, or other calls of the same batch; `batch.rs` does.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::super::Shared;
use super::super::dispatch::audit::Noted;
use super::super::dispatch::{Outcome, Work};
use super::super::spans::Span;
use super::subscriptions::parts::Opened;
use tideline_base::ids::PartitionId;
use tideline_wire::{Call, Dialect, Id, Integers, Method, Reason, Request, Together};

/// One call that has begun. As a future it gives its outcome, which is counted then, and what waited for that.
pub(super) struct Begun {
    pub(super) shared: Arc<Shared>,
    /// `None` = a notification.
    pub(super) id: Option<Id>,
    pub(super) method: Option<Method>,
    pub(super) voice: Voice,
    pub(super) since: Instant,
    /// As which it is answered, and the partition that it is about.
    pub(super) span: Option<(Box<Span>, Option<PartitionId>)>,
    pub(super) pending: Pending,
}

/// In which dialect a call is answered, and how big integers are written there: as it was when the call began.
pub(super) type Voice = (&'static dyn Dialect, Integers);

/// What a call waits for.
pub(super) enum Pending {
    /// What any call may become.
    Work(Work),
    /// Something in the session that may begin once the call is answered; and what it takes until then.
    Opening(Weight, BoxFuture<'static, (Outcome, Vec<Opened>)>),
}

/// How much room something takes besides being under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// None to speak of.
    Light,
    /// As light; it is counted, because some calls must not overtake appends.
    Append,
    /// A page in memory when it is done.
    Page,
    /// The same, for pushes.
    Fetch,
    /// Nothing, but for as long as the client said.
    Wait,
}

impl Pending {
    pub(super) fn weight(&self) -> Weight {
        match self {
            Pending::Work(Work::Now(_) | Work::Write(_)) => Weight::Light,
            Pending::Work(Work::Read(_)) => Weight::Page,
            Pending::Work(Work::Wait(_)) => Weight::Wait,
            Pending::Opening(weight, _) => *weight,
        }
    }

    /// The same, with its line in the audit log behind it.
    pub(super) fn noted(self, noted: Noted) -> Pending {
        match self {
            Pending::Work(work) => noted.behind(work).into(),
            Pending::Opening(weight, work) => {
                let work = work.inspect(move |(outcome, _)| noted.answered(outcome));
                Pending::Opening(weight, work.boxed())
            }
        }
    }
}

impl From<Work> for Pending {
    fn from(work: Work) -> Pending {
        Pending::Work(work)
    }
}

/// Nothing is waited for.
impl From<Outcome> for Pending {
    fn from(outcome: Outcome) -> Pending {
        Pending::Work(Work::Now(outcome))
    }
}

impl Future for Begun {
    type Output = (Outcome, Vec<Opened>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (outcome, opened) = match &mut self.pending {
            Pending::Work(Work::Now(outcome)) => {
                let nothing = Err(Reason::InternalError.into());
                (std::mem::replace(outcome, nothing), Vec::new())
            }
            Pending::Work(Work::Write(work) | Work::Read(work) | Work::Wait(work)) => {
                (ready!(work.as_mut().poll(context)), Vec::new())
            }
            Pending::Opening(_, work) => ready!(work.as_mut().poll(context)),
        };
        if let Err(failure) = &outcome {
            tracing::debug!(
                call = self.id.as_ref().map(tracing::field::display),
                method = self.method.map(Method::name),
                reason = failure.reason.name(),
                field = failure.field,
                "refused a call"
            );
        }
        let (result, took) = (outcome.as_ref().map(drop), self.since.elapsed());
        self.shared.counters.count(self.method, result, took);
        if let (Some((span, partition)), Some(method)) = (&self.span, self.method) {
            let refused = result.err().map(|failure| failure.reason.name());
            span.end(method.name(), *partition, refused, took);
        }
        Poll::Ready((outcome, opened))
    }
}

impl Begun {
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

/// Begins a call by way of `start` as this span, unless it is one that must not be answered and would do nothing else.
pub(super) fn begin(
    shared: Arc<Shared>,
    (call, span): (Call, Option<Box<Span>>),
    voice: Voice,
    start: impl FnOnce(Request) -> Pending,
) -> Option<Begun> {
    let Call { id, request, .. } = call;
    let since = Instant::now();
    let span = span.map(|span| {
        let timeline = request.as_ref().ok().and_then(Request::timeline);
        (span, timeline.map(|name| shared.timelines.place(name)))
    });
    let (method, pending) = match request {
        Ok(request) => {
            let method = request.method();
            if id.is_none() && !method.has_effect() {
                return None;
            }
            (Some(method), start(request))
        }
        Err(failure) => (None, Err(failure).into()),
    };
    Some(Begun {
        shared,
        id,
        method,
        voice,
        since,
        span,
        pending,
    })
}
