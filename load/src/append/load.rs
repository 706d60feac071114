//! The measured part of `append`, closed: each connection keeps its messages on the way, in one task, on one thread.
//!
//! Owns: the closed loop, and what it shares with the open one: the board that takes replies. Promises: latency runs
//! from handing a message to the socket until its reply was read; what is acknowledged outside of the measured time
//! counts for the check at the end, not for the figure. Must not: repeat a refused message: `busy` is counted and the
//! loop goes on.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use super::Append;
use super::open;
use super::template::{Reply, Template, read_reply};
use crate::exit::Stop;
use crate::frame::Lean;
use crate::outcome::Better;
use crate::random::Random;
use crate::recorder::{Counts, Recorder};
use crate::run::{Phase, Run};

/// How long what is on the way at the end is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all connections of the thread share.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    acks: Rc<Recorder>,
    /// Stop measuring at so many.
    messages: Option<u64>,
    tally: RefCell<Tally>,
}

struct Tally {
    busy: u64,
    /// Acknowledged per timeline, over the whole run.
    acked: Vec<u32>,
}

/// What a connection has on the way: timeline and the time from which its latency counts.
pub(super) type Slots = Vec<Option<(u64, Instant)>>;

/// One connection before its first message.
pub(super) struct Ready {
    pub(super) number: usize,
    pub(super) template: Template,
    pub(super) socket: Lean,
    pub(super) random: Random,
    pub(super) timelines: u64,
    pub(super) board: Rc<Board>,
}

/// Runs all connections through warm-up, measurement and end. Returns what was acknowledged, per timeline.
pub(super) async fn run(args: &Append, run: &Rc<Run>, prefix: &str) -> Result<Vec<u32>, Stop> {
    let timelines = usize::try_from(args.timelines)
        .map_err(|_| Stop::Usage("too many timelines for this machine".into()))?;
    let counts = args.rate.map_or(Counts::Ended, |_| Counts::Scheduled);
    let board = Rc::new(Board {
        run: Rc::clone(run),
        acks: run.recorder("ack", counts),
        messages: args.messages,
        tally: RefCell::new(Tally {
            busy: 0,
            acked: vec![0; timelines],
        }),
    });
    let mut ready = Vec::new();
    for number in 0..args.connections {
        let lost = |error| Stop::Unreachable(format!("connection {number}: {error}"));
        let ids = format!("{}-{number}-", run.tag);
        ready.push(Ready {
            number,
            template: Template::new(prefix, &ids, args.size, args.message_ids, run.seed),
            socket: Lean::open(&run.url).await.map_err(lost)?,
            random: Random::new(run.seed_of(number as u64)),
            timelines: args.timelines,
            board: Rc::clone(&board),
        });
    }
    let start = |ready: Ready| match args.rate {
        None => spawn_local(Lane::new(ready, args.in_flight).run()),
        Some(rate) => spawn_local(open::run(ready, rate / args.connections as f64, args.gaps)),
    };
    let tasks: Vec<_> = ready.into_iter().map(start).collect();
    let until = args.messages.map_or(run.setup.seconds, |_| f64::INFINITY);
    run.measure_for(until).await;
    let ending = async {
        for task in tasks {
            task.await
                .map_err(|error| Stop::Own(format!("a connection failed: {error}")))?;
        }
        Ok(())
    };
    match timeout(PATIENCE, ending).await {
        Ok(ended) => ended?,
        Err(_) => run
            .checks
            .fault(format_args!("appends without an answer after {PATIENCE:?}")),
    }
    let seconds = run.window().length().as_secs_f64().max(0.001);
    let acks = board.acks.count() as f64;
    run.figure("appends_per_second", acks / seconds, "1/s", Better::Higher);
    let tally = board.tally.borrow();
    run.figure("busy", tally.busy as f64, "1", Better::Lower);
    Ok(tally.acked.clone())
}

/// One connection of the closed loop.
struct Lane {
    ready: Ready,
    slots: Slots,
    sent: u64,
}

impl Lane {
    fn new(ready: Ready, in_flight: usize) -> Lane {
        Lane {
            ready,
            slots: vec![None; in_flight],
            sent: 0,
        }
    }

    async fn run(mut self) {
        if let Err(error) = self.work().await {
            self.ready.board.lost(self.ready.number, &error);
        }
    }

    async fn work(&mut self) -> std::io::Result<()> {
        let Ready {
            template,
            socket,
            random,
            timelines,
            board,
            ..
        } = &mut self.ready;
        let mut out = Vec::with_capacity(self.slots.len() * template.frame_bytes());
        let mut free: Vec<usize> = (0..self.slots.len()).collect();
        loop {
            if board.run.phase() != Phase::Ending {
                let now = Instant::now();
                for slot in free.drain(..) {
                    let timeline = random.below(*timelines);
                    template.stamp(&mut out, slot, timeline, self.sent);
                    self.sent += 1;
                    self.slots[slot] = Some((timeline, now));
                }
                socket.write(&out).await?;
                out.clear();
            } else if free.len() == self.slots.len() {
                return Ok(());
            }
            let slots = &mut self.slots;
            let mut now = None;
            socket
                .read(|text| {
                    let now = *now.get_or_insert_with(Instant::now);
                    board.take(text, now, slots, &mut free);
                })
                .await?;
        }
    }
}

impl Board {
    /// A connection is gone. The figure would be of fewer than asked for: the run ends.
    pub(super) fn lost(&self, number: usize, error: &std::io::Error) {
        let run = &self.run;
        run.checks
            .fault(format_args!("connection {number}: {error}"));
        run.end_early();
    }

    /// A reply came: frees its slot.
    pub(super) fn take(
        &self,
        text: &[u8],
        now: Instant,
        slots: &mut [Option<(u64, Instant)>],
        free: &mut Vec<usize>,
    ) {
        let checks = &self.run.checks;
        let (slot, refused) = match read_reply(text) {
            Reply::Done(slot) => (slot, None),
            Reply::Refused(slot, reason) => (slot, Some(reason)),
            Reply::Odd => {
                let text = String::from_utf8_lossy(text);
                return checks.fault(format_args!("not an answer to an append: {text:.200}"));
            }
        };
        let Some((timeline, sent)) = slots.get_mut(slot).and_then(Option::take) else {
            let what = format_args!("an answer to request {slot}, which is not on the way");
            return checks.fault(what);
        };
        free.push(slot);
        match refused {
            None => {
                self.tally.borrow_mut().acked[timeline as usize] += 1;
                self.acks.record(sent, now);
                if self.messages.is_some_and(|most| self.acks.count() >= most) {
                    self.run.end_early();
                }
            }
            Some(reason) if reason == "busy" => self.tally.borrow_mut().busy += 1,
            Some(reason) => checks.fault(format_args!("an append was refused: {reason}")),
        }
    }
}
