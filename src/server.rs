//! The whole server: what starts in which order, and stops in the reverse one.
//!
//! Owns: start and stop. Promises: nothing is served before everything below it is open; a stop takes nothing new,
//! answers what it took, tells the clients, and flushes last. Must not: know how any layer does its part.

mod dissolve;
mod ground;
mod judging;
mod member;
mod membership;
mod served;
mod snapshot;
mod start_log;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::Admin;
use crate::config::{Config, ConfigError};
use crate::data_directory::{Store, StoreFailure};
use crate::feed::Feed;
use crate::gateway::{Access, Cluster, Gateway, Options as GatewayOptions, Spans, changes_body};
use crate::health::{Health, Scrape};
use crate::metrics::Upkeep;
use crate::offsite::Offsite;
use crate::partition::{BackupOptions, Backups, Partitions, Passphrase};
use crate::people::{Jobs, People};
use crate::relay::Relay;
use crate::reshape::Reshaper;
use crate::search::Searches;
use crate::table::{Backfill, Tables};
use crate::timeline::Timelines;
use crate::timers::Timers;
use crate::tls::Unfit;
use crate::webhook::Webhooks;
use crate::wire::Dialect;
use crate::wire::jsonrpc::DIALECTS;
pub use dissolve::dissolve;
use ground::Ground;
use judging::judge;
pub use served::Served;
use start_log::{say_what_the_clock_does, say_where, say_who_may_come, settled, show_limits};

/// A running server.
pub struct Server {
    gateway: Gateway,
    feed: Feed,
    relay: Relay,
    jobs: Arc<Jobs>,
    timers: Timers,
    backfill: Backfill,
    searches: Searches,
    webhooks: Webhooks,
    access: Option<Access>,
    /// Ends the fetches of keys.
    keys: CancellationToken,
    reshaper: Reshaper,
    backups: Backups,
    /// Ends the hold of streams on the logs, the looks at how the server is, and the sending of spans.
    streams: CancellationToken,
    partitions: Partitions,
    admin: Arc<Admin>,
    tasks: TaskTracker,
    drain: Duration,
    upkeep: Arc<Upkeep>,
}

