//! The generator: connections that ask and are answered, with a window of requests each (closed loop) or by the clock
//! (open loop), whatever the protocol.
//!
//! Owns: both loops, for every profile that sends requests and waits for replies. Promises: closed, latency runs from
//! handing a request to the socket until its reply was read; open, from the scheduled time, and what finds every window
//! full waits its turn. Must not: know what is asked (that is [`Talk`]), repeat what was refused, or go on when so much
//! waits that the server has plainly lost: such a run ends as invalid.
//!
//! Use: a protocol is a [`Talk`]: `put` appends a request for a slot to the bytes that go out, `take` reads the answers
//! at the start of the bytes that came and says of each which slot it answers and which recorder its latency goes to.
//! Tideline's own protocol has that in `request::Session`, so its profiles implement `request::Ask` only. Then
//! `let running = Generator { … }.start(connections, async |number| Ok((pipe, talk))).await?`, `run.measure().await`,
//! and `running.end().await?` gives the talks back. All of it inside a `LocalSet`; against a server that is not
//! Tideline, make the `Run` with any address: its metrics are then absent.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, timeout};

use crate::exit::Stop;
use crate::pace::Gaps;
use crate::pipe::Pipe;
use crate::recorder::{Counts, Recorder};
use crate::run::{Phase, Run};

/// More requests of one connection on the way would need a fifth digit in [`crate::template`].
pub const SLOTS_MAX: usize = 9_000;
/// In an open loop, so many of one connection may be on the way: the server's own limit.
pub const OPEN_MAX: usize = 256;
/// So many requests that wait for a free window mean that the server does not keep up.
const WAITING_MAX: usize = 50_000;
/// How long what is on the way at the end is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The part of the seed that the gaps come from.
const GAPS: u64 = 1 << 33;

/// What one connection says, and how its answers are read.
pub trait Talk {
    /// Appends a new request; its answer will be known by the slot.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize);

    /// Hands each whole answer at the start of the bytes to `each` and returns how many bytes were read. What the
    /// protocol wants said in return goes to `out`. An error ends the run.
    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Answer),
    ) -> io::Result<usize>;
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub slot: usize,
    /// Which of the recorders its latency goes to; `None`: it does not count, as refusals don't.
    pub recorder: Option<usize>,
}

/// Flags of profiles whose connections all ask alike. A profile sets its own defaults with `mut_arg`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Flow {
    /// Connections
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Requests on the way per connection; not used with --rate
    #[arg(long, default_value_t = 1)]
    pub in_flight: usize,
    /// Send so many a second over all connections, whatever the server does (open loop: latency counts from the
    /// scheduled time)
    #[arg(long)]
    pub rate: Option<f64>,
    /// How requests follow one another with --rate
    #[arg(long, value_enum, default_value_t = Gaps::Fixed)]
    pub gaps: Gaps,
}

impl Flow {
    /// A closed loop.
    #[must_use]
    pub fn closed(connections: usize, in_flight: usize) -> Flow {
        Flow {
            connections,
            in_flight,
            rate: None,
            gaps: Gaps::Fixed,
        }
    }

    /// An open loop.
    #[must_use]
    pub fn open(connections: usize, rate: f64, gaps: Gaps) -> Flow {
        Flow {
            rate: Some(rate),
            gaps,
            ..Flow::closed(connections, 1)
        }
    }

    /// Refuses what can't be.
    pub fn check(&self) -> Result<(), Stop> {
        if self.connections == 0 || !(1..=SLOTS_MAX).contains(&self.in_flight) {
            let what = format!("a count of 0, or more than {SLOTS_MAX} in flight");
            return Err(Stop::Usage(what));
        }
        match self.rate {
            Some(rate) if !rate.is_finite() || rate <= 0.0 => {
                Err(Stop::Usage("a rate that is not above 0".into()))
            }
            _ => Ok(()),
        }
    }

