//! The owner's side of the connections that other nodes pass on.
//!
//! Owns: what a node is asked, and when it is believed. Promises: a client can't come in this way, and what was passed
//! on once is not passed on again: only an owner answers here, and only to who comes directly. Must not: serve what
//! comes behind it; the listener does, as on a connection of the client's own.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use hyper::{Request, StatusCode};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::Shared;
use super::super::entrance::socket::Socket;
use super::super::entrance::{Accepted, Becomes};
use super::super::http::respond::{Answer, NotBegun, empty, items, say, set};
use super::NodeRole;
use super::hail::Hail;

/// Where a node asks for it.
pub(in super::super) const PATH: &str = "/v1/cluster/pass";
/// What the connection becomes.
pub(super) const PROTOCOL: &str = "tideline-pass";
/// What the node must answer to.
pub(super) const CHALLENGE: HeaderName = HeaderName::from_static("tideline-challenge");
/// With the owner's answer: nothing was done, and another owner can be asked.
pub(super) const NOT_BEGUN: HeaderName = HeaderName::from_static("tideline-not-begun");

/// Answers who says that it is a node.
pub(in super::super) fn begin(
    request: &Request<Incoming>,
    shared: &Shared,
    upgraded: &Accepted,
) -> Answer {
    if shared.draining.is_cancelled() {
        return say(StatusCode::SERVICE_UNAVAILABLE, "shutting down");
    }
    if !items(request.headers(), UPGRADE).any(|one| one == PROTOCOL) {
        return say(StatusCode::UPGRADE_REQUIRED, "this is for nodes only");
    }
    let challenge: Arc<str> = Uuid::new_v4().simple().to_string().into();
    let mut answer = empty(StatusCode::SWITCHING_PROTOCOLS);
    set(&mut answer, CONNECTION, "upgrade");
    set(&mut answer, UPGRADE, PROTOCOL);
    // It is letters and digits.
    if let Ok(value) = HeaderValue::from_str(&challenge) {
        answer.headers_mut().insert(CHALLENGE, value);
    }
    let mut accepted = upgraded.lock().unwrap_or_else(PoisonError::into_inner);
    *accepted = Some(Becomes::Passed(challenge));
    answer
}

/// Says in an answer to a node that another owner can be asked, if there is one, or will be.
pub(in super::super) async fn marked(mut answer: Answer, shared: &Shared) -> Answer {
    if answer.extensions().get::<NotBegun>().is_some() && is_anothers(shared).await {
        set(&mut answer, NOT_BEGUN, "1");
    }
    answer
}

/// Whether what this node has just refused is another one's to do.
pub(super) async fn is_anothers(shared: &Shared) -> bool {
    let is_owner = || {
        let cluster = shared.options.cluster.as_ref();
        let is_owner = cluster.is_some_and(|cluster| cluster.status().role == NodeRole::Owner);
        is_owner && !shared.draining.is_cancelled()
    };
    // An owner that hands the log over refuses calls a moment before its status says so.
    let until = Instant::now() + CROSSING_TIME;
    while is_owner() && Instant::now() < until {
        sleep(LOOK_EVERY).await;
    }
    !is_owner()
}

/// Resolves when idle connections are to close. Where another node goes on, a request must not cross with the close:
/// clients, and nodes that pass on, learn of a hand-over a moment later.
pub(in super::super) async fn may_close(shared: &Shared) {
    match shared.options.nodes.is_some() {
        true => crossed(&shared.draining).await,
        false => shared.draining.cancelled().await,
    }
}

/// Resolves when no request crosses any more with the end of this node's role.
pub(super) async fn crossed(ended: &CancellationToken) {
    ended.cancelled().await;
    sleep(CROSSING_TIME).await;
}

/// Whose connection it is. `None` = a node has not said so in time.
pub(in super::super) async fn hear(
    socket: &mut Socket,
    challenge: &str,
    shared: &Shared,
) -> Option<Hail> {
    let nodes = shared.options.nodes.as_ref()?;
    let hail = Hail::read(socket, challenge, &nodes.secret);
    match timeout(HAIL_TIME_MAX, hail).await {
        Ok(Ok(Some(hail))) => Some(hail),
        Ok(Ok(None)) => {
            if let Some(count) = shared.strange_nodes.turn() {
                let why = "do all nodes have the same nats_login_file?";
                tracing::warn!(count, "refused a connection that is no node's: {why}");
            }
            None
        }
        Ok(Err(_)) | Err(_) => None,
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(10);
const CROSSING_TIME: Duration = Duration::from_millis(300);
/// A node answers at once.
const HAIL_TIME_MAX: Duration = Duration::from_secs(5);
