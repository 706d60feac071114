//! HTTP on one connection: routes, statuses, and the hand-over to a session.
//!
//! Owns: which path answers what, how bodies are read, which pages may call. Promises: heads, bodies and the reading of
//! responses have deadlines; every refusal has the right status and a line that says why, and arrives whatever the
//! client still sends, also if it has ended its side; the connection's task is the session's task. Must not: do a call;
//! `dispatch` does.

pub(super) mod body;
pub(super) mod cors;
pub(super) mod events;
pub(super) mod files;
#[cfg(feature = "faults")]
pub(super) mod fuzz;
pub(super) mod kept;
pub(super) mod origin;
pub(super) mod request_id;
pub(super) mod respond;
pub(super) mod rpc;
pub(super) mod timeouts;
pub(super) mod upgrade;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, EXPECT, HeaderMap, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::centrifuge::{api, emulation};
use super::entrance::admitted::Admitted;
use super::entrance::door;
use super::entrance::socket::Socket;
use super::entrance::upgraded::{Left, Passed, Upgraded};
use super::entrance::{
    Accepted, Becomes, CENTRIFUGE_PATH, Ends, arrive_with, comes_without_a_credential, connect,
    connect_centrifuge, counts, shows_token,
};
use super::{Pages, Shared, cluster, dispatch, durable, tablestore};
use cluster::passed;
use cluster::passed::PATH as PASS;
use events::{TakenOver, hand_over};
use origin::is_direct;
use request_id::{mark, request_of};
use respond::{Answer, as_page, full, no_page, not_allowed, say, set};
use tideline_model::access::Right;
use tideline_wire::{Failure, Reason};
use timeouts::{Impatient, Owed, farewell, head_time_max};

/// Serves HTTP on a connection until it ends or becomes something else.
pub(super) async fn serve(socket: Socket, ends: Ends, shared: Arc<Shared>) -> Option<Left> {
    let arrival = Arc::clone(&ends.arrival);
    let upgraded: Arc<Accepted> = Arc::default();
    let time_max = shared.options.request_time_max;
    let draining = shared.draining.clone();
    let http = serve_http(socket, ends.clone(), shared, Arc::clone(&upgraded));
    let (socket, read) = tokio::select! {
        served = Box::pin(http) => served,
        () = arrival.outstays() => return None,
    };
    let accepted = upgraded
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take();
    match accepted {
        Some(Becomes::Session(accept)) => {
            return Some(Left::Session(Upgraded::of(accept, socket, read)));
        }
        // What comes before the challenge is no answer to it.
        Some(Becomes::Passed(challenge)) if read.is_empty() => {
            return Some(Left::Passed(Box::new(Passed {
                socket,
                challenge,
                ends,
            })));
        }
        Some(Becomes::Passed(_)) | None => {}
    }
    tokio::select! {
        () = farewell(socket, time_max) => {}
        () = draining.cancelled() => {}
    }
    None
}

async fn serve_http(
    socket: Socket,
    ends: Ends,
    shared: Arc<Shared>,
    upgraded: Arc<Accepted>,
) -> (Socket, Bytes) {
    let (options, is_passed) = (&shared.options, ends.is_passed);
    let io = Impatient::new(socket, options.request_time_max);
    let answers = io.answers();
    let service = {
        let shared = Arc::clone(&shared);
        service_fn(
            move |mut request: Request<Incoming>| -> BoxFuture<'static, Result<Answer, TakenOver>> {
                if !comes_without_a_credential(&request, &shared) {
                    ends.arrival.arrived();
                }
                let (shared, upgraded) = (Arc::clone(&shared), Arc::clone(&upgraded));
                let ends = ends.clone();
                // Set before the answer is polled, because hyper reads the socket before it polls it.
                let owed = Owed::new(&answers);
                request.extensions_mut().insert(Arc::clone(&owed));
                let logged = request_of(request.headers());
                let id = Arc::clone(&logged.id);
                request.extensions_mut().insert(logged.clone());
                Box::pin(async move {
                    let answering = answer(request, &ends, &shared, &upgraded);
                    let mut answer = logged.within(answering).await;
                    mark(&id, &mut answer);
                    drop(owed);
                    hand_over(answer, &upgraded)
                })
            },
        )
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time_max(is_passed, options.request_time_max))
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(io), service);
    let ended = tokio::select! {
        ended = poll_fn(|context| connection.poll_without_shutdown(context)) => ended,
        () = passed::may_close(&shared) => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|context| connection.poll_without_shutdown(context)).await
        }
    };
    if let Err(error) = ended
        && std::error::Error::source(&error).is_none_or(|why| !why.is::<TakenOver>())
    {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
    let parts = connection.into_parts();
    (parts.io.into_inner().into_inner(), parts.read_buf)
}

