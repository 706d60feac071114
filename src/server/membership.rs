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
use std::time::{Duration, Instant};

use tideline_cluster::ReadProof;
use tideline_jetstream::{Access, Demands, Driver, Options, genesis};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::StartError;
use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::config::{ClusterKey, Config};
use crate::data_directory::{Opened, StoreFailure};
use crate::faults;
use crate::gateway::{Cluster, NodeRole, NodeStatus};
use crate::ids::PartitionId;
use crate::metrics::{self, Metrics};
use crate::partition::{MemberOptions, Partitions, Role, Tail, directory_map};

/// See the file's opening.
pub(super) struct Membership {
    key: ClusterKey,
    digests: BTreeMap<String, String>,
    /// While this term lasts nobody has owned the log.
    first_term: u64,
    /// Where the partition is; `None` = it has ended, and lets go of its directory.
    tail: Mutex<Option<Tail>>,
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
            },
        };
        let partitions = opened.partitions.clone();
        let first_term = seat.first_term;
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
            tail: Mutex::new(Some(partitions.tail(PARTITION))),
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
                Role::Follows { owner: None, term } if *term == self.first_term => true,
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

    /// Waits until the node owns the log of this term no more, though perhaps that of another one.
    pub(super) async fn is_deposed(&self, of: u64) {
        let mut role = self.role.clone();
        let owns = |role: &Role| matches!(role, Role::Owns { term } if *term == of);
        // An error = the partition is closed, which nobody does to an owner before this has returned.
        let _ = role.wait_for(|role| !owns(role)).await;
    }

    /// Closes the log for good: this node has all of it, owns it, and writes the last frame, unless that is there.
    /// `leaves` gets its term before.
    pub(super) async fn close_log(
        &self,
        leaves: &(dyn Fn(u64) -> Result<(), String> + Sync),
    ) -> Result<(), String> {
        let mut role = self.role.clone();
        let (mut at, mut since) = (0, Instant::now());
        // The term in which this node has asked for the log.
        let (mut asked, mut is_ending) = (None, false);
        loop {
            let now = role.borrow_and_update().clone();
            let known = self.status().known;
            match now {
                Role::Ended => return Ok(()),
                Role::Stopped(why) => return Err(why),
                Role::Follows { term, .. } if asked.is_none() && self.has_all() => {
                    asked = Some(term);
                    self.take_over();
                }
                Role::Follows {
                    owner: Some(owner),
                    term,
                } if owner != self.key.node && asked.is_some_and(|asked| term > asked) => {
                    return Err(format!(
                        "{owner} has claimed the log meanwhile: stop that node"
                    ));
                }
                Role::Owns { .. } if faults::is_named("dissolve_quietly") => return Ok(()),
                Role::Owns { term } if !is_ending => {
                    leaves(term)?;
                    is_ending = true;
                    if let Some(driver) = self.driver() {
                        drop(spawn_blocking(move || driver.end()));
                    }
                }
                Role::Owns { .. } | Role::Follows { .. } => {}
            }
            // Much of it may have to be read.
            if self.applied() > at {
                (at, since) = (self.applied(), Instant::now());
            }
            if since.elapsed() > CLOSES {
                return Err(format!(
                    "the log does not answer; what is here ends at {at}, and {known} is known to be in it"
                ));
            }
            let _ = tokio::time::timeout(LOOK_EVERY, role.changed()).await;
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
        let tail = self.tail.lock();
        drop(tail.unwrap_or_else(PoisonError::into_inner).take());
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

    fn applied(&self) -> u64 {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.as_ref().map_or(0, |tail| tail.position().0)
    }

    fn driver(&self) -> Option<Arc<Driver>> {
        let driver = self.driver.lock();
        driver.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has applied all that is known to be in a stream that was looked at.
    fn has_all(&self) -> bool {
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
/// A node that is well is not sure for a moment at most, when NATS has another leader.
const UNSURE_MS: u64 = 2_000;
/// A log that does not go on for so long is not closed.
const CLOSES: Duration = Duration::from_secs(60);
const GIVES_UP: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(200);
