//! How a node comes to own the log, and lets go of it.
//!
//! Owns: hand-overs, the look at whether the owner's process is there. Promises: who can't serve or is about to end
//! gives the log to one that can own it at once; calls that have begun are answered before; a connection is tried only
//! to an owner that is silent. Must not: decide who owns: what drives the log does.

use std::io::ErrorKind;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::Membership;
use crate::commands::address::Address;
use crate::config::TakeOver;
use crate::partition::{Role, Shut};
use tideline_jetstream::Driver;

impl Membership {
    /// Waits until the node owns the log.
    pub(in super::super) async fn owns(&self) {
        let mut role = self.role.clone();
        loop {
            if matches!(*role.borrow_and_update(), Role::Owns { .. }) {
                return;
            }
            // Noted for the status.
            let _ = self.has_all();
            match timeout(LOOK_EVERY, role.changed()).await {
                // The partition has ended.
                Ok(Err(_)) => std::future::pending().await,
                Ok(Ok(())) | Err(_) => {}
            }
        }
    }

    /// The node is about to end.
    pub(in super::super) async fn claim_no_more(&self) {
        if let Some(driver) = self.driver() {
            let _ = spawn_blocking(move || driver.drain(true)).await;
        }
    }

    /// Hands the log over to a standby, before this node ends; where nodes take over by themselves.
    pub(in super::super) async fn hand_over(&self, term: u64) {
        if self.key.take_over == TakeOver::ByItself {
            self.let_go(term, |driver| driver.hand_over()).await;
        }
    }

    /// Lets go of the log as its driver is asked to, and to the node that it names; `None` = nobody takes it. Calls
    /// that have begun are answered before. What comes meanwhile waits until connections are closed, for it would be
    /// refused here, and the next owner answers it. Where that is under way already, it is only waited for.
    pub(super) async fn let_go(
        &self,
        term: u64,
        ask: impl FnOnce(&Driver) -> Option<String> + Send + 'static,
    ) {
        let _turn = self.hands_over.acquire().await;
        if self.waiting().is_some() {
            return;
        }
        let (Some(driver), Some(partitions)) = (self.driver(), self.partitions()) else {
            return;
        };
        let shut = partitions.gate().shut();
        drop(partitions);
        // A client that does not read never ends its calls.
        let _ = timeout(CALLS_MAX, shut.empty()).await;
        let Ok(Some(to)) = spawn_blocking(move || ask(&driver)).await else {
            return;
        };
        tracing::info!(node = self.key.node, to, "hands the log over");
        *self.waiting() = Some(shut);
        let mut role = self.role.clone();
        let is_followed = |role: &Role| match role {
            Role::Follows { owner, term: of } => owner.is_some() && *of > term,
            Role::Owns { term: of } => *of > term,
            Role::Ended | Role::Stopped(_) => true,
        };
        let followed = timeout(HANDS_OVER, role.wait_for(is_followed)).await;
        // In vain if NATS does not answer: then the others find out by themselves, and calls are refused.
        if followed.is_err() {
            *self.waiting() = None;
        }
    }

    /// What makes calls wait.
    fn waiting(&self) -> MutexGuard<'_, Option<Shut>> {
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the log over: to a standby where these take over by themselves, else to nobody.
    pub(in super::super) async fn give_up(&self, term: u64) {
        let Some(driver) = self.driver() else {
            return;
        };
        let by_itself = self.key.take_over == TakeOver::ByItself;
        let asked = spawn_blocking(move || {
            if !by_itself || driver.hand_over().is_none() {
                driver.resign(None);
            }
        });
        // In vain if NATS does not answer: then the claim stands.
        let _ = asked.await;
        let _ = timeout(GIVES_UP, self.is_deposed(term)).await;
    }

    /// Since when it has its role, ms since 1970.
    pub(super) fn since_ms(&self) -> u64 {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes when the role changes, and whether a silent owner's process is there; as long as the membership is.
    pub(super) fn watch(self: &Arc<Self>) {
        let member = Arc::downgrade(self);
        let mut role = self.role.clone();
        let changes = member.clone();
        tokio::spawn(async move {
            while role.changed().await.is_ok() {
                let Some(member) = changes.upgrade() else {
                    return;
                };
                *member.since.lock().unwrap_or_else(PoisonError::into_inner) =
                    member.clock.now_ms();
                let is_stopped = matches!(*role.borrow(), Role::Stopped(_));
                if is_stopped {
                    // It would say that it can own the log, and claim it for a partition that serves nothing.
                    member.end_driver().await;
                }
            }
        });
        if self.key.take_over == TakeOver::ByItself {
            tokio::spawn(probe(member));
        }
    }

    /// Where the owner is, if this node has not heard it for a while.
    fn silent_owner(&self) -> Option<(String, Address)> {
        let Role::Follows {
            owner: Some(owner), ..
        } = self.role.borrow().clone()
        else {
            return None;
        };
        let silent_ms = self.driver()?.standing().silent_ms?;
        let address = Address::parse(self.key.nodes.get(&owner)?).ok()?;
        (owner != self.key.node && silent_ms >= SILENT_MS).then_some((owner, address))
    }
}

/// A process that is gone refuses connections at once, which shortens the wait for it.
async fn probe(member: Weak<Membership>) {
    loop {
        sleep(PROBE_EVERY).await;
        let Some(member) = member.upgrade() else {
            return;
        };
        let Some((owner, Address { host, port, .. })) = member.silent_owner() else {
            continue;
        };
        let tried = timeout(PROBE_WAIT, TcpStream::connect((&*host, port))).await;
        let is_refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        if tried.is_ok_and(|tried| tried.is_err_and(is_refused))
            && let Some(driver) = member.driver()
        {
            drop(spawn_blocking(move || driver.refused(owner)));
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Calls that have begun may take so long; those that take longer are refused if they write then.
const CALLS_MAX: Duration = Duration::from_millis(500);
const GIVES_UP: Duration = Duration::from_secs(5);
/// A hand-over takes about a tenth of a second.
const HANDS_OVER: Duration = Duration::from_secs(3);
const PROBE_EVERY: Duration = Duration::from_millis(50);
const PROBE_WAIT: Duration = Duration::from_millis(250);
/// More than a beat was missed.
const SILENT_MS: u64 = 300;
