//! What a node serves while another one owns: health, metrics, the pages' files, `/v1/cluster`. Everything else it
//! passes on to the owner.
//!
//! Owns: its connections. Promises: nothing of what is stored is read here but for a snapshot and credentials, as they
//! are at that moment; who may call in is decided here, by the settings of the address that was called; what was passed
//! on goes on when this node becomes the owner. Must not: keep anything of the store for the owner that it may become.

use std::future::poll_fn;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::entrance::address::{Proxies, block};
use super::super::entrance::door;
use super::super::entrance::renewal::renew;
use super::super::entrance::seats::{Seat, Seats};
use super::super::entrance::socket::{Shaken, Socket};
use super::super::http::cors;
use super::super::http::origin::Allowed;
use super::super::http::request_id::{mark, request_of};
use super::super::http::respond::{Answer, say, set};
use super::super::http::timeouts::{Impatient, Owed, farewell, head_time_max};
use super::super::http::{HEAD_BYTES_MAX, HEADERS_MAX, ONLY_PROXIES};
use super::super::{Options, Pages, tablestore};
use super::Cluster;
use super::hail::Hail;
use super::own::{AccessNow, Own, is_own};
use super::pass::body::{Cut, Said};
use super::pass::{Passer, Passing};
use super::passed::crossed;
use tideline_base::bounds::{Holder, Resource};

/// See the file's opening.
pub struct Standby {
    accepting: CancellationToken,
    acceptor: TaskTracker,
    /// Connections, and what they need.
    tasks: TaskTracker,
    /// They are to end.
    ends: CancellationToken,
    inside: Arc<Inside>,
    /// Looks at the certificate's files.
    renewal: Arc<Notify>,
}

struct Inside {
    options: Options,
    origins: Allowed,
    proxies: Proxies,
    cluster: Arc<dyn Cluster>,
    hasher: RandomState,
    /// `None` = the node stands by no more: its connections pass everything on.
    own: ArcSwapOption<Own>,
    /// `None` = other nodes can't be reached.
    passer: Option<Arc<Passer>>,
}

impl Standby {
    /// Takes connections from a bound listener, on the current runtime. `access`: with `[auth]`, the judge, and what is
    /// done beside it.
    #[must_use]
    pub fn start(
        listener: TcpListener,
        options: Options,
        cluster: Arc<dyn Cluster>,
        pages: Arc<dyn Pages>,
        access: Option<(AccessNow, BoxFuture<'static, ()>)>,
    ) -> Standby {
        let (tasks, ends) = (TaskTracker::new(), CancellationToken::new());
        let passer = options.nodes.clone().map(|nodes| {
            let by = (tasks.clone(), ends.clone());
            Arc::new(Passer::new(
                Arc::clone(&cluster),
                nodes,
                (options.request_time_max, options.metrics.cluster()),
                by,
            ))
        });
        let (access, beside) = access.unzip();
        let own = Own::new((Arc::clone(&cluster), passer.clone()), pages, access);
        let inside = Arc::new(Inside {
            origins: Allowed::new(
                &options.allowed_origins,
                &options.allowed_hosts,
                options.takes_proxied,
            ),
            proxies: Proxies::new(&options.trusted_proxies),
            options,
            cluster,
            hasher: RandomState::new(),
            own: ArcSwapOption::from_pointee(own),
            passer,
        });
        let standby = Standby {
            accepting: CancellationToken::new(),
            acceptor: TaskTracker::new(),
            tasks,
            ends,
            inside: Arc::clone(&inside),
            renewal: Arc::default(),
        };
        if let Some(beside) = beside {
            let stop = standby.accepting.clone();
            standby
                .acceptor
                .spawn(async move { stop.run_until_cancelled(beside).await });
        }
        if let Some(certificate) = inside.options.certificate.clone() {
            let metrics = Arc::clone(&inside.options.metrics);
            let renewing = renew(certificate, Arc::clone(&standby.renewal), metrics);
            let stop = standby.accepting.clone();
            standby
                .acceptor
                .spawn(async move { stop.run_until_cancelled(renewing).await });
        }
        let (stop, tasks) = (standby.accepting.clone(), standby.tasks.clone());
        standby.acceptor.spawn(async move {
            let accepting = accept(listener, inside, tasks, stop.clone());
            stop.run_until_cancelled(accepting).await
        });
        standby
    }

    /// Looks at the certificate's files now.
    pub fn reload(&self) {
        self.renewal.notify_one();
    }

    /// Takes no more connections; others wait in the socket's backlog. Those that there are pass on what they were
    /// asked, and end.
    pub async fn stop(&self) {
        self.accepting.cancel();
        self.acceptor.close();
        self.acceptor.wait().await;
        self.inside.own.store(None);
        self.tasks.close();
    }

    /// The same where the process ends: WebSockets are closed so that their clients come again, and what the owner has
    /// not answered after a moment is cut.
    pub async fn end(self) {
        self.stop().await;
        self.ends.cancel();
        // Else the owner would be followed for it.
        drop(self.inside);
        // What takes longer is cut with its task's runtime.
        let _ = timeout(GOODBYE, self.tasks.wait()).await;
    }
}

async fn accept(
    listener: TcpListener,
    inside: Arc<Inside>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let seats = Seats::half(inside.options.bounds.of(Resource::Connections));
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(seat) = seats.enter() else {
            if inside.options.certificate.is_none() {
                let _ = socket.try_write(FULL);
            }
            continue;
        };
        let (inside, stop) = (Arc::clone(&inside), stop.clone());
        tasks.spawn(async move {
            let peer = peer.ip().to_canonical();
            let leaves = seat.leaves.clone();
            let serving = Box::pin(serve(socket, (peer, Arc::new(seat)), inside, stop));
            let serving = leaves.run_until_cancelled(serving);
            let panicked = std::panic::AssertUnwindSafe(serving);
            if panicked.catch_unwind().await.is_err() {
                tracing::error!("a connection ended in a panic");
            }
        });
    }
}

