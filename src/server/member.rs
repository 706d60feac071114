//! A server that is a node of a cluster: a standby while another one owns the log, a whole server while it does.
//!
//! Owns: the change of roles. Promises: all that is above the store is made anew when the node becomes the owner, from
//! what is applied, so that nothing in memory is of an earlier time; when it is deposed, connections are closed so that
//! clients come again, and all of it ends before the node follows. Must not: decide who owns.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::ground::Ground;
use super::judging;
use super::membership::Membership;
use super::{Server, StartError};
use crate::admin::Admin;
use crate::config::{ClusterKey, Config, ConfigError};
use crate::data_directory::{Opened, Store, StoreFailure};
use crate::gateway::{AccessNow, Cluster, Options as GatewayOptions, Standby};
use crate::health::Scrape;
use crate::partition::OpenError;
use crate::wire::jsonrpc::DIALECTS;

/// See the file's opening.
pub(super) struct Member {
    key: ClusterKey,
    /// As they were read last.
    config: Arc<RwLock<Config>>,
    ground: Ground,
    membership: Arc<Membership>,
    now: Now,
}

/// What it does now.
enum Now {
    Follows(Standby, Opened),
    Owns(Box<Server>),
    /// A change of roles has failed half way; the process ends.
    Neither,
}

impl Member {
    /// Begins as a standby.
    pub(super) async fn start(key: &ClusterKey, config: &Config) -> Result<Member, StartError> {
        let ground = Ground::lay(config).await?;
        let (membership, opened) = Membership::begin(key, config, &ground, true).await?;
        let mut member = Member {
            key: key.clone(),
            config: Arc::new(RwLock::new(config.clone())),
            ground,
            membership,
            now: Now::Neither,
        };
        member.stand_by(opened)?;
        Ok(member)
    }

    /// Waits until the node must change its role.
    pub(super) async fn changes(&self) {
        match &self.now {
            Now::Follows(..) => self.membership.owns().await,
            Now::Owns(_) => self.membership.is_deposed().await,
            Now::Neither => std::future::pending().await,
        }
    }

    /// Changes it. After an error nothing is served.
    pub(super) async fn change(&mut self) -> Result<(), StartError> {
        match std::mem::replace(&mut self.now, Now::Neither) {
            Now::Follows(standby, opened) => {
                standby.stop().await;
                let config = self.config();
                let store = Store::on(opened, &config, &self.ground.clock).await;
                let store = store.map_err(StartError::Store)?;
                let cluster: Arc<dyn Cluster> = Arc::<Membership>::clone(&self.membership);
                let observe = Arc::clone(&self.membership);
                let server = Server::on(
                    &config,
                    &DIALECTS,
                    &self.ground,
                    store,
                    Some((cluster, Arc::new(move || observe.observe()))),
                );
                self.now = Now::Owns(Box::new(server.await?));
                tracing::info!(node = self.key.node, "this node owns the log, and serves");
                Ok(())
            }
            Now::Owns(server) => {
                tracing::warn!(node = self.key.node, "this node owns the log no more");
                self.close(Now::Owns(server)).await;
                let (membership, opened) = self.begin_again().await?;
                self.membership = membership;
                self.stand_by(opened)
            }
            Now::Neither => Ok(()),
        }
    }

    /// Opens the directory once more. What was stopped lets go of it soon: a read that nobody waits for goes on to its
    /// end.
    async fn begin_again(&self) -> Result<(Arc<Membership>, Opened), StartError> {
        let (config, until) = (self.config(), Instant::now() + LETS_GO);
        loop {
            // It claims only if somebody wants it: another node with this one's name would do the same.
            let begun = Membership::begin(&self.key, &config, &self.ground, false).await;
            match begun {
                Err(StartError::Store(StoreFailure::Open(OpenError::InUse { .. })))
                    if Instant::now() < until =>
                {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                begun => return begun,
            }
        }
    }

    /// As [`Server::reload`]; a standby takes the settings when it becomes the owner.
    pub(super) fn reload(&self, config: &Config) -> Result<(), ConfigError> {
        if let Now::Owns(server) = &self.now {
            server.reload(config)?;
        }
        let mut newest = self.config.write().unwrap_or_else(PoisonError::into_inner);
        *newest = config.clone();
        Ok(())
    }

    /// Ends it. The next owner is whoever claims: this node itself, if it is started again before.
    pub(super) async fn stop(mut self) {
        let now = std::mem::replace(&mut self.now, Now::Neither);
        self.close(now).await;
    }

    async fn close(&self, now: Now) {
        match now {
            Now::Owns(server) => server.stop_within(GOODBYE).await,
            Now::Follows(standby, opened) => {
                standby.stop().await;
                opened.partitions.close().await;
            }
            Now::Neither => {}
        }
        self.membership.end().await;
    }

    fn config(&self) -> Config {
        let config = self.config.read();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stand_by(&mut self, opened: Opened) -> Result<(), StartError> {
        let config = self.config();
        let Ground {
            listener: _,
            certificate,
            bounds,
            metrics,
            clock,
            upkeep: _,
        } = self.ground.clone();
        let listener = self.ground.listener(&config)?;
        let partitions = opened.partitions.clone();
        let scrape: Scrape = {
            let (partitions, membership) = (partitions.clone(), Arc::clone(&self.membership));
            let (metrics, clock) = (Arc::clone(&metrics), Arc::clone(&clock));
            Arc::new(move || {
                partitions.observe(clock.now_ms());
                membership.observe();
                metrics.render()
            })
        };
        let options = config.gateway_options(&bounds, &metrics);
        let options = options.map_err(|error| StartError::Setting(error.0))?;
        let newest = Arc::clone(&self.config);
        let access: AccessNow = Arc::new(move || {
            let config = newest.read().unwrap_or_else(PoisonError::into_inner);
            let config = config.clone();
            let (partitions, clock, metrics) =
                (partitions.clone(), Arc::clone(&clock), Arc::clone(&metrics));
            Box::pin(async move {
                let access = judging::access(&config, &partitions, &clock, &metrics).await;
                access.map_err(|error| error.to_string())
            })
        });
        let cluster: Arc<dyn Cluster> = Arc::<Membership>::clone(&self.membership);
        let options = GatewayOptions {
            certificate,
            ..options
        };
        let standby = Standby::start(
            listener,
            options,
            cluster,
            Arc::new(Admin::new(scrape)),
            access,
        );
        tracing::info!(node = self.key.node, address = %config.listen, "follows the log");
        self.now = Now::Follows(standby, opened);
        Ok(())
    }
}

/// A deposed owner's connections have nothing to wait for.
const GOODBYE: Duration = Duration::from_secs(1);
const LETS_GO: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
