//! A server that is a node of a cluster: a standby while another one owns the log, a whole server while it does.
//!
//! Owns: the change of roles. Promises: all that is above the store is made anew when the node becomes the owner, from
//! what is applied, so that nothing in memory is of an earlier time; when it is deposed, connections are closed so that
//! clients come again, and all of it ends before the node follows. Must not: decide who owns.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ground::Ground;
use super::judging::{self, StandbyJudge};
use super::membership::{Begins, Membership};
use super::snapshot::{self, Refused};
use super::{Server, StartError};
use crate::admin::Admin;
use crate::config::{ClusterKey, Config, ConfigError};
use crate::data_directory::{Opened, Store, StoreFailure};
use crate::gateway::{
    AccessNow, Cluster, NodeRole, NodeStatus, NotGiven, Options as GatewayOptions, Spans, Standby,
};
use crate::health::Scrape;
use crate::partition::{OpenError, Partitions};
use crate::wire::jsonrpc::DIALECTS;

/// See the file's opening.
pub(super) struct Member {
    key: ClusterKey,
    started: Config,
    /// As they were read last. Only what [`Server::reload`] takes counts.
    newest: RwLock<Config>,
    /// `started` with the newest `[auth]` and limits.
    config: Arc<ArcSwap<Config>>,
    ground: Ground,
    membership: Arc<Membership>,
    /// The process is told to end.
    ends: CancellationToken,
    now: Now,
}

/// What it does now.
enum Now {
    Follows(Standby, Opened),
    /// The log of this term.
    Owns(Box<Server>, u64),
    /// It was the owner, and has stopped for good. A person starts it again.
    Stopped(Standby),
    /// A change of roles has failed half way; the process ends.
    Neither,
}

impl Member {
    /// Begins as a standby.
    pub(super) async fn start(
        key: &ClusterKey,
        config: &Config,
        ends: &CancellationToken,
    ) -> Result<Member, StartError> {
        let ground = Ground::lay(config).await?;
        try_settings(config)?;
        let current = Arc::new(ArcSwap::from_pointee(config.clone()));
        let wanted = ends.run_until_cancelled(snapshot::wanted(key, &config.data));
        if let Some(wanted) = wanted.await.ok_or(StartError::Ended)?? {
            tracing::info!(?wanted, "the stream does not have all that this node lacks");
            let refused = Refused::default();
            let newcomer = Newcomer(key.clone(), Arc::clone(&refused));
            let cluster: Arc<dyn Cluster> = Arc::new(newcomer);
            let standby = standby(&current, &ground, (cluster, Arc::new(|| {})), None)?;
            let taken = snapshot::take(key, &config.data, &ground.clock, (&wanted, &refused));
            // What was begun is cleared by the next start.
            ends.run_until_cancelled(taken)
                .await
                .ok_or(StartError::Ended)??;
            standby.stop().await;
        }
        let begun = Membership::begin(key, config, ground.by(), Begins::Process, ends).await;
        let (membership, opened) = begun?;
        let mut member = Member {
            key: key.clone(),
            started: config.clone(),
            newest: RwLock::new(config.clone()),
            config: current,
            ground,
            membership,
            ends: ends.clone(),
            now: Now::Neither,
        };
        member.now = member.stand_by(opened)?;
        Ok(member)
    }

    /// Waits until the node must change its role.
    pub(super) async fn changes(&self) {
        match &self.now {
            Now::Follows(..) => self.membership.owns().await,
            Now::Owns(_, term) => self.membership.is_deposed(*term).await,
            Now::Stopped(_) | Now::Neither => std::future::pending().await,
        }
    }

    /// Changes it. After an error nothing is served.
    pub(super) async fn change(&mut self) -> Result<(), StartError> {
        self.now = match std::mem::replace(&mut self.now, Now::Neither) {
            Now::Follows(standby, opened) => match self.membership.owned() {
                Some(term) => {
                    standby.stop().await;
                    let server = self.begin_to_own(opened, term).await?;
                    Now::Owns(Box::new(server), term)
                }
                None => Now::Follows(standby, opened),
            },
            Now::Owns(server, term) => {
                tracing::warn!(node = self.key.node, "this node owns the log no more");
                let is_stopped = self.membership.is_stopped();
                self.close(Now::Owns(server, term), GOODBYE).await;
                if is_stopped {
                    // What it saw of the log would be forgotten by another opening.
                    Now::Stopped(self.standby(None)?)
                } else {
                    let (membership, opened) = self.begin_again().await?;
                    self.membership = membership;
                    self.stand_by(opened)?
                }
            }
            now @ (Now::Stopped(_) | Now::Neither) => now,
        };
        Ok(())
    }

