//! The log target `audit`: which caller changed what, or tried to.
//!
//! Owns: which calls are noted, and their line. Promises: a line for each call that needs a right above reading and
//! writing one's own, for each that ends a session, and for each of a key that acts for a user, allowed or not, once it
//! is answered, or its caller has gone before that; of one caller's calls that were refused or have done nothing, so
//! many a minute, and how many others; none where there is no `[auth]`. Must not: note values: an entry, an attribute,
//! a setting, a credential.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::{Caller, Outcome, Shared, Work};
use crate::tablestore::Opening;
use tideline_model::access::{Identity, Right, Rights, Who};
use tideline_wire::{Failure, Method, Needs, Reply, Request};

/// A call that is noted when it is answered; if this is dropped before, as one that was not.
pub(crate) struct Noted {
    shared: Arc<Shared>,
    who: String,
    for_user: Option<String>,
    from: Option<IpAddr>,
    /// Of a WebSocket. An HTTP request has an ID, which each line of the log says that is written for it.
    session: Option<String>,
    method: Method,
    name: String,
    /// Its line is written.
    is_said: bool,
}

/// The caller went away, or its credential ended, before the answer; the call may be done.
pub(crate) const NOT_ANSWERED: &str = "not_answered";

/// Edits are among them whosever the message is: only the batch knows whether it was one's own.
const RIGHTS: Rights = Rights::NONE
    .with(Right::Moderate)
    .with(Right::Members)
    .with(Right::Manage)
    .with(Right::Admin);

impl Noted {
    /// The line of a call, if it is noted.
    pub(crate) fn of(shared: &Arc<Shared>, caller: &Caller, request: &Request) -> Option<Noted> {
        let identity = caller.asker.claim()?.identity();
        let (method, (name, sets)) = (request.method(), named(request));
        let has_right = match method.needs() {
            Needs::Any(rights) | Needs::Server(rights) => rights.has_any(RIGHTS),
            Needs::Nothing(_) | Needs::Session(_) => method == Method::SessionClose,
        };
        (has_right || sets || caller.acts()).then(|| Noted {
            shared: Arc::clone(shared),
            who: who(identity),
            for_user: identity.for_user.as_deref().map(str::to_owned),
            from: caller.address,
            session: caller.live.as_ref().map(|live| live.id.clone()),
            method,
            name: name.into_owned(),
            is_said: false,
        })
    }

    /// Writes the line.
    pub(crate) fn answered(self, outcome: &Outcome) {
        self.said(
            outcome.as_ref().err(),
            outcome.as_ref().is_ok_and(has_effect),
        );
    }

    /// The same of a call that is done, or was refused for this.
    pub(crate) fn said(mut self, failure: Option<&Failure>, is_done: bool) {
        self.say(
            failure.map_or("ok", |failure| failure.reason.name()),
            is_done,
        );
    }

    fn say(&mut self, outcome: &str, is_done: bool) {
        self.is_said = true;
        let door = self.shared.door.as_ref();
        let turn = door.and_then(|door| door.audits(&self.who, is_done));
        let Some(left_out) = turn else { return };
        tracing::info!(
            target: "audit",
            who = self.who,
            for_user = self.for_user,
            from = self.from.map(tracing::field::display),
            session = self.session,
            method = self.method.name(),
            name = self.name,
            outcome,
            left_out,
        );
    }

    /// The work, with the line behind it.
    pub(crate) fn behind(self, work: Work) -> Work {
        match work {
            Work::Now(outcome) => {
                self.answered(&outcome);
                Work::Now(outcome)
            }
            Work::Write(work) => Work::Write(work.inspect(move |one| self.answered(one)).boxed()),
            Work::Read(work) => Work::Read(work.inspect(move |one| self.answered(one)).boxed()),
            Work::Wait(work) => Work::Wait(work.inspect(move |one| self.answered(one)).boxed()),
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if !self.is_said {
            let may_be_done = self.method.has_effect();
            self.say(NOT_ANSWERED, may_be_done);
        }
    }
}

/// Whether an answered call has changed anything. A call that changes nothing can be repeated for ever, so its lines
/// are limited.
fn has_effect(reply: &Reply) -> bool {
    match reply {
        Reply::SessionClose(closed) => closed.closed,
        Reply::KeyRevoke(revoked) => revoked.revoked,
        Reply::MemberAdd(added) => added.added > 0,
        Reply::MemberRemove(removed) => removed.removed > 0,
        Reply::PinAdd(pinned) => pinned.added,
        Reply::PinRemove(unpinned) => unpinned.removed,
        _ => true,
    }
}

/// A user's name, or a key's with its ID.
pub(crate) fn who(identity: &Identity) -> String {
    match &identity.who {
        Who::Anybody => String::new(),
        Who::User(user) => user.as_ref().to_owned(),
        Who::Key { id, name } => format!("$key/{name} {id}"),
    }
}

/// What a call names: a timeline (the first of several), a key, a user, a session, a table; and
/// whether it makes a timeline with members or settings, or a statement of SQL manages a table.
fn named(request: &Request) -> (Cow<'_, str>, bool) {
    let name = match request {
        Request::TimelineCreate(one) => {
            return (
                Cow::from(&one.timeline),
                one.settings.is_some() || !one.members.is_empty(),
            );
        }
        Request::SqlQuery(one) => {
            let manages = Opening::of(&one.statement).manages;
            let is_noted = manages.is_some();
            return (manages.unwrap_or_default().into(), is_noted);
        }
        Request::KeyCreate(one) => &one.name,
        Request::KeyRevoke(one) => &one.id,
        Request::SessionRevoke(one) => &one.user,
        Request::SessionClose(one) => &one.session,
        Request::Subscribe(one) => {
            let many = one.timelines.iter().flatten().map(|(name, _)| name);
            let mut all = one.timeline.iter().chain(many);
            all.next().map_or("", String::as_str)
        }
        Request::Unsubscribe(one) => {
            let mut all = one.timeline.iter().chain(one.timelines.iter().flatten());
            all.next().map_or("", String::as_str)
        }
        other => other.timeline().unwrap_or_default(),
    };
    (name.into(), false)
}
