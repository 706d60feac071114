//! The credential of a session, on a server with `[auth]`.
//!
//! Owns: the credential, its end, and what waits for it. Promises: before a good credential nothing but `ping` is done,
//! and after 10 s the connection closes; what was sent behind a `session.open` waits for it; a session whose credential
//! has ended, or counts no more, does nothing more and closes. Must not: judge a credential.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::super::Shared;
use super::super::dispatch::server::session::{is_same_caller, open, take};
use super::super::dispatch::{Caller, Outcome};
use super::super::encode_push::expiring;
use super::super::entrance::arrival::{Arrival, PATIENCE};
use super::super::entrance::door::{Door, Presumed};
use super::super::entrance::seats::Seat;
use super::super::limits::CallerGuards;
use super::super::live::{Kept, Live, Peer};
use super::{Decoded, End, Session};
use crate::credentials::{Credential, Shown};
use tideline_model::access::Who;
use tideline_wire::server::session::Open;
use tideline_wire::{Call, Close, Failure, Method, Reason, Request};

/// What was known of a connection when it became a WebSocket.
pub(in super::super) struct Entered {
    pub(in super::super) address: IpAddr,
    /// DNS names of the client's certificate.
    pub(in super::super) certificates: Arc<[String]>,
    /// What its handshake has shown.
    pub(in super::super) credential: Option<Credential>,
    /// Its place among those that have shown none.
    pub(in super::super) waits: Option<Arc<Arrival>>,
    /// Count it as one of its user and its key.
    pub(in super::super) guards: CallerGuards,
    /// Its place among all connections.
    pub(in super::super) seat: Arc<Seat>,
}

/// The credential of a session.
pub(super) struct Login {
    peer: Peer,
    waits: Option<Arc<Arrival>>,
    began: Instant,
    kept: Option<Kept>,
    /// A frame that waits for the keys that its token is verified with.
    parked: Option<(Decoded, BoxFuture<'static, ()>)>,
    leaving: Leaving,
    /// When the token that the client was warned of expires, ms.
    warned_of: Option<u64>,
}

/// How far a connection is whose credential was refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The refusal is being answered.
    Answering,
    /// It is written, then the connection closes.
    Answered,
}

/// From the handshake to a credential.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);
/// So long before a token expires its client is warned.
const WARNING_MS: u64 = 60_000;

impl Login {
    /// Begins with what the handshake has shown.
    pub(super) fn new(
        shared: &Shared,
        door: &Door,
        caller: &mut Caller,
        (entered, peer): (Entered, Peer),
    ) -> Login {
        let mut login = Login {
            peer,
            waits: entered.waits,
            began: Instant::now(),
            kept: None,
            parked: None,
            leaving: Leaving::No,
            warned_of: None,
        };
        if let Some(credential) = entered.credential {
            login.keep(shared, door, caller, credential);
        }
        login
    }

