//! From a decoded request to the call of the timelines that does it.
//!
//! Owns: the match over methods, one file per family. Promises: a write is queued by the time `call` returns, or has
//! its place in the connection's line, so the order of calls is the order of effects; a read does nothing until it is
//! polled. Must not: know an encoding, an id or a socket. `subscribe`, `unsubscribe`, `stream.open` and `stream.close`
//! belong to a session.

pub(super) mod audit;
mod line;
pub(super) mod people;
mod refusal;
mod search;
pub(super) mod server;
pub mod shape;
pub(super) mod subscribe;
mod sync;
pub(super) mod tables;
pub(super) mod timelines;
pub(super) mod wait;

use std::net::IpAddr;
use std::sync::Arc;

use audit::Noted;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::Shared;
use super::credentials::Credential;
use super::live::Live;
use tideline_base::trace::TraceParent;
use tideline_model::access::{Asker, Claim, Right, Rights};
use tideline_timelines::feed::Who;
use tideline_timelines::timeline::{Error, Target};
use tideline_wire::openrpc;
use tideline_wire::server::session::{Discovered, Nothing};
use tideline_wire::{Failure, Integers, Method, Needs, Reason, Reply, Request};

use refusal::BUSY_RETRY_MS;
pub(super) use refusal::{NO_RIGHT, refusal};
pub use tables::sql::told as told_sql;

/// What a request comes to.
pub(super) type Outcome = Result<Reply, Failure>;

/// The user of a call, and how the answers are to be written.
#[derive(Clone, Default)]
pub(super) struct Caller {
    /// The caller, and its credential.
    pub(super) asker: Asker,
    /// What the client calls its device.
    pub(super) device: Option<String>,
    /// How large integers go back.
    pub(super) integers: Integers,
    /// The place in a trace that the call comes from.
    pub(super) trace: Option<TraceParent>,
    /// From where it calls, where that is asked for.
    pub(super) address: Option<IpAddr>,
    /// What it has shown, if it has no session.
    pub(super) shown: Option<Box<Credential>>,
    /// Its session, of one that has shown a credential.
    pub(super) live: Option<Arc<Live>>,
    /// What the connection has changed of members, for lists that must show it.
    member_changes: Arc<people::conversation::MemberChanges>,
    /// The order of its writes that read before they are queued.
    line: line::Line,
}

impl Caller {
    /// The caller, for a method: whether they may is decided where its timeline is looked at.
    pub(super) fn asking(&self, method: Method) -> Asker {
        self.asker.needing(method.needs().rights())
    }

    /// The same of a call that is about its user.
    fn person(&self, method: Method) -> Result<Asker, Failure> {
        self.user().map(|_| self.asking(method))
    }

    /// The caller has shown a credential.
    pub(super) fn claimed(&mut self, claim: Arc<Claim>) {
        self.asker = Asker::with_claim(claim, Rights::NONE);
    }

    /// Whether it is a key that acts for a user: each of its calls is noted.
    pub(super) fn acts(&self) -> bool {
        let claim = self.asker.claim();
        claim.is_some_and(|claim| {
            let identity = claim.identity();
            identity.key().is_some() && identity.for_user.is_some()
        })
    }

    /// Whether a right about the server as a whole is given.
    pub(super) fn may(&self, right: Right) -> bool {
        let claim = self.asker.claim();
        claim.is_none_or(|claim| claim.everywhere().has(right))
    }

    /// The timeline that a call is about, as this caller may see it.
    fn target(&self, method: Method, timeline: String, epoch: Option<String>) -> Target {
        Target {
            timeline,
            epoch,
            asker: self.asking(method),
        }
    }

    /// Refuses what is about the server to those without the right. Whatever names a timeline is decided there.
    pub(super) fn check(&self, method: Method) -> Result<(), Failure> {
        match (self.asker.claim(), method.needs()) {
            (Some(claim), Needs::Server(rights)) if !claim.everywhere().has_any(rights) => {
                Err(Failure::new(Reason::Forbidden).saying(NO_RIGHT))
            }
            _ => Ok(()),
        }
    }