/// A client's connection, as its requests need it.
struct Visit {
    peer: IpAddr,
    local: IpAddr,
    names: Vec<String>,
    seat: Arc<Seat>,
    passing: Option<Passing>,
}

async fn serve(
    socket: TcpStream,
    (peer, seat): (IpAddr, Arc<Seat>),
    inside: Arc<Inside>,
    stop: CancellationToken,
) {
    if socket.set_nodelay(true).is_err() {
        return;
    }
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
    let (local, names) = (local.ip(), socket.client_names());
    let hail = |passer: &Passer| Hail {
        node: passer.me().to_owned(),
        client: peer,
        local,
        is_secure: socket.is_tls(),
        certificates: names.clone(),
    };
    let passing = inside.passer.as_ref();
    let passing = passing.map(|passer| Passing::new(Arc::clone(passer), hail(passer)));
    let visit = Arc::new(Visit {
        peer,
        local,
        names,
        seat,
        passing,
    });
    let time_max = inside.options.request_time_max;
    let (socket, read) = serve_http(socket, &visit, inside, stop).await;
    let left = match &visit.passing {
        Some(passing) => passing.run(socket, read).await,
        None => Err(socket),
    };
    if let Err(socket) = left {
        // The answer arrives although nobody reads the request's body.
        farewell(socket, time_max).await;
    }
}

async fn serve_http(
    socket: Socket,
    visit: &Arc<Visit>,
    inside: Arc<Inside>,
    stop: CancellationToken,
) -> (Socket, Bytes) {
    let time_max = inside.options.request_time_max;
    let io = Impatient::new(socket, time_max);
    let answers = io.answers();
    let service = {
        let (visit, stop) = (Arc::clone(visit), stop.clone());
        service_fn(
            move |request: Request<Incoming>| -> BoxFuture<'static, Result<Response<Said>, Cut>> {
                let (inside, visit) = (Arc::clone(&inside), Arc::clone(&visit));
                let stop = stop.clone();
                // Set before the answer is polled, because hyper reads the socket before it polls it.
                let owed = Owed::new(&answers);
                let logged = request_of(request.headers());
                let id = Arc::clone(&logged.id);
                Box::pin(async move {
                    let answering = answer(request, owed, visit, inside);
                    let mut answer = logged.within(answering).await;
                    mark(&id, &mut answer);
                    if stop.is_cancelled() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                        set(&mut answer, CONNECTION, "close");
                    }
                    Ok(answer)
                })
            },
        )
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time_max(false, time_max))
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(io), service);
    let served = tokio::select! {
        served = poll_fn(|context| connection.poll_without_shutdown(context)) => served,
        () = crossed(&stop) => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|context| connection.poll_without_shutdown(context)).await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
    let parts = connection.into_parts();
    (parts.io.into_inner().into_inner(), parts.read_buf)
}

async fn answer(
    request: Request<Incoming>,
    owed: Arc<Owed>,
    visit: Arc<Visit>,
    inside: Arc<Inside>,
) -> Response<Said> {
    let here = |answer: Answer| answer.map(Said::Here);
    if inside.options.serves_proxies_only && !inside.proxies.are_or_here(visit.peer) {
        return here(say(StatusCode::FORBIDDEN, ONLY_PROXIES));
    }
    let admitted = inside
        .origins
        .admit(request.uri(), request.headers(), visit.local);
    let admitted = match admitted {
        Ok(admitted) => admitted,
        Err(foreign) => {
            inside.origins.log(&foreign);
            return here(say(StatusCode::FORBIDDEN, &foreign.to_string()));
        }
    };
    let own = inside.own.load_full();
    let own = own.filter(|_| is_own(request.uri().path()));
    let preflight = cors::preflight(request.method(), request.headers());
    let mut answer = if let Some(answer) = preflight {
        here(answer)
    } else if let Some(own) = own {
        here(own.answer(&request, &visit.names).await)
    } else if let Some(passing) = &visit.passing {
        let answer = passing.pass(request, owed).await;
        // Strangers make room for those that the owner knows, and then whoever has most, as far as addresses tell.
        if answer.status().as_u16() < 400 {
            let by = block(visit.peer);
            let holder = || Holder(inside.hasher.hash_one(by));
            let is_proxy = inside.proxies.has(visit.peer);
            visit.seat.is_of((!is_proxy).then(holder));
        }
        answer
    } else {
        here(elsewhere(&request, &inside))
    };
    if let Some(origin) = admitted.origin {
        cors::open(&mut answer, origin);
    }
    answer
}

/// The answer where no other node can be asked.
fn elsewhere(request: &Request<Incoming>, inside: &Inside) -> Answer {
    match tablestore::is_for(request) {
        true => tablestore::elsewhere(),
        false => door::refusal(&inside.cluster.status().refusal()),
    }
}

/// Out of files, mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// To a client for which there is no place.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n";
/// What is left of connections when the process ends.
const GOODBYE: Duration = Duration::from_secs(3);
