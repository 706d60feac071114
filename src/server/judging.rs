//! The judge of credentials: from the configuration to what the gateway gets, at the start and at each reload.
//!
//! Owns: which settings of `[auth]` reach which part; a standby's judge, the fetches of its keys, and the removal of
//! revoked keys' secrets. Promises: a reload takes all of it or nothing. Must not: judge.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Server, StartError};
use crate::access::{CurrentRules, Grants, GrantsFrom, Rules};
use crate::clock::Clock;
use crate::config::{ClusterKey, Config, ConfigError};
use crate::credentials::{Authority, CredentialError, StoredCredentials};
use crate::gateway::{Access, Cluster, NodeRole, NodeStatus};
use crate::metrics::Metrics;
use crate::partition::Partitions;

impl Server {
    /// Puts those settings in force that may change while the server runs: `[auth]`, the rights of policies, and the
    /// limits of addresses, users and keys. The certificate's files are read again, too. With an error everything stays
    /// as it was.
    pub fn reload(&self, config: &Config) -> Result<(), ConfigError> {
        match (&self.access, config.token_sources()) {
            (None, None) => {}
            (Some(access), Some(sources)) => {
                let rules = rules(config)?;
                access
                    .authority
                    .reload(&sources)
                    .map_err(|why| ConfigError(format!("[auth]: {why}")))?;
                access.rules.replace(rules);
            }
            _ => return Err(toggled()),
        }
        self.gateway.reload(config.limits);
        Ok(())
    }
}

/// The judge of credentials. It has its keys fetched until the [`CancellationToken`] that comes with it is cancelled.
pub(super) async fn judge(
    config: &Config,
    partitions: &Partitions,
    clock: &Arc<Clock>,
    metrics: &Arc<Metrics>,
    tasks: &TaskTracker,
) -> Result<(Option<Access>, CancellationToken), StartError> {
    let stop = CancellationToken::new();
    let access = access(config, partitions, clock, metrics).await?;
    if let Some(Access { authority, .. }) = &access {
        let (running, stopped) = (Arc::clone(authority), stop.clone());
        tasks.spawn(async move {
            let looking_after = async {
                running.share_secrets().await;
                running.run().await;
            };
            stopped.run_until_cancelled(looking_after).await;
        });
    }
    Ok((access, stop))
}

/// The judge of credentials as they are stored now. Keys of a URL are fetched when a token names one.
pub(super) async fn access(
    config: &Config,
    partitions: &Partitions,
    clock: &Arc<Clock>,
    metrics: &Arc<Metrics>,
) -> Result<Option<Access>, StartError> {
    let Some(sources) = config.token_sources() else {
        return Ok(None);
    };
    let stored = stored(config, partitions).map_err(|error| StartError::Setting(error.0))?;
    let authority = Authority::open(&sources, stored, clock, metrics).await;
    let refused = |error: CredentialError| StartError::Auth(error.to_string());
    let authority = Arc::new(authority.map_err(refused)?);
    let rules = rules(config).map_err(|error| StartError::Auth(error.0))?;
    let rules = Arc::new(CurrentRules::new(rules));
    let asked = Arc::clone(&authority);
    rules
        .ask_whether_withdrawn(move |identity, issued_at| asked.has_withdrawn(identity, issued_at));
    Ok(Some(Access { authority, rules }))
}

fn stored(config: &Config, partitions: &Partitions) -> Result<StoredCredentials, ConfigError> {
    let seal = config.cluster.as_ref().map(ClusterKey::secret_seal);
    let seal = seal.transpose()?;
    let partitions = partitions.clone();
    Ok(StoredCredentials::new(partitions, &config.data, seal))
}

/// The judge of a node that does not own the log.
pub(super) struct StandbyJudge {
    config: Arc<ArcSwap<Config>>,
    /// `None` = there is no data here now.
    partitions: Option<Partitions>,
    clock: Arc<Clock>,
    metrics: Arc<Metrics>,
    /// The configuration, and the judge that was made of it. The judge stays: it has the keys that were fetched.
    made: Mutex<Option<(Arc<Config>, Access)>>,
    /// Another one was made.
    anew: Notify,
}

