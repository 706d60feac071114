//! A batch: many calls in one frame or body, answered by one array that never passes the outbound limit.
//!
//! Owns: how the room of that array is shared out. Promises: what a write has done is told, if need be in short; a
//! write whose shortest answer might find no room is refused before it does anything; what can be asked for again gives
//! way. Writes are queued in the batch's order before anything of it is awaited; answers are in its order too. Must
//! not: know sockets.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::super::Shared;
use super::super::dispatch::{Caller, Outcome};
use super::answer::{self, Begun, Finished, Opening};
use crate::feed::Subscription;
use crate::wire::jsonrpc::{self, Call, Dialect, Encoding, Incoming};
use crate::wire::{Failure, Limits, Reply, Request};

/// The room in a batch's array that its members are sure of.
pub(super) struct Claims {
    limit: u64,
    /// Not claimed by anybody yet, bytes.
    free: usize,
}

impl Claims {
    /// For a batch of `count` calls.
    pub(super) fn new(limits: &Limits, count: usize) -> Claims {
        let limit = limits.outbound_frame_bytes_max;
        let all = usize::try_from(limit).unwrap_or(usize::MAX);
        Claims {
            limit,
            free: all.saturating_sub(ARRAY_BYTES + count * SHORT_BYTES),
        }
    }

    /// What the shortest answer of a call may take, which from now on is the call's. If there is not so much left, the
    /// call becomes a refusal.
    pub(super) fn take(&mut self, call: &mut Call) -> usize {
        if call.id.is_none() {
            return 0;
        }
        let more = call.request.as_ref().map_or(0, beyond_short);
        if more > self.free {
            call.request = Err(self.too_large(more));
            return SHORT_BYTES;
        }
        self.free -= more;
        SHORT_BYTES + more
    }

    fn too_large(&self, more: usize) -> Failure {
        let actual = self.limit.saturating_add((more - self.free) as u64);
        too_large(self.limit, actual)
    }
}

fn too_large(limit: u64, actual: u64) -> Failure {
    Failure::too_large("", "outbound_frame_bytes_max", limit, actual)
        .saying("the batch's answers pass outbound_frame_bytes_max; send this call by itself")
}

/// What the shortest answer of a call may take beyond [`SHORT_BYTES`].
fn beyond_short(request: &Request) -> usize {
    match request {
        // The user and the limits.
        Request::SessionOpen(_) => SHORT_BYTES,
        Request::MessageAppendBatch(batch) => batch
            .messages
            .iter()
            .map(|message| {
                let id = message.message_id.as_deref();
                APPENDED_BYTES + id.map_or(0, |id| ESCAPED * id.len())
            })
            .sum(),
        _ => 0,
    }
}

/// Brackets of the array, or its header.
const ARRAY_BYTES: usize = 8;
/// More than the shortest answer to most calls: a refusal without details, or a result of some numbers and an ID or
/// two, all of them as long as they may be and escaped. Batches have at most as many calls as have room for this.
const SHORT_BYTES: usize = Limits::BATCH_ANSWER_BYTES;
/// One message in the answer of `message.append_batch`: names, numbers, an ID that the server made.
const APPENDED_BYTES: usize = 160;
/// A control character is a byte and becomes six, `\u0001`.
const ESCAPED: usize = 6;

/// A member of a batch that has begun, and its claim.
pub(super) struct Member {
    pub(super) begun: Begun,
    pub(super) claim: usize,
}

/// What a batch came to.
pub(super) struct Batch {
    /// One array; `None` if all members were notifications.
    pub(super) reply: Option<Bytes>,
    /// Subscriptions whose pushes may begin after the array.
    pub(super) opened: Vec<(Opening, Option<Subscription>)>,
}

