//! What a node serves while another one owns: health, metrics, the pages' files, `/v1/cluster`, and for everything else
//! the refusal that names the owner, in the words of each protocol.
//!
//! Owns: its few connections. Promises: each ends after one answer, or after half a minute, but for a snapshot; nothing
//! of what is stored is read but that and credentials, as they are at that moment. Must not: keep a connection for the
//! owner that this node may become: that serves anew.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::entrance::address::Proxies;
use super::super::entrance::door;
use super::super::entrance::door::{Access, USER, bearer};
use super::super::entrance::renewal::renew;
use super::super::entrance::socket::{Shaken, Socket};
use super::super::http::origin::Allowed;
use super::super::http::respond::{Answer, Content, as_page, not_allowed, say, set};
use super::super::http::timeouts::farewell;
use super::super::http::{ONLY_PROXIES, cors, files, scrape};
use super::super::{Options, Pages, tablestore};
use super::{Asked, Cluster, is_for, permit};
use crate::credentials::Shown;
use tideline_model::access::{Claim, Right};
use tideline_wire::{Failure, Reason};

/// Opens the judge of credentials anew, by the rows that this node has now.
pub type AccessNow = Arc<dyn Fn() -> BoxFuture<'static, Result<Access, String>> + Send + Sync>;

/// See the file's opening.
pub struct Standby {
    accepting: CancellationToken,
    tasks: TaskTracker,
    /// Looks at the certificate's files.
    renewal: Arc<Notify>,
}

struct Inside {
    options: Options,
    origins: Allowed,
    proxies: Proxies,
    cluster: Arc<dyn Cluster>,
    pages: Arc<dyn Pages>,
    /// `None` = there is no `[auth]`.
    access: Option<AccessNow>,
    /// Callers that are judged at a time: each has all keys read.
    judging: Arc<Semaphore>,
    scrapes: Arc<Semaphore>,
}

impl Standby {
    /// Takes connections from a bound listener, on the current runtime.
    #[must_use]
    pub fn start(
        listener: TcpListener,
        options: Options,
        cluster: Arc<dyn Cluster>,
        pages: Arc<dyn Pages>,
        access: Option<AccessNow>,
    ) -> Standby {
        let inside = Arc::new(Inside {
            origins: Allowed::new(
                &options.allowed_origins,
                &options.allowed_hosts,
                options.takes_proxied,
            ),
            proxies: Proxies::new(&options.trusted_proxies),
            options,
            cluster,
            pages,
            access,
            judging: Arc::new(Semaphore::new(1)),
            scrapes: Arc::new(Semaphore::new(1)),
        });
        let standby = Standby {
            accepting: CancellationToken::new(),
            tasks: TaskTracker::new(),
            renewal: Arc::default(),
        };
        if let Some(certificate) = inside.options.certificate.clone() {
            let metrics = Arc::clone(&inside.options.metrics);
            let renewing = renew(certificate, Arc::clone(&standby.renewal), metrics);
            let stop = standby.accepting.clone();
            standby
                .tasks
                .spawn(async move { stop.run_until_cancelled(renewing).await });
        }
        let (stop, tasks) = (standby.accepting.clone(), standby.tasks.clone());
        standby.tasks.spawn(async move {
            let accepting = accept(listener, inside, tasks, stop.clone());
            stop.run_until_cancelled(accepting).await
        });
        standby
    }

    /// Looks at the certificate's files now.
    pub fn reload(&self) {
        self.renewal.notify_one();
    }

    /// Takes no more connections, and gives those that there are a moment. Others wait in the socket's backlog.
    pub async fn stop(self) {
        self.accepting.cancel();
        self.tasks.close();
        // What takes longer is cut with its task's runtime, or by its own time.
        let _ = timeout(GOODBYE, self.tasks.wait()).await;
    }
}

async fn accept(
    listener: TcpListener,
    inside: Arc<Inside>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Never closed.
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
            return;
        };
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (inside, stop) = (Arc::clone(&inside), stop.clone());
        tasks.spawn(async move {
            let is_long = Arc::<AtomicBool>::default();
            let peer = peer.ip().to_canonical();
            let serving = Box::pin(serve(socket, peer, inside, (stop, Arc::clone(&is_long))));
            let limited = async {
                tokio::select! {
                    () = serving => {}
                    () = lasts(&is_long) => {}
                }
            };
            let panicked = std::panic::AssertUnwindSafe(limited);
            if panicked.catch_unwind().await.is_err() {
                tracing::error!("a connection ended in a panic");
            }
            drop(seat);
        });
    }
}

/// Waits until a connection has had its time. One that brings another node what it needs ends by itself.
async fn lasts(is_long: &AtomicBool) {
    tokio::time::sleep(CONNECTION_TIME_MAX).await;
    while is_long.load(Ordering::Relaxed) {
        tokio::time::sleep(CONNECTION_TIME_MAX).await;
    }
}

