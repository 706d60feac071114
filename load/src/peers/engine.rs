//! The one generator that drives every server: connections with a window of requests, one task each, on one thread.
//!
//! Owns: windows, clocks and counting, the same for all. Promises: a new request goes out for each that is answered,
//! and only answered ones count; with a rate set, latency runs from when a request was due, not from when it was sent;
//! what was acknowledged must be there at the end. Must not: know a protocol (that is `Talk`), or repeat what was
//! refused.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::LocalSet;

use crate::exit::Stop;
use crate::machine::{cpu_seconds, thread_cpu_seconds};
use crate::pace::LATE;
use crate::pipe::Pipe;
use crate::random::Random;

/// With a rate set, this many may wait for an answer on one connection: Tideline's own limit. What is due beyond that
/// waits its turn, and its latency counts from when it was due.
const IN_FLIGHT_MAX: usize = 256;
/// An answer to a request.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// Which one.
    pub(super) slot: usize,
    /// Why not.
    pub(super) refused: Option<Cow<'a, str>>,
}

/// How one connection speaks.
pub(super) trait Talk {
    /// Appends the request in this slot, message `number` to `key`.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, key: u64, number: u64);

    /// Hands each answer at the start of the bytes to `each` and tells how many bytes they took; what the protocol
    /// wants to be said in return goes to `out`.
    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut impl FnMut(Answer<'_>),
    ) -> io::Result<usize>;
}

/// A server to put load on.
pub(super) trait Peer {
    /// Its language.
    type Talk: Talk + 'static;

    /// Connects, up to the first request.
    async fn open(&self, lane: usize) -> io::Result<(Pipe, Self::Talk)>;

    /// What is wrong with what the server holds, given how much of each key was acknowledged.
    async fn check(&self, acked: &[u32], sample: &[u64]) -> io::Result<Vec<String>>;
}

/// What to put on it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) connections: usize,
    pub(super) in_flight: usize,
    pub(super) keys: u64,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    /// Requests per second of all connections; without it each answer is followed by the next request at once.
    pub(super) rate: Option<f64>,
    pub(super) seed: u64,
    /// The server's process.
    pub(super) pid: Option<u32>,
}

/// What it gave.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) latency: Histogram<u64>,
    pub(super) seconds: f64,
    /// Answered over the whole run, warm-up and end included.
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    /// Sent later than they were due through the generator's own fault, of all that were measured.
    pub(super) late: u64,
    pub(super) generator_cpu_seconds: f64,
    pub(super) server_cpu_seconds: Option<f64>,
    pub(super) faults: Vec<String>,
}

impl Measured {
    /// Answered per second.
    pub(super) fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.seconds.max(0.001)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmingUp,
    Measuring,
    Ending,
}

/// What all connections of the thread share.
struct Board {
    phase: Phase,
    latency: Histogram<u64>,
    refused: u64,
    late: u64,
    /// Answered per key, over the whole run.
    acked: Vec<u32>,
    faults: Vec<String>,
}

impl Board {
    fn fault(&mut self, what: String) {
        if self.faults.len() < 20 {
            self.faults.push(what);
        }
    }
}

/// Runs all connections through warm-up, measurement and end, and checks.
pub(super) async fn run<P: Peer>(peer: &P, plan: &Plan) -> Result<Measured, Stop> {
    let own = |error: &dyn std::fmt::Display| Stop::Own(error.to_string());
    let keys = usize::try_from(plan.keys).map_err(|error| own(&error))?;
    let board = Rc::new(RefCell::new(Board {
        phase: Phase::WarmingUp,
        latency: Histogram::new_with_bounds(1, 600_000_000, 3).map_err(|error| own(&error))?,
        refused: 0,
        late: 0,
        acked: vec![0; keys],
        faults: Vec::new(),
    }));
    let local = LocalSet::new();
    let mut lanes = Vec::new();
    for number in 0..plan.connections {
        let lost = |error| Stop::Unreachable(format!("connection {number}: {error}"));
        lanes.push(peer.open(number).await.map_err(lost)?);
    }
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for (number, (pipe, talk)) in lanes.into_iter().enumerate() {
        let lane = Lane {
            pipe,
            talk,
            random: Random::new(plan.seed ^ ((number as u64 + 1) << 40)),
            keys: plan.keys,
            window: Window::new(plan, number, begin),
            sent: 0,
            board: Rc::clone(&board),
        };
        tasks.push(local.spawn_local(lane.run(number)));
    }
    let (seconds, generator_cpu_seconds, server_cpu_seconds) =
        local.run_until(clock(plan, &board)).await;
    local.await;
    for task in tasks {
        let failed = |error| Stop::Own(format!("a connection failed: {error}"));
        task.await.map_err(failed)?;
    }
    let board = Rc::try_unwrap(board).map_err(|_| Stop::Own("a task is left".into()))?;
    let mut board = board.into_inner();
    if board.faults.is_empty() {
        let mut random = Random::new(plan.seed ^ 0x5a5a);
        let sample: Vec<u64> = (0..50).map(|_| random.below(plan.keys)).collect();
        let checked = peer.check(&board.acked, &sample).await;
        board.faults = checked.map_err(|error| Stop::Unreachable(format!("checking: {error}")))?;
    }
    Ok(Measured {
        acknowledged: board.acked.iter().map(|count| u64::from(*count)).sum(),
        latency: board.latency,
        seconds,
        refused: board.refused,
        late: board.late,
        generator_cpu_seconds,
        server_cpu_seconds,
        faults: board.faults,
    })
}

