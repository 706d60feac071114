//! The listening socket, and one task per connection.
//!
//! Owns: accepting, the number of connections, what happens when files run out. Promises: never spins (a failed accept
//! waits), never serves more than `connections_max` sockets beside those that have been asked to leave, and a panic
//! ends one connection only. Must not: decode a byte.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::cluster::hail::Hail;
use super::super::cluster::passed;
use super::super::http::timeouts::farewell;
use super::super::limits::{ConnectionGuard, Reached};
use super::super::{Shared, http, session};
use super::arrival::{Arrival, Arrivals};
use super::seats::{Seat, Seats};
use super::socket::{Shaken, Socket};
use super::upgraded::{Left, Passed};
use super::{Counts, Ends};
use tideline_base::bounds::Resource;
use tideline_base::metrics::CONNECTIONS;

/// Accepts until `stop`.
pub(in super::super) async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: TaskTracker,
    stop: CancellationToken,
) {
    let seats = Seats::new(shared.options.bounds.of(Resource::Connections));
    let leaving = Arc::new(Semaphore::new(LEAVING_MAX));
    let metrics = Arc::clone(&shared.metrics);
    let arrivals = Arrivals::new(&metrics);
    let next = async || (arrivals.next().await, listener.accept().await);
    while let Some((arrival, accepted)) = stop.run_until_cancelled(next()).await {
        let (socket, peer) = match accepted {
            Ok((socket, peer)) => (socket, peer.ip().to_canonical()),
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
        // An address that has too many takes nobody's place.
        let visit = visit(peer, &shared).map_err(Refused::Limited);
        let visit = visit.and_then(|visit| Ok((seats.enter().ok_or(Refused::Full)?, visit)));
        let (seat, (guard, counts)) = match visit {
            Ok((seat, visit)) => (Arc::new(seat), visit),
            Err(why) => {
                metrics.refused(why.limit(), 1);
                // Before its handshake a client of TLS would not understand an answer.
                if shared.options.certificate.is_none() {
                    let answer = why.answer();
                    match Arc::clone(&leaving).try_acquire_owned() {
                        Ok(turn) => drop(sessions.spawn(async move {
                            turn_away(socket, &answer).await;
                            drop(turn);
                        })),
                        // Too many are leaving already: one try, without a wait.
                        Err(_) => drop(socket.try_write(answer.as_bytes())),
                    }
                }
                continue;
            }
        };
        let (shared, panics) = (Arc::clone(&shared), metrics.server.panics.clone());
        sessions.spawn(async move {
            let served = serve(socket, (peer, seat, counts), arrival, shared);
            let served = std::panic::AssertUnwindSafe(served).catch_unwind();
            if served.await.is_err() {
                panics.increment(1);
                tracing::error!("a connection ended in a panic");
            }
            drop(guard);
        });
    }
}

/// Why a connection is not served.
enum Refused {
    Full,
    Limited(Reached),
}

impl Refused {
    fn limit(&self) -> &'static str {
        match self {
            Refused::Full => CONNECTIONS,
            Refused::Limited(reached) => reached.limit,
        }
    }

    fn answer(&self) -> String {
        let (status, seconds) = match self {
            Refused::Full => ("503 Service Unavailable", FULL_PAUSE_S),
            Refused::Limited(reached) => ("429 Too Many Requests", reached.retry_after_s()),
        };
        format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\nretry-after: {seconds}\r\ncontent-length: 0\r\n\r\n"
        )
    }
}

/// Answers a client once it has sent something: some take an earlier answer for an error. Then closes so that the
/// answer arrives, even if more of the request is under way.
async fn turn_away(mut socket: impl AsyncRead + AsyncWrite + Unpin, answer: &str) {
    let _ = timeout(LEAVING_TIME, socket.read(&mut [0])).await;
    let answering = async {
        socket.write_all(answer.as_bytes()).await?;
        socket.flush().await
    };
    // Best effort: the socket's buffer is empty, so this fits or the peer is gone.
    let _ = timeout(LEAVING_TIME, answering).await;
    farewell(socket, LEAVING_TIME).await;
}

/// Counts a connection for its address, if that says whose it is.
fn visit(peer: IpAddr, shared: &Shared) -> Result<(Option<ConnectionGuard>, Counts), Reached> {
    let nodes = shared.options.nodes.as_ref();
    Ok(if shared.proxies.has(peer) {
        (None, Counts::ByRequest)
    } else if nodes.is_some_and(|nodes| nodes.has(peer)) {
        (None, Counts::WithFirst(Arc::default()))
    } else {
        (Some(shared.per_client.arrive(peer)?), Counts::Already)
    })
}