    /// Whether the client has shown a good credential.
    pub(super) fn is_known(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether frames are not to be taken now.
    pub(super) fn holds_frames(&self) -> bool {
        self.parked.is_some() || self.leaving != Leaving::No
    }

    /// Whether the connection is to close, now that all was written.
    pub(super) fn has_left(&self) -> bool {
        self.leaving == Leaving::Answered
    }

    fn keep(&mut self, shared: &Shared, door: &Door, caller: &mut Caller, credential: Credential) {
        let claim = door.claim(&credential);
        caller.claimed(Arc::clone(&claim));
        let now = shared.clock.now_ms();
        let shown = (credential, claim);
        let peer = self.peer.clone();
        let kept = shared.sessions.add(&door.authority, shown, peer, now);
        caller.address = Some(self.peer.address);
        caller.live = Some(Arc::clone(&kept.live));
        self.kept = Some(kept);
        if let Some(waits) = self.waits.take() {
            waits.arrived();
        }
    }

    fn live(&self) -> Option<&Live> {
        self.kept.as_ref().map(|kept| &*kept.live)
    }

    /// Whether a call is refused, whatever it asks for, as no credential was shown yet.
    fn shuts_out(&self, call: &Call) -> bool {
        let needs_none = matches!(call.method, Some(Method::SessionOpen | Method::Ping));
        self.kept.is_none() && !needs_none
    }

    /// Takes what a `session.open` shows.
    fn show(
        &mut self,
        shared: &Shared,
        door: &Door,
        caller: &mut Caller,
        guards: &mut CallerGuards,
        open: &Open,
    ) -> Result<(), Failure> {
        let certificates = Arc::clone(&self.peer.certificates);
        let bearer = open.token.as_ref().map(|token| token.0.as_str());
        let mut shown = Shown {
            bearer,
            user: open.user.as_deref(),
            certificates: &certificates,
        };
        let Some(before) = self.live().and_then(Live::credential) else {
            let credential = self.judge(door, shown)?;
            *guards = shared.per_client.enter_as(&credential.identity)?;
            self.keep(shared, door, caller, credential);
            return Ok(());
        };
        let before_for = before.identity.for_user.as_deref();
        shown.user = shown.user.or(before_for);
        let credential = match (bearer, shown.user) {
            (Some(_), _) => self.judge(door, shown)?,
            (None, None) => return Ok(()),
            (None, Some(user)) => {
                let acting = door.authority.acting_for(&before, user);
                let who = Presumed::of(&before.identity, user);
                acting.map_err(|why| door.refuse(why, who, self.peer.address))?
            }
        };
        // A back end that has acted for nobody may begin to act for a user, and then for that one only.
        let is_key = matches!(before.identity.who, Who::Key { .. });
        let mut compared = before.identity.as_ref().clone();
        if is_key && before_for.is_none() {
            compared.for_user.clone_from(&credential.identity.for_user);
        }
        if !is_same_caller(&compared, &credential.identity) {
            return Err(Reason::Forbidden.into());
        }
        if let (None, Some(user)) = (before_for, &credential.identity.for_user) {
            shared.per_client.enter(user, guards)?;
        }
        if let Some(live) = self.live() {
            take(door, caller, live, credential);
        }
        Ok(())
    }

    /// A client with a bad credential is answered, and then its connection closes.
    fn judge(&mut self, door: &Door, shown: Shown<'_>) -> Result<Credential, Failure> {
        let judged = door.judge(shown, self.peer.address);
        if let Err(failure) = &judged
            && matches!(
                failure.reason,
                Reason::Unauthenticated | Reason::RateLimited
            )
        {
            self.leaving = Leaving::Answering;
        }
        judged
    }

    /// When this is to be looked at again.
    pub(super) fn due(&self, shared: &Shared, now: Instant) -> Option<Instant> {
        let Some(credential) = self.live().and_then(Live::credential) else {
            return Some((now + PATIENCE).min(self.began + LOGIN_TIME_MAX));
        };
        let expires_at = credential.expires_at?;
        let next = match self.warned_of == Some(expires_at) {
            true => credential.ends_at?,
            false => expires_at.saturating_sub(WARNING_MS),
        };
        let wait_ms = next.saturating_sub(shared.clock.now_ms()).min(FAR_MS);
        Some(now + Duration::from_millis(wait_ms))
    }

    /// Whether the connection's time has ended.
    pub(super) fn is_over(&self, shared: &Shared, now: Instant) -> bool {
        match self.live().and_then(Live::credential) {
            None => {
                let waited = now.duration_since(self.began);
                let waits = self.waits.as_ref().filter(|_| waited >= PATIENCE);
                waited >= LOGIN_TIME_MAX || waits.is_some_and(|waits| waits.is_in_the_way())
            }
            Some(credential) => {
                let ends_at = credential.ends_at;
                ends_at.is_some_and(|at| shared.clock.now_ms() >= at)
            }
        }
    }

    /// How long the token still counts, ms, if the client is to be warned now.
    fn warning(&mut self, shared: &Shared) -> Option<u64> {
        let expires_at = self.live()?.credential()?.expires_at?;
        let left = expires_at.saturating_sub(shared.clock.now_ms());
        if left > WARNING_MS || self.warned_of == Some(expires_at) {
            return None;
        }
        self.warned_of = Some(expires_at);
        Some(left)
    }
}

/// The timer looks again after this at the latest.
const FAR_MS: u64 = 3_600_000;

/// Answers a `session.open`.
pub(super) fn open_session(
    shared: &Arc<Shared>,
    login: Option<&mut Login>,
    caller: &mut Caller,
    guards: &mut CallerGuards,
    asked: Open,
) -> Outcome {
    if let (Some(login), Some(door)) = (login, &shared.door) {
        login.show(shared, door, caller, guards, &asked)?;
        return open(shared, caller, asked);
    }
    // As another user than before only if that user may have one more connection.
    let other = asked.user.as_deref();
    let other = other.filter(|user| *user != caller.asker.user());
    let mut entered = None;
    if let Some(user) = other {
        shared
            .per_client
            .enter(user, entered.get_or_insert_default())?;
    }
    let opened = open(shared, caller, asked)?;
    if let Some(entered) = entered {
        *guards = entered;
    }
    Ok(opened)
}

impl Session {
    /// Counts what the session holds as its caller's, once its caller is known.
    pub(super) fn is_of_caller(&mut self) {
        let is_stranger = match (&self.login, &self.centrifuge) {
            (Some(login), _) => !login.is_known(),
            (None, Some(own)) => !own.is_known(),
            (None, None) => false,
        };
        if is_stranger {
            return;
        }
        let holder = self.shared.per_client.holder(&self.caller.asker);
        self.seat.is_of(holder);
        self.reader.share.belongs_to(holder);
        self.jobs.share.belongs_to(holder);
        self.unread.belongs_to(holder);
        self.subscriptions.share.belongs_to(holder);
    }