    /// A recorder for what is asked so.
    #[must_use]
    pub fn recorder(&self, run: &Run, name: &str) -> Rc<Recorder> {
        run.recorder(name, self.rate.map_or(Counts::Ended, |_| Counts::Scheduled))
    }

    /// The generator with these flags.
    #[must_use]
    pub fn generator(&self, run: &Rc<Run>, recorders: Vec<Rc<Recorder>>) -> Generator {
        Generator {
            run: Rc::clone(run),
            recorders,
            in_flight: self.rate.map_or(self.in_flight, |_| OPEN_MAX),
            rate: self.rate,
            gaps: self.gaps,
            most: None,
            part: 0,
        }
    }
}

/// How the connections of one kind ask.
#[derive(Clone)]
pub struct Generator {
    /// The run.
    pub run: Rc<Run>,
    /// Where latencies go.
    pub recorders: Vec<Rc<Recorder>>,
    /// Requests on the way of each connection; in an open loop at most.
    pub in_flight: usize,
    /// Requests a second over all connections: open loop.
    pub rate: Option<f64>,
    /// How they follow one another.
    pub gaps: Gaps,
    /// End the run at so many that count.
    pub most: Option<u64>,
    /// Sets the choices of these connections apart from those of others of the run.
    pub part: u64,
}

/// Connections at work.
pub struct Running<T> {
    run: Rc<Run>,
    tasks: Vec<JoinHandle<T>>,
}

/// What all connections share.
struct Shared {
    generator: Generator,
    connections: usize,
    /// Open loop: scheduled times of what is not yet sent.
    due: RefCell<VecDeque<Instant>>,
    /// What each connection takes of it at once, so that all have about the same to do.
    share: Cell<usize>,
    more: Notify,
}

impl Generator {
    /// Connects so many with `open`, and has each ask until the run ends.
    ///
    /// # Errors
    ///
    /// A connection could not be opened.
    pub async fn start<T: Talk + 'static>(
        self,
        connections: usize,
        mut open: impl AsyncFnMut(usize) -> io::Result<(Pipe, T)>,
    ) -> Result<Running<T>, Stop> {
        let mut opened = Vec::with_capacity(connections);
        for number in 0..connections {
            let lost = |error| Stop::Unreachable(format!("connection {number}: {error}"));
            opened.push(open(number).await.map_err(lost)?);
        }
        let run = Rc::clone(&self.run);
        let window = self.in_flight;
        let shared = Rc::new(Shared {
            generator: self,
            connections,
            due: RefCell::default(),
            share: Cell::new(0),
            more: Notify::new(),
        });
        let lane = |(number, (pipe, talk))| Lane {
            number,
            pipe,
            talk,
            slots: vec![None; window],
            free: (0..window).rev().collect(),
            shared: Rc::clone(&shared),
        };
        let lanes = opened.into_iter().enumerate().map(lane);
        let tasks = lanes.map(|lane| spawn_local(lane.run())).collect();
        if let Some(rate) = shared.generator.rate {
            spawn_local(Rc::clone(&shared).schedule(rate));
        }
        Ok(Running { run, tasks })
    }
}

impl<T> Running<T> {
    /// Waits, after the measurement, until all is answered; gives back what talked.
    ///
    /// # Errors
    ///
    /// A connection's task failed.
    pub async fn end(self) -> Result<Vec<T>, Stop> {
        let until = Instant::now() + PATIENCE;
        let mut talks = Vec::with_capacity(self.tasks.len());
        for task in self.tasks {
            match timeout(until - Instant::now(), task).await {
                Ok(Ok(talk)) => talks.push(talk),
                Ok(Err(error)) => return Err(Stop::Own(format!("a connection failed: {error}"))),
                Err(_) => {
                    let checks = &self.run.checks;
                    checks.fault(format_args!("no answer within {PATIENCE:?}"));
                }
            }
        }
        Ok(talks)
    }
}

