//! One WebSocket connection, in one task: frames in, calls, answers and pushes out.
//!
//! Owns: the turn of a connection (finish, receive, follow, write), and its limits. Promises: calls begin in
//! the order of their frames; memory is bounded by the limits whatever the client sends or does not read; it ends with
//! the right close code. Must not: spawn anything: an idle connection is this one small task.

mod anew;
mod answer;
mod appends;
pub(super) mod batch;
mod conversations;
mod heart;
mod inbound;
mod jobs;
pub(super) mod login;
mod opening;
mod own_side;
mod parts;
mod receive;
mod slots;
mod steps;
mod streams;
mod subscriptions;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::SinkExt as _;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::Shared;
use super::budget::Share;
use super::dispatch::{Caller, stream};
use super::form::Form;
use super::http::Upgraded;
use super::limits::{Place, Places};
use super::outbound::{FRAGMENT_BYTES, Outbox, draining};
use super::patience::farewell;
use super::socket::Socket;
use crate::feed::Pace;
use crate::metrics::Held;
use crate::reshape::Inside;
use crate::wire::Close;
use inbound::{Inbound, Reader};
use jobs::Jobs;
use login::Login;
use streams::Streams;
use subscriptions::Subscriptions;

/// Why a session's turn is the last one.
enum End {
    /// The server closes with this code.
    Close(Close),
    /// The client has closed; this is the answer.
    Goodbye(Option<CloseFrame>),
    /// The client is gone.
    Gone,
}

struct Session {
    shared: Arc<Shared>,
    /// Writes. What comes in is read past it, for it never gives back the memory of a long message.
    socket: WebSocketStream<Socket>,
    reader: Reader,
    form: Form,
    caller: Caller,
    /// `None` = nobody is asked who they are.
    login: Option<Box<Login>>,
    /// What the subscriptions were decided by; `None` = nothing is decided.
    decided: Option<anew::Decided>,
    jobs: Jobs,
    outbox: Outbox,
    subscriptions: Subscriptions,
    streams: Streams,
    /// How often the client may send signals.
    signals: Pace,
    /// Slots with news, on their way from the mailbox.
    news: Vec<u32>,
    /// What waits for a client that does not read.
    unread: Share,
    /// The last sign of life.
    heard: Instant,
    /// It waits for a split or merge.
    passing: Option<BoxFuture<'static, Inside>>,
    /// The socket was not read when it could have been.
    is_deaf: bool,
    /// The last look found the client out of time.
    is_doubted: bool,
    ping_at: Instant,
    timer: Pin<Box<Sleep>>,
    drain: Pin<Box<WaitForCancellationFutureOwned>>,
    draining: Draining,
    /// Count it as a connection of its user and its key.
    places: Places,
    _counted: (Held, Option<Place>),
}

/// How far a shutdown has come on this connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draining {
    No,
    /// No new calls; those in flight are answered.
    Finishing,
    /// `draining` is on its way; the rest is written.
    Announced,
}

/// Runs a connection from the end of its handshake to its close.
///
/// The session and its steps are in boxes, for a future is as large as all that it ever moves through.
pub(super) async fn run(upgraded: Upgraded, shared: Arc<Shared>) {
    let mut session = Box::pin(Session::open(upgraded, shared)).await;
    let end = poll_fn(|context| session.poll_turn(context)).await;
    // Whatever becomes of the connection, nothing is allowed to it any more.
    session.login = None;
    match end {
        End::Close(code) => {
            let closes = &session.shared.metrics.families.closes;
            closes.of(&[code.reason()]).increment(1);
            tracing::debug!(
                code = code.code(),
                reason = code.reason(),
                "closing a connection"
            );
            let frame = CloseFrame {
                code: code.code().into(),
                reason: code.reason().into(),
            };
            Box::pin(session.close(Some(frame), true)).await;
        }
        End::Goodbye(answer) => Box::pin(session.close(answer, false)).await,
        End::Gone => {}
    }
}

/// The library's defaults allow any amount of unwritten bytes. It reads nothing.
fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(0)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES + 2 * FRAGMENT_BYTES)
}

/// From this much on, what is written goes to the socket without waiting for a flush.
const WRITE_BUFFER_BYTES: usize = 16 << 10;

