//! The way in: connections from their acceptance to HTTP or a session, and the callers of requests.
//!
//! Owns: what is known of a connection below HTTP, and what a handshake leaves of it to the session. Promises: a client
//! that shows a bad credential, or has too many connections, gets no session; with `[auth]` one that shows none keeps
//! the place of a stranger. Must not: decode a message.

pub(super) mod address;
pub(super) mod admitted;
pub(super) mod arrival;
pub(super) mod bootstrap;
pub(super) mod door;
pub(super) mod listener;
pub(super) mod renewal;
pub(super) mod seats;
pub(super) mod socket;
pub(super) mod upgraded;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};

use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Request, StatusCode};

use super::Shared;
use super::form::Form;
use super::http::respond::{Answer, Content, limited, say, set};
use super::http::upgrade;
use super::http::upgrade::{Chosen, Refusal};
use super::limits::{CallerGuards, ConnectionGuard, Reached};
use super::session::events::Streaming;
use super::session::login::Entered;
use crate::credentials::Credential;
use arrival::Arrival;
use door::Visitor;
use seats::Seat;

/// What a request leaves to what its connection becomes.
pub(super) type Accepted = Mutex<Option<Becomes>>;

/// What a connection becomes that is one of HTTP no more.
pub(super) enum Becomes {
    /// A session's.
    Session(Accept),
    /// A client's of another node, once that node has answered this challenge.
    Passed(Arc<str>),
}

/// A connection that is to become a session's.
pub(super) struct Accept {
    pub(super) form: Form,
    pub(super) entered: Entered,
    pub(super) guard: Option<ConnectionGuard>,
    /// `None` = a handshake was answered.
    pub(super) streaming: Option<Box<Streaming>>,
}

/// What is known of a connection below HTTP.
#[derive(Clone)]
pub(super) struct Ends {
    pub(super) peer: IpAddr,
    pub(super) local: IpAddr,
    /// DNS names of the client's certificate.
    pub(super) certificates: Arc<[String]>,
    pub(super) arrival: Arc<Arrival>,
    pub(super) seat: Arc<Seat>,
    /// The connection is one of TLS.
    pub(super) is_secure: bool,
    /// Another node has passed it on, and has looked at what each request says of where it comes from and goes to.
    pub(super) is_passed: bool,
    pub(super) counts: Counts,
}

/// When a connection counts as one of an address.
#[derive(Clone)]
pub(super) enum Counts {
    /// It did when it was accepted.
    Already,
    /// A trusted proxy's: with each WebSocket or stream, for the client that the request names.
    ByRequest,
    /// One from where a node is: with its first request, unless that says that a client's is passed on.
    WithFirst(Arc<OnceLock<ConnectionGuard>>),
}

impl Ends {
    pub(super) fn visitor(&self, headers: &HeaderMap, shared: &Shared) -> Visitor<'_> {
        Visitor {
            address: shared.proxies.client(self.peer, headers),
            certificates: &self.certificates,
            seat: &self.seat,
            is_secure: self.is_secure || shared.proxies.is_secure(self.peer, headers),
        }
    }
}

/// Whether a client shows a token or an API key. Other schemes are of a proxy that asks for a password and passes it
/// on.
pub(super) fn shows_token(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().any(|value| {
        let scheme = value.as_bytes().get(.."bearer ".len());
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
    })
}

/// Whether a request makes a connection that keeps a stranger's place.
pub(super) fn comes_without_a_credential(request: &Request<Incoming>, shared: &Shared) -> bool {
    let is_unknown = match request.uri().path() {
        "/v1/connect" => !shows_token(request.headers()),
        // Its token is in its first command.
        CENTRIFUGE_PATH | STREAM_PATH | EVENTS_PATH => true,
        _ => false,
    };
    is_unknown && shared.door.is_some()
}

/// Where the Centrifuge dialect is spoken on WebSockets.
pub(super) const CENTRIFUGE_PATH: &str = "/connection/websocket";
/// The same over HTTP responses that do not end.
pub(super) const STREAM_PATH: &str = "/connection/http_stream";
/// The same over server-sent events.
pub(super) const EVENTS_PATH: &str = "/connection/sse";