/// Moves the phases; returns how long was measured, and the processor time of generator and server in it.
async fn clock(plan: &Plan, board: &RefCell<Board>) -> (f64, f64, Option<f64>) {
    let processor = || (thread_cpu_seconds(), plan.pid.and_then(cpu_seconds));
    tokio::time::sleep(plan.warm_up).await;
    let before = processor();
    let began = Instant::now();
    let until = began + plan.measured;
    if board.borrow().phase == Phase::WarmingUp {
        board.borrow_mut().phase = Phase::Measuring;
    }
    // A connection that fails ends the phase early.
    while board.borrow().phase == Phase::Measuring && Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now());
        tokio::time::sleep(left.min(Duration::from_millis(100))).await;
    }
    board.borrow_mut().phase = Phase::Ending;
    let (seconds, after) = (began.elapsed().as_secs_f64(), processor());
    let server = before.1.zip(after.1).map(|(before, after)| after - before);
    (seconds, after.0 - before.0, server)
}

/// Which requests are on the way, and when the next one is due.
struct Window {
    /// Key and time of sending (or when it was due).
    slots: Vec<Option<(u64, Instant)>>,
    free: Vec<usize>,
    /// The next is due then, and each so much later; `None`: at once.
    due: Option<(Instant, Duration)>,
    /// Since when a slot has been free: what became due before was held up by the server.
    open_since: Instant,
}

impl Window {
    fn new(plan: &Plan, number: usize, begin: Instant) -> Window {
        let due = plan.rate.map(|rate| {
            let every = Duration::from_secs_f64(plan.connections as f64 / rate.max(1.0));
            let share = number as f64 / plan.connections.max(1) as f64;
            (begin + every.mul_f64(share), every)
        });
        let size = due.map_or(plan.in_flight, |_| IN_FLIGHT_MAX);
        Window {
            slots: vec![None; size],
            free: (0..size).rev().collect(),
            due,
            open_since: begin,
        }
    }

    /// The next request to send now: its slot, the time its latency counts from, and whether the generator is late.
    fn next(&mut self, now: Instant) -> Option<(usize, Instant, bool)> {
        let Some((due, every)) = &mut self.due else {
            return Some((self.free.pop()?, now, false));
        };
        if *due > now {
            return None;
        }
        let slot = self.free.pop()?;
        let at = *due;
        *due += *every;
        let late = now.saturating_duration_since(at.max(self.open_since)) > LATE;
        Some((slot, at, late))
    }

    fn idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// The request in this slot is answered.
    fn close(&mut self, slot: usize, now: Instant) -> Option<(u64, Instant)> {
        let sent = self.slots.get_mut(slot)?.take()?;
        if self.free.is_empty() {
            self.open_since = now;
        }
        self.free.push(slot);
        Some(sent)
    }
}

/// One connection.
struct Lane<T> {
    pipe: Pipe,
    talk: T,
    random: Random,
    keys: u64,
    window: Window,
    sent: u64,
    board: Rc<RefCell<Board>>,
}

impl<T: Talk> Lane<T> {
    async fn run(mut self, number: usize) {
        if let Err(error) = self.work().await {
            let mut board = self.board.borrow_mut();
            board.fault(format!("connection {number}: {error}"));
            // The figure would be of fewer connections than asked for: end it.
            board.phase = Phase::Ending;
        }
    }

    async fn work(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        loop {
            let phase = self.board.borrow().phase;
            if phase == Phase::Ending && self.window.idle() {
                return Ok(());
            }
            if phase != Phase::Ending {
                self.fill(&mut out, phase);
            }
            if !out.is_empty() {
                self.pipe.write(&out).await?;
                out.clear();
            }
            self.wait(phase).await?;
            self.drain(&mut out)?;
        }
    }

    fn fill(&mut self, out: &mut Vec<u8>, phase: Phase) {
        let now = Instant::now();
        while let Some((slot, at, late)) = self.window.next(now) {
            let key = self.random.below(self.keys);
            self.talk.put(out, slot, key, self.sent);
            self.sent += 1;
            self.window.slots[slot] = Some((key, at));
            if late && phase == Phase::Measuring {
                self.board.borrow_mut().late += 1;
            }
        }
    }

    /// Waits for answers, or until the next request is due.
    async fn wait(&mut self, phase: Phase) -> io::Result<()> {
        match self.window.due {
            Some((due, _)) if phase != Phase::Ending && !self.window.free.is_empty() => {
                tokio::select! {
                    more = self.pipe.more() => more,
                    () = tokio::time::sleep_until(due.into()) => Ok(()),
                }
            }
            _ => self.pipe.more().await,
        }
    }

    fn drain(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let Lane {
            pipe,
            talk,
            window,
            board,
            ..
        } = self;
        let now = Instant::now();
        let mut board = board.borrow_mut();
        let taken = talk.take(pipe.bytes(), out, &mut |answer| {
            take(answer, now, window, &mut board);
        })?;
        pipe.take(taken);
        Ok(())
    }
}

fn take(answer: Answer<'_>, now: Instant, window: &mut Window, board: &mut Board) {
    let Answer { slot, refused } = answer;
    let Some((key, sent)) = window.close(slot, now) else {
        return board.fault(format!("an answer to {slot}, which is not on the way"));
    };
    match refused {
        None => {
            board.acked[key as usize] += 1;
            if board.phase == Phase::Measuring {
                let micros = now.saturating_duration_since(sent).as_micros();
                let micros = u64::try_from(micros).unwrap_or(u64::MAX);
                board.latency.saturating_record(micros);
            }
        }
        Some(why) if why == "busy" => board.refused += 1,
        Some(why) => board.fault(format!("refused: {why}")),
    }
}
