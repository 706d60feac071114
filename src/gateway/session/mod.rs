//! One WebSocket connection, in one task: frames in, calls, answers and pushes out; or one response with pushes alone.
//!
//! Owns: the turn of a connection (finish, receive, follow, write), and its limits. Promises: calls begin in
//! the order of their frames; memory is bounded by the limits whatever the client sends or does not read; it ends with
//! the right close code. Must not: spawn anything: an idle connection is this one small task.

mod answer;
mod appends;
pub(super) mod batch;
pub(super) mod centrifuge;
pub(super) mod events;
#[cfg(feature = "faults")]
pub(super) mod fuzz;
pub(super) mod goodbye;
mod inbound;
mod jobs;
pub(super) mod login;
mod progress;
mod receive;
mod slow_consumer;
mod subscriptions;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tracing::{Instrument as _, Span};

use super::Shared;
use super::dispatch::Caller;
use super::dispatch::shape::size;
use super::dispatch::tables::stream;
use super::encode_push::draining;
use super::entrance::seats::Seat;
use super::entrance::socket::Socket;
use super::entrance::upgraded::Upgraded;
use super::form::Form;
use super::limits::{CallerGuards, ConnectionGuard};
use super::live::{Kept, Peer, Pulse};
use super::outbox::Outbox;
use super::woken::Woken;
use answer::Weight;
use centrifuge::Centrifuge;
use inbound::Reader;
use jobs::Jobs;
use login::{Entered, Login};
use subscriptions::Subscriptions;
use subscriptions::streams::Streams;
use tideline_base::bounds::Share;
use tideline_base::metrics::Held;
use tideline_timelines::feed::Pace;
use tideline_timelines::reshape::Inside;
use tideline_wire::centrifuge::Disconnect;
use tideline_wire::{Close, Incoming};

/// Why a session's turn is the last one.
enum End {
    /// The server closes with this code.
    Close(Close),
    /// The server closes as the Centrifuge dialect says it.
    Disconnect(Disconnect),
    /// The client has closed; this is the answer.
    Goodbye(Option<CloseFrame>),
    /// The client is gone.
    Gone,
}

/// Calls that came in a frame of so many bytes.
type Decoded = (Incoming, usize);

struct Session {
    shared: Arc<Shared>,
    socket: Socket,
    reader: Reader,
    form: Form,
    caller: Caller,
    /// `None` = no client is asked for a credential.
    login: Option<Box<Login>>,
    /// Its place among the sessions, if nobody is.
    unasked: Option<Box<Kept>>,
    /// As others know it.
    pulse: Pulse,
    /// What the subscriptions were decided by; `None` = nothing is decided.
    decided: Option<subscriptions::anew::Decided>,
    jobs: Jobs,
    outbox: Outbox,
    subscriptions: Subscriptions,
    streams: Streams,
    /// What it has of that dialect; `None` = it speaks another.
    centrifuge: Option<Box<Centrifuge>>,
    /// How often the client may send signals.
    signals: Pace,
    /// Slots with news, on their way from the mailbox.
    news: Vec<u32>,
    /// What waits for a client that does not read.
    unread: Share,
    /// The last sign of life.
    heard: Instant,
    /// A frame that has waited for keys, or waits for a split or merge.
    held: Option<Box<Decoded>>,
    /// It waits for a split or merge.
    passing: Option<BoxFuture<'static, Inside>>,
    /// The socket was not read when it could have been.
    is_deaf: bool,
    /// The last look found the client out of time.
    is_doubted: bool,
    /// It counts as one that does not keep up.
    behind: Option<Held>,
    ping_at: Instant,
    timer: Pin<Box<Sleep>>,
    drain: Woken<WaitForCancellationFutureOwned>,
    draining: Draining,
    /// Count it as a connection of its user and its key.
    guards: CallerGuards,
    /// Its place among all connections.
    seat: Arc<Seat>,
    _counted: (Held, Option<ConnectionGuard>),
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
pub(super) fn run(
    upgraded: Upgraded,
    shared: Arc<Shared>,
) -> impl Future<Output = ()> + Send + 'static {
    take_turns(Session::open(upgraded, shared))
}

