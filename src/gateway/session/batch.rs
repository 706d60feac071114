//! A batch: many calls in one frame or body, answered together.
//!
//! Owns: the way of its calls from their begin to the one answer. Promises: writes are queued in the batch's order
//! before anything of it is awaited; answers are in its order too. Must not: know sockets, or how the answers share
//! their frame; the dialect does.

use std::sync::Arc;

use bytes::Bytes;

use super::super::Shared;
use super::super::dispatch::audit::Noted;
use super::super::dispatch::{self, Caller};
use super::super::http::respond::NotBegun;
use super::answer::{self, Begun};
use super::subscriptions::parts::{Opened, take_back};
use tideline_wire::{Call, Dialect, Incoming, Together};

/// Awaits calls that have begun. It awaits one after the other, so that at most one page more than the reply is in
/// memory. Returns the reply, `None` if all were notifications, and what may begin after it.
pub(super) async fn all(
    calls: Vec<Begun>,
    mut together: Box<dyn Together>,
) -> (Option<Bytes>, Vec<Opened>) {
    let mut all_opened = Vec::new();
    for mut begun in calls {
        let (outcome, opened) = (&mut begun).await;
        match begun.add(&mut *together, outcome) {
            true => all_opened.extend(opened),
            // A client that reads a refusal has no subscription: it must not get pushes.
            false => all_opened.extend(take_back(opened)),
        }
    }
    (together.finish(), all_opened)
}

/// Answers what came in one HTTP body, and says whether that was one call of which nothing was done. What a call has
/// read is kept back if the credential counts no more by then. A call without a trace of its own is in the caller's.
pub(in super::super) async fn run(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    incoming: Incoming,
    dialect: &'static dyn Dialect,
) -> (Option<Bytes>, bool) {
    let head = caller.trace;
    let mut begin = |call: Call| {
        caller.trace = call.traceparent.or(head);
        let span = shared.spans.begin(&mut caller.trace);
        let voice = (dialect, caller.integers);
        answer::begin(Arc::clone(shared), (call, span), voice, |request| {
            let reads = !request.method().has_effect();
            let noted = Noted::of(shared, caller, &request);
            let work = dispatch::call_noted(shared, caller, request);
            let work = match caller.asker.claim().filter(|_| reads) {
                Some(claim) => work.while_it_counts(claim),
                None => work,
            };
            match noted {
                Some(noted) => noted.behind(work).into(),
                None => work.into(),
            }
        })
    };
    let (calls, together) = match incoming {
        Incoming::One(call) => {
            let Some(mut begun) = begin(call) else {
                return (None, false);
            };
            let (outcome, _) = (&mut begun).await;
            let is_undone = outcome.as_ref().is_err_and(NotBegun::is);
            return (begun.encode(&outcome), is_undone);
        }
        Incoming::Several(calls) => (calls, None),
        Incoming::Batch(calls, together) => (calls, Some(together)),
    };
    let calls: Vec<Begun> = calls.into_iter().filter_map(&mut begin).collect();
    if let Some(together) = together {
        return (all(calls, together).await.0, false);
    }
    let mut body = Vec::new();
    for mut begun in calls {
        let (outcome, _) = (&mut begun).await;
        body.extend(begun.encode(&outcome).into_iter().flatten());
    }
    ((!body.is_empty()).then(|| Bytes::from(body)), false)
}
