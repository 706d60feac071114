//! The way of a connection from its handshake to a session.
//!
//! Owns: what is known of a connection below HTTP, and what a handshake leaves of it to the session. Promises: who
//! shows a bad credential, or has too many connections, gets no session; who shows none keeps the place of those that
//! nobody knows. Must not: read or write the socket.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Request, StatusCode};

use super::arrival::Arrival;
use super::door::{self, Visitor};
use super::form::Form;
use super::limits::{Place, Places, Reached};
use super::respond::{Answer, limited, say};
use super::session::login::Entered;
use super::{Shared, upgrade};

/// What a handshake leaves to the session.
pub(super) type Accepted = Mutex<Option<(Form, Entered, Option<Place>)>>;

/// What is known of a connection below HTTP.
#[derive(Clone)]
pub(super) struct Ends {
    pub(super) peer: IpAddr,
    pub(super) local: IpAddr,
    /// DNS names of the client's certificate.
    pub(super) certificates: Arc<[String]>,
    pub(super) arrival: Arc<Arrival>,
}

impl Ends {
    pub(super) fn visitor(&self, headers: &HeaderMap, shared: &Shared) -> Visitor<'_> {
        Visitor {
            address: shared.proxies.client(self.peer, headers),
            certificates: &self.certificates,
        }
    }
}

/// Whether a client wants to prove who it is. Other schemes are of a proxy that asks for a password and passes it on.
pub(super) fn shows_token(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().any(|value| {
        let scheme = value.as_bytes().get(.."bearer ".len());
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
    })
}

/// Whether a request makes a connection that keeps its place among those that nobody knows.
pub(super) fn comes_without_a_credential(request: &Request<Incoming>, shared: &Shared) -> bool {
    shared.door.is_some()
        && request.uri().path() == "/v1/connect"
        && !shows_token(request.headers())
}

/// What a handshake shows of who comes.
async fn enter(headers: &HeaderMap, ends: &Ends, shared: &Shared) -> Result<Entered, Answer> {
    let visitor = ends.visitor(headers, shared);
    let mut entered = Entered {
        address: visitor.address,
        certificates: Arc::clone(&ends.certificates),
        credential: None,
        waits: None,
        places: Places::default(),
    };
    match &shared.door {
        Some(door) if shows_token(headers) => {
            let admitted = door.admit(headers, visitor).await;
            let credential = admitted.map_err(|failure| door::refusal(&failure))?;
            let places = shared.per_client.enter_as(&credential.identity);
            entered.places = places.map_err(|reached| {
                shared.metrics.refused(reached.limit, 1);
                limited(&reached)
            })?;
            entered.credential = Some(credential);
        }
        // It may have asked for something else before, for which it needed no credential.
        Some(_) if ends.arrival.returns() => entered.waits = Some(Arc::clone(&ends.arrival)),
        Some(_) => {
            let why = "too many connections that nobody knows; show a credential";
            return Err(say(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        None => {}
    }
    Ok(entered)
}

/// Counts a WebSocket that came by a trusted proxy as a connection of its client.
fn arrive(headers: &HeaderMap, peer: IpAddr, shared: &Shared) -> Result<Option<Place>, Reached> {
    if !shared.proxies.has(peer) {
        return Ok(None);
    }
    let client = shared.proxies.client(peer, headers);
    let place = shared.per_client.arrive(client);
    place
        .map(Some)
        .inspect_err(|reached| shared.metrics.refused(reached.limit, 1))
}

/// Answers a handshake.
pub(super) async fn connect(
    request: &Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
) -> Answer {
    if shared.draining.is_cancelled() {
        return say(StatusCode::SERVICE_UNAVAILABLE, "shutting down");
    }
    let entered = match enter(request.headers(), ends, shared).await {
        Ok(entered) => entered,
        Err(answer) => return answer,
    };
    match upgrade::accept(request.headers(), request.version(), &shared.dialects) {
        Ok((response, form)) => {
            let place = match arrive(request.headers(), ends.peer, shared) {
                Ok(place) => place,
                Err(reached) => return limited(&reached),
            };
            let mut accepted = upgraded
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *accepted = Some((form, entered, place));
            response.map(|()| Full::default())
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
