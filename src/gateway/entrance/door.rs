//! Credentials at the entrance: what requests show in their headers, and the answer to a caller that may not come in.
//!
//! Owns: the way from a header or a `session.open` to a credential, and the lines of the log about those that were
//! refused. Promises: a bad credential gets the same bytes whatever is wrong with it; nothing of it is logged but the
//! name of its key; one that may not act for the user it names is in the audit log. Must not: judge a credential; the
//! authority does.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use tokio::sync::watch;

use super::super::http::respond::{Answer, NotBegun, full};
use super::super::limits::Limits;
use super::super::live::Sessions;
use super::super::log_limit::LogLimit;
use super::address::block;
use super::seats::Seat;
use crate::credentials::{Authority, Credential, Refused, Shown, named, named_id};
use tideline_base::clock::Clock;
use tideline_base::metrics::Metrics;
use tideline_model::access::{Claim, CurrentRules, Identity, Who};
use tideline_wire::jsonrpc::JSON;
use tideline_wire::{Dialect, Failure, Id, Reason};

/// Credentials and what counts of them. There is none without `[auth]`.
#[derive(Clone)]
pub struct Access {
    /// It judges them.
    pub authority: Arc<Authority>,
    /// The rules by which is decided.
    pub rules: Arc<CurrentRules>,
}

/// What the gateway has of a server with `[auth]`.
pub(in super::super) struct Door {
    pub(in super::super) authority: Arc<Authority>,
    rules: Arc<CurrentRules>,
    sessions: Arc<Sessions>,
    limits: Arc<Limits>,
    metrics: Arc<Metrics>,
    /// By address.
    refused: LogLimit<IpAddr>,
    /// What was refused, by caller.
    audited: LogLimit<String>,
}

/// From where a request came, and what its connection has shown.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Visitor<'c> {
    /// Behind trusted proxies, if it came through them.
    pub(in super::super) address: IpAddr,
    /// DNS names of the client's certificate.
    pub(in super::super) certificates: &'c [String],
    /// The place of its connection.
    pub(in super::super) seat: &'c Seat,
    /// Whether it has reached the server, or a trusted proxy that says so, by TLS.
    pub(in super::super) is_secure: bool,
}

/// The key and the user that a caller whose credential was refused claims to be.
#[derive(Default)]
pub(in super::super) struct Presumed<'c> {
    /// The ID of the key that it names.
    pub(in super::super) key: Option<String>,
    /// The user that it wants to act for.
    pub(in super::super) user: Option<&'c str>,
}

impl<'c> Presumed<'c> {
    /// Of a caller whose credential counts, but that wants to act for another user.
    pub(in super::super) fn of(identity: &Identity, user: &'c str) -> Presumed<'c> {
        let key = match &identity.who {
            Who::Key { id, .. } => Some(id.as_ref().to_owned()),
            Who::User(_) | Who::Anybody => None,
        };
        let user = Some(user);
        Presumed { key, user }
    }
}

impl<'c> From<Shown<'c>> for Presumed<'c> {
    fn from(shown: Shown<'c>) -> Presumed<'c> {
        Presumed {
            key: shown.bearer.and_then(named),
            user: shown.user,
        }
    }
}

/// Lines of the audit log that one caller can cause in a minute with calls that are refused.
const REFUSED_LINES_MAX: u32 = 60;

impl Door {
    pub(in super::super) fn new(
        access: Access,
        (limits, sessions): (Arc<Limits>, Arc<Sessions>),
        metrics: &Arc<Metrics>,
    ) -> Door {
        Door {
            authority: access.authority,
            rules: access.rules,
            sessions,
            limits,
            metrics: Arc::clone(metrics),
            refused: LogLimit::default(),
            audited: LogLimit::new(REFUSED_LINES_MAX),
        }
    }

    /// Whether there is a policy for timelines of this name.
    pub(in super::super) fn has_policy(&self, name: &[u8]) -> bool {
        self.rules.now().policy(name).is_some()
    }

