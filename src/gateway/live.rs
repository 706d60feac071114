//! The sessions that have shown a credential.
//!
//! Owns: which there are, and how one is told to end. Promises: a session whose credential counts no more is refused
//! everything from the moment that it is told to end, and closes its connection; none is forgotten: one that begins
//! while credentials are taken back is looked at again. Must not: keep anything of a session that has ended.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::access::{Claim, Who};
use crate::credentials::{Authority, Credential};
use crate::metrics::{Gauge, Held};

/// A session that has shown a credential.
pub(super) struct Live {
    pub(super) id: String,
    pub(super) address: IpAddr,
    /// DNS names of the client's certificate.
    pub(super) certificates: Arc<[String]>,
    pub(super) opened_at: u64,
    state: Mutex<State>,
    /// It is to close.
    pub(super) over: CancellationToken,
}

/// What may change while a session lives.
struct State {
    credential: Credential,
    claim: Arc<Claim>,
    device: Option<String>,
    client: Option<String>,
}

/// What is known of a session.
pub(super) struct Seen {
    pub(super) user: Option<String>,
    pub(super) key: Option<String>,
    pub(super) device: Option<String>,
    pub(super) client: Option<String>,
    pub(super) expires_at: Option<u64>,
}

impl Live {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn credential(&self) -> Credential {
        self.state().credential.clone()
    }

    /// The session goes on with another credential of the same user or key.
    pub(super) fn renew(&self, credential: Credential, claim: Arc<Claim>) {
        let mut state = self.state();
        (state.credential, state.claim) = (credential, claim);
    }

    /// How the client calls itself.
    pub(super) fn name(&self, device: Option<String>, client: Option<String>) {
        let mut state = self.state();
        state.device = device.or_else(|| state.device.take());
        state.client = client.or_else(|| state.client.take());
    }

    pub(super) fn seen(&self) -> Seen {
        let state = self.state();
        let identity = &state.credential.identity;
        Seen {
            user: identity.user().map(str::to_owned),
            key: match &identity.who {
                Who::Key { id, .. } => Some(id.to_string()),
                Who::User(_) | Who::Anybody => None,
            },
            device: state.device.clone(),
            client: state.client.clone(),
            expires_at: state.credential.expires_at,
        }
    }

    /// Nothing is allowed to it any more, and its connection closes.
    pub(super) fn end(&self) {
        self.state().claim.end();
        self.over.cancel();
    }
}

/// All of them.
pub(super) struct Sessions {
    live: Mutex<HashMap<String, Arc<Live>>>,
    gauge: Gauge,
}

/// Keeps a session among the others.
pub(super) struct Kept {
    pub(super) live: Arc<Live>,
    sessions: Arc<Sessions>,
    _counted: Held,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.live.end();
        self.sessions.all().remove(&self.live.id);
    }
}

impl Sessions {
    pub(super) fn new(gauge: Gauge) -> Arc<Sessions> {
        Arc::new(Sessions {
            live: Mutex::default(),
            gauge,
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. If its credential was taken back since it was judged, it is over at once.
    pub(super) fn add(
        self: &Arc<Sessions>,
        authority: &Authority,
        (credential, claim): (Credential, Arc<Claim>),
        (address, certificates): (IpAddr, Arc<[String]>),
        opened_at: u64,
    ) -> Kept {
        let live = Arc::new(Live {
            id: uuid::Uuid::new_v4().simple().to_string(),
            address,
            certificates,
            opened_at,
            state: Mutex::new(State {
                credential,
                claim,
                device: None,
                client: None,
            }),
            over: CancellationToken::new(),
        });
        self.all().insert(live.id.clone(), Arc::clone(&live));
        end_unless_it_counts(authority, &live);
        Kept {
            live,
            sessions: Arc::clone(self),
            _counted: self.gauge.hold(1),
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Live>> {
        self.all().get(id).cloned()
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
    if !authority.still_counts(&live.credential()) {
        live.end();
    }
}
