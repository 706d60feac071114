//! A batch: many calls in one frame or body, answered together.
//!
//! Owns: the way of its calls from their begin to the one answer. Promises: writes are queued in the batch's order
//! before anything of it is awaited; answers are in its order too. Must not: know sockets, or how the answers share
//! their frame; the dialect does.

use std::sync::Arc;

use bytes::Bytes;

use super::super::Shared;
use super::super::dispatch::Caller;
use super::answer::{self, Begun, Finished};
use super::subscriptions::parts::Opened;
use crate::wire::{Dialect, Incoming, Together};

/// What a batch came to, or one command of the Centrifuge dialect.
pub(super) struct Batch {
    /// `None` if nobody is to be answered.
    pub(super) reply: Option<Bytes>,
    /// Subscriptions whose pushes may begin after the reply.
    pub(super) opened: Vec<Opened>,
}

/// Awaits calls that have begun one after the other, so that at most one page more than the reply is in memory.
pub(super) async fn all(
    shared: Arc<Shared>,
    calls: Vec<Begun>,
    mut together: Box<dyn Together>,
) -> Batch {
    let mut opened = Vec::new();
    for mut begun in calls {
        let Finished {
            outcome,
            opened: mut of_call,
        } = finish(&mut begun, &shared).await;
        let told = begun.id.is_none_or(|id| together.add(&id, outcome));
        // A client that reads a refusal has no subscription: it must not get pushes.
        if !told {
            of_call.take_back();
        }
        opened.push(of_call);
    }
    let reply = together.finish();
    Batch { reply, opened }
}

/// Answers what came in one HTTP body.
pub(in super::super) async fn run(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    incoming: Incoming,
    dialect: &'static dyn Dialect,
) -> Option<Bytes> {
    let mut begin = |call| {
        answer::begin(call, dialect, |request| {
            answer::start(shared, caller, request)
        })
    };
    let (calls, together) = match incoming {
        Incoming::One(call) => {
            let (mut begun, _) = begin(call)?;
            let finished = finish(&mut begun, shared).await;
            return begun.encode(&finished.outcome);
        }
        Incoming::Several(calls) => (calls, None),
        Incoming::Batch(calls, together) => (calls, Some(together)),
    };
    let calls: Vec<Begun> = calls
        .into_iter()
        .filter_map(&mut begin)
        .map(|(begun, _)| begun)
        .collect();
    if let Some(together) = together {
        return all(Arc::clone(shared), calls, together).await.reply;
    }
    let mut body = Vec::new();
    for mut begun in calls {
        let finished = finish(&mut begun, shared).await;
        body.extend(begun.encode(&finished.outcome).into_iter().flatten());
    }
    (!body.is_empty()).then(|| Bytes::from(body))
}

async fn finish(begun: &mut Begun, shared: &Shared) -> Finished {
    std::future::poll_fn(|context| begun.poll(shared, context)).await
}
