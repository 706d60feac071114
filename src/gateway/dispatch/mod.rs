//! From a decoded request to the call of the timelines that does it.
//!
//! Owns: the match over methods, one file per family, and the one place that turns a timeline's error into a refusal.
//! Promises: a write is queued by the time `call` returns, so the order of calls is the order of effects; a read does
//! nothing until it is polled. Must not: know an encoding, an id or a socket. `subscribe`, `unsubscribe`, `stream.open`
//! and `stream.close` belong to a session.

pub(super) mod conversation;
mod feed;
mod marks;
mod member;
pub(super) mod message;
mod partition;
mod position;
mod receipt;
mod schedule;
pub(crate) mod shape;
pub(super) mod signal;
pub(super) mod stream;
pub(super) mod subscribe;
mod sync;
mod timeline;
mod webhook;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::Shared;
use crate::feed::Who;
use crate::table::StoreError;
use crate::timeline::{Error, Target};
use crate::wire::session::{Discovered, Nothing, Opened, Pong, Server};
use crate::wire::{Actual, Failure, Integers, Reason, Reply, Request, openrpc};

/// What a request comes to.
pub(super) type Outcome = Result<Reply, Failure>;

/// The user of a call, and how the answers are to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller {
    /// Stamped on what is appended; empty = none.
    pub(super) user: String,
    /// What the client calls its device.
    pub(super) device: Option<String>,
    /// How large integers go back.
    pub(super) integers: Integers,
    /// What the connection has changed of members, for lists that must show it.
    member_changes: Arc<conversation::MemberChanges>,
}

impl Caller {
    /// The timeline that a call is about, as this caller may see it.
    fn target(&self, timeline: String, epoch: Option<String>) -> Target {
        Target {
            timeline,
            epoch,
            user: self.user.clone(),
        }
    }

    /// The user that a call about "me" is of.
    pub(super) fn user(&self) -> Result<String, Failure> {
        if self.user.is_empty() {
            let failure = Failure::new(Reason::Unauthenticated);
            return Err(failure.saying("this call is about its user, and there is none"));
        }
        Ok(self.user.clone())
    }

    /// The user and the device as others see them; `None` without a user.
    pub(super) fn who(&self) -> Option<Arc<Who>> {
        let user = (!self.user.is_empty()).then(|| self.user.as_str().into())?;
        let device = self.device.as_deref().map(Arc::from);
        Some(Arc::new(Who { user, device }))
    }
}