impl StandbyJudge {
    pub(super) fn new(
        config: Arc<ArcSwap<Config>>,
        partitions: Option<Partitions>,
        (clock, metrics): (Arc<Clock>, Arc<Metrics>),
    ) -> StandbyJudge {
        StandbyJudge {
            config,
            partitions,
            clock,
            metrics,
            made: Mutex::default(),
            anew: Notify::new(),
        }
    }

    fn made(&self) -> MutexGuard<'_, Option<(Arc<Config>, Access)>> {
        // Replaced as a whole.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches keys and removes secrets, for as long as it is polled.
    pub(super) async fn run(self: Arc<Self>, cluster: Arc<dyn Cluster>) {
        tokio::join!(self.sweep(cluster), self.fetch());
    }

    /// Fetches the keys of a URL as often as the owner does, once a caller was judged by them.
    async fn fetch(&self) {
        loop {
            let kept = self.made().clone();
            match kept {
                None => self.anew.notified().await,
                Some((_, access)) => tokio::select! {
                    () = access.authority.run() => {}
                    () = self.anew.notified() => {}
                },
            }
        }
    }

    /// Credentials as they are stored now.
    pub(super) async fn access(self: Arc<Self>) -> Result<Access, String> {
        let partitions = self.partitions.as_ref();
        let partitions = partitions.ok_or("there is no data here now")?;
        let config = self.config.load_full();
        let kept = self.made().clone();
        if let Some((of, access)) = kept
            && Arc::ptr_eq(&of, &config)
        {
            let read = access.authority.read_again().await;
            return read.map(|()| access).map_err(|error| error.to_string());
        }
        let access = access(&config, partitions, &self.clock, &self.metrics).await;
        let access = access.map_err(|error| error.to_string())?;
        let access = access.ok_or("there is no [auth]")?;
        *self.made() = Some((config, access.clone()));
        self.anew.notify_one();
        Ok(access)
    }

    /// Removes the secrets of keys that the owner of the log has revoked, for as long as it is polled.
    async fn sweep(&self, cluster: Arc<dyn Cluster>) {
        let Some(partitions) = &self.partitions else {
            return;
        };
        let mut swept = None;
        loop {
            sleep(SWEEP_EVERY).await;
            let NodeStatus { role, applied, .. } = cluster.status();
            // One that joins does not know all keys yet.
            if role != NodeRole::Follower || swept == Some(applied) {
                continue;
            }
            swept = Some(applied);
            let swept = match stored(&self.config.load(), partitions) {
                Ok(stored) => stored.sweep().await.map_err(|error| error.to_string()),
                Err(error) => Err(error.0),
            };
            if let Err(why) = swept {
                tracing::debug!(why, "secrets of revoked keys may still be there");
            }
        }
    }
}

const SWEEP_EVERY: Duration = Duration::from_secs(2);

fn toggled() -> ConfigError {
    ConfigError("whether there is [auth] is decided at the start".to_owned())
}

/// Whether [`Server::reload`] would take these settings, for a server that is not there yet.
pub(super) fn would_take(started: &Config, newer: &Config) -> Result<(), ConfigError> {
    if started.auth.is_some() != newer.auth.is_some() {
        return Err(toggled());
    }
    try_files(newer)
}

/// Reads what `[auth]` names, and keeps nothing.
pub(super) fn try_files(config: &Config) -> Result<(), ConfigError> {
    rules(config)?;
    let checked = config
        .token_sources()
        .map_or(Ok(()), |sources| sources.check());
    checked.map_err(|why| ConfigError(format!("[auth]: {why}")))
}

/// What the configuration gives to users.
fn rules(config: &Config) -> Result<Rules, ConfigError> {
    let given = config.auth.as_ref().map_or(&[][..], |auth| &auth.rights);
    let given = Grants::parse(given, GrantsFrom::User);
    let given = given.map_err(|error| ConfigError(format!("auth.rights: {error}")))?;
    Ok(Rules::new(given, config.policy_rights()))
}
