//! The measured part of `append`: each connection keeps its messages on the way, in one task, on one thread.
//!
//! Owns: the closed loop and its clock. Promises: latency runs from handing a message to the socket until its reply was
//! read; what is acknowledged outside of the measured time counts for the check at the end, not for the figure. Must
//! not: repeat a refused message: `busy` is counted and the loop goes on.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::LocalSet;

use super::template::{Reply, Template, read_reply};
use super::{Append, processor};
use crate::exit::Stop;
use crate::frame::Lean;
use crate::random::Random;

/// What the measurement gave.
pub(super) struct Measured {
    pub(super) latency: Histogram<u64>,
    pub(super) seconds: f64,
    pub(super) busy: u64,
    /// Acknowledged per timeline, over the whole run.
    pub(super) acked: Vec<u32>,
    pub(super) generator_cpu_seconds: Option<f64>,
    pub(super) server_cpu_seconds: Option<f64>,
    pub(super) faults: Vec<String>,
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
    /// Stop measuring at so many.
    messages: Option<u64>,
    ended: Option<Instant>,
    busy: u64,
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

/// Runs all connections through warm-up, measurement and end.
pub(super) async fn run(
    args: &Append,
    prefix: &str,
    tag: &str,
    seed: u64,
) -> Result<Measured, Stop> {
    let too_many = |_| Stop::Usage("too many timelines for this machine".into());
    let board = Rc::new(RefCell::new(Board {
        phase: Phase::WarmingUp,
        latency: Histogram::new_with_bounds(1, 60_000_000, 3)
            .map_err(|error| Stop::Own(error.to_string()))?,
        messages: args.messages,
        ended: None,
        busy: 0,
        acked: vec![0; usize::try_from(args.timelines).map_err(too_many)?],
        faults: Vec::new(),
    }));
    let local = LocalSet::new();
    let mut tasks = Vec::new();
    for number in 0..args.connections {
        let lost = |error| Stop::Unreachable(format!("connection {number}: {error}"));
        let socket = Lean::open(&args.url).await.map_err(lost)?;
        let ids = format!("{tag}-{number}-");
        let lane = Lane {
            template: Template::new(prefix, &ids, args.size, args.message_ids, seed),
            socket,
            random: Random::new(seed ^ ((number as u64 + 1) << 40)),
            timelines: args.timelines,
            slots: vec![None; args.in_flight],
            sent: 0,
            board: Rc::clone(&board),
        };
        tasks.push(local.spawn_local(lane.run(number)));
    }
    let (began, ended, cpu) = local.run_until(clock(args, &board)).await;
    local.await;
    for task in tasks {
        task.await
            .map_err(|error| Stop::Own(format!("a connection failed: {error}")))?;
    }
    let board = Rc::try_unwrap(board).map_err(|_| Stop::Own("a task is left".into()))?;
    let board = board.into_inner();
    Ok(Measured {
        latency: board.latency,
        seconds: (board.ended.unwrap_or(ended) - began).as_secs_f64(),
        busy: board.busy,
        acked: board.acked,
        generator_cpu_seconds: cpu.0,
        server_cpu_seconds: cpu.1,
        faults: board.faults,
    })
}

/// Moves the phases; returns when measuring began and ended, and the processor time of both processes between.
async fn clock(
    args: &Append,
    board: &RefCell<Board>,
) -> (Instant, Instant, (Option<f64>, Option<f64>)) {
    tokio::time::sleep(Duration::from_secs_f64(args.warm_up.max(0.0))).await;
    let before = processor(args.pid);
    let began = Instant::now();
    board.borrow_mut().phase = Phase::Measuring;
    if args.messages.is_some() {
        while board.borrow().phase == Phase::Measuring {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    } else {
        tokio::time::sleep(Duration::from_secs_f64(args.seconds.max(0.0))).await;
    }
    let ended = Instant::now();
    board.borrow_mut().phase = Phase::Ending;
    let after = processor(args.pid);
    let used = |after: Option<f64>, before: Option<f64>| Some(after? - before?);
    (
        began,
        ended,
        (used(after.0, before.0), used(after.1, before.1)),
    )
}

/// One connection.
struct Lane {
    template: Template,
    socket: Lean,
    random: Random,
    timelines: u64,
    /// On the way: timeline and time of sending.
    slots: Vec<Option<(u64, Instant)>>,
    sent: u64,
    board: Rc<RefCell<Board>>,
}

impl Lane {
    async fn run(mut self, number: usize) {
        if let Err(error) = self.work().await {
            let mut board = self.board.borrow_mut();
            board.fault(format!("connection {number}: {error}"));
            // The figure would be of fewer connections than asked for: end it.
            board.phase = Phase::Ending;
        }
    }

    async fn work(&mut self) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(self.slots.len() * self.template.frame_bytes());
        let mut free: Vec<usize> = (0..self.slots.len()).collect();
        loop {
            if self.board.borrow().phase != Phase::Ending {
                let now = Instant::now();
                for slot in free.drain(..) {
                    let timeline = self.random.below(self.timelines);
                    self.template.stamp(&mut out, slot, timeline, self.sent);
                    self.sent += 1;
                    self.slots[slot] = Some((timeline, now));
                }
                self.socket.write(&out).await?;
                out.clear();
            } else if free.len() == self.slots.len() {
                return Ok(());
            }
            let (slots, board) = (&mut self.slots, &self.board);
            let mut now = None;
            self.socket
                .read(|text| {
                    let now = *now.get_or_insert_with(Instant::now);
                    take(text, now, slots, &mut free, &mut board.borrow_mut());
                })
                .await?;
        }
    }
}

fn take(
    text: &[u8],
    now: Instant,
    slots: &mut [Option<(u64, Instant)>],
    free: &mut Vec<usize>,
    board: &mut Board,
) {
    let (slot, refused) = match read_reply(text) {
        Reply::Done(slot) => (slot, None),
        Reply::Refused(slot, reason) => (slot, Some(reason)),
        Reply::Odd => {
            let text = String::from_utf8_lossy(text);
            return board.fault(format!("not an answer to an append: {text:.200}"));
        }
    };
    let Some((timeline, sent)) = slots.get_mut(slot).and_then(Option::take) else {
        return board.fault(format!(
            "an answer to request {slot}, which is not on the way"
        ));
    };
    free.push(slot);
    match refused {
        None => {
            board.acked[timeline as usize] += 1;
            if board.phase == Phase::Measuring {
                let micros = u64::try_from((now - sent).as_micros()).unwrap_or(u64::MAX);
                board.latency.saturating_record(micros);
                if board
                    .messages
                    .is_some_and(|most| board.latency.len() >= most)
                {
                    board.phase = Phase::Ending;
                    board.ended = Some(now);
                }
            }
        }
        Some(reason) if reason == "busy" => board.busy += 1,
        Some(reason) => board.fault(format!("an append was refused: {reason}")),
    }
}