    /// What a call comes to before a credential was shown.
    pub(super) fn admit(&self, call: &mut Call) {
        if let Some(login) = &self.login
            && login.shuts_out(call)
        {
            call.request = Err(Reason::Unauthenticated.into());
        }
    }

    /// Has a frame wait whose token names keys that are still to be fetched.
    pub(super) fn park(&mut self, decoded: Decoded) -> Option<Decoded> {
        let (Some(login), Some(door)) = (&mut self.login, &self.shared.door) else {
            return Some(decoded);
        };
        let token = decoded.0.calls().iter().find_map(|call| {
            let token = match &call.request {
                Ok(Request::SessionOpen(open)) => &open.token.as_ref()?.0,
                Ok(Request::SessionRenew(renew)) => &renew.token.0,
                _ => return None,
            };
            door.authority.lacks_key(token).then(|| token.clone())
        });
        let Some(token) = token else {
            return Some(decoded);
        };
        let authority = Arc::clone(&door.authority);
        let fetch = async move { authority.fetch_for(&token).await };
        login.parked = Some((decoded, fetch.boxed()));
        None
    }

    /// Looks whether the session is to end, and whether a frame that waited can go on.
    pub(super) fn poll_login(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let has_room = self.outbox.has_room();
        let login = self.login.as_mut();
        let kept = match login {
            Some(login) => login.kept.as_mut(),
            None => self.unasked.as_deref_mut(),
        };
        if kept.is_some_and(|kept| kept.poll_over(context)) {
            return Err(End::Close(Close::Unauthenticated));
        }
        let Some(login) = &mut self.login else {
            return Ok(false);
        };
        if login.leaving == Leaving::Answering && has_room {
            // What is answered at once has been put into the outbox.
            login.leaving = Leaving::Answered;
            return Ok(true);
        }
        let is_there =
            |(_, fetch): &mut (_, BoxFuture<'static, ()>)| fetch.as_mut().poll(context).is_ready();
        let Some((decoded, _)) = login.parked.take_if(is_there) else {
            return Ok(false);
        };
        self.held = Some(Box::new(decoded));
        Ok(true)
    }

    /// Warns a client whose token ends soon.
    pub(super) fn warn_of_end(&mut self) {
        let form = self.form();
        let Some(login) = &mut self.login else { return };
        if let Some(in_ms) = login.warning(&self.shared) {
            self.tell(expiring(in_ms, form));
        }
    }
}
