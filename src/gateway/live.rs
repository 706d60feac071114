//! The sessions that there are.
//!
//! Owns: which there are, what is known of them, and how one is made to end. Where there is `[auth]`, a session is one
//! that has shown a credential. Promises: a session whose credential counts no more is refused everything from the
//! moment that it is to end, and closes its connection; none is forgotten: one that begins while credentials are taken
//! back is looked at again. Must not: keep anything of a session that has ended.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::credentials::{Authority, Credential};
use crate::woken::Woken;
use tideline_base::metrics::{Gauge, Held};
use tideline_model::access::{Claim, Who};
use tideline_timelines::feed::Mailbox;

/// A session.
pub(super) struct Live {
    pub(super) id: String,
    pub(super) peer: Peer,
    pub(super) opened_at: u64,
    state: Mutex<State>,
    users: Arc<Users>,
    /// A [`Pulse`].
    pulse: AtomicU64,
    /// It is to close.
    pub(super) over: CancellationToken,
}

/// The other end of a session's connection.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    /// DNS names of the client's certificate.
    pub(super) certificates: Arc<[String]>,
    /// The sub-protocol that it speaks.
    pub(super) dialect: &'static str,
    /// Where the session can be asked.
    pub(super) mailbox: Arc<Mailbox>,
}

/// What may change while a session lives.
struct State {
    /// `None` = nobody asks for one.
    shown: Option<(Credential, Arc<Claim>)>,
    /// The user that it names, where nobody asks for a credential.
    user: Option<String>,
    device: Option<String>,
    client: Option<String>,
    /// While its user counts as online.
    there: Option<There>,
}

/// How many sessions each user has.
#[derive(Default)]
struct Users(Mutex<HashMap<Arc<str>, usize>>);

/// Counts one session of a user until it is dropped.
struct There {
    user: Arc<str>,
    users: Arc<Users>,
}

impl There {
    fn of(user: &str, users: &Arc<Users>) -> There {
        let user: Arc<str> = user.into();
        *users.all().entry(Arc::clone(&user)).or_default() += 1;
        let users = Arc::clone(users);
        There { user, users }
    }
}

impl Drop for There {
    fn drop(&mut self) {
        let mut all = self.users.all();
        match all.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(all.remove(&self.user)),
        }
    }
}

impl Users {
    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a session.
pub(super) struct Seen {
    pub(super) user: Option<String>,
    pub(super) key: Option<String>,
    pub(super) device: Option<String>,
    pub(super) client: Option<String>,
    pub(super) expires_at: Option<u64>,
}

/// What is under way in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pulse {
    pub(super) subscriptions: usize,
    /// Calls that are not answered.
    pub(super) in_flight: usize,
    /// Perhaps not everything has gone out to it.
    pub(super) is_behind: bool,
}

impl Live {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has shown last.
    pub(super) fn credential(&self) -> Option<Credential> {
        let state = self.state();
        state
            .shown
            .as_ref()
            .map(|(credential, _)| credential.clone())
    }

    /// Notes what is under way.
    pub(super) fn beat(&self, pulse: Pulse) {
        let Pulse {
            subscriptions,
            in_flight,
            is_behind,
        } = pulse;
        let (high, low) = ((subscriptions as u64) << 32, (in_flight as u64) << 1);
        let all = high | low | u64::from(is_behind);
        self.pulse.store(all, Ordering::Relaxed);
    }

    /// What was under way when it was last noted.
    pub(super) fn pulse(&self) -> Pulse {
        let all = self.pulse.load(Ordering::Relaxed);
        let number = |bits: u64| usize::try_from(bits).unwrap_or(usize::MAX);
        Pulse {
            subscriptions: number(all >> 32),
            in_flight: number((all & u64::from(u32::MAX)) >> 1),
            is_behind: all & 1 == 1,
        }
    }

    /// The session goes on with another credential of the same user or key.
    pub(super) fn renew(&self, credential: Credential, claim: Arc<Claim>) {
        self.state().shown = Some((credential, claim));
    }

    /// The user that it says to be.
    pub(super) fn believe(&self, user: Option<String>) {
        let there = user.as_deref().map(|user| There::of(user, &self.users));
        let mut state = self.state();
        (state.user, state.there) = (user, there);
    }

    /// How the client calls itself.
    pub(super) fn name(&self, device: Option<String>, client: Option<String>) {
        let mut state = self.state();
        state.device = device.or_else(|| state.device.take());
        state.client = client.or_else(|| state.client.take());
    }

