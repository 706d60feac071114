//! Requests that a standby passes on to the node that owns the log.
//!
//! Owns: the way of a request there and of its answer back. Promises: a request is sent once, and again only if nothing
//! of it was sent or the owner has said that it did nothing; while nobody owns the log a bounded number of requests
//! waits for a bounded time; what was sent and not answered is never said to be undone. Must not: judge who calls: the
//! owner does, as if the client had come to it.

pub(super) mod body;
mod form;
mod frames;
mod link;
mod outgoing;
mod owner;
mod reached;
mod refused;
mod websocket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::header::TRANSFER_ENCODING;
use hyper::upgrade::{OnUpgrade, on};
use hyper::{Request, Response, StatusCode, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::entrance::CENTRIFUGE_PATH;
use super::super::entrance::socket::Socket;
use super::super::http::kept::KEPT_BYTES;
use super::super::http::respond::{Answer, not_read};
use super::super::http::timeouts::Owed;
use super::hail::Hail;
use super::nodes::{Nodes, Place};
use super::passed::NOT_BEGUN;
use body::Said;
use form::Form;
use link::Link;
use outgoing::Outgoing;
use owner::{Owner, deposed, follow};
use reached::Reached;
use refused::COLLECTING_MAX;
use tideline_base::metrics::{Cluster, Held};
use tideline_wire::Close;
use tideline_wire::centrifuge::Disconnect;

/// What all connections of a standby need to be passed on.
pub(super) struct Passer {
    cluster: Arc<dyn super::Cluster>,
    nodes: Arc<Nodes>,
    owner: watch::Receiver<Owner>,
    waiting: Arc<Semaphore>,
    /// Bytes of bodies that are kept.
    room: Arc<Semaphore>,
    /// Answers that are collected.
    collecting: Semaphore,
    time_max: Duration,
    reached: Reached,
    metrics: Cluster,
    tasks: TaskTracker,
    /// The process ends.
    ends: CancellationToken,
}

impl Passer {
    pub(super) fn new(
        cluster: Arc<dyn super::Cluster>,
        nodes: Arc<Nodes>,
        (time_max, metrics): (Duration, Cluster),
        (tasks, ends): (TaskTracker, CancellationToken),
    ) -> Passer {
        Passer {
            owner: follow(Arc::clone(&cluster), Arc::clone(&nodes), &tasks),
            cluster,
            nodes,
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            room: Arc::new(Semaphore::new(KEPT_BYTES)),
            collecting: Semaphore::new(COLLECTING_MAX),
            time_max,
            reached: Reached::default(),
            metrics,
            tasks,
            ends,
        }
    }

    /// The process is to end, and the owner has had a moment for what it was asked.
    async fn has_ended(&self) {
        self.ends.cancelled().await;
        sleep(LAST_ANSWERS).await;
    }

    /// The node that passes on.
    pub(super) fn me(&self) -> &str {
        &self.nodes.me
    }
}

/// One client's connection.
pub(super) struct Passing {
    passer: Arc<Passer>,
    hail: Hail,
    /// Requests of a connection come one after the other.
    link: Mutex<Option<Link>>,
    /// What it becomes.
    websocket: Mutex<Option<WebSocket>>,
    /// An owner may have done what was asked last.
    is_sent: AtomicBool,
}

struct WebSocket {
    owner: OnUpgrade,
    _counted: Held,
    term: u64,
    goodbye: Disconnect,
}

/// Why a request got no answer.
enum Lost {
    /// Nothing of it was sent.
    Unsent,
    /// Perhaps the owner has it.
    Sent,
}

impl Passing {
    pub(super) fn new(passer: Arc<Passer>, hail: Hail) -> Passing {
        Passing {
            passer,
            hail,
            link: Mutex::default(),
            websocket: Mutex::default(),
            is_sent: AtomicBool::new(false),
        }
    }

    /// Passes a request on, and returns the owner's answer.
    pub(super) async fn pass(&self, request: Request<Incoming>, owed: Arc<Owed>) -> Response<Said> {
        let form = Form::of(&request);
        let here = |answer: Answer| answer.map(Said::Here);
        let Passer { room, time_max, .. } = &*self.passer;
        let outgoing = match Outgoing::of(request, room, *time_max).await {
            Ok(outgoing) => outgoing,
            Err(why) => return here(not_read(&why)),
        };
        match self.answered(form, outgoing).await {
            Ok((answer, term)) => self.said(answer, owed, term),
            Err(answer) => here(answer),
        }
    }

    /// The owner's answer, and its term; or this node's.
    async fn answered(
        &self,
        form: Form,
        mut outgoing: Outgoing,
    ) -> Result<(Response<Incoming>, u64), Answer> {
        let mut owner = self.passer.owner.clone();
        let mut wait = Wait::default();
        loop {
            let now = owner.borrow_and_update().clone();
            let failed = match now {
                Owner::At(term, place) => match self.link((term, &place), &mut owner).await {
                    Ok(link) => match self.send(link, &mut outgoing).await {
                        Ok(answer) if !answer.headers().contains_key(NOT_BEGUN) => {
                            self.passer.metrics.passed.increment(1);
                            return Ok((answer, term));
                        }
                        Ok(_) if outgoing.is_kept() => Some("it owns the log no more".to_owned()),
                        Ok(_) => return Err(self.refuse(form)),
                        Err(Lost::Sent) => {
                            self.passer.metrics.passed_lost.increment(1);
                            return Err(form.cut());
                        }
                        Err(Lost::Unsent) => Some("it has closed the connection".to_owned()),
                    },
                    Err(why) => Some(why),
                },
                Owner::Awaited => None,
                Owner::Unknown => return Err(self.refuse(form)),
            };
            self.is_sent.store(false, Ordering::Relaxed);
            if let Some(why) = failed {
                tracing::debug!(why, "the owner is not reached");
            }
            if !wait.goes_on(&self.passer, &mut owner).await {
                return Err(self.refuse(form));
            }
        }
    }

    fn refuse(&self, form: Form) -> Answer {
        self.passer.metrics.passed_refused.increment(1);
        form.not_begun(&self.passer.cluster.status().refusal())
    }

    /// A connection to the owner. `Err` = not now.
    async fn link(
        &self,
        (term, place): (u64, &Place),
        owner: &mut watch::Receiver<Owner>,
    ) -> Result<Link, String> {
        let earlier = self.slot().take();
        if let Some(mut earlier) = earlier
            && earlier.is_fit(term).await
        {
            return Ok(earlier);
        }
        let Passer {
            nodes,
            tasks,
            metrics,
            ..
        } = &*self.passer;
        let counted = metrics.passing.hold(1);
        tokio::select! {
            link = Link::open((term, place), (&self.hail, nodes), tasks, counted) => link,
            _ = owner.changed() => Err("the log has another owner".to_owned()),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn websocket(&self) -> MutexGuard<'_, Option<WebSocket>> {
        let websocket = self.websocket.lock();
        websocket.unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends it once.
    async fn send(
        &self,
        mut link: Link,
        outgoing: &mut Outgoing,
    ) -> Result<Response<Incoming>, Lost> {
        let request = outgoing.take().ok_or(Lost::Sent)?;
        let is_of_centrifuge = request.uri().path() == CENTRIFUGE_PATH;
        self.is_sent.store(true, Ordering::Relaxed);
        let sending = link.sender.try_send_request(request);
        let sent = tokio::select! {
            sent = sending => sent,
            () = deposed(self.passer.owner.clone(), link.term) => return Err(Lost::Sent),
            () = self.passer.has_ended() => return Err(Lost::Sent),
        };
        let mut answer = sent.map_err(|mut error| match error.take_message() {
            Some(request) => {
                outgoing.give_back(request);
                Lost::Unsent
            }
            None => Lost::Sent,
        })?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let goodbye = match is_of_centrifuge {
                true => Disconnect::of(Close::Draining),
                false => Disconnect {
                    code: Close::Draining.code(),
                    reason: Close::Draining.reason().into(),
                },
            };
            let websocket = WebSocket {
                owner: on(&mut answer),
                _counted: link.counted,
                term: link.term,
                goodbye,
            };
            *self.websocket() = Some(websocket);
            return Ok(answer);
        }
        // A connection that has carried HTTP/1.0 would speak it with later requests, too.
        if answer.version() == Version::HTTP_11 {
            link.used = Instant::now();
            *self.slot() = Some(link);
        }
        Ok(answer)
    }

    fn said(&self, answer: Response<Incoming>, owed: Arc<Owed>, term: u64) -> Response<Said> {
        let deposed = deposed(self.passer.owner.clone(), term).boxed();
        let mut answer = answer.map(|body| Said::there(body, deposed, owed));
        // How long it is, this node's connection says.
        answer.headers_mut().remove(TRANSFER_ENCODING);
        answer
    }

    /// Runs what the connection has become. `Err` = nothing: it ends.
    pub(super) async fn run(&self, socket: Socket, read: Bytes) -> Result<(), Socket> {
        let websocket = self.websocket().take();
        let Some(WebSocket {
            owner,
            _counted,
            term,
            goodbye,
        }) = websocket
        else {
            return Err(socket);
        };
        let Ok(owner) = owner.await else {
            return Err(socket);
        };
        let ends = async {
            tokio::select! {
                () = deposed(self.passer.owner.clone(), term) => {}
                () = self.passer.ends.cancelled() => {}
            }
        };
        let client = (socket, read, self.passer.time_max);
        websocket::run(client, owner, &goodbye, ends).await;
        Ok(())
    }
}

/// How long a request that was not sent has waited for an owner.
#[derive(Default)]
struct Wait {
    place: Option<(Instant, OwnedSemaphorePermit, Held)>,
    pause: Pause,
}

impl Wait {
    /// Waits until it is time for another try; whether there is to be one.
    async fn goes_on(&mut self, passer: &Passer, owner: &mut watch::Receiver<Owner>) -> bool {
        if self.place.is_none() {
            let place = Arc::clone(&passer.waiting).try_acquire_owned();
            let until = Instant::now() + WAIT_MAX;
            let waiting = &passer.metrics.waiting;
            self.place = place.ok().map(|place| (until, place, waiting.hold(1)));
        }
        let Some((until, ..)) = self.place else {
            return false;
        };
        tokio::select! {
            _ = timeout_at(until, self.pause.take(owner)) => {}
            () = passer.ends.cancelled() => return false,
        }
        Instant::now() < until
    }
}

/// How long until the same owner is asked again: longer each time, as many wait.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Pause {
        Pause(PAUSE_MIN)
    }
}