/// Awaits the members of a batch one after the other, so that at most one page more than the array is in memory.
pub(super) async fn all(shared: Arc<Shared>, members: Vec<Member>, dialect: Dialect) -> Batch {
    let limit = shared.options.limits.outbound_frame_bytes_max;
    let mut free = usize::try_from(limit).unwrap_or(usize::MAX);
    // What those behind are sure of; each member may have the rest.
    let mut claimed = ARRAY_BYTES + members.iter().map(|member| member.claim).sum::<usize>();
    let (mut replies, mut opened) = (Vec::new(), Vec::new());
    for Member { mut begun, claim } in members {
        claimed -= claim;
        let Finished {
            outcome,
            opened: mut place,
        } = Poller {
            begun: &mut begun,
            shared: &shared,
        }
        .await;
        if let Some(mut reply) = begun.encode(&outcome) {
            let room = free.saturating_sub(claimed + 1);
            if reply.len() > room {
                let actual = (limit - room as u64).saturating_add(reply.len() as u64);
                reply = begun
                    .encode(&shorter(outcome, limit, actual))
                    .unwrap_or_default();
                // Who is told that it did not subscribe must not hear pushes.
                if let Some((_, subscription)) = &mut place {
                    *subscription = None;
                }
            }
            debug_assert!(reply.len() <= room, "an answer passes its claim");
            free = free.saturating_sub(reply.len() + 1);
            replies.push(reply);
        }
        opened.extend(place);
    }
    let reply = (!replies.is_empty()).then(|| jsonrpc::batch(&replies, dialect));
    Batch { reply, opened }
}

/// An answer that fits into its claim: in short what a write has done, and a refusal instead of what can be asked
/// again.
fn shorter(outcome: Outcome, limit: u64, actual: u64) -> Outcome {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(failure) => return Err(brief(failure)),
    };
    match reply {
        Reply::MessageUpdate(mut got) => {
            got.message.entry = None;
            got.message.sender = None;
            Ok(Reply::MessageUpdate(got))
        }
        Reply::TimelineUpdate(mut updated) => {
            updated.meta = None;
            Ok(Reply::TimelineUpdate(updated))
        }
        // Within their claims as they are.
        short @ (Reply::SessionOpen(_)
        | Reply::TimelineCreate(_)
        | Reply::TimelineDelete(_)
        | Reply::TimelineTrim(_)
        | Reply::MessageAppend(_)
        | Reply::MessageAppendBatch(_)
        | Reply::MessageDelete(_)
        | Reply::Unsubscribe(_)
        | Reply::Ping(_)) => Ok(short),
        Reply::Discover(_)
        | Reply::TimelineGet(_)
        | Reply::TimelineList(_)
        | Reply::MessageGet(_)
        | Reply::MessageRange(_)
        | Reply::Sync(_)
        | Reply::Subscribe(_) => Err(too_large(limit, actual)),
    }
}

/// A refusal without the texts that may be long.
fn brief(failure: Failure) -> Failure {
    Failure {
        message: failure.reason.message().into(),
        field: None,
        ..failure
    }
}

/// Whether something of it does more than to be answered.
pub(in crate::gateway) fn writes(incoming: &Incoming) -> bool {
    let calls = match incoming {
        Incoming::Single(call) => std::slice::from_ref(call),
        Incoming::Batch(calls) => calls,
    };
    let mut requests = calls.iter().flat_map(|call| &call.request);
    requests.any(|request| request.method().has_effect())
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
    let mut one = |call| {
        answer::begin(call, encoding, |request| {
            answer::start(shared, caller, request)
        })
    };
    match incoming {
        Incoming::Single(call) => {
            let (mut begun, _) = one(call)?;
            let finished = Poller {
                begun: &mut begun,
                shared,
            }
            .await;
            begun.encode(&finished.outcome)
        }
        Incoming::Batch(calls) => {
            let mut claims = Claims::new(&shared.options.limits, calls.len());
            let mut members = Vec::with_capacity(calls.len());
            for mut call in calls {
                let claim = claims.take(&mut call);
                if let Some((begun, _)) = one(call) {
                    members.push(Member { begun, claim });
                }
            }
            all(Arc::clone(shared), members, dialect).await.reply
        }
    }
}

struct Poller<'a> {
    begun: &'a mut Begun,
    shared: &'a Shared,
}

impl Future for Poller<'_> {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        let shared = self.shared;
        self.begun.poll(shared, context)
    }
}