    pub(super) fn seen(&self) -> Seen {
        let state = self.state();
        let credential = state.shown.as_ref().map(|(credential, _)| credential);
        let identity = credential.map(|credential| &credential.identity);
        Seen {
            user: match identity {
                Some(identity) => identity.user().map(str::to_owned),
                None => state.user.clone(),
            },
            key: identity.and_then(|identity| match &identity.who {
                Who::Key { id, .. } => Some(id.to_string()),
                Who::User(_) | Who::Anybody => None,
            }),
            device: state.device.clone(),
            client: state.client.clone(),
            expires_at: credential.and_then(|credential| credential.expires_at),
        }
    }

    /// Nothing is allowed to it any more, and its connection closes.
    pub(super) fn end(&self) {
        if let Some((_, claim)) = &self.state().shown {
            claim.end();
        }
        self.over.cancel();
    }
}

/// All of them.
pub(super) struct Sessions {
    live: Mutex<HashMap<String, Arc<Live>>>,
    users: Arc<Users>,
    gauge: Gauge,
}

/// Keeps a session among the others.
pub(super) struct Kept {
    pub(super) live: Arc<Live>,
    sessions: Arc<Sessions>,
    over: Woken<WaitForCancellationFutureOwned>,
    _counted: Option<Held>,
}

impl Kept {
    /// Whether it is to close. Not to be called again after that.
    pub(super) fn poll_over(&mut self, context: &Context<'_>) -> bool {
        self.over.poll(context).is_ready()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.live.end();
        self.live.state().there = None;
        self.sessions.all().remove(&self.live.id);
    }
}

impl Sessions {
    pub(super) fn new(gauge: Gauge) -> Arc<Sessions> {
        Arc::new(Sessions {
            live: Mutex::default(),
            users: Arc::default(),
            gauge,
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one that has shown a credential. If the credential was revoked since it was judged, the session ends at
    /// once.
    pub(super) fn add(
        self: &Arc<Sessions>,
        authority: &Authority,
        shown: (Credential, Arc<Claim>),
        peer: Peer,
        opened_at: u64,
    ) -> Kept {
        let kept = self.keep(Some(shown), peer, opened_at);
        end_unless_it_counts(authority, &kept.live);
        kept
    }

    /// Adds one that nobody asks for a credential.
    pub(super) fn add_unasked(self: &Arc<Sessions>, peer: Peer, opened_at: u64) -> Kept {
        self.keep(None, peer, opened_at)
    }

    fn keep(
        self: &Arc<Sessions>,
        shown: Option<(Credential, Arc<Claim>)>,
        peer: Peer,
        opened_at: u64,
    ) -> Kept {
        let counted = shown.is_some().then(|| self.gauge.hold(1));
        let user = shown.as_ref().and_then(|(shown, _)| shown.identity.user());
        let there = user.map(|user| There::of(user, &self.users));
        let live = Arc::new(Live {
            id: uuid::Uuid::new_v4().simple().to_string(),
            peer,
            opened_at,
            state: Mutex::new(State {
                shown,
                user: None,
                device: None,
                client: None,
                there,
            }),
            users: Arc::clone(&self.users),
            pulse: AtomicU64::default(),
            over: CancellationToken::new(),
        });
        self.all().insert(live.id.clone(), Arc::clone(&live));
        Kept {
            over: Woken::new(live.over.clone().cancelled_owned()),
            live,
            sessions: Arc::clone(self),
            _counted: counted,
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Live>> {
        self.all().get(id).cloned()
    }

    /// Whether a user has a session.
    pub(super) fn has_one_of(&self, user: &str) -> bool {
        self.users.all().contains_key(user)
    }

    /// All, in no order.
    pub(super) fn list(&self) -> Vec<Arc<Live>> {
        self.all().values().cloned().collect()
    }

    /// Ends those whose credentials do not count any more.
    pub(super) fn sweep(&self, authority: &Authority) {
        // Not under the lock of all: a set of many sessions takes a while.
        for live in self.list() {
            end_unless_it_counts(authority, &live);
        }
    }
}

fn end_unless_it_counts(authority: &Authority, live: &Live) {
    let credential = live.credential();
    if credential.is_some_and(|credential| !authority.still_counts(&credential)) {
        live.end();
    }
}
