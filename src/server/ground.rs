//! What a server stands on before its store is opened: the socket, the certificate, metrics, the clock, the bounds.
//!
//! Owns: the order of it. Promises: a port that is taken is known before a large directory is opened; files are kept
//! back for the store. Must not: serve.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpSocket};

use super::StartError;
use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::config::Config;
use crate::data_directory::{fit_partitions, partitions_of};
use crate::metrics::{Metrics, Upkeep};
use crate::tls::{Certificate, install_crypto};

/// What a start lays before the store is opened. In a cluster it stays while a node's role changes.
#[derive(Clone)]
pub(super) struct Ground {
    /// The one socket; what serves has another handle of it. `None` = nobody is to come any more.
    pub(super) listener: Option<Arc<std::net::TcpListener>>,
    pub(super) certificate: Option<Arc<Certificate>>,
    pub(super) bounds: Arc<Bounds>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<Clock>,
    pub(super) upkeep: Arc<Upkeep>,
}

impl Ground {
    pub(super) async fn lay(config: &Config) -> Result<Ground, StartError> {
        install_crypto();
        config.check_exposure().map_err(StartError::Exposed)?;
        let certificate = config.certificate().map_err(StartError::Tls)?;
        let metrics = Arc::new(Metrics::default());
        let upkeep = metrics.start_upkeep().map_err(StartError::Thread)?;
        // The socket first: a taken port is known before a large data directory is opened. Nobody is served before
        // the start is over; early clients wait in the backlog.
        let listener = listen(config.listen, config.socket_send_bytes)
            .map_err(|error| StartError::Listen(config.listen, error))?;
        fit_partitions(config).await.map_err(StartError::Store)?;
        let partitions = partitions_of(config).map_err(StartError::Store)?;
        let bounds = config.bounds(connections_max(config, partitions), &metrics);
        Ok(Ground {
            listener: Some(Arc::new(listener)),
            certificate: certificate.map(Arc::new),
            bounds: Arc::new(bounds),
            metrics,
            clock: Arc::new(Clock::system()),
            upkeep: Arc::new(upkeep),
        })
    }

    /// What a store is opened by.
    pub(super) fn by(&self) -> (&Arc<Bounds>, &Arc<Metrics>, &Arc<Clock>) {
        (&self.bounds, &self.metrics, &self.clock)
    }

    /// The socket, for one that takes connections of it.
    pub(super) fn listener(&self, config: &Config) -> Result<TcpListener, StartError> {
        let socket = self.listener.as_ref();
        let socket = socket.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        let listener = socket.and_then(|socket| TcpListener::from_std(socket.try_clone()?));
        listener.map_err(|error| StartError::Listen(config.listen, error))
    }
}

fn listen(address: SocketAddr, send_bytes: u32) -> io::Result<std::net::TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart must not wait until the sockets of the last run are forgotten.
    socket.set_reuseaddr(true)?;
    if send_bytes > 0 {
        // Connections inherit it. Without it the system keeps megabytes for each client that does not read.
        socket.set_send_buffer_size(send_bytes)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// Connections that wait to be accepted; the system may have a lower limit.
const BACKLOG: u32 = 4_096;

/// How many connections the limit of open files leaves: what the store needs for its files is kept back, or clients
/// could take its last descriptor.
fn connections_max(config: &Config, partitions: usize) -> usize {
    let open_files = getrlimit(Resource::Nofile).current;
    let open_files =
        open_files.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let kept = KEPT_FILES + KEPT_FILES_OF_SEARCH + KEPT_FILES_PER_PARTITION * partitions;
    let room = open_files.saturating_sub(kept).max(1);
    let wanted = config.connections_max;
    if room < wanted {
        tracing::warn!(
            open_files,
            kept,
            connections_max = room,
            wanted,
            "fewer connections than connections_max: raise the limit of open files (ulimit -n)"
        );
    } else {
        tracing::info!(
            open_files,
            connections_max = wanted,
            "the limit of open files is enough"
        );
    }
    wanted.min(room)
}

/// Descriptors that are no connection's: standard streams, the runtime, the listener, connections that are just being
/// refused, what is opened for a moment.
const KEPT_FILES: usize = 64;
/// Segments that writers of search indexes write or merge: 8 of them, each with the files of one.
const KEPT_FILES_OF_SEARCH: usize = 8 * 8;
/// Of each partition: the active segment and its successor, the log's state and folder, LMDB's three and a lock, and
/// segments that followers and retention read.
const KEPT_FILES_PER_PARTITION: usize = 16;