/// Work that a request has become.
pub(super) enum Work {
    /// Done already.
    Now(Outcome),
    /// Queued; poll it for the answer.
    Write(BoxFuture<'static, Outcome>),
    /// Begins when it is polled, and may hold a page in memory when it is done.
    Read(BoxFuture<'static, Outcome>),
    /// May take as long as the client said.
    Wait(BoxFuture<'static, Outcome>),
}

/// Starts a request.
pub(super) fn call(shared: &Arc<Shared>, caller: &mut Caller, request: Request) -> Work {
    let Some(timeline) = members_changed_by(&request) else {
        return start(shared, caller, request);
    };
    let changes = Arc::clone(&caller.member_changes);
    conversation::changing_members(shared, changes, &timeline, || {
        start(shared, caller, request)
    })
}

/// The timeline whose members a call changes.
fn members_changed_by(request: &Request) -> Option<String> {
    let timeline = match request {
        Request::TimelineCreate(create) if !create.members.is_empty() => &create.timeline,
        Request::MemberAdd(add) => &add.timeline,
        Request::MemberUpdate(update) => &update.timeline,
        Request::MemberRemove(remove) => &remove.timeline,
        _ => return None,
    };
    Some(timeline.clone())
}

fn start(shared: &Arc<Shared>, caller: &mut Caller, request: Request) -> Work {
    match request {
        Request::SessionOpen(open) => Work::Now(session_open(shared, caller, open)),
        Request::Ping(Nothing {}) => Work::Now(Ok(pong(shared))),
        Request::Discover(Nothing {}) => Work::Now(Ok(Reply::Discover(Discovered(openrpc())))),
        Request::TimelineCreate(create) => timeline::create(shared, caller, *create),
        Request::TimelineGet(get) => timeline::get(shared, caller, get),
        Request::TimelineUpdate(update) => timeline::update(shared, caller, update),
        Request::TimelineDelete(delete) => timeline::delete(shared, caller, delete),
        Request::TimelineTrim(trim) => timeline::trim(shared, caller, trim),
        Request::TimelineList(list) => timeline::list(shared, caller, list),
        Request::TimelineConfigure(configure) => timeline::configure(shared, caller, *configure),
        Request::MemberAdd(add) => member::add(shared, caller, add),
        Request::MemberUpdate(update) => member::update(shared, caller, *update),
        Request::MemberRemove(remove) => member::remove(shared, caller, remove),
        Request::MemberGet(get) => member::get(shared, caller, get),
        Request::MemberList(list) => member::list(shared, caller, list),
        Request::MessageAppend(append) => message::append(shared, caller, *append).alone(shared),
        Request::MessageAppendBatch(all) => message::append_all(shared, caller, all).alone(shared),
        Request::MessageGet(get) => message::get(shared, caller, get),
        Request::MessageRange(range) => message::range(shared, caller, range),
        Request::MessageUpdate(update) => message::update(shared, caller, *update),
        Request::MessageDelete(delete) => message::delete(shared, caller, delete),
        Request::Signal(signal) => signal::signal(shared, caller, signal, None),
        Request::PresenceGet(get) => signal::presence(shared, caller, get),
        Request::MessageRecall(recall) => message::recall(shared, caller, recall),
        Request::ReactionAdd(add) => marks::react(shared, caller, add),
        Request::ReactionRemove(remove) => marks::take_back(shared, caller, remove),
        Request::ReactionList(list) => marks::reactions_of(shared, caller, list),
        Request::PinAdd(add) => marks::pin(shared, caller, add),
        Request::PinRemove(remove) => marks::unpin(shared, caller, remove),
        Request::PinList(list) => marks::pinned(shared, caller, list),
        Request::ConversationList(list) => conversation::list(shared, caller, list),
        Request::ConversationSync(sync) => conversation::sync(shared, caller, sync),
        Request::ConversationCount(count) => conversation::count(shared, caller, count),
        Request::ConversationGet(get) => conversation::get(shared, caller, get),
        Request::ConversationUpdate(update) => conversation::update(shared, caller, update),
        Request::ConversationDirect(direct) => conversation::direct(shared, caller, direct),
        Request::ConversationHide(hide) => conversation::hide(shared, caller, hide),
        Request::FeedFollow(follow) => feed::follow(shared, caller, follow),
        Request::FeedUnfollow(unfollow) => feed::unfollow(shared, caller, unfollow),
        Request::FeedFollowing(following) => feed::following(shared, caller, following),
        Request::FeedFollowers(followers) => feed::followers(shared, caller, followers),
        Request::FeedRange(range) => feed::range(shared, caller, range),
        Request::MessageHide(hide) => receipt::hide(shared, caller, hide),
        Request::MessageHidden(hidden) => receipt::hidden(shared, caller, hidden),
        Request::ConversationClear(clear) => receipt::clear(shared, caller, clear),
        Request::ReadSet(set) => receipt::set(shared, caller, set),
        Request::ReceiptList(list) => receipt::list(shared, caller, list),
        Request::ScheduleList(list) => schedule::list(shared, caller, list),
        Request::ScheduleCancel(cancel) => schedule::cancel(shared, caller, cancel),
        Request::PositionSet(set) => position::set(shared, caller, set),
        Request::PositionList(list) => position::list(shared, caller, list),
        Request::PositionRemove(remove) => position::remove(shared, caller, remove),
        Request::Sync(sync) => sync::sync(shared, caller, *sync),
        Request::StreamCommit(commit) => stream::commit(shared, caller, commit),
        Request::StreamCursors(cursors) => stream::cursors(shared, caller, cursors),
        Request::StreamForget(forget) => stream::forget(shared, caller, forget),
        Request::WebhookList(_) => webhook::list(shared, caller),
        Request::WebhookDead(dead) => webhook::dead(shared, caller, dead),
        Request::WebhookReplay(replay) => webhook::replay(shared, caller, replay),
        Request::PartitionList(_) => partition::list(shared, caller),
        Request::PartitionSplit(split) => partition::split(shared, caller, &split),
        Request::PartitionMerge(merge) => partition::merge(shared, caller, &merge),
        Request::Subscribe(_)
        | Request::Unsubscribe(_)
        | Request::StreamOpen(_)
        | Request::StreamClose(_) => only_of_a_session(),
    }
}

fn only_of_a_session() -> Work {
    let failure = Failure::new(Reason::MethodNotFound);
    Work::Now(Err(failure.saying("only over a WebSocket")))
}

fn pong(shared: &Shared) -> Reply {
    let time = shared.clock.now_ms();
    Reply::Ping(Pong { time })
}

fn session_open(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    open: crate::wire::session::Open,
) -> Outcome {
    // The user is believed. A token is not: its sender relies on a check that the server can't make.
    if open.token.is_some() {
        let failure = Failure::new(Reason::Unauthenticated).about("token");
        return Err(failure.saying(NO_AUTHENTICATION));
    }
    if let Some(user) = open.user {
        caller.user = user;
    }
    if let Some(device) = open.device {
        caller.device = Some(device);
    }
    if let Some(integers) = open.integers {
        caller.integers = integers;
    }
    let session = uuid::Uuid::new_v4().simple().to_string();
    tracing::debug!(
        session,
        device = caller.device,
        client = open.client,
        "session opened"
    );
    Ok(Reply::SessionOpen(Box::new(Opened {
        session,
        user: (!caller.user.is_empty()).then(|| caller.user.clone()),
        server: Server {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        heartbeat_ms: u64::try_from(shared.options.heartbeat.as_millis()).unwrap_or(u64::MAX),
        limits: shared.options.limits.clone(),
    })))
}

/// The answer to a token.
pub(super) const NO_AUTHENTICATION: &str =
    "this server has no authentication yet, so nobody checks the token: leave it out";

/// Every error of the timelines as a refusal.
pub(super) fn refusal(error: Error) -> Failure {
    match error {
        Error::TimelineNotFound => Reason::TimelineNotFound.into(),
        Error::MessageNotFound => Reason::MessageNotFound.into(),
        Error::MemberNotFound => Reason::MemberNotFound.into(),
        Error::Forbidden => Failure::new(Reason::Forbidden).saying(NOT_EDITED),
        Error::ConversationNotFound => Reason::ConversationNotFound.into(),
        Error::WrongCursor(field) => {
            Failure::invalid(field, "not a cursor that this user was given")
        }
        Error::Deleted => Failure::new(Reason::MessageNotFound).saying("the message is deleted"),
        Error::ScheduledNotFound => Reason::ScheduledNotFound.into(),
        Error::DeliverAt => Failure::invalid(
            "deliver_at",
            "must not be in the past, nor more than 366 days ahead",
        ),
        Error::ConditionFailed { actual } => {
            Failure::new(Reason::ConditionFailed).actual(Actual::Number(actual))
        }
        Error::MessageIdConflict { index } => {
            Failure::new(Reason::MessageIdConflict).about(format!("messages[{index}].message_id"))
        }
        Error::EpochChanged { actual } => {
            Failure::new(Reason::EpochChanged).actual(Actual::Text(actual))
        }
        Error::TooLarge {
            limit,
            limit_bytes,
            actual_bytes,
        } => Failure::too_large("entry", limit, limit_bytes, actual_bytes),
        Error::NotAMember => Reason::NotAMember.into(),
        Error::TooMany {
            field,
            limit,
            actual,
        } => Failure::new(Reason::TooMany)
            .about(field)
            .over(limit, actual),
        Error::Store(error) => match error {
            StoreError::Busy => Failure::new(Reason::Busy).retry_after(BUSY_RETRY_MS),
            StoreError::StorageFull => Reason::StorageFull.into(),
            StoreError::OutcomeUnknown => Reason::OutcomeUnknown.into(),
            StoreError::Unavailable => Reason::Unavailable.into(),
            StoreError::ShuttingDown => Reason::ShuttingDown.into(),
            StoreError::Internal => Reason::InternalError.into(),
        },
    }
}

/// The answer to an edit that the timeline's settings do not let this user make.
const NOT_EDITED: &str =
    "the timeline's settings do not let you change this message, or not any more";

/// About how long a full queue takes to empty.
const BUSY_RETRY_MS: u32 = 200;
