//! The listening socket, and one task per connection.
//!
//! Owns: accepting, the number of connections, what happens when files run out. Promises: never spins (a failed accept
//! waits), never holds more than `connections_max` sockets and a few that are told to leave, and a panic ends one
//! connection only. Must not: decode a byte.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::patience::farewell;
use super::{Shared, http, session};
use crate::metrics::CONNECTIONS;

/// Accepts until `stop`.
pub(super) async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: TaskTracker,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(shared.options.connections_max));
    let leaving = Arc::new(Semaphore::new(LEAVING_MAX));
    let metrics = Arc::clone(&shared.metrics);
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) if is_about_one_connection(&error) => continue,
            Err(error) => {
                // Out of files, mostly. The backlog keeps the others; trying at once would only burn the processor.
                metrics.gateway.accept_failed.increment(1);
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        metrics.gateway.accepted.increment(1);
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            metrics.refused(CONNECTIONS, 1);
            // Best effort: the socket's buffer is empty, so this fits or the peer is gone.
            let _ = socket.try_write(FULL);
            // A request that is under way would destroy the answer at a close.
            if let Ok(turn) = Arc::clone(&leaving).try_acquire_owned() {
                sessions.spawn(async move {
                    farewell(socket, LEAVING_TIME).await;
                    drop(turn);
                });
            }
            continue;
        };
        let (shared, panics) = (Arc::clone(&shared), metrics.server.panics.clone());
        sessions.spawn(async move {
            let served = std::panic::AssertUnwindSafe(serve(socket, shared))
                .catch_unwind()
                .await;
            if served.is_err() {
                panics.increment(1);
                tracing::error!("a connection ended in a panic");
            }
            drop(place);
        });
    }
}

async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    // Replies are small and many requests are in flight: waiting for a full packet only adds latency.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "the socket was gone before it was served");
        return;
    }
    // In boxes of their own, one after the other: the task is as large as its largest step, for as long as it lives.
    let cut = shared.cut.clone();
    let served = async move {
        if let Some(upgraded) = Box::pin(http::serve(socket, Arc::clone(&shared))).await {
            session::run(upgraded, shared).await;
        }
    };
    tokio::select! {
        () = served => {}
        () = cut.cancelled() => {}
    }
}

fn is_about_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// Refused connections that are closed with care; further ones are just closed.
const LEAVING_MAX: usize = 32;
const LEAVING_TIME: Duration = Duration::from_secs(1);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n";
