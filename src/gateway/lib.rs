//! The gateway: sockets, sessions, and the way from a decoded request to the timelines and back. [`credentials`],
//! [`health`] and [`webhook`] are by themselves: they know nothing of the rest.
//!
//! Owns: the listener, HTTP routes, WebSocket sessions, limits per connection, close codes. Promises: whatever a client
//! sends or fails to read, memory stays bounded and other clients are unharmed; replies and pushes go out in the order
//! that PROTOCOL promises. Must not: know how timelines and tables are stored, or store anything itself, but for the
//! rows of [`credentials`] and [`webhook`].

pub mod centrifuge;
mod changes;
mod cluster;
mod counters;
pub mod credentials;
mod dispatch;
mod durable;
mod encode_push;
mod entrance;
mod form;
#[cfg(feature = "faults")]
pub mod fuzz;
pub mod health;
mod http;
mod http_client;
mod limits;
mod live;
mod log_limit;
mod outbox;
mod session;
mod spans;
mod tablestore;
mod tickets;
pub mod webhook;
mod woken;

pub use changes::body as changes_body;
pub use cluster::{
    AccessNow, Cluster, NodeRole, NodeSecret, NodeStatus, Nodes, NotGiven, Place, Standby,
};
pub use dispatch::{shape, told_sql};
pub use entrance::address::Network;
pub use entrance::bootstrap::BOOTSTRAP_SOCKET;
pub use entrance::door::Access;
pub use http::files::File;
pub use limits::{AddressLimits, CallerLimits, LimitOptions};
pub use spans::Spans;
pub use tablestore::{Credential, TablestoreOptions};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::health::Health;
use crate::webhook::Webhooks;
use counters::Counters;
use entrance::door::Door;
use form::Dialects;
use tablestore::Tablestore;
use tideline_base::bounds::{Bound, Bounds, Resource};
use tideline_base::clock::Clock;
use tideline_base::metrics::Metrics;
use tideline_base::tls::Certificate;
use tideline_search::Searches;
use tideline_store::partition::Backups;
use tideline_table::Tables;
use tideline_timelines::feed::Feed;
use tideline_timelines::people::People;
use tideline_timelines::reshape::{Gate, Reshaper};
use tideline_timelines::timeline::Timelines;
use tideline_wire::{Dialect, Limits};

/// Options of the gateway. Units are in the names or the types.
#[derive(Clone, Debug)]
pub struct Options {
    /// What clients may send and get.
    pub limits: Limits,
    /// Time for a message of a WebSocket from its first byte to its last, for the body of an HTTP request, and for each
    /// MiB of a response.
    pub request_time_max: Duration,
    /// How often the server pings.
    pub heartbeat: Duration,
    /// A client that is behind for longer is cut.
    pub slow_consumer: Duration,
    /// How long a reader of a durable stream waits for what comes next.
    pub stream_wait: Duration,
    /// What callers may hold.
    pub bounds: Arc<Bounds>,
    /// Pages from these origins may call, besides the server's own.
    pub allowed_origins: Vec<String>,
    /// Names under which the server may be called, besides its address and localhost.
    pub allowed_hosts: Vec<String>,
    /// Whether requests are served that came through a proxy: without authentication nobody knows whose they are.
    pub takes_proxied: bool,
    /// Whether of others than this machine only trusted proxies are served.
    pub serves_proxies_only: bool,
    /// Proxies whose `X-Forwarded-For` counts.
    pub trusted_proxies: Vec<Network>,
    /// What addresses and users may take.
    pub per_client: LimitOptions,
    /// The socket by which the first administrator's key is made, with `[auth]`.
    pub bootstrap: PathBuf,
    /// What TLS is served with; `None` = without.
    pub certificate: Option<Arc<Certificate>>,
    /// The dialects that are spoken on WebSockets; the first one is that of clients that ask for none.
    pub dialects: &'static [&'static dyn Dialect],
    /// Which callers may call Tablestore's operations.
    pub tablestore: TablestoreOptions,
    /// How the Centrifuge dialect is served; `None` = not at all.
    pub centrifuge: Option<Arc<centrifuge::Options>>,
    /// This node's part in a cluster; `None` = the server is alone.
    pub cluster: Option<Arc<dyn Cluster>>,
    /// The nodes of that cluster.
    pub nodes: Option<Arc<Nodes>>,
    /// Where figures go.
    pub metrics: Arc<Metrics>,
}