/// One request and its answer, which may be a long one.
async fn serve(
    socket: TcpStream,
    peer: IpAddr,
    inside: Arc<Inside>,
    (stop, is_long): (CancellationToken, Arc<AtomicBool>),
) {
    let socket = match &inside.options.certificate {
        None => Socket::Plain(socket),
        Some(certificate) => match Socket::shake_hands(socket, certificate.config()).await {
            Shaken::Done(socket) => socket,
            Shaken::Failed(..) | Shaken::TooSlow => return,
        },
    };
    let Some(local) = socket.local_address() else {
        return;
    };
    let names: Arc<[String]> = socket.client_names().into();
    let service = service_fn(
        move |request: Request<Incoming>| -> BoxFuture<'static, Result<Answer, Infallible>> {
            let (inside, names) = (Arc::clone(&inside), Arc::clone(&names));
            let is_long = Arc::clone(&is_long);
            let from = (peer, local.ip());
            Box::pin(async move {
                let mut answer = answer(&request, from, &names, &inside).await;
                set(&mut answer, CONNECTION, "close");
                let is_stream = matches!(answer.body(), Content::Stream(_));
                is_long.store(is_stream, Ordering::Relaxed);
                Ok(answer)
            })
        },
    );
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service);
    let served = tokio::select! {
        served = std::future::poll_fn(|context| connection.poll_without_shutdown(context)) => served,
        // An idle one would keep the next owner waiting.
        () = async { stop.cancelled().await; tokio::time::sleep(GOODBYE).await } => return,
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
    // The answer arrives although nobody reads the request's body.
    farewell(connection.into_parts().io.into_inner(), GOODBYE).await;
}

async fn answer(
    request: &Request<Incoming>,
    (peer, local): (IpAddr, IpAddr),
    names: &[String],
    inside: &Inside,
) -> Answer {
    if inside.options.serves_proxies_only && !inside.proxies.are_or_here(peer) {
        return say(StatusCode::FORBIDDEN, ONLY_PROXIES);
    }
    let admitted = inside
        .origins
        .admit(request.uri(), request.headers(), local);
    let admitted = match admitted {
        Ok(admitted) => admitted,
        Err(foreign) => return say(StatusCode::FORBIDDEN, &foreign.to_string()),
    };
    let mut answer = match cors::preflight(request.method(), request.headers()) {
        Some(answer) => answer,
        None => page(request, names, inside).await,
    };
    if let Some(origin) = admitted.origin {
        cors::open(&mut answer, origin);
    }
    answer
}

async fn page(request: &Request<Incoming>, names: &[String], inside: &Inside) -> Answer {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        path if is_for(path) => ask(request, names, inside).await,
        "/" | "/healthz" | "/readyz" | "/metrics" if !is_read => not_allowed("GET, HEAD"),
        "/" | "/console" => as_page(files::lead(files::CONSOLE)),
        "/demo" => as_page(files::lead(files::DEMO)),
        "/healthz" => as_page(say(StatusCode::OK, "ok")),
        "/readyz" => {
            let why = inside.cluster.status().why_not();
            as_page(say(StatusCode::SERVICE_UNAVAILABLE, &why))
        }
        "/metrics" => match judge(request.headers(), names, inside, None).await {
            Ok(()) => as_page(scrape(&inside.pages, &inside.scrapes).await),
            Err(failure) => door::refusal(&failure),
        },
        path if path.starts_with(files::CONSOLE) || path.starts_with(files::DEMO) => {
            match inside.pages.file(path) {
                Some(_) if !is_read => not_allowed("GET, HEAD"),
                Some(file) => as_page(files::answer(file, request.headers())),
                None => as_page(say(StatusCode::NOT_FOUND, "no such page; see /")),
            }
        }
        _ if tablestore::is_for(request) => tablestore::elsewhere(),
        // A WebSocket's handshake, too: its client comes again.
        _ => door::refusal(&inside.cluster.status().refusal()),
    }
}

/// `/v1/cluster`.
async fn ask(request: &Request<Incoming>, names: &[String], inside: &Inside) -> Answer {
    let asked = match Asked::of(request) {
        Ok(asked) => asked,
        Err(answer) => return answer,
    };
    if let Some(given) = asked.given(request.headers(), &*inside.cluster) {
        return given;
    }
    match judge(request.headers(), names, inside, Some(&asked)).await {
        Ok(()) => asked.perform(&*inside.cluster),
        Err(failure) => door::refusal(&failure),
    }
}

/// Whether a caller may do what it asks, or read metrics. What it shows is judged by the rows that are here now.
async fn judge(
    headers: &HeaderMap,
    names: &[String],
    inside: &Inside,
    asked: Option<&Asked>,
) -> Result<(), Failure> {
    let Some(access) = inside.access.clone() else {
        return Ok(());
    };
    // Nothing is read for who shows nothing.
    let bearer = bearer(headers).ok_or(Reason::Unauthenticated)?;
    let turn = Arc::clone(&inside.judging).acquire_owned().await;
    // Its own task: the turn is kept until the rows are read, also if the caller has gone.
    let opening = tokio::spawn(async move { (access().await, turn) });
    let Ok((access, _turn)) = opening.await else {
        return Err(Reason::Unavailable.into());
    };
    let Access { authority, rules } = access.map_err(|why| {
        tracing::warn!(why, "credentials can't be judged");
        inside.cluster.status().refusal()
    })?;
    let shown = Shown {
        bearer: Some(bearer),
        user: headers.get(USER).map(|user| user.to_str().unwrap_or("")),
        certificates: names,
    };
    let judged = authority.verify_fetching(shown).await;
    let credential = judged.map_err(|_| Failure::from(Reason::Unauthenticated))?;
    let identity = credential.identity.as_ref().clone();
    let claim = Arc::new(Claim::earlier(identity, rules, credential.issued_at()));
    match asked {
        Some(asked) => permit(Some(&claim), asked),
        None if claim.everywhere().has(Right::Observe) => Ok(()),
        None => Err(Reason::Forbidden.into()),
    }
}

/// A standby has few callers: probes, persons, and clients that are sent on. Others wait.
const CONNECTIONS_MAX: usize = 512;
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(30);
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 << 10;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What is left of a connection when its answer is made, or when the node's role changes.
const GOODBYE: Duration = Duration::from_millis(250);