    /// The credential of a request, by its headers.
    pub(in super::super) async fn admit(
        &self,
        headers: &HeaderMap,
        visitor: Visitor<'_>,
    ) -> Result<Credential, Failure> {
        let shown = shown(headers, visitor.certificates);
        let judged = self.authority.verify_fetching(shown).await;
        self.seated(judged, shown, visitor)
    }

    /// The credential behind a ticket, if there is one that still counts.
    pub(in super::super) fn ticketed(
        &self,
        behind: Option<Credential>,
        visitor: Visitor<'_>,
        clock: &Clock,
    ) -> Result<Credential, Failure> {
        let behind = behind.filter(|credential| self.still_counts(credential, clock));
        let judged = self.authority.ticketed(behind);
        self.seated(judged, Presumed::default(), visitor)
    }

    /// The place of a connection is its caller's from now on, or the refusal counts.
    fn seated<'w>(
        &self,
        judged: Result<Credential, Refused>,
        who: impl Into<Presumed<'w>>,
        visitor: Visitor<'_>,
    ) -> Result<Credential, Failure> {
        let judged = judged.map_err(|why| self.refuse(why, who.into(), visitor.address));
        if let Ok(credential) = &judged {
            let holder = self.limits.holder_of(&credential.identity);
            visitor.seat.is_of(holder);
        }
        judged.inspect_err(|failure| self.note_limit(failure))
    }

    fn note_limit(&self, failure: &Failure) {
        if let Some(limit) = failure.limit_name {
            self.metrics.refused(limit, 1);
        }
    }

    /// The credential that a session shows.
    pub(in super::super) fn judge(
        &self,
        shown: Shown<'_>,
        address: IpAddr,
    ) -> Result<Credential, Failure> {
        let judged = self.authority.verify(shown);
        judged.map_err(|why| self.refuse(why, shown.into(), address))
    }

    /// Tells of other rules than those in force now.
    pub(in super::super) fn turns(&self) -> watch::Receiver<u64> {
        self.rules.replaced()
    }

    /// The credential of a request that was signed with the secret of a key, or was not.
    pub(in super::super) fn signed(
        &self,
        id: &str,
        is_right: bool,
        visitor: Visitor<'_>,
    ) -> Result<Credential, Failure> {
        let judged = self.authority.signed_by(id, is_right, visitor.certificates);
        let who = Presumed {
            key: named_id(id).map(str::to_owned),
            user: None,
        };
        let judged = judged.map_err(|why| self.refuse(why, who, visitor.address));
        judged.inspect_err(|failure| self.note_limit(failure))
    }

    /// What is decided with a credential of a session, which ends it.
    pub(in super::super) fn claim(&self, credential: &Credential) -> Arc<Claim> {
        let identity = credential.identity.as_ref().clone();
        let rules = Arc::clone(&self.rules);
        Arc::new(Claim::new(identity, rules, credential.issued_at()))
    }

    /// The same of an identity that the system vouches for.
    pub(in super::super) fn claim_of(&self, identity: Identity) -> Arc<Claim> {
        Arc::new(Claim::new(identity, Arc::clone(&self.rules), None))
    }

    /// The same of one request: each decision looks whether it was taken back.
    pub(in super::super) fn claim_of_request(&self, credential: &Credential) -> Arc<Claim> {
        let identity = credential.identity.as_ref().clone();
        let rules = Arc::clone(&self.rules);
        Arc::new(Claim::earlier(identity, rules, credential.issued_at()))
    }

    /// Whether a credential that was admitted has not ended since, and was not revoked.
    pub(in super::super) fn still_counts(&self, credential: &Credential, clock: &Clock) -> bool {
        let has_ended = credential.ends_at.is_some_and(|at| at <= clock.now_ms());
        !has_ended && self.authority.still_counts(credential)
    }

    /// Ends sessions whose credentials count no more, for as long as it is polled.
    pub(in super::super) async fn sweep(&self) {
        let mut versions = self.authority.versions();
        while versions.changed().await.is_ok() {
            self.sessions.sweep(&self.authority);
        }
    }