async fn take_turns(mut session: Box<Session>) {
    let live = session.caller.live.as_ref();
    // Only where it is asked for: it costs a little at each turn, and what is always logged says the session itself.
    let span = live.map_or_else(Span::none, |live| {
        tracing::debug_span!("session", session = live.id)
    });
    let turns = poll_fn(|context| session.poll_turn(context));
    let end = turns.instrument(span.clone()).await;
    // Whatever becomes of the connection, nothing is allowed to it any more, and it is in no channel.
    session.login = None;
    session.unasked = None;
    let centrifuge = session.centrifuge.take();
    let (why, counted) = match end {
        End::Close(code) => {
            let now_ms = session.shared.clock.now_ms();
            let why = match centrifuge {
                Some(own) => own.disconnect(code, now_ms),
                None => Disconnect {
                    code: code.code(),
                    reason: code.reason().into(),
                },
            };
            (why, code.reason())
        }
        End::Disconnect(why) => {
            drop(centrifuge);
            (why, "disconnect")
        }
        End::Goodbye(answer) => return Box::pin(session.close(answer, false)).await,
        End::Gone => return,
    };
    let closing = Box::pin(session.close_saying(why, counted));
    closing.instrument(span).await;
}

impl Session {
    fn open(upgraded: Upgraded, shared: Arc<Shared>) -> Box<Session> {
        let Upgraded {
            socket,
            guard,
            read,
            form,
            mut entered,
            emulated,
            streaming,
        } = upgraded;
        let guards = std::mem::take(&mut entered.guards);
        let seat = Arc::clone(&entered.seat);
        let bytes_max = size(shared.options.limits.inbound_frame_bytes_max);
        let now = Instant::now();
        let ping_at = now + shared.options.heartbeat;
        let mut caller = Caller::default();
        let watched = shared.watched.share(None);
        let mut subscriptions = Subscriptions::new(watched, Arc::clone(&shared.metrics));
        let peer = peer(&entered, form, &subscriptions);
        let (mut centrifuge, mut login, mut unasked) = (None, None, None);
        match (form.centrifuge, &shared.options.centrifuge, &shared.door) {
            (Some(encoding), Some(options), _) => {
                let options = Arc::clone(options);
                centrifuge = Some(Centrifuge::new(encoding, options, entered, emulated));
            }
            (_, _, Some(door)) => {
                let shown = Login::new(&shared, door, &mut caller, (entered, peer));
                login = Some(Box::new(shown));
            }
            (_, _, None) => unasked = Some(unasked_for(&shared, &mut caller, peer)),
        }
        subscriptions.name(caller.who());
        let mut session = Box::new(Session {
            socket,
            reader: Reader::new(&read, bytes_max, shared.inbound.share(None)),
            form,
            caller,
            login,
            unasked,
            pulse: Pulse::default(),
            decided: None,
            jobs: Jobs::new(shared.inbound.share(None)),
            outbox: Outbox::new(form.dialect.frames()),
            subscriptions,
            streams: Streams::new(Arc::clone(&shared.metrics)),
            centrifuge,
            signals: Pace::default(),
            news: Vec::new(),
            unread: shared.answers.share(None),
            heard: now,
            held: None,
            passing: None,
            is_deaf: false,
            is_doubted: false,
            behind: None,
            ping_at,
            timer: Box::pin(sleep_until(ping_at)),
            drain: Woken::new(shared.draining.clone().cancelled_owned()),
            draining: Draining::No,
            guards,
            seat,
            _counted: (shared.metrics.gateway.connections.hold(1), guard),
            shared,
        });
        if let Some(streaming) = streaming {
            session.stream(*streaming);
        }
        session.is_of_caller();
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
        if self.draining == Draining::No && self.drain.poll(context).is_ready() {
            self.draining = Draining::Finishing;
        }
        for _ in 0..STEPS_MAX {
            match self.poll_step(context) {
                Ok(true) => {}
                Ok(false) => {
                    self.look_soon();
                    self.tell_pulse();
                    return self.poll_timer(context);
                }
                Err(end) => return Poll::Ready(end),
            }
        }
        self.tell_pulse();
        // Others want to be served too.
        context.waker().wake_by_ref();
        self.poll_timer(context)
    }