/// Bytes of one connection's requests in flight; at it the socket is not read. Room for two of the largest messages.
pub const REQUESTS_BYTES_MAX: usize = 8 << 20;

/// The contents of the HTTP pages, which the gateway only serves. Only the last function may wait; it is called on a
/// thread that may.
pub trait Pages: Send + Sync + 'static {
    /// The file that is served by a path; that of a folder is its index.
    fn file(&self, path: &str) -> Option<&'static File>;
    /// What `/readyz` says: whether a write would be taken and committed, or in a line why not.
    fn readiness(&self, can_commit: bool) -> Result<(), &'static str>;
    /// Prometheus' text.
    fn metrics(&self) -> String;
}

/// The running gateway.
pub struct Gateway {
    shared: Arc<Shared>,
    accepting: CancellationToken,
    acceptor: TaskTracker,
    sessions: TaskTracker,
    /// Looks at the certificate's files.
    renewal: Arc<Notify>,
    /// Opens the socket for the first administrator's key.
    bootstrap: Arc<Notify>,
}

/// What every connection needs.
struct Shared {
    options: Options,
    timelines: Timelines,
    people: People,
    tablestore: Tablestore,
    webhooks: Webhooks,
    reshaper: Reshaper,
    backups: Backups,
    /// Where calls wait while partitions are split or merged, or the log is handed over.
    gate: Gate,
    feed: Feed,
    clock: Arc<Clock>,
    pages: Arc<dyn Pages>,
    health: Health,
    /// Where it listens.
    address: SocketAddr,
    /// One scrape at a time: it takes a thread, and what it looks up is the same for all.
    scrapes: Arc<Semaphore>,
    counters: Counters,
    spans: Spans,
    dialects: Dialects,
    metrics: Arc<Metrics>,
    /// Requests that come in or are not answered yet.
    inbound: Arc<Bound>,
    /// Answers that wait for their readers.
    answers: Arc<Bound>,
    /// Timelines that subscriptions and waiting calls follow.
    watched: Arc<Bound>,
    /// What pages of browsers show in place of a credential.
    tickets: tickets::Tickets,
    origins: http::origin::Allowed,
    /// Lines of the log about what wanted to be another node.
    strange_nodes: log_limit::LogLimit,
    successor: cluster::successor::Successor,
    /// `None` = there is no `[auth]`.
    door: Option<Door>,
    /// All of them, of every dialect.
    sessions: Arc<live::Sessions>,
    /// The clients that are connected by the Centrifuge dialect.
    hub: Arc<centrifuge::Hub>,
    /// Reads of streams that readers may share.
    joined: Arc<durable::Joined>,
    /// Their sessions that have no socket of their own.
    emulated: Arc<centrifuge::Emulated>,
    began: Instant,
    proxies: entrance::address::Proxies,
    per_client: Arc<limits::Limits>,
    /// Waiting calls are to be answered now.
    waits_over: CancellationToken,
    /// When clients come back; set before `draining`.
    returns: OnceLock<session::goodbye::Return>,
    /// Connections are to finish what they have begun, and then to close.
    draining: CancellationToken,
    /// Connections are to be cut.
    cut: CancellationToken,
}

