//! One WebSocket connection, in one task: frames in, calls, answers and pushes out.
//!
//! Owns: the turn of a connection (finish, receive, follow, write), its limits and its heart. Promises: calls begin in
//! the order of their frames; memory is bounded by the limits whatever the client sends or does not read; it ends with
//! the right close code. Must not: spawn anything: an idle connection is this one small task.

mod answer;
mod appends;
pub(super) mod batch;
mod jobs;
mod receive;
mod subscriptions;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::Shared;
use super::dispatch::Caller;
use super::http::Upgraded;
use super::outbound::{FRAGMENT_BYTES, Outbox, draining};
use crate::metrics::{self, Held};
use crate::wire::Close;
use crate::wire::jsonrpc::{Dialect, Encoding};
use jobs::Jobs;
use subscriptions::Subscriptions;

/// Why a session's turn is the last one.
enum End {
    /// The server closes with this code.
    Close(Close),
    /// The client has closed, or is gone.
    Gone,
}

struct Session {
    shared: Arc<Shared>,
    socket: WebSocketStream<TcpStream>,
    dialect: Dialect,
    caller: Caller,
    jobs: Jobs,
    outbox: Outbox,
    subscriptions: Subscriptions,
    /// Slots with news, on their way from the mailbox.
    news: Vec<u32>,
    /// The last sign of life.
    heard: Instant,
    ping_at: Instant,
    timer: Pin<Box<Sleep>>,
    drain: Pin<Box<WaitForCancellationFutureOwned>>,
    draining: Draining,
    _counted: Held,
}

/// How far a shutdown has come on this connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draining {
    No,
    /// No new calls; those in flight are answered.
    Finishing,
    /// The client was told; the rest is written.
    Told,
}

/// Runs a connection from the end of its handshake to its close.
///
/// The session and its steps are in boxes, for a future is as large as all that it ever moves through.
pub(super) async fn run(upgraded: Upgraded, shared: Arc<Shared>) {
    let mut session = Box::pin(Session::open(upgraded, shared)).await;
    let end = std::future::poll_fn(|context| session.poll_turn(context)).await;
    if let End::Close(code) = end {
        count(code);
        tracing::debug!(
            code = code.code(),
            reason = code.reason(),
            "closing a connection"
        );
        Box::pin(session.close(code)).await;
    }
}

/// Every limit by hand: the library's defaults allow 64 MiB messages and any amount of unwritten bytes.
fn config(shared: &Shared) -> WebSocketConfig {
    let inbound =
        usize::try_from(shared.options.limits.inbound_frame_bytes_max).unwrap_or(usize::MAX);
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES + 2 * FRAGMENT_BYTES)
        .max_message_size(Some(inbound))
        .max_frame_size(Some(inbound))
        .accept_unmasked_frames(false)
}

/// Small, for it stays allocated while a connection idles.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// From this much on, what is written goes to the socket without waiting for a flush.
const WRITE_BUFFER_BYTES: usize = 16 << 10;

fn count(code: Close) {
    metrics::closes().of(&[code.reason()]).increment(1);
}

impl Session {
    async fn open(upgraded: Upgraded, shared: Arc<Shared>) -> Box<Session> {
        let Upgraded {
            socket,
            read,
            dialect,
        } = upgraded;
        let config = config(&shared);
        let socket =
            WebSocketStream::from_partially_read(socket, read.to_vec(), Role::Server, Some(config))
                .await;
        let now = Instant::now();
        let ping_at = now + shared.options.heartbeat;
        let mut session = Box::new(Session {
            socket,
            dialect,
            caller: Caller::default(),
            jobs: Jobs::default(),
            outbox: Outbox::new(dialect),
            subscriptions: Subscriptions::default(),
            news: Vec::new(),
            heard: now,
            ping_at,
            timer: Box::pin(sleep_until(ping_at)),
            drain: Box::pin(shared.draining.clone().cancelled_owned()),
            draining: Draining::No,
            _counted: Held::one(&metrics::gateway().connections),
            shared,
        });
        session.arm(now);
        session
    }

    fn encoding(&self) -> Encoding {
        Encoding {
            dialect: self.dialect,
            integers: self.caller.integers,
        }
    }