    /// A write that reads first. It begins when such writes before it are queued, and the next one begins when it is
    /// done.
    fn in_line(&self, write: impl Future<Output = Outcome> + Send + 'static) -> Work {
        let place = self.line.place();
        Work::Write(Box::pin(async move {
            let _turn = place.await;
            write.await
        }))
    }

    /// The user that a call about "me" is of.
    pub(super) fn user(&self) -> Result<String, Failure> {
        let user = self.asker.user();
        if user.is_empty() {
            let failure = Failure::new(Reason::Unauthenticated);
            return Err(failure.saying("this call is about its user, and there is none"));
        }
        Ok(user.to_owned())
    }

    /// The user and the device as others see them; `None` without a user.
    pub(super) fn who(&self) -> Option<Arc<Who>> {
        let user = self.asker.user();
        let user = (!user.is_empty()).then(|| user.into())?;
        let device = self.device.as_deref().map(Arc::from);
        Some(Arc::new(Who { user, device }))
    }
}

/// Work that a request has become.
pub(super) enum Work {
    /// Done already.
    Now(Outcome),
    /// Queued, or in line for it; poll it for the answer.
    Write(BoxFuture<'static, Outcome>),
    /// Begins when it is polled, and may hold a page in memory when it is done.
    Read(BoxFuture<'static, Outcome>),
    /// May take as long as the client said.
    Wait(BoxFuture<'static, Outcome>),
}

impl Work {
    /// A write of the timelines that is queued, and the reply to what it gives.
    fn write<T>(
        queued: impl Future<Output = Result<T, Error>> + Send + 'static,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> Work {
        // As the timelines say it.
        Work::write_entry("entry", queued, reply)
    }

    /// The same for an entry that is called `field` in the call: a refusal names it so.
    fn write_entry<T>(
        field: &'static str,
        queued: impl Future<Output = Result<T, Error>> + Send + 'static,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> Work {
        Work::Write(Box::pin(async move {
            queued
                .await
                .map(reply)
                .map_err(|error| in_field(field, error))
        }))
    }

    /// This work, but what it reads is refused if the credential counts no more when that is there.
    pub(super) fn while_it_counts(self, claim: &Arc<Claim>) -> Work {
        let claim = Arc::clone(claim);
        let kept = move |outcome: Outcome| match claim.is_over() {
            true => Err(Reason::Unauthenticated.into()),
            false => outcome,
        };
        match self {
            Work::Read(work) => Work::Read(work.map(kept).boxed()),
            Work::Wait(work) => Work::Wait(work.map(kept).boxed()),
            Work::Now(_) | Work::Write(_) => self,
        }
    }
}

/// A refusal by the timelines, which say `entry`: it names the field as the call does.
fn in_field(field: &'static str, error: Error) -> Failure {
    let mut failure = refusal(error);
    if failure.field.as_deref() == Some("entry") {
        failure.field = Some(field.to_owned());
    }
    failure
}

/// A call that has begun, or why it was refused at once.
type Started = Result<Work, Failure>;

impl From<Started> for Work {
    fn from(started: Started) -> Work {
        started.unwrap_or_else(|failure| Work::Now(Err(failure)))
    }
}

/// Starts a request, with its line in the audit log behind it.
pub(super) fn call(shared: &Arc<Shared>, caller: &mut Caller, request: Request) -> Work {
    match Noted::of(shared, caller, &request) {
        Some(noted) => noted.behind(call_noted(shared, caller, request)),
        None => call_noted(shared, caller, request),
    }
}

/// Starts a request whose line in the audit log is somebody else's to write.
pub(super) fn call_noted(shared: &Arc<Shared>, caller: &mut Caller, request: Request) -> Work {
    match caller.check(request.method()) {
        Ok(()) => start_in_order(shared, caller, request),
        Err(failure) => Work::Now(Err(failure)),
    }
}

fn start_in_order(shared: &Arc<Shared>, caller: &mut Caller, request: Request) -> Work {
    let Some(timeline) = members_changed_by(caller, &request) else {
        return start(shared, caller, request);
    };
    let changes = Arc::clone(&caller.member_changes);
    let begin = || start(shared, caller, request);
    people::conversation::changing_members(shared, changes, &timeline, begin).into()
}

/// The timeline whose members a call changes. A user that makes one may become its member.
fn members_changed_by(caller: &Caller, request: &Request) -> Option<String> {
    let is_user = !caller.asker.user().is_empty();
    let timeline = match request {
        Request::TimelineCreate(create) if is_user || !create.members.is_empty() => {
            &create.timeline
        }
        Request::MemberAdd(add) => &add.timeline,
        Request::MemberUpdate(update) => &update.timeline,
        Request::MemberRemove(remove) => &remove.timeline,
        _ => return None,
    };
    Some(timeline.clone())
}

#[allow(clippy::too_many_lines)] // a line for each method
fn start(shared: &Arc<Shared>, caller: &mut Caller, request: Request) -> Work {
    match request {
        Request::SessionOpen(open) => Work::Now(server::session::open(shared, caller, open)),
        Request::SessionRenew(renew) => server::session::renew(shared, caller, &renew),
        Request::SessionTicket(Nothing {}) => Work::Now(server::session::ticket(shared, caller)),
        Request::SessionList(list) => server::seen::list(shared, caller, list),
        Request::SessionGet(get) => server::seen::get(shared, caller, get),
        Request::SessionClose(close) => server::session::close(shared, caller, &close),
        Request::SessionRevoke(revoke) => server::session::revoke(shared, caller, revoke).into(),
        Request::KeyCreate(create) => server::key::create(shared, caller, create).into(),
        Request::KeyList(_) => server::key::list(shared, caller).into(),
        Request::KeyRevoke(revoke) => server::key::revoke(shared, caller, revoke).into(),
        Request::Ping(Nothing {}) => Work::Now(Ok(server::pong(shared))),
        Request::Discover(Nothing {}) => Work::Now(Ok(Reply::Discover(Discovered(openrpc())))),
        Request::TimelineCreate(create) => timelines::timeline::create(shared, caller, *create),
        Request::TimelineGet(get) => timelines::timeline::get(shared, caller, get),
        Request::TimelineUpdate(update) => timelines::timeline::update(shared, caller, update),
        Request::TimelineDelete(delete) => timelines::timeline::delete(shared, caller, delete),
        Request::TimelineTrim(trim) => timelines::timeline::trim(shared, caller, trim),
        Request::TimelineList(list) => timelines::timeline::list(shared, caller, list),
        Request::TimelinePrefixes(level) => timelines::timeline::prefixes(shared, caller, level),
        Request::TimelineReaders(readers) => server::seen::readers(shared, caller, readers),
        Request::TimelineConfigure(configure) => {
            timelines::timeline::configure(shared, caller, *configure)
        }
        Request::MemberAdd(add) => timelines::member::add(shared, caller, add),
        Request::MemberUpdate(update) => timelines::member::update(shared, caller, *update),
        Request::MemberRemove(remove) => timelines::member::remove(shared, caller, remove),
        Request::MemberGet(get) => timelines::member::get(shared, caller, get),
        Request::MemberList(list) => timelines::member::list(shared, caller, list),
        Request::MessageAppend(append) => {
            timelines::message::append(shared, caller, *append).alone(shared)
        }
        Request::MessageAppendBatch(all) => {
            timelines::message::append_all(shared, caller, all).alone(shared)
        }
        Request::MessageGet(get) => timelines::message::get(shared, caller, get),
        Request::MessageRange(range) => timelines::message::range(shared, caller, range),
        Request::MessageUpdate(update) => timelines::message::update(shared, caller, *update),
        Request::MessageDelete(delete) => timelines::message::delete(shared, caller, delete),
        Request::Signal(signal) => timelines::signal::signal(shared, caller, signal, None),
        Request::PresenceGet(get) => timelines::signal::presence(shared, caller, get),
        Request::MessageRecall(recall) => timelines::message::recall(shared, caller, recall),
        Request::MessageExtend(extend) => timelines::grow::extend(shared, caller, extend),
        Request::MessageFinish(finish) => timelines::grow::finish(shared, caller, *finish),
        Request::MessageStop(stop) => timelines::grow::stop(shared, caller, stop),
        Request::MessageSearch(asked) => search::messages(shared, caller, *asked),
        Request::TimelineSearch(asked) => search::timelines(shared, caller, asked),
        Request::ReactionAdd(add) => timelines::marks::react(shared, caller, add).into(),
        Request::ReactionRemove(one) => timelines::marks::take_back(shared, caller, one).into(),
        Request::ReactionList(list) => timelines::marks::reactions_of(shared, caller, list),
        Request::PinAdd(add) => timelines::marks::pin(shared, caller, add),
        Request::PinRemove(remove) => timelines::marks::unpin(shared, caller, remove),
        Request::PinList(list) => timelines::marks::pinned(shared, caller, list),
        Request::ConversationList(list) => people::conversation::list(shared, caller, list),
        Request::ConversationSync(sync) => people::conversation::sync(shared, caller, sync),
        Request::ConversationCount(count) => people::conversation::count(shared, caller, count),
        Request::ConversationGet(get) => people::conversation::get(shared, caller, get),
        Request::ConversationUpdate(update) => {
            people::conversation::update(shared, caller, update).into()
        }
        Request::ConversationDirect(direct) => {
            people::conversation::direct(shared, caller, direct).into()
        }
        Request::ConversationHide(hide) => people::conversation::hide(shared, caller, hide).into(),
        Request::FeedFollow(follow) => people::feed::follow(shared, caller, follow).into(),
        Request::FeedUnfollow(unfollow) => people::feed::unfollow(shared, caller, unfollow).into(),
        Request::FeedFollowing(following) => people::feed::following(shared, caller, following),
        Request::FeedFollowers(followers) => people::feed::followers(shared, caller, followers),
        Request::FeedRange(range) => people::feed::range(shared, caller, range),
        Request::MessageHide(hide) => people::receipt::hide(shared, caller, hide).into(),
        Request::MessageHidden(hidden) => people::receipt::hidden(shared, caller, hidden).into(),
        Request::ConversationClear(clear) => people::receipt::clear(shared, caller, clear).into(),
        Request::ReadSet(set) => people::receipt::set(shared, caller, set).into(),
        Request::ReceiptList(list) => people::receipt::list(shared, caller, list),
        Request::ScheduleList(list) => timelines::schedule::list(shared, caller, list),
        Request::ScheduleCancel(cancel) => timelines::schedule::cancel(shared, caller, cancel),
        Request::PositionSet(set) => people::position::set(shared, caller, set).into(),
        Request::PositionList(list) => people::position::list(shared, caller, list),
        Request::PositionRemove(remove) => people::position::remove(shared, caller, remove).into(),
        Request::Sync(sync) => sync::sync(shared, caller, *sync).into(),
        Request::StreamCommit(commit) => tables::stream::commit(shared, caller, commit).into(),
        Request::StreamCursors(cursors) => tables::stream::cursors(shared, caller, cursors).into(),
        Request::StreamForget(forget) => tables::stream::forget(shared, caller, forget).into(),
        Request::WebhookList(_) => server::webhook::list(shared, caller).into(),
        Request::WebhookDead(dead) => server::webhook::dead(shared, caller, dead).into(),
        Request::WebhookReplay(replay) => server::webhook::replay(shared, caller, replay).into(),
        Request::TableList(_) => tables::table::list(shared, caller),
        Request::TableGet(get) => tables::table::get(shared, caller, get),
        Request::RowGet(get) => tables::row::get(shared, caller, get),
        Request::RowRange(range) => tables::row::range(shared, caller, *range),
        Request::SqlQuery(query) => tables::sql::query(shared, caller, query),
        Request::RowPut(put) => tables::row::put(shared, caller, put),
        Request::PartitionList(_) => server::partition::list(shared),
        Request::PartitionSplit(split) => server::partition::split(shared, caller, &split),
        Request::PartitionMerge(merge) => server::partition::merge(shared, caller, &merge),
        Request::BackupStart(start) => server::backup::start(shared, caller, &start),
        Request::BackupStatus(_) => server::backup::status(shared, caller),
        Request::BackupCancel(_) => server::backup::cancel(shared, caller),
        Request::ServerStatus(_) => server::status(shared, caller),
        Request::ServerHistory(history) => server::history(shared, &history),
        Request::LogTail(tail) => server::log::tail(shared, caller, &tail),
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

/// The answer to a token.
pub(super) const NO_AUTHENTICATION: &str =
    "this server has no authentication ([auth]), so nobody checks the token: leave it out";