impl Gateway {
    /// Takes connections from a bound listener, on the current runtime.
    pub fn start(
        listener: TcpListener,
        options: Options,
        (timelines, people): (Timelines, People),
        (tables, searches, webhooks, access): (Tables, Searches, Webhooks, Option<Access>),
        (feed, reshaper, backups): (Feed, Reshaper, Backups),
        (clock, spans): (Arc<Clock>, Spans),
        (pages, health): (Arc<dyn Pages>, Health),
    ) -> std::io::Result<Gateway> {
        let address = listener.local_addr()?;
        let origins = http::origin::Allowed::new(
            &options.allowed_origins,
            &options.allowed_hosts,
            options.takes_proxied,
        );
        let metrics = Arc::clone(&options.metrics);
        let bound = |resource| Arc::clone(options.bounds.of(resource));
        let options_metrics = Arc::clone(&metrics);
        let dialects = Dialects::new(options.dialects);
        let per_client = Arc::new(limits::Limits::new(options.per_client));
        let sessions = live::Sessions::new(metrics.access.sessions.clone());
        let known = (Arc::clone(&per_client), Arc::clone(&sessions));
        let door = access.map(|access| Door::new(access, known, &options_metrics));
        let shared = Arc::new(Shared {
            inbound: bound(Resource::InboundBytes),
            answers: bound(Resource::AnswersBytes),
            watched: bound(Resource::WatchedTimelines),
            tickets: tickets::Tickets::new(bound(Resource::Tickets)),
            tablestore: Tablestore::new((tables, searches), &options.tablestore, &metrics),
            proxies: entrance::address::Proxies::new(&options.trusted_proxies),
            per_client,
            options,
            timelines,
            people,
            webhooks,
            gate: reshaper.gate(),
            reshaper,
            backups,
            feed,
            clock,
            pages,
            health,
            address,
            scrapes: Arc::new(Semaphore::new(1)),
            counters: Counters::new(Arc::clone(&metrics)),
            spans,
            metrics,
            dialects,
            hub: centrifuge::Hub::new(&options_metrics),
            joined: Arc::default(),
            emulated: Arc::default(),
            began: Instant::now(),
            origins,
            strange_nodes: log_limit::LogLimit::default(),
            successor: cluster::successor::Successor::default(),
            door,
            sessions,
            waits_over: CancellationToken::new(),
            returns: OnceLock::new(),
            draining: CancellationToken::new(),
            cut: CancellationToken::new(),
        });
        let gateway = Gateway {
            shared,
            accepting: CancellationToken::new(),
            acceptor: TaskTracker::new(),
            sessions: TaskTracker::new(),
            renewal: Arc::default(),
            bootstrap: Arc::default(),
        };
        gateway.look_after();
        let nodes = gateway.shared.options.nodes.clone();
        let accepting = entrance::listener::accept(
            listener,
            Arc::clone(&gateway.shared),
            gateway.sessions.clone(),
            gateway.accepting.clone(),
        );
        gateway.acceptor.spawn(async move {
            if let Some(nodes) = nodes {
                nodes.begin().await;
            }
            accepting.await;
        });
        Ok(gateway)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Puts other limits in force, looks at the certificate's files now, and waits for a first key once more.
    pub fn reload(&self, per_client: LimitOptions) {
        self.shared.per_client.set(per_client);
        self.renewal.notify_one();
        self.bootstrap.notify_one();
    }

    /// Begins what is done beside connections, until no more are taken: sweeping the door, waiting for a first key,
    /// renewing the certificate.
    fn look_after(&self) {
        let path = self.shared.options.bootstrap.clone();
        let wake = Arc::clone(&self.bootstrap);
        let first_key = entrance::bootstrap::run(path, wake, Arc::clone(&self.shared));
        let stop = self.accepting.clone();
        self.acceptor
            .spawn(async move { stop.run_until_cancelled(first_key).await });
        let (sweeping, stopped) = (Arc::clone(&self.shared), self.accepting.clone());
        self.acceptor.spawn(async move {
            if let Some(door) = &sweeping.door {
                stopped.run_until_cancelled(door.sweep()).await;
            }
        });
        if let Some(nodes) = self.shared.options.nodes.clone() {
            let stop = self.accepting.clone();
            let looking = async move { stop.run_until_cancelled(nodes.look_up()).await };
            self.acceptor.spawn(looking);
        }
        if let Some(certificate) = self.shared.options.certificate.clone() {
            let (wake, metrics) = (&self.renewal, &self.shared.metrics);
            let renew =
                entrance::renewal::renew(certificate, Arc::clone(wake), Arc::clone(metrics));
            let stop = self.accepting.clone();
            let renewing = async move { stop.run_until_cancelled(renew).await };
            self.acceptor.spawn(renewing);
        }
    }

    /// Stops taking connections and closes the listening socket.
    pub async fn stop_accepting(&self) {
        self.accepting.cancel();
        self.acceptor.close();
        self.acceptor.wait().await;
    }

    /// Answers the waiting calls with what there is.
    pub fn end_waits(&self) {
        self.shared.waits_over.cancel();
    }

    /// Lets every connection finish what is in flight, say `draining` and close; what is left after `limit` is cut.
    pub async fn drain(&self, limit: Duration) {
        let is_in_cluster = self.shared.options.cluster.is_some();
        let returns = session::goodbye::Return::of(self.sessions.len(), is_in_cluster);
        // It drains once.
        let _ = self.shared.returns.set(returns);
        self.shared.draining.cancel();
        self.sessions.close();
        if tokio::time::timeout(limit, self.sessions.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                connections = self.sessions.len(),
                "cutting connections that did not drain in time"
            );
            self.shared.cut.cancel();
            self.sessions.wait().await;
        }
    }
}