/// The answer to a request, and what becomes of an unread body: a small one is read, so that the connection
/// can go on; otherwise the answer says that it is the last one, and [`farewell`] takes what still comes.
async fn answer(
    mut request: Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
) -> Answer {
    // Reading would ask for a body that the client holds back.
    let holds_back = request.headers().contains_key(EXPECT);
    let began = Instant::now();
    let is_of_nodes = matches!(request.uri().path(), PASS | "/readyz");
    let counted = arrive_with(is_of_nodes, ends, shared);
    let mut answer = counts(counted, route(&mut request, ends, shared, upgraded)).await;
    tracing::debug!(
        method = %request.method(),
        path = request.uri().path(),
        status = answer.status().as_u16(),
        ms = began.elapsed().as_millis() as u64,
        "answered"
    );
    let body = request.body_mut();
    let unwanted = !body.is_end_stream();
    if unwanted && (holds_back || timeout(UNWANTED_TIME, forget(body)).await != Ok(true)) {
        set(&mut answer, CONNECTION, "close");
    }
    answer
}

/// Reads a small body to its end; whether it came to it.
async fn forget(body: &mut Incoming) -> bool {
    let mut left = UNWANTED_BYTES;
    if body.size_hint().lower() > left as u64 {
        return false;
    }
    while let Some(frame) = body.frame().await {
        let data = frame.map(|frame| frame.data_ref().map_or(0, Bytes::len));
        match data.ok().and_then(|bytes| left.checked_sub(bytes)) {
            Some(rest) => left = rest,
            None => return false,
        }
    }
    true
}

const UNWANTED_BYTES: usize = 64 << 10;
const UNWANTED_TIME: Duration = Duration::from_secs(1);

async fn route(
    request: &mut Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
) -> Answer {
    if ends.is_passed {
        // The node that has passed it on has looked at where it comes from, and says the rest of the answer.
        let is_direct = is_direct(request.uri(), request.headers(), ends.local);
        let answer = match shared.draining.is_cancelled() {
            true => door::refusal(&Reason::ShuttingDown.into()),
            false => page(request, is_direct, ends, shared, upgraded).await,
        };
        return passed::marked(answer, shared).await;
    }
    if shared.options.serves_proxies_only && !shared.proxies.are_or_here(ends.peer) {
        shared.metrics.gateway.refused_origin.increment(1);
        return say(StatusCode::FORBIDDEN, ONLY_PROXIES);
    }
    let admitted = match shared
        .origins
        .admit(request.uri(), request.headers(), ends.local)
    {
        Ok(admitted) => admitted,
        Err(foreign) => {
            shared.metrics.gateway.refused_origin.increment(1);
            shared.origins.log(&foreign);
            let mut answer = say(StatusCode::FORBIDDEN, &foreign.to_string());
            cors::vary(&mut answer);
            return answer;
        }
    };
    let mut answer = match cors::preflight(request.method(), request.headers()) {
        Some(answer) => answer,
        None => {
            let kept = shared.successor.keep(request, shared);
            let answer = page(request, admitted.is_direct, ends, shared, upgraded).await;
            shared.successor.answer(answer, kept, (ends, shared)).await
        }
    };
    if let Some(origin) = admitted.origin {
        cors::open(&mut answer, origin);
    }
    answer
}

