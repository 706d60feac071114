//! What a node of a cluster tells of itself, and what a person tells it.
//!
//! Owns: its status, its figures. Promises: no call here waits for the log. Must not: decide who owns it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tideline_jetstream::{Driver, Standing, Unready};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::super::snapshot::give;
use super::Membership;
use crate::gateway::{Cluster, NodeRole, NodeStatus, NotGiven};
use crate::partition::Role;

impl Membership {
    /// Brings the figures up to date.
    pub(in super::super) fn observe(&self) {
        let NodeStatus {
            role,
            term,
            applied,
            known,
            silent_ms,
            ..
        } = self.status();
        self.metrics.owner.count(u64::from(role == NodeRole::Owner));
        self.metrics.term.count(term);
        self.metrics.lag.count(known.saturating_sub(applied));
        let silence = Duration::from_millis(silent_ms.unwrap_or(0));
        self.metrics.silence.set(silence.as_secs_f64());
        let standing = self.driver().map(|driver| driver.standing());
        let unready = standing.map_or(Some(Unready::Unsure), |standing| standing.unready);
        // That a person decides is no trouble.
        let is_unready = unready.is_some_and(|why| why != Unready::ByHand);
        self.metrics.unready.count(u64::from(is_unready));
    }

    /// Why this node can't be relied on at the moment.
    fn notice(&self, role: NodeRole) -> Option<String> {
        let unsure_ms = self.driver().map_or(0, |driver| driver.unsure_ms());
        let is_unsure =
            matches!(role, NodeRole::Owner | NodeRole::Follower) && unsure_ms > UNSURE_MS;
        is_unsure.then(|| {
            format!(
                "node {} has not seen the whole log for {unsure_ms} ms: can it reach NATS?",
                self.key.node
            )
        })
    }

    /// What a person should know, and what stops nothing.
    fn warning(&self, standing: &Standing) -> Option<String> {
        let node = &self.key.node;
        if let Some(why @ Unready::Clock(_)) = standing.unready {
            return Some(format!(
                "node {node} does not own the log before its clock is set: {why}"
            ));
        }
        let (other, section) = standing.differs.as_ref()?;
        Some(format!(
            "{section} is set otherwise on {other} than on {node}: all nodes need the same"
        ))
    }
}

impl Cluster for Membership {
    fn status(&self) -> NodeStatus {
        let has_joined = self.has_all() || self.has_joined.load(Ordering::Relaxed);
        let role = self.role.borrow().clone();
        let me = || Some(self.key.node.clone());
        let (role, owner, term, reason) = match role {
            Role::Owns { term } => (NodeRole::Owner, me(), term, None),
            Role::Follows { owner, term } if has_joined => (NodeRole::Follower, owner, term, None),
            Role::Follows { owner, term } => {
                let why = self.driver().and_then(|driver| driver.notice());
                (NodeRole::Joining, owner, term, why)
            }
            Role::Ended => {
                let name = &self.key.name;
                let why = format!(
                    "cluster {name} was dissolved, and one of its directories is served alone"
                );
                (NodeRole::Stopped, None, 0, Some(why))
            }
            Role::Stopped(why) => (NodeRole::Stopped, None, 0, Some(why)),
        };
        let applied = self.applied();
        let driver = self.driver();
        let known = driver.as_ref().map_or(0, |driver| driver.known().0);
        let standing = driver.filter(|_| role != NodeRole::Stopped);
        let standing = standing.map_or_else(Standing::default, |driver| driver.standing());
        let (notice, warning) = (self.notice(role), self.warning(&standing));
        let url = owner.as_ref().and_then(|owner| self.key.nodes.get(owner));
        let is_standby = matches!(role, NodeRole::Follower | NodeRole::Joining);
        NodeStatus {
            cluster: self.key.name.clone(),
            node: self.key.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role,
            reason,
            owner_url: url.cloned(),
            owner,
            term,
            applied,
            // One of them may have risen meanwhile.
            known: known.max(applied),
            since_ms: self.since_ms(),
            silent_ms: standing.silent_ms.filter(|_| is_standby),
            rank: is_standby.then_some(standing.rank),
            unready: standing
                .unready
                .filter(|_| is_standby)
                .map(|why| why.to_string()),
            notice,
            warning,
            digests: self.digests.clone(),
        }
    }

    fn take_over(&self) {
        self.is_drained.store(false, Ordering::Relaxed);
        if let Some(driver) = self.driver() {
            drop(spawn_blocking(move || driver.take_over()));
        }
    }

    fn resign(&self, to: Option<String>) -> Result<(), String> {
        let node = &self.key.node;
        let Some(term) = self.owned() else {
            return Err(format!("node {node} does not own the log"));
        };
        if let Some(to) = &to
            && (to == node || !self.key.nodes.contains_key(to))
        {
            return Err(format!("{to} is no other node of the cluster"));
        }
        if let Some(me) = self.me.upgrade() {
            tokio::spawn(async move {
                let resign = |driver: &Driver| {
                    let named = to.clone().unwrap_or_else(|| "nobody".to_owned());
                    driver.resign(to);
                    Some(named)
                };
                me.let_go(term, resign).await;
            });
        }
        Ok(())
    }

    fn drain(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Relaxed);
        if let (Some(me), Some(driver)) = (self.me.upgrade(), self.driver()) {
            tokio::spawn(async move {
                let _ = spawn_blocking(move || driver.drain(is_drained)).await;
                // Without anybody to hand over to it goes on; whoever asked looks at that.
                if is_drained && let Some(term) = me.owned() {
                    me.let_go(term, |driver| driver.hand_over()).await;
                }
            });
        }
    }

    fn snapshot(&self, shown: &str, of_follower: bool) -> Result<mpsc::Receiver<Bytes>, NotGiven> {
        if !self.secret.fits(shown, self.clock.now_ms()) {
            return Err(NotGiven::Stranger);
        }
        let NodeStatus { node, role, .. } = self.status();
        let refused = |why: &str| NotGiven::Refused(format!("node {node} {why}"));
        match role {
            NodeRole::Owner if of_follower => return Err(refused("owns the log")),
            NodeRole::Owner | NodeRole::Follower => {}
            NodeRole::Joining => return Err(refused("has not all of the log itself")),
            NodeRole::Stopped => return Err(refused("has stopped")),
        }
        let partitions = self.partitions().ok_or_else(|| refused("ends"))?;
        let given = give(partitions, &self.giving, self.given_bytes_per_s);
        given.ok_or_else(|| refused("gives a snapshot to another node"))
    }
}

/// A healthy node is unsure for a moment only: while NATS changes the leader.
const UNSURE_MS: u64 = 2_000;
