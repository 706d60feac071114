//! This node's seat in a cluster: its partition as a member of a shared log, the driver of that log, and what is said
//! of both.
//!
//! Owns: their opening and their end. Promises: the partition is closed before its driver ends; nobody claims unasked
//! but the last owner when it is started again, and the first node by name where nobody ever owned. Must not: serve
//! calls.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::faults;
use bytes::Bytes;
use tideline_cluster::{ReadProof, TrimOptions};
use tideline_jetstream::{Access, Demands, Driver, Options, genesis};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::StartError;
use super::snapshot::{Giving, give};
use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::config::{ClusterKey, Config};
use crate::data_directory::{Opened, StoreFailure};
use crate::gateway::{Cluster, NodeRole, NodeSecret, NodeStatus, NotGiven};
use crate::ids::PartitionId;
use crate::metrics::{self, Metrics};
use crate::partition::{MemberOptions, Partitions, Role, directory_map};

/// See the file's opening.
pub(super) struct Membership {
    key: ClusterKey,
    digests: BTreeMap<String, String>,
    /// While this term lasts nobody has owned the log. `None`: it was rebuilt, and a person says who is to.
    first_term: Option<u64>,
    /// `None` = they have ended, and let go of their directory.
    partitions: Mutex<Option<Partitions>>,
    secret: NodeSecret,
    clock: Arc<Clock>,
    /// What other nodes are given.
    giving: Giving,
    given_bytes_per_s: u64,
    role: watch::Receiver<Role>,
    /// `None` = it has ended.
    driver: Mutex<Option<Arc<Driver>>>,
    /// It has had all of the log at some time.
    has_joined: AtomicBool,
    metrics: metrics::Cluster,
}

impl fmt::Debug for Membership {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Membership({} of {})", self.key.node, self.key.name)
    }
}

/// The one partition of a cluster.
const PARTITION: PartitionId = PartitionId(0);