    /// Whether another step may find more to do.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut moved = self.poll_jobs(context);
        moved |= self.poll_login(context)?;
        if self.centrifuge.is_some() {
            self.leave_ended();
        }
        moved |= self.poll_receive(context)?;
        self.decide_anew(context);
        if self.centrifuge.is_some() {
            moved |= self.poll_heard(context)?;
        }
        moved |= self.poll_follow(context);
        self.drained();
        let had_room = self.outbox.has_room();
        let claim = self.caller.asker.claim();
        if claim.is_some_and(|claim| claim.is_over()) {
            // What waits in the outbox may be from after the credential was taken back.
            return Err(End::Close(Close::Unauthenticated));
        }
        if let Poll::Ready(written) = self.outbox.poll_write(&mut self.socket, context) {
            written.map_err(|_| End::Gone)?;
            if self.draining == Draining::Announced {
                return Err(End::Close(Close::Draining));
            }
            if self.login.as_ref().is_some_and(|login| login.has_left()) {
                return Err(End::Close(Close::Unauthenticated));
            }
            if self.has_streamed() {
                return Err(End::Goodbye(None));
            }
        }
        // Without room the steps above were skipped, and nothing would wake them for the room that has come.
        Ok(moved || had_room != self.outbox.has_room())
    }

    /// Announces the shutdown to a client that has no answers to wait for.
    fn drained(&mut self) {
        if self.draining == Draining::Finishing && self.jobs.is_idle() {
            self.draining = Draining::Announced;
            let returns = self.shared.returns.get();
            let wait_ms = returns.map_or(0, |returns| returns.in_ms());
            self.tell(draining(wait_ms, self.form()));
        }
    }

    /// Looks at the mailbox, and lets subscriptions put what they have into the outbox.
    fn poll_follow(&mut self, context: &mut Context<'_>) -> bool {
        if self.draining != Draining::No || self.subscriptions.is_over() {
            return false;
        }
        let now_ms = self.shared.clock.now_ms();
        while self
            .subscriptions
            .mailbox
            .poll_take(context, &mut self.news)
            .is_ready()
        {
            for slot in self.news.drain(..) {
                self.subscriptions.hear(slot, now_ms);
            }
        }
        self.answer_inquiries();
        let mut moved = false;
        let form = self.form();
        if !self.streams.is_empty() && stream::back_end(&self.caller).is_err() {
            self.streams.forbid(&mut self.outbox, form);
        }
        if self.outbox.has_room() {
            let limits = &self.shared.options.limits;
            moved |= self.streams.step(limits, &mut self.jobs);
        }
        while self.outbox.has_room()
            && self.jobs.may_fetch()
            && let Some(read) = self.subscriptions.next_read(&self.shared)
        {
            self.jobs.run(Weight::Fetch, read);
            moved = true;
        }
        loop {
            let may_fetch = self.jobs.may_fetch();
            let read = self
                .subscriptions
                .pump(&mut self.outbox, form, now_ms, may_fetch);
            let Some(read) = read else { return moved };
            self.jobs.run(Weight::Fetch, read);
            moved = true;
        }
    }
}

fn peer(entered: &Entered, form: Form, subscriptions: &Subscriptions) -> Peer {
    Peer {
        address: entered.address,
        certificates: Arc::clone(&entered.certificates),
        dialect: form.dialect.subprotocol(),
        mailbox: Arc::clone(&subscriptions.mailbox),
    }
}

/// A place among the sessions for one that nobody asks for a credential.
fn unasked_for(shared: &Shared, caller: &mut Caller, peer: Peer) -> Box<Kept> {
    let kept = shared.sessions.add_unasked(peer, shared.clock.now_ms());
    caller.live = Some(Arc::clone(&kept.live));
    Box::new(kept)
}

/// Different for each connection; need not be good.
fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1 & 0xffff_ffff
}

const STEPS_MAX: usize = 32;