impl Pause {
    /// Ends at once with news of the owner, which are worth a try.
    async fn take(&mut self, owner: &mut watch::Receiver<Owner>) {
        let news = timeout(self.0, owner.changed()).await;
        *self = if news.is_ok() {
            Pause::default()
        } else {
            self.longer()
        };
    }

    fn longer(&self) -> Pause {
        Pause((2 * self.0).min(PAUSE_MAX))
    }
}

/// Requests that wait for an owner, each with its head and what came behind that in one read.
const WAITING_MAX: usize = 1_024;
/// As long as an owner lets a write wait.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Less than the process waits for its connections.
const LAST_ANSWERS: Duration = Duration::from_millis(2_500);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_same_owner_is_asked_more_rarely_and_another_one_at_once() {
        let mut pause = Pause::default();
        let pauses: Vec<_> = std::iter::from_fn(|| {
            let now = pause.0.as_millis();
            pause = pause.longer();
            Some(now)
        })
        .take(6)
        .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_000, 1_000]);
        let (now, mut owner) = watch::channel(Owner::Awaited);
        pause = Pause(Duration::from_secs(3_600));
        now.send_replace(Owner::Unknown);
        pause.take(&mut owner).await;
        assert_eq!(pause.0, PAUSE_MIN);
        pause.take(&mut owner).await;
        assert_eq!(pause.0, 2 * PAUSE_MIN);
    }
}