    /// One wake-up: does everything that can be done now, in bounded steps.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.draining == Draining::No && self.drain.as_mut().poll(context).is_ready() {
            self.draining = Draining::Finishing;
        }
        for _ in 0..STEPS_MAX {
            let mut moved = self.poll_jobs(context);
            match self.poll_receive(context) {
                Ok(received) => moved |= received,
                Err(end) => return Poll::Ready(end),
            }
            moved |= self.poll_follow(context);
            self.drained();
            let had_room = self.outbox.has_room();
            match self.outbox.poll_write(&mut self.socket, context) {
                Poll::Ready(Ok(())) if self.draining == Draining::Told => {
                    return Poll::Ready(End::Close(Close::Draining));
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
                Poll::Ready(Err(error)) => return Poll::Ready(end_of(&error)),
            }
            // Without room the steps above were skipped, and nothing would wake them for the room that has come.
            if !moved && had_room == self.outbox.has_room() {
                return self.poll_timer(context);
            }
        }
        // Others want to be served too.
        context.waker().wake_by_ref();
        self.poll_timer(context)
    }

    /// Tells a client that has no answers to wait for any more that the server goes.
    fn drained(&mut self) {
        if self.draining == Draining::Finishing && self.jobs.is_idle() {
            self.draining = Draining::Told;
            let spread = self.shared.options.drain_spread;
            let within = u64::try_from(spread.as_millis()).unwrap_or(u64::MAX).max(1);
            let wait = RECONNECT_MIN_MS + random() % within;
            self.outbox.push(draining(wait, self.encoding()));
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
        let (encoding, now_ms) = (self.encoding(), self.shared.clock.now_ms());
        loop {
            let may_fetch = self.jobs.may_fetch();
            let fetch = self
                .subscriptions
                .pump(&mut self.outbox, encoding, now_ms, may_fetch);
            let Some(fetch) = fetch else { return moved };
            self.jobs.fetch(&self.shared, fetch);
            moved = true;
        }
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<End> {
        while self.timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if let Some(code) = self.tick(now) {
                return Poll::Ready(End::Close(code));
            }
            self.arm(now);
            // A ping may have been queued.
            if let Poll::Ready(Err(error)) = self.outbox.poll_write(&mut self.socket, context) {
                return Poll::Ready(end_of(&error));
            }
        }
        Poll::Pending
    }

    /// The heart: pings, and the limits of patience.
    fn tick(&mut self, now: Instant) -> Option<Close> {
        let options = &self.shared.options;
        let stalled = self.outbox.stalled();
        let slow_ms = u64::try_from(options.slow_consumer.as_millis()).unwrap_or(u64::MAX);
        if stalled.is_some_and(|since| since.elapsed() >= options.slow_consumer)
            || self
                .subscriptions
                .is_behind(self.shared.clock.now_ms(), slow_ms)
        {
            return Some(Close::SlowConsumer);
        }
        if !self.reads() {
            // We are the ones who do not listen.
            self.heard = now;
        }
        if now.duration_since(self.heard) >= 2 * options.heartbeat {
            return Some(Close::Idle);
        }
        if now >= self.ping_at {
            self.ping_at = now + options.heartbeat;
            if stalled.is_none() {
                self.ping();
            }
        }
        None
    }

    fn ping(&mut self) {
        use futures_util::Sink as _;
        // Goes into the library's buffer, which is empty or nearly so: nothing has stalled. A failure shows at the next
        // write.
        let _ = Pin::new(&mut self.socket).start_send(Message::Ping(Bytes::new()));
        self.outbox.flush_soon();
    }

    fn arm(&mut self, now: Instant) {
        let options = &self.shared.options;
        let look = (options.slow_consumer / 4).max(TICK_MIN);
        let silent = self.heard + 2 * options.heartbeat;
        let next = self.ping_at.min(now + look).min(silent.max(now + TICK_MIN));
        self.timer.as_mut().reset(next);
    }

    /// Says goodbye as well as the client lets us, in bounded time.
    async fn close(self: Box<Self>, code: Close) {
        let Session {
            mut socket,
            jobs,
            subscriptions,
            outbox,
            ..
        } = *self;
        drop((jobs, subscriptions, outbox));
        let _ = timeout(GOODBYE_TIME, async {
            let frame = CloseFrame {
                code: code.code().into(),
                reason: code.reason().into(),
            };
            if socket.send(Message::Close(Some(frame))).await.is_err() {
                return;
            }
            // The client answers with a close of its own, perhaps behind much else that is under way.
            while let Some(Ok(_)) = socket.next().await {}
            // Unread bytes at a close make the system send a reset, which would destroy what the client has not read
            // yet.
            let mut socket = socket.into_inner();
            let _ = socket.shutdown().await;
            let mut waste = vec![0; 4096];
            for _ in 0..WASTE_READS_MAX {
                if matches!(socket.read(&mut waste).await, Ok(0) | Err(_)) {
                    break;
                }
            }
        })
        .await;
    }
}

fn end_of(error: &Error) -> End {
    use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => End::Close(Close::TooBig),
        Error::Utf8(_) => End::Close(Close::InvalidText),
        Error::Protocol(
            ProtocolError::ResetWithoutClosingHandshake | ProtocolError::SendAfterClosing,
        ) => End::Gone,
        Error::Protocol(_) => End::Close(Close::ProtocolError),
        Error::WriteBufferFull(_) | Error::Capacity(_) => End::Close(Close::InternalError),
        _ => End::Gone,
    }
}

/// Different for each connection; need not be good.
fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1 & 0xffff_ffff
}

const STEPS_MAX: usize = 32;
const TICK_MIN: Duration = Duration::from_millis(20);
const GOODBYE_TIME: Duration = Duration::from_secs(2);
const WASTE_READS_MAX: usize = 4_096;
const RECONNECT_MIN_MS: u64 = 500;
