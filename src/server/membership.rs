//! This node's seat in a cluster: its partition as a member of a shared log, the driver of that log, and what is said
//! of both.
//!
//! Owns: their opening and their end. Promises: the partition is closed before its driver ends. Must not: serve
//! calls.

mod succession;
mod told;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::faults;
use tideline_cluster::{BACK_OFF_MS, ReadProof, TrimOptions};
use tideline_jetstream::{Access, Demands, Driver, Options, genesis};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::StartError;
use super::snapshot::Giving;
use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::config::{ClusterKey, Config, TakeOver};
use crate::data_directory::{Opened, StoreFailure};
use crate::gateway::NodeSecret;
use crate::ids::PartitionId;
use crate::metrics::{self, Metrics};
use crate::partition::{MemberOptions, Partitions, Role, Shut, directory_map};

/// See the file's opening.
pub(super) struct Membership {
    me: Weak<Membership>,
    key: ClusterKey,
    digests: BTreeMap<String, String>,
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
    /// A person has drained it.
    is_drained: AtomicBool,
    /// One hand-over at a time.
    hands_over: Semaphore,
    /// Set while the log is handed over: calls wait until connections are closed.
    shut: Mutex<Option<Shut>>,
    /// Since when it has its role, ms since 1970.
    since: Mutex<u64>,
    metrics: metrics::Cluster,
}

impl fmt::Debug for Membership {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Membership({} of {})", self.key.node, self.key.name)
    }
}

/// How a membership begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begins {
    /// With its process. It owns the log again if it was the last owner.
    Process,
    /// When it owns the log no more.
    Deposed {
        /// A person has drained it.
        is_drained: bool,
    },
}

/// The one partition of a cluster.
const PARTITION: PartitionId = PartitionId(0);

impl Membership {
    /// Opens the directory as a member's, and begins to follow the log.
    pub(super) async fn begin(
        key: &ClusterKey,
        config: &Config,
        by: (&Arc<Bounds>, &Arc<Metrics>, &Arc<Clock>),
        begins: Begins,
        ends: &CancellationToken,
    ) -> Result<(Arc<Membership>, Opened), StartError> {
        let access = access(key)?;
        let (claims_again, is_drained, grace_ms) = match begins {
            Begins::Process => (true, false, STARTS_MS),
            Begins::Deposed { is_drained } => (false, is_drained, BACK_OFF_MS),
        };
        let is_new = directory_map(&config.data).map_err(StoreFailure::from);
        let first = match is_new.map_err(StartError::Store)?.is_none() {
            true => {
                let (access, name) = (access.clone(), key.name.clone());
                let first = spawn_blocking(move || genesis(&access, &name, PARTITION.0));
                let first = ends.run_until_cancelled(first).await;
                let first = first.ok_or(StartError::Ended)?;
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
        let digests = config.digests().into_iter();
        let digests: BTreeMap<_, _> = digests.map(|(of, text)| (of.to_owned(), text)).collect();
        // Of a new log there is no key yet by which a person could ask for it; a rebuilt one waits for a person.
        let is_first = key.nodes.keys().next() == Some(&key.node);
        let claims_new = is_first && seat.genesis.rebuilt.is_none();
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
                is_automatic: key.take_over == TakeOver::ByItself,
                is_drained,
                grace_ms,
                claims_again,
                claims_new,
                owner_silence_ms: key.owner_silence_ms,
                attest_frames: ATTEST_FRAMES,
                attest_ms: ATTEST_MS,
                trim: trim(key),
                settings: digests.clone(),
            },
        };
        let partitions = opened.partitions.clone();
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
        let secret = key.secret().map_err(|error| StartError::Setting(error.0))?;
        let membership = Arc::new_cyclic(|me| Membership {
            me: Weak::clone(me),
            digests,
            key: key.clone(),
            secret,
            partitions: Mutex::new(Some(partitions)),
            clock: Arc::clone(by.2),
            giving: Giving::default(),
            given_bytes_per_s: config.backup_bytes_per_s,
            role,
            driver: Mutex::new(Some(driver)),
            has_joined: AtomicBool::new(false),
            is_drained: AtomicBool::new(is_drained),
            hands_over: Semaphore::new(1),
            shut: Mutex::default(),
            since: Mutex::new(by.2.now_ms()),
            metrics,
        });
        membership.watch();
        Ok((membership, opened))
    }

    /// The term that the node owns now.
    pub(super) fn owned(&self) -> Option<u64> {
        match *self.role.borrow() {
            Role::Owns { term } => Some(term),
            Role::Follows { .. } | Role::Ended | Role::Stopped(_) => None,
        }
    }

    /// Whether a person has drained it.
    pub(super) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Relaxed)
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

    /// The partition is closed: nothing is applied to it any more.
    pub(super) async fn end(&self) {
        self.giving.end();
        let partitions = self.partitions.lock();
        drop(partitions.unwrap_or_else(PoisonError::into_inner).take());
        self.end_driver().await;
    }

    /// The others hear no more of this node, and it claims nothing.
    async fn end_driver(&self) {
        let driver = self.driver.lock();
        let driver = driver.unwrap_or_else(PoisonError::into_inner).take();
        // It waits for its thread.
        let _ = spawn_blocking(move || drop(driver)).await;
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
const ATTEST_FRAMES: u64 = 4_096;
const ATTEST_MS: u64 = 60_000;
/// Frames stay in the stream for so long …
const TRIM_AGE_MS: u64 = 3_600_000;
/// … and those that a node needs which was heard within this time.
const AWAY_MS: u64 = 3_600_000;
const TRIM_EVERY_MS: u64 = 60_000;
/// A process that begins lets those that are there claim first.
const STARTS_MS: u64 = 2_000;