impl Membership {
    /// Opens the directory as a member's, and begins to follow the log. `claims_again`: if this node was the last
    /// owner.
    pub(super) async fn begin(
        key: &ClusterKey,
        config: &Config,
        by: (&Arc<Bounds>, &Arc<Metrics>, &Arc<Clock>),
        claims_again: bool,
    ) -> Result<(Arc<Membership>, Opened), StartError> {
        let access = access(key)?;
        let is_new = directory_map(&config.data).map_err(StoreFailure::from);
        let first = match is_new.map_err(StartError::Store)?.is_none() {
            true => {
                let (access, name) = (access.clone(), key.name.clone());
                let first = spawn_blocking(move || genesis(&access, &name, PARTITION.0)).await;
                let first = first.unwrap_or_else(|error| Err(error.to_string()));
                Some(first.map_err(|why| StartError::Setting(format!("cluster: {why}")))?)
            }
            false => None,
        };
        let member = MemberOptions {
            first,
            forward_ms_max: FORWARD_MS_MAX,
            frame_bytes_max: FRAME_BYTES_MAX,
        };
        let open = move |dir: &Path, options, rules, clock| {
            Partitions::open_member(dir, options, rules, clock, member)
        };
        let metrics = by.1.cluster();
        let opened = Opened::by(config, by, open).await;
        let (opened, seat) = opened.map_err(StartError::Store)?;
        let options = Options {
            access,
            demands: Demands {
                monitors: key.nats_monitors.clone(),
                is_unverified: key.nats_sync_unverified,
                frame_bytes_max: FRAME_BYTES_MAX as u64,
            },
            node: tideline_cluster::Options {
                node: key.node.clone(),
                boot: Uuid::new_v4().as_u64_pair().0,
                genesis: seat.genesis,
                read_proof: ReadProof::Lease,
                read_lease_ms: key.read_lease_ms,
                is_automatic: false,
                claims_again,
                owner_silence_ms: OWNER_SILENCE_MS,
                attest_frames: ATTEST_FRAMES,
                attest_ms: ATTEST_MS,
                trim: trim(key),
            },
        };
        let partitions = opened.partitions.clone();
        let is_rebuilt = options.node.genesis.rebuilt.is_some();
        let first_term = (!is_rebuilt).then_some(seat.first_term);
        let driver = Driver::begin(options, seat.place, Box::new(seat.host));
        let driver = driver.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => StartError::Setting(format!("cluster: {error}")),
            _ => StartError::Thread(error),
        })?;
        let driver = Arc::new(driver);
        let limit = Duration::from_millis(FORWARD_MS_MAX);
        partitions.attach(driver.waker(), driver.prover(), driver.reader(limit));
        // A partition that was opened as a member's has one.
        let role = partitions.role().unwrap_or_else(|| {
            let why = "the partition is no member's".to_owned();
            watch::channel(Role::Stopped(why)).1
        });
        let digests = config.digests().into_iter();
        let membership = Membership {
            digests: digests.map(|(of, text)| (of.to_owned(), text)).collect(),
            key: key.clone(),
            first_term,
            secret: key.secret().map_err(|error| StartError::Setting(error.0))?,
            partitions: Mutex::new(Some(partitions)),
            clock: Arc::clone(by.2),
            giving: Giving::default(),
            given_bytes_per_s: config.backup_bytes_per_s,
            role,
            driver: Mutex::new(Some(driver)),
            has_joined: AtomicBool::new(false),
            metrics,
        };
        Ok((Arc::new(membership), opened))
    }

    /// Waits until the node owns the log. One that nobody has ever owned the first of all nodes claims unasked: there
    /// is no key yet by which a person could ask for it.
    pub(super) async fn owns(&self) {
        let mut role = self.role.clone();
        let mut is_first = self.key.nodes.keys().next() == Some(&self.key.node);
        loop {
            let is_new = match &*role.borrow_and_update() {
                Role::Owns { .. } => return,
                Role::Follows { owner: None, term } => Some(*term) == self.first_term,
                Role::Follows { .. } | Role::Ended | Role::Stopped(_) => false,
            };
            // Noted for the status, too.
            let has_all = self.has_all();
            if is_first && is_new && has_all {
                is_first = false;
                self.take_over();
            }
            match tokio::time::timeout(LOOK_EVERY, role.changed()).await {
                // The partition has ended.
                Ok(Err(_)) => std::future::pending().await,
                Ok(Ok(())) | Err(_) => {}
            }
        }
    }

    /// The term that the node owns now.
    pub(super) fn owned(&self) -> Option<u64> {
        match *self.role.borrow() {
            Role::Owns { term } => Some(term),
            Role::Follows { .. } | Role::Ended | Role::Stopped(_) => None,
        }
    }

    /// Whether it has stopped for good.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(*self.role.borrow(), Role::Stopped(_))
    }

    /// Waits until the node does not own the log in this term any more. It may own it in a later one.
    pub(super) async fn is_deposed(&self, of: u64) {
        let mut role = self.role.clone();
        let owns = |role: &Role| matches!(role, Role::Owns { term } if *term == of);
        // An error = the partition is closed, which nobody does to an owner before this has returned.
        let _ = role.wait_for(|role| !owns(role)).await;
    }

    /// What this node's part is now, and what it becomes.
    pub(super) fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    /// Closes the log for good, while this node owns it.
    pub(super) fn end_log(&self) {
        if let Some(driver) = self.driver() {
            drop(spawn_blocking(move || driver.end()));
        }
    }

    /// Hands the log over to nobody.
    pub(super) async fn give_up(&self, term: u64) {
        if self.resign(None).is_ok() {
            // In vain if NATS does not answer: then the claim stands.
            let _ = tokio::time::timeout(GIVES_UP, self.is_deposed(term)).await;
        }
    }

    /// The partition is closed: nothing is applied to it any more.
    pub(super) async fn end(&self) {
        let driver = self.driver.lock();
        let driver = driver.unwrap_or_else(PoisonError::into_inner).take();
        self.giving.end();
        let partitions = self.partitions.lock();
        drop(partitions.unwrap_or_else(PoisonError::into_inner).take());
        // It waits for its thread.
        let _ = spawn_blocking(move || drop(driver)).await;
    }

    /// Brings the figures up to date.
    pub(super) fn observe(&self) {
        let NodeStatus {
            role,
            term,
            applied,
            known,
            ..
        } = self.status();
        self.metrics.owner.count(u64::from(role == NodeRole::Owner));
        self.metrics.term.count(term);
        self.metrics.lag.count(known.saturating_sub(applied));
    }

    fn partitions(&self) -> Option<Partitions> {
        let partitions = self.partitions.lock();
        partitions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Up to where frames are applied here.
    pub(super) fn applied(&self) -> u64 {
        let partitions = self.partitions();
        partitions.map_or(0, |all| all.tail(PARTITION).position().0)
    }

    fn driver(&self) -> Option<Arc<Driver>> {
        let driver = self.driver.lock();
        driver.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has applied all that is known to be in a stream that was looked at.
    pub(super) fn has_all(&self) -> bool {
        let has_all = self.driver().is_some_and(|driver| driver.is_current());
        if has_all {
            self.has_joined.store(true, Ordering::Relaxed);
        }
        has_all
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
            Role::Follows { owner, term } => (NodeRole::Joining, owner, term, None),
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
        let unsure_ms = driver.map_or(0, |driver| driver.unsure_ms());
        let is_unsure =
            matches!(role, NodeRole::Owner | NodeRole::Follower) && unsure_ms > UNSURE_MS;
        let notice = is_unsure.then(|| {
            format!(
                "node {} has not seen the whole log for {unsure_ms} ms: can it reach NATS?",
                self.key.node
            )
        });
        let url = owner.as_ref().and_then(|owner| self.key.nodes.get(owner));
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
            notice,
            digests: self.digests.clone(),
        }
    }

    fn take_over(&self) {
        if let Some(driver) = self.driver() {
            drop(spawn_blocking(move || driver.take_over()));
        }
    }

    fn resign(&self, to: Option<String>) -> Result<(), String> {
        let node = &self.key.node;
        if !matches!(*self.role.borrow(), Role::Owns { .. }) {
            return Err(format!("node {node} does not own the log"));
        }
        if let Some(to) = &to
            && (to == node || !self.key.nodes.contains_key(to))
        {
            return Err(format!("{to} is no other node of the cluster"));
        }
        if let Some(driver) = self.driver() {
            drop(spawn_blocking(move || driver.resign(to)));
        }
        Ok(())
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

/// When frames go from the stream.
fn trim(key: &ClusterKey) -> TrimOptions {
    let nodes = key.nodes.keys().cloned().collect();
    match faults::is_named("cluster_trims_soon") {
        true => TrimOptions {
            nodes,
            age_ms: 1_000,
            away_ms: 3_000,
            every_ms: 200,
        },
        false => TrimOptions {
            nodes,
            age_ms: TRIM_AGE_MS,
            away_ms: AWAY_MS,
            every_ms: TRIM_EVERY_MS,
        },
    }
}

/// Where NATS is, and who this node is there.
fn access(key: &ClusterKey) -> Result<Access, StartError> {
    let login = key.login().map_err(|error| StartError::Setting(error.0))?;
    Ok(key.access(login))
}

/// A write that the log has not answered for so long has an unknown outcome.
const FORWARD_MS_MAX: u64 = 15_000;
/// What `nats-config` allows, less subject, headers and room to grow.
const FRAME_BYTES_MAX: usize = 7 << 20;
/// Nobody claims because of silence.
const OWNER_SILENCE_MS: u32 = 800;
const ATTEST_FRAMES: u64 = 4_096;
const ATTEST_MS: u64 = 60_000;
/// Frames stay in the stream for so long …
const TRIM_AGE_MS: u64 = 3_600_000;
/// … and those that a node needs which was heard within this time.
const AWAY_MS: u64 = 3_600_000;
const TRIM_EVERY_MS: u64 = 60_000;
/// A healthy node is unsure for a moment only: while NATS changes the leader.
const UNSURE_MS: u64 = 2_000;
const GIVES_UP: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(200);
