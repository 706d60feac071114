//! The session family: open, renew, ticket, close, revoke; what is shown of sessions is in `seen.rs`.
//!
//! Owns: the calls behind these methods. Promises: a connection's user never changes; somebody else's session and one
//! that is not there get one answer. Must not: end a connection; the session does, when it is asked to.

use std::sync::Arc;

use super::super::{Caller, NO_AUTHENTICATION, Outcome, Shared, Started, Work};
use crate::credentials::{Credential, CredentialError, Shown, StoredError};
use crate::entrance::door::Door;
use crate::live::Live;
use crate::tickets::{LIFE, Owner};
use tideline_model::access::{Asker, Identity, Right, Who};
use tideline_table::StoreError;
use tideline_wire::server::key::Secret;
use tideline_wire::server::session::{Open, Opened, Server};
use tideline_wire::server::sessions;
use tideline_wire::{Failure, Reason, Reply};

/// Answers `session.open`; what it shows was judged before.
pub(crate) fn open(shared: &Arc<Shared>, caller: &mut Caller, open: Open) -> Outcome {
    if shared.door.is_none() {
        // The user is believed. A token is not: its sender relies on a check that the server can't make.
        if open.token.is_some() {
            let failure = Failure::new(Reason::Unauthenticated).about("token");
            return Err(failure.saying(NO_AUTHENTICATION));
        }
        if let Some(user) = &open.user {
            caller.asker = Asker::believed(user.as_str());
        }
    }
    // Over HTTP it is the header that counts.
    if shared.door.is_some() && caller.live.is_none() {
        if open.token.is_some() {
            return Err(Reason::Unauthenticated.into());
        }
        if open
            .user
            .as_ref()
            .is_some_and(|user| *user != caller.asker.user())
        {
            return Err(Reason::Forbidden.into());
        }
    }
    if let Some(device) = open.device {
        caller.device = Some(device);
    }
    if let Some(integers) = open.integers {
        caller.integers = integers;
    }
    let session = match &caller.live {
        Some(live) => {
            live.name(caller.device.clone(), open.client.clone());
            live.believe(caller.user().ok());
            live.id.clone()
        }
        None => uuid::Uuid::new_v4().simple().to_string(),
    };
    tracing::debug!(
        session,
        device = caller.device,
        client = open.client,
        "session opened"
    );
    Ok(Reply::SessionOpen(Box::new(Opened {
        session,
        user: caller.user().ok(),
        expires_at: caller.live.as_ref().and_then(|live| live.seen().expires_at),
        server: Server {
            name: "tideline".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        heartbeat_ms: u64::try_from(shared.options.heartbeat.as_millis()).unwrap_or(u64::MAX),
        limits: shared.options.limits.clone(),
    })))
}

/// Goes on with another credential, if it is of the same user or key.
pub(in super::super) fn renew(
    shared: &Shared,
    caller: &mut Caller,
    renew: &sessions::Renew,
) -> Work {
    Work::Now(renewed(shared, caller, &renew.token.0))
}

fn renewed(shared: &Shared, caller: &mut Caller, token: &str) -> Outcome {
    let (Some(door), Some(live)) = (&shared.door, caller.live.clone()) else {
        return Err(without_sessions(shared));
    };
    let Some(before) = live.credential() else {
        return Err(without_sessions(shared));
    };
    let shown = Shown {
        bearer: Some(token),
        user: match &before.identity.who {
            Who::Key { .. } => before.identity.for_user.as_deref(),
            Who::User(_) | Who::Anybody => None,
        },
        certificates: &live.peer.certificates,
    };
    let credential = door.judge(shown, live.peer.address)?;
    if !is_same_caller(&before.identity, &credential.identity) {
        return Err(Reason::Forbidden.into());
    }
    let expires_at = credential.expires_at;
    take(door, caller, &live, credential);
    Ok(Reply::SessionRenew(sessions::Renewed { expires_at }))
}

/// A ticket for what the caller has shown.
pub(in super::super) fn ticket(shared: &Shared, caller: &Caller) -> Outcome {
    let owner = match &shared.door {
        None => Owner::Believed(caller.asker.user().to_owned()),
        Some(door) => {
            let of_session = caller.live.as_ref().and_then(|live| live.credential());
            let shown = of_session.or_else(|| caller.shown.as_deref().cloned());
            let shown = shown.ok_or(Reason::Unauthenticated)?;
            // The client that shows the ticket need not show the certificate.
            if door.authority.needs_certificate(&shown) {
                return Err(Failure::new(Reason::Forbidden).saying(BOUND));
            }
            Owner::Known(shown)
        }
    };
    let holder = shared.per_client.holder(&caller.asker);
    let ticket = shared.tickets.give(owner, holder)?;
    let life_ms = u64::try_from(LIFE.as_millis()).unwrap_or(u64::MAX);
    Ok(Reply::SessionTicket(sessions::Ticket {
        ticket: Secret(ticket),
        expires_at: shared.clock.now_ms() + life_ms,
    }))
}

/// What is said to a key that counts only with its certificate.
const BOUND: &str =
    "no ticket for a key that counts only with its certificate: use one without --certificate";

/// Whether two identities are of one user, or of keys of one name that act for the same user.
pub(crate) fn is_same_caller(one: &Identity, other: &Identity) -> bool {
    let is_same = match (&one.who, &other.who) {
        (Who::User(one), Who::User(other)) => one == other,
        (Who::Key { name: one, .. }, Who::Key { name: other, .. }) => one == other,
        _ => false,
    };
    is_same && one.for_user == other.for_user
}

/// Puts another credential in the place of a session's.
pub(crate) fn take(door: &Door, caller: &mut Caller, live: &Live, credential: Credential) {
    let before = caller.asker.claim();
    let before = before.filter(|claim| is_same_caller(claim.identity(), &credential.identity));
    let claim = match before {
        Some(before) => Arc::new(before.renewed(&credential.identity, credential.issued_at())),
        None => door.claim(&credential),
    };
    caller.claimed(Arc::clone(&claim));
    live.renew(credential, claim);
    // It may have been taken back since it was judged.
    let shown = live.credential();
    if shown.is_some_and(|shown| !door.authority.still_counts(&shown)) {
        live.end();
    }
}

pub(in super::super) fn close(shared: &Shared, caller: &Caller, close: &sessions::Close) -> Work {
    let live = shared.sessions.get(&close.session);
    let live = live.filter(|live| caller.may(Right::Admin) || is_own(caller, live));
    if let Some(live) = &live {
        live.end();
    }
    let closed = live.is_some();
    Work::Now(Ok(Reply::SessionClose(sessions::Closed { closed })))
}

pub(in super::super) fn revoke(
    shared: &Arc<Shared>,
    caller: &Caller,
    revoke: sessions::Revoke,
) -> Started {
    administrator(shared, caller)?;
    let shared = Arc::clone(shared);
    Ok(whole(caller, async move {
        let Some(door) = &shared.door else {
            return Err(without_sessions(&shared));
        };
        let (user, before) = (&revoke.user, revoke.issued_before);
        let revoked = door.authority.revoke_tokens(user, before).await;
        let issued_before = revoked.map_err(refusal)?;
        shared.sessions.sweep(&door.authority);
        Ok(Reply::SessionRevoke(sessions::Revoked { issued_before }))
    }))
}

/// Runs a change in its turn and to its end, also if its caller goes away: what is on disk must come into force.
pub(in super::super) fn whole(
    caller: &Caller,
    change: impl Future<Output = Outcome> + Send + 'static,
) -> Work {
    let place = caller.line.place();
    let change = tokio::spawn(async move {
        let _turn = place.await;
        change.await
    });
    Work::Write(Box::pin(async move {
        let done = change.await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }))
}

/// Whether a session is the caller's.
pub(in super::super) fn is_own(caller: &Caller, live: &Live) -> bool {
    let (claim, credential) = (caller.asker.claim(), live.credential());
    claim
        .zip(credential)
        .is_some_and(|(claim, shown)| is_same_caller(claim.identity(), &shown.identity))
}

/// Refuses all but administrators.
pub(in super::super) fn administrator(shared: &Shared, caller: &Caller) -> Result<(), Failure> {
    match shared.door {
        None => Err(without_sessions(shared)),
        Some(_) if caller.may(Right::Admin) => Ok(()),
        Some(_) => Err(Reason::Forbidden.into()),
    }
}

fn without_sessions(shared: &Shared) -> Failure {
    match shared.door {
        None => Failure::new(Reason::Forbidden).saying(NO_SESSIONS),
        Some(_) => Failure::new(Reason::MethodNotFound).saying("only over a WebSocket"),
    }
}

/// What is said where nobody shows a credential.
const NO_SESSIONS: &str =
    "this server has no [auth], so there are no tokens and keys to look after";

/// Every error of the credentials as a refusal.
pub(in super::super) fn refusal(error: CredentialError) -> Failure {
    let stored = match error {
        CredentialError::Refused(refused) => return Failure::invalid(refused.field, refused.why),
        CredentialError::Keys(_) => return Reason::InternalError.into(),
        CredentialError::Stored(stored) => stored,
    };
    match stored {
        StoredError::Store(StoreError::Busy) => Reason::Busy.into(),
        StoredError::Store(StoreError::StorageFull) => Reason::StorageFull.into(),
        StoredError::Store(StoreError::OutcomeUnknown) => Reason::OutcomeUnknown.into(),
        StoredError::Store(StoreError::Unavailable | StoreError::Moved) => {
            Reason::Unavailable.into()
        }
        StoredError::Store(StoreError::ShuttingDown) => Reason::ShuttingDown.into(),
        other => {
            tracing::error!(error = %other, "keys or revocations can't be stored");
            Reason::InternalError.into()
        }
    }
}