async fn page(
    request: &mut Request<Incoming>,
    is_direct: bool,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
) -> Answer {
    let read = *request.method() == Method::GET || *request.method() == Method::HEAD;
    match request.uri().path() {
        "/v1/connect" | "/v1/rpc" | EVENTS
            if shared.door.is_none() && shows_token(request.headers()) =>
        {
            no_authentication()
        }
        "/v1/connect" if *request.method() == Method::GET => {
            connect(request, ends, shared, upgraded).await
        }
        "/v1/connect" => not_allowed("GET"),
        EVENTS if *request.method() == Method::GET => {
            events::serve(request, ends, shared, upgraded).await
        }
        EVENTS => not_allowed("GET"),
        CENTRIFUGE_PATH if shared.options.centrifuge.is_none() => as_page(no_page()),
        CENTRIFUGE_PATH if *request.method() == Method::GET => {
            connect_centrifuge(request, ends, shared, upgraded).await
        }
        CENTRIFUGE_PATH => not_allowed("GET"),
        "/v1/rpc" if *request.method() == Method::POST => {
            let visitor = ends.visitor(request.headers(), shared);
            rpc::serve(request, visitor, shared).await
        }
        "/v1/rpc" => not_allowed("POST"),
        "/" | "/healthz" | "/readyz" | "/metrics" if !read => not_allowed("GET, HEAD"),
        "/" | "/console" => as_page(files::lead(files::CONSOLE)),
        "/demo" => as_page(files::lead(files::DEMO)),
        "/healthz" | "/readyz" | "/metrics" => as_page(own_page(request, ends, shared).await),
        path if path.starts_with(files::CONSOLE) || path.starts_with(files::DEMO) => {
            match shared.pages.file(path) {
                Some(_) if !read => not_allowed("GET, HEAD"),
                Some(file) => as_page(files::answer(file, request.headers())),
                None => as_page(no_page()),
            }
        }
        PASS if shared.options.nodes.is_some() && !ends.is_passed => {
            passed::begin(request, shared, upgraded)
        }
        path if shared.options.cluster.is_some() && cluster::is_for(path) => {
            cluster::serve(request, ends, shared).await
        }
        path if path.starts_with(durable::STREAMS) => {
            let visitor = ends.visitor(request.headers(), shared);
            durable::serve(request, visitor, shared).await
        }
        path if emulation::is_for(path, shared) => emulation::serve(request, ends, shared).await,
        path if path == API || path.starts_with(API_METHODS) => {
            let visitor = ends.visitor(request.headers(), shared);
            api::serve(request, visitor, shared).await
        }
        _ if tablestore::is_for(request) => {
            let visitor = ends.visitor(request.headers(), shared);
            tablestore::serve(request, is_direct, visitor, shared).await
        }
        _ => as_page(no_page()),
    }
}

async fn own_page(request: &Request<Incoming>, ends: &Ends, shared: &Arc<Shared>) -> Answer {
    match request.uri().path() {
        "/healthz" => say(StatusCode::OK, "ok"),
        "/readyz" => {
            let cluster = shared.options.cluster.as_ref();
            let notice = cluster.and_then(|cluster| cluster.status().notice);
            match (
                shared.pages.readiness(shared.timelines.can_commit()),
                notice,
            ) {
                (Ok(()), None) => say(StatusCode::OK, "ready"),
                (Ok(()), Some(why)) => say(StatusCode::SERVICE_UNAVAILABLE, &why),
                (Err(why), _) => say(StatusCode::SERVICE_UNAVAILABLE, why),
            }
        }
        _ => observed(request.headers(), ends, shared)
            .await
            .unwrap_or_else(|failure| door::refusal(&failure)),
    }
}

/// If the call were taken and its token ignored, the sender would believe that the token was checked.
fn no_authentication() -> Answer {
    let mut answer = say(StatusCode::UNAUTHORIZED, dispatch::NO_AUTHENTICATION);
    set(&mut answer, WWW_AUTHENTICATE, "Bearer");
    answer
}

/// What the server says of itself is for callers with the right `observe`.
async fn observed(
    headers: &HeaderMap,
    ends: &Ends,
    shared: &Arc<Shared>,
) -> Result<Answer, Failure> {
    let Some(door) = &shared.door else {
        return Ok(scrape(&shared.pages, &shared.scrapes).await);
    };
    let visitor = ends.visitor(headers, shared);
    let credential = door.admit(headers, visitor).await?;
    let admitted = Admitted::by(shared, door, credential);
    let claim = admitted.asker().claim();
    if !claim.is_some_and(|claim| claim.everywhere().has(Right::Observe)) {
        return Err(Reason::Forbidden.into());
    }
    admitted
        .while_it_counts(scrape(&shared.pages, &shared.scrapes))
        .await
}

/// Off the threads that serve clients: it looks into files and locks of the stores.
pub(super) async fn scrape(pages: &Arc<dyn Pages>, turns: &Arc<Semaphore>) -> Answer {
    let turn = Arc::clone(turns).acquire_owned().await;
    let pages = Arc::clone(pages);
    let scraping = tokio::task::spawn_blocking(move || {
        // Kept to the end also if nobody waits for the answer any more: the work can't be stopped.
        let _turn = turn;
        pages.metrics()
    });
    match scraping.await {
        Ok(text) => full(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            text,
        ),
        Err(_) => say(StatusCode::INTERNAL_SERVER_ERROR, "the scrape failed"),
    }
}

/// To others, where credentials would be read on their way.
pub(super) const ONLY_PROXIES: &str =
    "without TLS only trusted proxies are served; see [tls] and trusted_proxies";
/// Subscriptions as server-sent events.
const EVENTS: &str = "/v1/events";
/// Centrifugo's HTTP API, as older back ends call it.
const API: &str = "/api";
/// In front of its methods.
const API_METHODS: &str = "/api/";
/// Headers of one request: a browser behind two proxies sends about 30.
pub(super) const HEADERS_MAX: usize = 64;
/// Bytes of a request's head: what other servers take. Hyper's buffer for reading grows up to it.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
