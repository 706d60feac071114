//! Connections that ask and are answered: a window of requests each (closed loop), or by the clock (open loop).
//!
//! Owns: both loops, for every profile that sends requests and waits for replies. Promises: closed, latency runs from
//! handing a request to the socket until its reply was read; open, from the scheduled time, and a socket that takes
//! nothing holds up neither the schedule nor the replies. Must not: know what is asked (that is [`Talk`]), repeat what
//! was refused, or go on when so much is on the way that the server has plainly lost: such a run ends as invalid.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, timeout};

use crate::exit::Stop;
use crate::frame::Lean;
use crate::pace::Gaps;
use crate::random::Random;
use crate::recorder::Recorder;
use crate::run::{Phase, Run};

/// Request numbers are 1000 + slot, so that all have four digits.
pub const SLOT_BASE: u64 = 1_000;
/// More on the way of one connection would need a fifth digit.
pub const SLOTS_MAX: usize = 9_000;
/// How long what is on the way at the end is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The part of the seed that a connection's gaps come from.
const GAPS: u64 = 1 << 33;

/// What one connection says.
pub trait Talk {
    /// Appends the frame of a new request; its number is [`SLOT_BASE`] + `slot`.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize);

    /// Reads a text of the server. `None`: it answers no request (and the talk has entered the fault, if it is one).
    fn take(&mut self, text: &[u8]) -> Option<Answer>;
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request it answers.
    pub slot: usize,
    /// Whether its latency counts: refusals don't.
    pub counts: bool,
}

/// How the connections of one kind ask.
#[derive(Clone)]
pub struct Lanes {
    /// The run.
    pub run: Rc<Run>,
    /// Where latencies go.
    pub recorder: Rc<Recorder>,
    /// Requests on the way of each connection, closed loop.
    pub in_flight: usize,
    /// Requests a second over all connections: open loop.
    pub rate: Option<f64>,
    /// How they follow one another.
    pub gaps: Gaps,
    /// End the run at so many that count.
    pub most: Option<u64>,
    /// Sets the choices of these lanes apart from those of others of the run.
    pub part: u64,
}

/// Connections at work.
pub struct Running<T> {
    run: Rc<Run>,
    tasks: Vec<JoinHandle<T>>,
}

impl Lanes {
    /// Connects so many, and has each ask until the run ends; `talk` makes what connection `number` says.
    pub async fn start<T: Talk + 'static>(
        &self,
        connections: usize,
        mut talk: impl FnMut(usize) -> T,
    ) -> Result<Running<T>, Stop> {
        let mut lanes = Vec::with_capacity(connections);
        for number in 0..connections {
            let lost = |error| Stop::Unreachable(format!("connection {number}: {error}"));
            lanes.push(Lane {
                lanes: self.clone(),
                number,
                rate: self.rate.map(|rate| rate / connections as f64),
                socket: Lean::open(&self.run.url).await.map_err(lost)?,
                talk: talk(number),
                slots: Vec::new(),
                free: Vec::new(),
            });
        }
        Ok(Running {
            run: Rc::clone(&self.run),
            tasks: lanes
                .into_iter()
                .map(|lane| spawn_local(lane.run()))
                .collect(),
        })
    }
}

impl<T> Running<T> {
    /// Waits, after the measurement, until all is answered; gives back what talked.
    pub async fn end(self) -> Result<Vec<T>, Stop> {
        let until = Instant::now() + PATIENCE;
        let mut talks = Vec::with_capacity(self.tasks.len());
        for task in self.tasks {
            match timeout(until - Instant::now(), task).await {
                Ok(Ok(talk)) => talks.push(talk),
                Ok(Err(error)) => return Err(Stop::Own(format!("a connection failed: {error}"))),
                Err(_) => self
                    .run
                    .checks
                    .fault(format_args!("no answer within {PATIENCE:?}")),
            }
        }
        Ok(talks)
    }
}

/// One connection.
struct Lane<T> {
    lanes: Lanes,
    number: usize,
    rate: Option<f64>,
    socket: Lean,
    talk: T,
    /// On the way: the time from which the latency counts.
    slots: Vec<Option<Instant>>,
    free: Vec<usize>,
}