    /// Whether a call gets its line in the audit log (`Some`); and with it how many calls of the same caller have got
    /// none since the last line.
    pub(in super::super) fn audits(&self, who: &str, is_done: bool) -> Option<Option<u64>> {
        if is_done {
            return Some(None);
        }
        let left_out = self.audited.turn_of(who.to_owned())?;
        Some((left_out > 0).then_some(left_out))
    }

    /// Logs why a credential was refused, and returns the answer to its owner.
    pub(in super::super) fn refuse(
        &self,
        why: Refused,
        who: Presumed<'_>,
        address: IpAddr,
    ) -> Failure {
        let Presumed { key, user } = who;
        let why_text = why.label();
        tracing::debug!(why = why_text, key, %address, "refused a credential");
        // Anybody can cause it: seldom at a level that is on.
        if why != Refused::Missing
            && let Some(left_out) = self.refused.turn_of(block(address))
        {
            let count = left_out + 1;
            tracing::warn!(count, why = why_text, key, %address, "refused credentials; this is the last one");
        }
        match why {
            Refused::Unavailable => Reason::Unavailable.into(),
            Refused::OtherUser => {
                if let Some(left_out) = self.audits(key.as_deref().unwrap_or_default(), false) {
                    let outcome = Reason::Forbidden.name();
                    tracing::info!(target: "audit", key, for_user = user, from = %address, outcome, left_out);
                }
                Reason::Forbidden.into()
            }
            Refused::Missing => Reason::Unauthenticated.into(),
            // Only failures count against an address. A good credential is accepted also from one that has too many:
            // otherwise clients that share an address would shut each other out.
            _ => match self.limits.fail(address) {
                Ok(()) => Reason::Unauthenticated.into(),
                Err(reached) => reached.into(),
            },
        }
    }
}

/// Resolves when the rules have changed since `turns` was taken; never where there are no rules.
pub(in super::super) async fn other_rules(turns: &mut Option<watch::Receiver<u64>>) {
    if let Some(turns) = turns
        && turns.changed().await.is_ok()
    {
        return;
    }
    pending().await
}

/// What the headers show.
fn shown<'s>(headers: &'s HeaderMap, certificates: &'s [String]) -> Shown<'s> {
    let mut users = headers.get_all(USER).iter();
    let user = match (users.next(), users.next()) {
        (None, _) => None,
        (Some(user), None) => Some(user_of(user).unwrap_or(NOBODY)),
        (Some(_), Some(_)) => Some(NOBODY),
    };
    Shown {
        bearer: bearer(headers),
        user,
        certificates,
    }
}

/// The user that a header names. Names need not be ASCII.
pub(in super::super) fn user_of(header: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(header.as_bytes()).ok()
}

/// A user that no credential may act for.
const NOBODY: &str = "";

/// The one credential; two could be taken differently by others, and none is counted then.
pub(in super::super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut bearers = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        // Other schemes are of a proxy that asks for a password and passes it on.
        let (scheme, credential) = value.to_str().ok()?.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        is_bearer.then_some(credential.trim_matches(' '))
    });
    match (bearers.next(), bearers.next()) {
        (Some(bearer), None) => Some(bearer),
        _ => None,
    }
}

/// The answer of HTTP to a request that is refused as a whole.
pub(in super::super) fn refusal(failure: &Failure) -> Answer {
    let status = match failure.reason {
        Reason::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
        // Those of JSON-RPC itself are no statuses: the request is wrong.
        reason => u16::try_from(reason.code())
            .ok()
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::BAD_REQUEST),
    };
    let dialect: &dyn Dialect = &JSON;
    let body = dialect.encode(&Id::Null, Err(failure));
    let mut answer = full(status, "application/json", body);
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    if NotBegun::is(failure) {
        answer.extensions_mut().insert(NotBegun);
    }
    if let Some(wait_ms) = failure.retry_after_ms {
        let seconds = HeaderValue::from(wait_ms.div_ceil(1_000));
        answer.headers_mut().insert(RETRY_AFTER, seconds);
    }
    answer
}

/// Names the user that a request is for.
pub(in super::super) const USER: &str = "tideline-user";