impl Session {
    async fn open(upgraded: Upgraded, shared: Arc<Shared>) -> Box<Session> {
        let Upgraded {
            socket,
            place,
            read,
            form,
            mut entered,
        } = upgraded;
        let places = std::mem::take(&mut entered.places);
        let socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config())).await;
        let limits = &shared.options.limits;
        let bytes_max = usize::try_from(limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
        let now = Instant::now();
        let ping_at = now + shared.options.heartbeat;
        let mut caller = Caller::default();
        let login = shared.door.as_ref().map(|door| {
            let login = Login::new(&shared, door, &mut caller, entered);
            Box::new(login)
        });
        let mut subscriptions = Subscriptions::new(Arc::clone(&shared.metrics));
        subscriptions.name(caller.who());
        let mut session = Box::new(Session {
            socket,
            reader: Reader::new(&read, bytes_max, shared.inbound.share()),
            form,
            caller,
            login,
            decided: None,
            jobs: Jobs::new(shared.inbound.share()),
            outbox: Outbox::new(form.dialect.frames()),
            subscriptions,
            streams: Streams::new(Arc::clone(&shared.metrics)),
            signals: Pace::default(),
            news: Vec::new(),
            unread: shared.answers.share(),
            heard: now,
            passing: None,
            is_deaf: false,
            is_doubted: false,
            ping_at,
            timer: Box::pin(sleep_until(ping_at)),
            drain: Box::pin(shared.draining.clone().cancelled_owned()),
            draining: Draining::No,
            places,
            _counted: (shared.metrics.gateway.connections.hold(1), place),
            shared,
        });
        session.arm(now);
        session
    }

    fn form(&self) -> Form {
        Form {
            integers: self.caller.integers,
            ..self.form
        }
    }

    /// One wake-up: does everything that can be done now, in bounded steps.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.draining == Draining::No && self.drain.as_mut().poll(context).is_ready() {
            self.draining = Draining::Finishing;
        }
        for _ in 0..STEPS_MAX {
            let mut moved = self.poll_jobs(context);
            match self.poll_login(context) {
                Ok(went_on) => moved |= went_on,
                Err(end) => return Poll::Ready(end),
            }
            match self.poll_receive(context) {
                Ok(received) => moved |= received,
                Err(end) => return Poll::Ready(end),
            }
            self.decide_anew(context);
            moved |= self.poll_follow(context);
            self.drained();
            let had_room = self.outbox.has_room();
            match self.outbox.poll_write(&mut self.socket, context) {
                Poll::Ready(Ok(())) if self.draining == Draining::Announced => {
                    return Poll::Ready(End::Close(Close::Draining));
                }
                Poll::Ready(Ok(()))
                    if self.login.as_ref().is_some_and(|login| login.has_left()) =>
                {
                    return Poll::Ready(End::Close(Close::Unauthenticated));
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
                Poll::Ready(Err(error)) => return Poll::Ready(end_of(&error)),
            }
            // Without room the steps above were skipped, and nothing would wake them for the room that has come.
            if !moved && had_room == self.outbox.has_room() {
                self.look_soon();
                return self.poll_timer(context);
            }
        }
        // Others want to be served too.
        context.waker().wake_by_ref();
        self.poll_timer(context)
    }

    /// Announces the shutdown to a client that has no answers to wait for.
    fn drained(&mut self) {
        if self.draining == Draining::Finishing && self.jobs.is_idle() {
            self.draining = Draining::Announced;
            let wait = RECONNECT_MIN_MS + random() % RECONNECT_SPREAD_MS;
            self.outbox.push(draining(wait, self.form()));
        }
    }

    /// Looks at the mailbox, and lets subscriptions put what they have into the outbox.
    fn poll_follow(&mut self, context: &mut Context<'_>) -> bool {
        if self.draining != Draining::No {
            return false;
        }
        while self
            .subscriptions
            .mailbox
            .poll_take(context, &mut self.news)
            .is_ready()
        {
            for slot in self.news.drain(..) {
                self.subscriptions.mark(slot);
            }
        }
        let mut moved = false;
        let (form, now_ms) = (self.form(), self.shared.clock.now_ms());
        if !self.streams.is_empty() && stream::back_end(&self.caller).is_err() {
            self.streams.forbid(&mut self.outbox, form);
        }
        if self.outbox.has_room() {
            moved |= self.streams.step(&self.shared, &mut self.jobs);
            moved |= self
                .subscriptions
                .look_at_user(&self.shared, &mut self.jobs);
        }
        while self.outbox.has_room()
            && self.jobs.may_fetch()
            && let Some(rest) = self.subscriptions.next_rest()
        {
            self.jobs.open(&self.shared, rest);
            moved = true;
        }
        loop {
            let may_fetch = self.jobs.may_fetch();
            let fetch = self
                .subscriptions
                .pump(&mut self.outbox, form, now_ms, may_fetch);
            let Some(fetch) = fetch else { return moved };
            self.jobs.fetch(&self.shared, fetch);
            moved = true;
        }
    }

    /// Says goodbye as well as the client lets us, in bounded time.
    async fn close(self: Box<Self>, frame: Option<CloseFrame>, is_answered: bool) {
        let Session {
            mut socket,
            mut reader,
            jobs,
            subscriptions,
            outbox,
            ..
        } = *self;
        drop((jobs, subscriptions, outbox));
        let _ = timeout(GOODBYE_TIME, async {
            if socket.send(Message::Close(frame)).await.is_err() || !is_answered {
                return;
            }
            // The client answers with a close of its own, perhaps behind much else that is under way.
            let socket = socket.get_mut();
            while let Ok(message) = poll_fn(|context| reader.poll(socket, context)).await {
                if matches!(message, Inbound::Close(_)) {
                    break;
                }
            }
        })
        .await;
        drop(reader);
        farewell(socket.into_inner(), GOODBYE_TIME).await;
    }
}

fn end_of(error: &Error) -> End {
    match error {
        Error::WriteBufferFull(_) | Error::Capacity(_) => End::Close(Close::InternalError),
        _ => End::Gone,
    }
}

/// Different for each connection; need not be good.
fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1 & 0xffff_ffff
}

const STEPS_MAX: usize = 32;
const GOODBYE_TIME: Duration = Duration::from_secs(2);
const RECONNECT_MIN_MS: u64 = 500;
/// At a shutdown clients come back after a random time up to this, so that they do not all come at once.
const RECONNECT_SPREAD_MS: u64 = 10_000;