/// One connection.
struct Lane<T> {
    number: usize,
    pipe: Pipe,
    talk: T,
    /// On the way: the time from which the latency counts.
    slots: Vec<Option<Instant>>,
    free: Vec<usize>,
    shared: Rc<Shared>,
}

impl<T: Talk> Lane<T> {
    async fn run(mut self) -> T {
        let run = Rc::clone(&self.shared.generator.run);
        if let Err(error) = self.work(&run).await {
            run.checks
                .fault(format_args!("connection {}: {error}", self.number));
            // The figures would be of fewer connections than asked for: end it.
            run.end_early();
        }
        self.talk
    }

    async fn work(&mut self, run: &Run) -> io::Result<()> {
        let is_open = self.shared.generator.rate.is_some();
        let mut out = Vec::new();
        loop {
            let is_ending = run.phase() == Phase::Ending;
            if !is_ending {
                self.fill(&mut out);
            } else if self.free.len() == self.slots.len() {
                return Ok(());
            }
            let Lane {
                pipe,
                talk,
                slots,
                free,
                shared,
                ..
            } = self;
            let may_send = is_open && !is_ending && !free.is_empty();
            let mut now = None;
            let mut each = |answer| {
                let now = *now.get_or_insert_with(Instant::now);
                shared.answered(answer, now, slots, free);
            };
            let read = pipe.exchange(&mut out, |bytes, out| talk.take(bytes, out, &mut each));
            tokio::select! {
                read = read => read?,
                () = shared.more.notified(), if may_send => {}
            }
        }
    }

    /// Sends what there is room for: at once, or what is due.
    fn fill(&mut self, out: &mut Vec<u8>) {
        let Lane {
            talk,
            slots,
            free,
            shared,
            ..
        } = self;
        let is_open = shared.generator.rate.is_some();
        let mut due = shared.due.borrow_mut();
        let now = Instant::now();
        let most = if is_open {
            shared.share.get()
        } else {
            free.len()
        };
        for _ in 0..most.min(free.len()) {
            let from = if is_open { due.pop_front() } else { Some(now) };
            let Some((from, slot)) = from.zip(free.last().copied()) else {
                break;
            };
            free.pop();
            talk.put(out, slot);
            slots[slot] = Some(from);
        }
        if !due.is_empty() {
            // The next connection's turn.
            shared.more.notify_one();
        }
    }
}

impl Shared {
    /// Says what is due, until the run ends.
    async fn schedule(self: Rc<Shared>, rate: f64) {
        let Generator {
            run,
            gaps,
            part,
            recorders,
            ..
        } = &self.generator;
        let mut pace = run.pace(rate, *gaps, (part << 40) + GAPS);
        while run.phase() != Phase::Ending {
            tokio::select! {
                () = pace.wait() => {}
                () = run.ended() => break,
            }
            let now = Instant::now();
            let mut due = self.due.borrow_mut();
            due.extend(std::iter::from_fn(|| pace.due(now)));
            self.share.set(due.len().div_ceil(self.connections));
            self.more.notify_one();
            if due.len() > WAITING_MAX {
                let name = recorders.first().map_or("such", |first| first.name());
                run.invalid(format!(
                    "the server does not keep up with the rate: {WAITING_MAX} {name} requests wait for a connection"
                ));
                run.end_early();
            }
        }
        run.paced(&pace);
        self.more.notify_waiters();
    }

    fn answered(
        &self,
        answer: Answer,
        now: Instant,
        slots: &mut [Option<Instant>],
        free: &mut Vec<usize>,
    ) {
        let Generator {
            run,
            recorders,
            most,
            ..
        } = &self.generator;
        let Answer { slot, recorder } = answer;
        let Some(from) = slots.get_mut(slot).and_then(Option::take) else {
            let what = format_args!("an answer to request {slot}, which is not on the way");
            return run.checks.fault(what);
        };
        free.push(slot);
        if let Some(recorder) = recorder
            && recorders[recorder].record(from, now)
            && most.is_some_and(|most| recorders[recorder].count() >= most)
        {
            run.end_early();
        }
    }
}