/// Why the server did not start; the text is one line for the operator.
#[derive(Debug)]
pub enum StartError {
    /// Others can reach the server, and no setting allows it.
    Exposed(ConfigError),
    /// TLS can't be served.
    Tls(Unfit),
    /// The address can't be listened on.
    Listen(SocketAddr, io::Error),
    /// The data directory can't be opened.
    Store(StoreFailure),
    /// A thread can't be started.
    Thread(io::Error),
    /// What a setting names can't be used.
    Setting(String),
    /// Credentials can't be judged as it is configured.
    Auth(String),
    /// The process was told to end meanwhile.
    Ended,
}

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Exposed(ConfigError(why)) => write!(out, "{why}"),
            StartError::Tls(Unfit(why)) => write!(out, "tls: {why}"),
            StartError::Listen(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    out,
                    "{address} is in use by another program; choose another with --listen"
                )
            }
            StartError::Listen(address, error) => {
                write!(out, "cannot listen on {address}: {error}")
            }
            StartError::Store(error) => write!(out, "{error}"),
            StartError::Setting(why) => write!(out, "{why}"),
            StartError::Ended => write!(out, "told to end before it has started"),
            StartError::Auth(why) => write!(out, "[auth]: {why}"),
            StartError::Thread(error) => write!(out, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl Server {
    /// Starts everything, in the order of the layers, on the current runtime.
    pub async fn start(config: &Config) -> Result<Server, StartError> {
        Server::speaking(config, &DIALECTS).await
    }

    /// The same with other dialects; see [`GatewayOptions::dialects`].
    pub async fn speaking(
        config: &Config,
        dialects: &'static [&'static dyn Dialect],
    ) -> Result<Server, StartError> {
        let ground = Ground::lay(config).await?;
        let Ground {
            bounds,
            metrics,
            clock,
            ..
        } = &ground;
        let store = Store::open(config, bounds, metrics, clock).await;
        let store = store.map_err(StartError::Store)?;
        Server::on(config, dialects, &ground, store, None).await
    }

    /// Starts what is above the store.
    #[allow(clippy::too_many_lines)] // the order of a start, step by step
    async fn on(
        config: &Config,
        dialects: &'static [&'static dyn Dialect],
        ground: &Ground,
        store: Store,
        member: Option<(Arc<dyn Cluster>, Arc<dyn Fn() + Send + Sync>)>,
    ) -> Result<Server, StartError> {
        let listener = ground.listener(config)?;
        let Ground {
            listener: _,
            certificate,
            bounds,
            metrics,
            clock,
            upkeep,
        } = ground.clone();
        let Store {
            partitions,
            timelines,
            tables,
        } = store;
        let tasks = TaskTracker::new();
        let (access, keys) = judge(config, &partitions, &clock, &metrics, &tasks).await?;
        let (targets, jobs) = People::targets(&partitions, &timelines);
        let options = config.relay_options();
        let relay = Relay::start(&partitions, targets, options, &metrics, &tasks);
        if let Some(access) = &access {
            timelines.decide_by(Arc::clone(&access.rules));
        }
        jobs.start(&tasks);
        bound_posts(&timelines, &relay, &jobs);
        let people = People::new(partitions.clone(), timelines.clone(), relay.clone());
        let feed = Feed::start(
            &partitions,
            timelines.clone(),
            config.fresh_bytes_max,
            &metrics,
            &tasks,
        );
        let timers = Timers::start(&partitions, timelines.clone(), &metrics, &tasks);
        let backfill = Backfill::start(&tables, &metrics, &tasks);
        let searches = Searches::start(&config.data, &tables, config.search_options(), &tasks);
        let streams = hold_for_streams(config, &tables, &tasks);
        let spans = Spans::start(environment, &clock, &metrics, (&tasks, streams.clone()));
        let spans = spans.map_err(StartError::Setting)?;
        let configured = config.webhooks();
        let configured = configured.map_err(|error| StartError::Setting(error.0))?;
        let webhooks = Webhooks::start(
            configured,
            (&partitions, &tables, &timelines),
            changes_body,
            &clock,
            &metrics,
            &tasks,
        );
        let webhooks = webhooks
            .map_err(|error| StartError::Setting(format!("the system's certificates: {error}")))?;
        let reshaper = Reshaper::start(
            (&partitions, &tables),
            (&relay, &jobs, &feed),
            &clock,
            config.reshape_options(),
            &tasks,
        );
        let backups = Backups::new(&partitions, backup_options(config)?, &clock, &tasks);
        show_limits(config, &metrics);
        let scrape: Scrape = {
            let (partitions, feed, relay) = (partitions.clone(), feed.clone(), relay.clone());
            let (tables, searches, timelines) =
                (tables.clone(), searches.clone(), timelines.clone());
            let clock = Arc::clone(&clock);
            let metrics = Arc::clone(&metrics);
            let observe = member.as_ref().map(|(_, observe)| Arc::clone(observe));
            Arc::new(move || {
                observe.iter().for_each(|observe| observe());
                partitions.observe(clock.now_ms());
                tables.observe();
                searches.observe();
                timelines.observe();
                feed.observe();
                relay.observe(clock.now_ms());
                metrics.render()
            })
        };
        let admin = Arc::new(Admin::new(Arc::<_>::clone(&scrape)));
        let data = config.data.clone();
        let health = Health::new(&partitions, scrape, &clock, data, settled(config, &clock));
        let (looking, stop) = (health.clone(), streams.clone());
        tasks.spawn(async move { stop.run_until_cancelled(looking.run()).await });
        let (saying, stop) = (say_what_the_clock_does(Arc::clone(&clock)), streams.clone());
        tasks.spawn(async move { stop.run_until_cancelled(saying).await });
        let options = config.gateway_options(&bounds, &metrics);
        let options = options.map_err(|error| StartError::Setting(error.0))?;
        let gateway = Gateway::start(
            listener,
            GatewayOptions {
                dialects,
                certificate,
                cluster: member.map(|(cluster, _)| cluster),
                ..options
            },
            (timelines, people),
            (tables, searches.clone(), webhooks.clone(), access.clone()),
            (feed.clone(), reshaper.clone(), backups.clone()),
            (clock, spans),
            (Arc::<Admin>::clone(&admin), health),
        )
        .map_err(|error| StartError::Listen(config.listen, error))?;
        admin.set_ready(true);
        say_who_may_come(config);
        say_where(config, gateway.address());
        let drain = Duration::from_millis(config.drain_ms_max);
        Ok(Server {
            gateway,
            feed,
            relay,
            jobs,
            timers,
            backfill,
            searches,
            webhooks,
            access,
            keys,
            reshaper,
            backups,
            streams,
            partitions,
            admin,
            tasks,
            drain,
            upkeep,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Stops everything, in the reverse order of the start.
    pub async fn stop(self) {
        let drain = self.drain;
        self.stop_within(drain).await;
    }

    async fn stop_within(self, drain: Duration) {
        tracing::info!("stopping");
        // 0. Partitions and backups that are being made are given up.
        self.reshaper.stop();
        self.backups.stop();
        // 1. Nobody comes in.
        self.gateway.stop_accepting().await;
        self.admin.set_ready(false);
        // 2. Calls that wait for news get what there is.
        self.gateway.end_waits();
        // 3. What is in flight is answered, clients get `draining`, connections are closed.
        self.gateway.drain(drain.min(self.drain)).await;
        // 4. What time brings and what the relay has not derived wait for the next start, and nobody listens to the
        //    feed any more.
        self.timers.stop();
        self.backfill.stop();
        self.searches.stop();
        self.webhooks.stop();
        self.streams.cancel();
        self.keys.cancel();
        self.feed.stop();
        self.relay.stop();
        self.jobs.stop();
        self.tasks.close();
        self.tasks.wait().await;
        // 5. What is committed goes into the image, and the files are closed.
        self.partitions.close().await;
        drop(self.upkeep);
        tracing::info!("stopped");
    }
}

/// For the backups that callers ask for: where they go, and what secrets are sealed with, as settings and environment
/// say.
fn backup_options(config: &Config) -> Result<BackupOptions, StartError> {
    let elsewhere = Offsite::of_server(&config.backup_bucket);
    let elsewhere = elsewhere.map_err(|error| StartError::Setting(error.to_string()))?;
    let file = Some(&config.backup_passphrase_file).filter(|file| !file.as_os_str().is_empty());
    let passphrase = file.map(|file| Passphrase::of_file(file)).transpose();
    let refused = |why| StartError::Setting(format!("backup_passphrase_file: {why}"));
    Ok(BackupOptions {
        elsewhere,
        passphrase: passphrase.map_err(refused)?,
        ..config.backup_options()
    })
}

/// A variable of this process' environment.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Holds the logs for the streams of tables until what is returned is cancelled.
fn hold_for_streams(config: &Config, tables: &Tables, tasks: &TaskTracker) -> CancellationToken {
    let tables = tables.clone();
    let (bytes_max, hours_max) = (config.stream_log_bytes(), config.stream_cursor_hours_max);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tasks.spawn(async move {
        let holding = tables.hold_for_streams(bytes_max, hours_max);
        stopped.run_until_cancelled(holding).await;
    });
    stop
}

/// Has messages that go into inboxes refused while too many are still on their way there.
fn bound_posts(timelines: &Timelines, relay: &Relay, jobs: &Arc<Jobs>) {
    // Neither is kept alive by it: they hold the timelines, and a stopped server must let go of its directory.
    let (room, jobs) = (relay.room(), Arc::downgrade(jobs));
    timelines.refuse_posts_unless(move |partition| {
        room(partition) && jobs.upgrade().is_none_or(|jobs| jobs.has_room())
    });
}