/// Serves a client of another node as if it had come here.
async fn serve_passed(passed: Passed, shared: Arc<Shared>) {
    let Passed {
        mut socket,
        challenge,
        ends,
    } = passed;
    let hail = tokio::select! {
        hail = passed::hear(&mut socket, &challenge, &shared) => hail,
        () = ends.arrival.outstays() => None,
        // A request may come with the hail.
        () = passed::may_close(&shared) => None,
    };
    let Some(Hail {
        node,
        client,
        local,
        is_secure,
        certificates,
    }) = hail
    else {
        return;
    };
    tracing::debug!(node, %client, "a connection was passed on");
    let (counts, arrived) = match shared.proxies.has(client) {
        true => (Counts::ByRequest, Ok(None)),
        false => (Counts::Already, shared.per_client.arrive(client).map(Some)),
    };
    let _guard = match arrived {
        Ok(guard) => guard,
        Err(reached) => {
            shared.metrics.refused(reached.limit, 1);
            let answer = Refused::Limited(reached).answer();
            return turn_away(socket, &answer).await;
        }
    };
    let ends = Ends {
        peer: client,
        local,
        certificates: certificates.into(),
        is_secure,
        is_passed: true,
        counts,
        ..ends
    };
    let http = http::serve(socket, ends, Arc::clone(&shared));
    // One that was passed on is not passed on again.
    if let Some(Left::Session(upgraded)) = Box::pin(http).await {
        session::run(*upgraded, shared).await;
    }
}

async fn serve(
    socket: TcpStream,
    (peer, seat, counts): (IpAddr, Arc<Seat>, Counts),
    arrival: Arrival,
    shared: Arc<Shared>,
) {
    // Replies are small and many requests are in flight: waiting for a full packet only adds latency.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "the socket was gone before it was served");
        return;
    }
    let (cut, leaves) = (shared.cut.clone(), seat.leaves.clone());
    tokio::select! {
        () = converse(socket, (peer, seat, counts), arrival, shared) => {}
        () = cut.cancelled() => {}
        () = leaves.cancelled() => {}
    }
}

/// In boxes, one step after the other: the task is as large as its largest step, for as long as it lives.
async fn converse(
    socket: TcpStream,
    (peer, seat, counts): (IpAddr, Arc<Seat>, Counts),
    arrival: Arrival,
    shared: Arc<Shared>,
) {
    let arrival = Arc::new(arrival);
    let Some(socket) = Box::pin(shake_hands(socket, &arrival, &shared)).await else {
        return;
    };
    let Some(local) = socket.local_address() else {
        return;
    };
    let ends = Ends {
        peer,
        local: local.ip(),
        certificates: socket.client_names().into(),
        arrival,
        seat,
        is_secure: socket.is_tls(),
        is_passed: false,
        counts,
    };
    let http = http::serve(socket, ends, Arc::clone(&shared));
    match Box::pin(http).await {
        Some(Left::Session(upgraded)) => session::run(*upgraded, shared).await,
        Some(Left::Passed(passed)) => Box::pin(serve_passed(*passed, shared)).await,
        None => {}
    }
}

/// The connection, ready to be read and written; `None` if its TLS handshake fails or takes too long.
async fn shake_hands(socket: TcpStream, arrival: &Arrival, shared: &Shared) -> Option<Socket> {
    let Some(certificate) = &shared.options.certificate else {
        return Some(Socket::Plain(socket));
    };
    let shaken = tokio::select! {
        shaken = Socket::shake_hands(socket, certificate.config()) => shaken,
        () = arrival.outstays() => return None,
        () = shared.draining.cancelled() => return None,
    };
    let handshakes = &shared.metrics.tls.handshakes;
    let (socket, result) = match shaken {
        Shaken::Done(socket) => (Some(socket), "ok"),
        Shaken::Failed(error, socket) => {
            tracing::debug!(%error, "a TLS handshake failed");
            farewell(socket, LEAVING_TIME).await;
            (None, "failed")
        }
        Shaken::TooSlow => (None, "too_slow"),
    };
    handshakes.of(&[result]).increment(1);
    socket
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
const FULL_PAUSE_S: u64 = 5;