impl<T: Talk> Lane<T> {
    async fn run(mut self) -> T {
        let worked = match self.rate {
            None => self.closed().await,
            Some(rate) => self.open(rate).await,
        };
        if let Err(error) = worked {
            let run = &self.lanes.run;
            run.checks
                .fault(format_args!("connection {}: {error}", self.number));
            // The figures would be of fewer connections than asked for: end it.
            run.end_early();
        }
        self.talk
    }

    async fn closed(&mut self) -> io::Result<()> {
        let run = Rc::clone(&self.lanes.run);
        let mut out = Vec::new();
        self.slots = vec![None; self.lanes.in_flight];
        self.free = (0..self.slots.len()).collect();
        loop {
            if run.phase() != Phase::Ending {
                let now = Instant::now();
                while let Some(slot) = self.free.pop() {
                    self.talk.put(&mut out, slot);
                    self.slots[slot] = Some(now);
                }
                self.socket.write(&out).await?;
                out.clear();
            } else if self.free.len() == self.slots.len() {
                return Ok(());
            }
            let Lane {
                lanes,
                socket,
                talk,
                slots,
                free,
                ..
            } = self;
            let mut now = None;
            let each = |text: &[u8]| {
                let now = *now.get_or_insert_with(Instant::now);
                lanes.answered(talk.take(text), now, slots, free);
            };
            socket.read(each).await?;
        }
    }

    async fn open(&mut self, rate: f64) -> io::Result<()> {
        let Lane {
            lanes,
            number,
            socket,
            talk,
            slots,
            free,
            ..
        } = self;
        let run = Rc::clone(&lanes.run);
        let part = (lanes.part << 40) + GAPS + *number as u64;
        // Each connection begins somewhere within one gap, so that together they send evenly.
        let share = Random::new(run.seed_of(part)).below(1_000) as f64 / 1_000.0;
        let mut pace = run
            .pace(rate, lanes.gaps, part)
            .after(Duration::from_secs_f64(share / rate));
        let mut out = Vec::new();
        loop {
            let sending = run.phase() != Phase::Ending;
            if !sending && free.len() == slots.len() {
                run.paced(&pace);
                return Ok(());
            }
            let mut now = None;
            let each = |text: &[u8]| {
                let now = *now.get_or_insert_with(Instant::now);
                lanes.answered(talk.take(text), now, slots, free);
            };
            tokio::select! {
                () = pace.wait(), if sending => {}
                () = run.ended(), if sending => continue,
                read = socket.exchange(&mut out, each) => read?,
            }
            let now = Instant::now();
            while run.phase() != Phase::Ending
                && let Some(scheduled) = pace.due(now)
            {
                if free.is_empty() {
                    if slots.len() == SLOTS_MAX {
                        lanes.overrun();
                        break;
                    }
                    free.push(slots.len());
                    slots.push(None);
                }
                let slot = free.pop().expect("one was just put there if none was");
                talk.put(&mut out, slot);
                slots[slot] = Some(scheduled);
            }
        }
    }
}

impl Lanes {
    fn answered(
        &self,
        answer: Option<Answer>,
        now: Instant,
        slots: &mut [Option<Instant>],
        free: &mut Vec<usize>,
    ) {
        let Some(Answer { slot, counts }) = answer else {
            return;
        };
        let Some(from) = slots.get_mut(slot).and_then(Option::take) else {
            let what = format_args!("an answer to request {slot}, which is not on the way");
            return self.run.checks.fault(what);
        };
        free.push(slot);
        if counts
            && self.recorder.record(from, now)
            && self.most.is_some_and(|most| self.recorder.count() >= most)
        {
            self.run.end_early();
        }
    }

    fn overrun(&self) {
        let name = self.recorder.name();
        self.run.invalid(format!(
            "the server does not keep up with the rate: {SLOTS_MAX} {name} requests of a connection on the way"
        ));
        self.run.end_early();
    }
}