    /// A node that can't serve hands the log over, or it would own it whenever it is started again.
    async fn begin_to_own(&self, opened: Opened, term: u64) -> Result<Server, StartError> {
        let partitions = opened.partitions.clone();
        let server = self.server(opened).await;
        match &server {
            Ok(_) => tracing::info!(node = self.key.node, "this node owns the log, and serves"),
            Err(error) => {
                tracing::error!(%error, "this node owns the log and can't serve: it hands the log over, and ends");
                self.membership.give_up(term).await;
                let _ = tokio::time::timeout(LETS_GO, partitions.close()).await;
                self.membership.end().await;
            }
        }
        server
    }

    async fn server(&self, opened: Opened) -> Result<Server, StartError> {
        let config = self.config();
        let store = Store::on(opened, &config, &self.ground.clock).await;
        let store = store.map_err(StartError::Store)?;
        let cluster: Arc<dyn Cluster> = Arc::<Membership>::clone(&self.membership);
        let observe = Arc::clone(&self.membership);
        let member = (cluster, Arc::new(move || observe.observe()) as Arc<_>);
        let server = Server::on(&config, &DIALECTS, &self.ground, store, Some(member)).await?;
        // Rights of policies that were read since the start.
        let newest = self.newest.read();
        let newest = newest.unwrap_or_else(PoisonError::into_inner).clone();
        server
            .reload(&newest)
            .map_err(|error| StartError::Auth(error.0))?;
        Ok(server)
    }

    /// Opens the directory once more. What was stopped lets go of it soon: a read that nobody waits for goes on to its
    /// end.
    async fn begin_again(&self) -> Result<(Arc<Membership>, Opened), StartError> {
        let (config, until) = (self.config(), Instant::now() + LETS_GO);
        loop {
            // It does not claim again by itself: another node with this one's name would do the same.
            let begins = Begins::Deposed {
                is_drained: self.membership.is_drained(),
            };
            let begun = Membership::begin(&self.key, &config, self.ground.by(), begins, &self.ends);
            match begun.await {
                Err(StartError::Store(StoreFailure::Open(OpenError::InUse { .. })))
                    if Instant::now() < until =>
                {
                    let pause = tokio::time::sleep(LOOK_EVERY);
                    let goes_on = self.ends.run_until_cancelled(pause).await;
                    goes_on.ok_or(StartError::Ended)?;
                }
                begun => return begun,
            }
        }
    }

    /// As [`Server::reload`]; a standby takes the settings when it becomes the owner, and refuses what that would.
    pub(super) fn reload(&self, config: &Config) -> Result<(), ConfigError> {
        judging::would_take(&self.started, config)?;
        match &self.now {
            Now::Owns(server, _) => server.reload(config)?,
            Now::Follows(standby, _) | Now::Stopped(standby) => standby.reload(),
            Now::Neither => {}
        }
        *self.newest.write().unwrap_or_else(PoisonError::into_inner) = config.clone();
        let mut current = Config::clone(&self.config());
        current.auth.clone_from(&config.auth);
        current.limits = config.limits;
        self.config.store(Arc::new(current));
        Ok(())
    }

    /// Ends it. An owner hands the log over first; without anybody to hand it to, the next owner is whoever claims:
    /// this node itself, if it is started again before.
    pub(super) async fn stop(mut self) {
        let now = std::mem::replace(&mut self.now, Now::Neither);
        // Nobody hands the log over to a node that ends.
        self.membership.claim_no_more().await;
        if let Now::Owns(_, term) = now {
            self.membership.hand_over(term).await;
        }
        // Who comes now goes to another node at once.
        self.ground.listener = None;
        self.close(now, Duration::MAX).await;
    }

    async fn close(&self, now: Now, drain: Duration) {
        match now {
            Now::Owns(server, _) => server.stop_within(drain).await,
            Now::Follows(standby, opened) => {
                standby.end().await;
                opened.partitions.close().await;
            }
            Now::Stopped(standby) => standby.end().await,
            Now::Neither => {}
        }
        self.membership.end().await;
    }

    fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    fn stand_by(&self, opened: Opened) -> Result<Now, StartError> {
        let standby = self.standby(Some(&opened.partitions))?;
        tracing::info!(node = self.key.node, address = %self.started.listen, "follows the log");
        Ok(Now::Follows(standby, opened))
    }

    /// `None` = they are closed.
    fn standby(&self, partitions: Option<&Partitions>) -> Result<Standby, StartError> {
        let cluster: Arc<dyn Cluster> = Arc::<Membership>::clone(&self.membership);
        let membership = Arc::clone(&self.membership);
        let observe = Arc::new(move || membership.observe());
        standby(&self.config, &self.ground, (cluster, observe), partitions)
    }
}

/// What a node serves while it does not own the log.
fn standby(
    current: &Arc<ArcSwap<Config>>,
    ground: &Ground,
    (cluster, observe): (Arc<dyn Cluster>, Arc<dyn Fn() + Send + Sync>),
    partitions: Option<&Partitions>,
) -> Result<Standby, StartError> {
    let config = current.load_full();
    let Ground {
        listener: _,
        certificate,
        bounds,
        metrics,
        clock,
        upkeep: _,
    } = ground.clone();
    let listener = ground.listener(&config)?;
    let partitions = partitions.cloned();
    let scrape: Scrape = {
        let partitions = partitions.clone();
        let (metrics, clock) = (Arc::clone(&metrics), Arc::clone(&clock));
        Arc::new(move || {
            if let Some(partitions) = &partitions {
                partitions.observe(clock.now_ms());
            }
            observe();
            metrics.render()
        })
    };
    let options = config.gateway_options(&bounds, &metrics);
    let options = options.map_err(|error| StartError::Setting(error.0))?;
    let access = config.auth.is_some().then(|| {
        let judge = StandbyJudge::new(Arc::clone(current), partitions, (clock, metrics));
        let judge = Arc::new(judge);
        let beside = Arc::clone(&judge).run(Arc::clone(&cluster)).boxed();
        let access: AccessNow = Arc::new(move || Arc::clone(&judge).access().boxed());
        (access, beside)
    });
    let options = GatewayOptions {
        certificate,
        ..options
    };
    let pages = Arc::new(Admin::new(scrape));
    Ok(Standby::start(listener, options, cluster, pages, access))
}

/// A node that has nothing yet.
#[derive(Debug)]
struct Newcomer(ClusterKey, Refused);

impl Cluster for Newcomer {
    fn status(&self) -> NodeStatus {
        let mut reason =
            "it takes a snapshot of another node, as the stream does not have all that it lacks"
                .to_owned();
        let refused = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = refused.as_deref() {
            reason = format!("{reason}; the last one asked gave none: {why}");
        }
        NodeStatus {
            cluster: self.0.name.clone(),
            node: self.0.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: NodeRole::Joining,
            reason: Some(reason),
            owner: None,
            owner_url: None,
            term: 0,
            applied: 0,
            known: 0,
            since_ms: 0,
            silent_ms: None,
            rank: None,
            unready: None,
            notice: None,
            warning: None,
            digests: BTreeMap::new(),
        }
    }

    fn take_over(&self) {}

    fn drain(&self, _: bool) {}

    fn resign(&self, _: Option<String>) -> Result<(), String> {
        Err(format!("node {} does not own the log", self.0.node))
    }

    fn snapshot(&self, _: &str, _: bool) -> Result<mpsc::Receiver<Bytes>, NotGiven> {
        let why = format!("node {} takes a snapshot itself", self.0.node);
        Err(NotGiven::Refused(why))
    }
}

/// Reads what an owner needs beside the store, so that a node whose settings are bad does not start, rather than fail
/// when it is to take over.
fn try_settings(config: &Config) -> Result<(), StartError> {
    judging::try_files(config).map_err(|error| StartError::Setting(error.0))?;
    let webhooks = config.webhooks().map(drop);
    webhooks.map_err(|error| StartError::Setting(error.0))?;
    super::backup_options(config).map(drop)?;
    Spans::check(super::environment).map_err(StartError::Setting)
}

/// A deposed owner's connections have nothing to wait for but what its successor answers.
const GOODBYE: Duration = Duration::from_secs(5);
const LETS_GO: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