/// What a handshake shows of its client.
pub(super) async fn enter(
    headers: &HeaderMap,
    ends: &Ends,
    shared: &Shared,
    counts: bool,
) -> Result<Entered, Answer> {
    let visitor = ends.visitor(headers, shared);
    let address = visitor.address;
    let credential = match &shared.door {
        Some(door) if counts && shows_token(headers) => {
            let admitted = door.admit(headers, visitor).await;
            Some(admitted.map_err(|failure| door::refusal(&failure))?)
        }
        _ => None,
    };
    let mut entered = enter_as(credential, address, ends, shared)?;
    match &shared.door {
        Some(_) if entered.credential.is_some() => {}
        // It may have asked for something else before, for which it needed no credential.
        Some(_) if ends.arrival.returns() => entered.waits = Some(Arc::clone(&ends.arrival)),
        Some(_) => {
            let why = "too many connections that nobody knows; show a credential";
            return Err(say(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        // No client is asked for a credential.
        None => ends.seat.is_of(None),
    }
    Ok(entered)
}

/// What is known of a client that has shown this, which counts as a connection of its caller.
#[allow(clippy::result_large_err)] // an answer, once for a request
pub(super) fn enter_as(
    credential: Option<Credential>,
    address: IpAddr,
    ends: &Ends,
    shared: &Shared,
) -> Result<Entered, Answer> {
    let mut guards = CallerGuards::default();
    if let Some(credential) = &credential {
        let entered = shared.per_client.enter_as(&credential.identity);
        guards = entered.map_err(|reached| {
            shared.metrics.refused(reached.limit, 1);
            limited(&reached)
        })?;
    }
    Ok(Entered {
        address,
        certificates: Arc::clone(&ends.certificates),
        credential,
        waits: None,
        guards,
        seat: Arc::clone(&ends.seat),
    })
}

/// Counts a WebSocket or a stream as a connection of its client, if it was not counted when it was accepted.
pub(super) fn arrive(
    headers: &HeaderMap,
    ends: &Ends,
    shared: &Shared,
) -> Result<Option<ConnectionGuard>, Reached> {
    if !matches!(ends.counts, Counts::ByRequest) {
        return Ok(None);
    }
    let client = shared.proxies.client(ends.peer, headers);
    let guard = shared.per_client.arrive(client);
    guard
        .map(Some)
        .inspect_err(|reached| shared.metrics.refused(reached.limit, 1))
}

/// Counts a connection from where a node is, before its first request is answered; `is_of_nodes`: they ask that of each
/// other, and clients at their address must not keep them from it. `true` = it does not count yet: its next request is
/// to, or the address of the client that is passed on.
pub(super) fn arrive_with(
    is_of_nodes: bool,
    ends: &Ends,
    shared: &Shared,
) -> Result<bool, Reached> {
    let Counts::WithFirst(guard) = &ends.counts else {
        return Ok(false);
    };
    if guard.get().is_some() || is_of_nodes {
        return Ok(guard.get().is_none());
    }
    let arrived = shared.per_client.arrive(ends.peer);
    let arrived = arrived.inspect_err(|reached| shared.metrics.refused(reached.limit, 1));
    // Requests of a connection come one after the other.
    let _ = guard.set(arrived?);
    Ok(false)
}

/// The answer of a connection that counts, or that is for no other request if it is [yet to count](arrive_with).
pub(super) async fn counts(
    counted: Result<bool, Reached>,
    answering: impl Future<Output = Answer>,
) -> Answer {
    let (mut answer, goes_on) = match counted {
        Ok(counts_later) => (answering.await, !counts_later),
        Err(reached) => (limited(&reached), false),
    };
    if !goes_on && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        set(&mut answer, CONNECTION, "close");
    }
    answer
}

/// Answers a handshake.
pub(super) async fn connect(
    request: &Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
) -> Answer {
    let entered = enter(request.headers(), ends, shared, true).await;
    let choose = |headers: &HeaderMap| upgrade::native(headers, &shared.dialects);
    shake_hands(request, ends, shared, upgraded, (entered, choose))
}

/// Answers a handshake of the Centrifuge dialect. What is none gets 400: it is used as a sign of life.
pub(super) async fn connect_centrifuge(
    request: &Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
) -> Answer {
    let entered = enter(request.headers(), ends, shared, false).await;
    let query = request.uri().query().unwrap_or_default();
    let choose = |headers: &HeaderMap| Ok(upgrade::of_centrifuge(headers, query, &shared.dialects));
    let mut answer = shake_hands(request, ends, shared, upgraded, (entered, choose));
    if answer.status() == StatusCode::UPGRADE_REQUIRED {
        *answer.status_mut() = StatusCode::BAD_REQUEST;
    }
    answer
}

fn shake_hands(
    request: &Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
    (entered, choose): (
        Result<Entered, Answer>,
        impl FnOnce(&HeaderMap) -> Result<Chosen, Refusal>,
    ),
) -> Answer {
    if shared.draining.is_cancelled() {
        return say(StatusCode::SERVICE_UNAVAILABLE, "shutting down");
    }
    let entered = match entered {
        Ok(entered) => entered,
        Err(answer) => return answer,
    };
    match upgrade::accept(request.headers(), request.version(), choose) {
        Ok((response, form)) => {
            let guard = match arrive(request.headers(), ends, shared) {
                Ok(guard) => guard,
                Err(reached) => return limited(&reached),
            };
            let mut accepted = upgraded
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *accepted = Some(Becomes::Session(Accept {
                form,
                entered,
                guard,
                streaming: None,
            }));
            response.map(|()| Content::default())
        }
        Err((status, why)) => {
            let mut answer = say(status, &why);
            if status == StatusCode::UPGRADE_REQUIRED {
                let headers = answer.headers_mut();
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            answer
        }
    }
}
