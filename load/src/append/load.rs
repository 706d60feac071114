//! The measured part of `append`, closed: each connection keeps its messages on the way, in one task, on one thread.
//!
//! Owns: the closed loop. Promises: latency runs from handing a message to the socket until its reply was read; what is
//! acknowledged outside of the measured time counts for the check at the end, not for the figure. Must not: repeat a
//! refused message: `busy` is counted and the loop goes on.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::task::spawn_local;
use tokio::time::Instant;

use super::Append;
use super::template::{Reply, Template, read_reply};
use crate::exit::Stop;
use crate::frame::Lean;
use crate::outcome::Better;
use crate::random::Random;
use crate::recorder::{Counts, Recorder};
use crate::run::{Phase, Run};

/// What all connections of the thread share.
struct Board {
    run: Rc<Run>,
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

/// Runs all connections through warm-up, measurement and end. Returns what was acknowledged, per timeline.
pub(super) async fn run(args: &Append, run: &Rc<Run>, prefix: &str) -> Result<Vec<u32>, Stop> {
    let timelines = usize::try_from(args.timelines)
        .map_err(|_| Stop::Usage("too many timelines for this machine".into()))?;
    let board = Rc::new(Board {
        run: Rc::clone(run),
        acks: run.recorder("ack", Counts::Ended),
        messages: args.messages,
        tally: RefCell::new(Tally {
            busy: 0,
            acked: vec![0; timelines],
        }),
    });
    let mut tasks = Vec::new();
    for number in 0..args.connections {
        let lost = |error| Stop::Unreachable(format!("connection {number}: {error}"));
        let socket = Lean::open(&run.url).await.map_err(lost)?;
        let ids = format!("{}-{number}-", run.tag);
        let lane = Lane {
            template: Template::new(prefix, &ids, args.size, args.message_ids, run.seed),
            socket,
            random: Random::new(run.seed_of(number as u64)),
            timelines: args.timelines,
            slots: vec![None; args.in_flight],
            sent: 0,
            board: Rc::clone(&board),
        };
        tasks.push(spawn_local(lane.run(number)));
    }
    let until = args.messages.map_or(run.setup.seconds, |_| f64::INFINITY);
    run.measure_for(until).await;
    for task in tasks {
        task.await
            .map_err(|error| Stop::Own(format!("a connection failed: {error}")))?;
    }
    let seconds = run.window().length().as_secs_f64().max(0.001);
    let acks = board.acks.count() as f64;
    run.figure("appends_per_second", acks / seconds, "1/s", Better::Higher);
    let tally = board.tally.borrow();
    run.figure("busy", tally.busy as f64, "1", Better::Lower);
    Ok(tally.acked.clone())
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
    board: Rc<Board>,
}

impl Lane {
    async fn run(mut self, number: usize) {
        if let Err(error) = self.work().await {
            let run = &self.board.run;
            run.checks
                .fault(format_args!("connection {number}: {error}"));
            // The figure would be of fewer connections than asked for: end it.
            run.end_early();
        }
    }

    async fn work(&mut self) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(self.slots.len() * self.template.frame_bytes());
        let mut free: Vec<usize> = (0..self.slots.len()).collect();
        loop {
            if self.board.run.phase() != Phase::Ending {
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
                    board.take(text, now, slots, &mut free);
                })
                .await?;
        }
    }
}

impl Board {
    fn take(
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
