//! What publisher and readers of `slow` share: times by number, positions, and how connections ended.
//!
//! Owns: these. Promises: message k is the k-th one sent, so that its time is known before it can arrive. Must not:
//! count the latency of readers that stopped: they chose it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::random::Random;
use crate::recorder::{Counts, Recorder};
use crate::request::Answer;
use crate::rpc::Appended;
use crate::run::Run;

/// See the top.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    pub(super) timeline: String,
    pub(super) epoch: String,
    text: String,
    delivery: Rc<Recorder>,
    acks: Rc<Recorder>,
    /// Scheduled time of message k, at k - 1.
    sent: RefCell<Vec<Instant>>,
    acked: Cell<u64>,
    /// By reader.
    positions: RefCell<Vec<u64>>,
    delivered: Cell<u64>,
    pub(super) ends: Cell<Ends>,
    /// The server's memory before readers stopped, and when they were closed.
    pub(super) memory: RefCell<Vec<Option<f64>>>,
}

/// How connections of readers that stopped ended.
#[derive(Clone, Copy, Default)]
pub(super) struct Ends {
    /// With 4000.
    pub(super) told: u64,
    /// Without a word: it read again after the server had given up its goodbye.
    pub(super) cut: u64,
    /// Pausing readers that overslept and were closed.
    pub(super) pausing: u64,
    /// Pauses after which a reader caught up.
    pub(super) pauses: u64,
}

impl Board {
    pub(super) fn new(
        run: &Rc<Run>,
        timeline: &str,
        epoch: &str,
        size: usize,
        readers: usize,
    ) -> Board {
        Board {
            run: Rc::clone(run),
            timeline: timeline.to_owned(),
            epoch: epoch.to_owned(),
            text: Random::new(run.seed).text(size),
            delivery: run.recorder("delivery", Counts::Scheduled),
            acks: run.recorder("ack", Counts::Scheduled),
            sent: RefCell::default(),
            acked: Cell::new(0),
            positions: RefCell::new(vec![0; readers]),
            delivered: Cell::new(0),
            ends: Cell::default(),
            memory: RefCell::default(),
        }
    }

    /// The next message: its number, which is the request's too, and its parameters.
    pub(super) fn put(&self, scheduled: Instant) -> (u64, Value) {
        let mut sent = self.sent.borrow_mut();
        sent.push(scheduled);
        let number = sent.len() as u64;
        let params = json!({
            "timeline": self.timeline,
            "message_id": format!("m-{number}"),
            "entry": { "text": self.text },
        });
        (number, params)
    }

    /// An answer came for the publisher.
    pub(super) fn answered(&self, text: &[u8], now: Instant) -> Result<(), String> {
        let answer = Answer::read(text).ok_or("not an answer")?;
        let appended: Appended = answer.result()?;
        self.acked.set(self.acked.get() + 1);
        if appended.sequence != answer.id || appended.duplicate {
            let sequence = appended.sequence;
            return Err(format!("message {} became {sequence}", answer.id));
        }
        let scheduled = self.time_of(answer.id)?;
        self.acks.record(scheduled, now);
        Ok(())
    }

    fn time_of(&self, number: u64) -> Result<Instant, String> {
        let place = number.wrapping_sub(1) as usize;
        let sent = self.sent.borrow();
        let time = sent.get(place).copied();
        time.ok_or_else(|| format!("{number} was not sent"))
    }

    /// Messages came for a reader; `fresh` if it is one that never stopped.
    pub(super) fn delivered(
        &self,
        reader: usize,
        first: u64,
        last: u64,
        fresh: Option<Instant>,
    ) -> Result<(), String> {
        self.positions.borrow_mut()[reader] = last;
        self.delivered.set(self.delivered.get() + last + 1 - first);
        for number in first..=last {
            let scheduled = self.time_of(number)?;
            if let Some(now) = fresh {
                self.delivery.record(scheduled, now);
            }
        }
        Ok(())
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.borrow().len() as u64
    }

    pub(super) fn acked(&self) -> u64 {
        self.acked.get()
    }

    pub(super) fn unanswered(&self) -> u64 {
        self.sent() - self.acked.get()
    }

    /// Everything was answered and is with every reader.
    pub(super) fn complete(&self) -> bool {
        let sent = self.sent();
        self.unanswered() == 0 && self.positions.borrow().iter().all(|at| *at == sent)
    }

    /// Counts another end, or pause.
    pub(super) fn ended(&self, count: impl FnOnce(&mut Ends)) {
        let mut ends = self.ends.get();
        count(&mut ends);
        self.ends.set(ends);
    }

    /// Measured acknowledgements and deliveries.
    pub(super) fn measured(&self) -> (u64, u64) {
        (self.acks.count(), self.delivery.count())
    }

    /// At the end: who lacks something.
    pub(super) fn close(&self) {
        let (sent, checks) = (self.sent(), &self.run.checks);
        if self.unanswered() > 0 {
            checks.fault(format_args!(
                "{} appends without an answer",
                self.unanswered()
            ));
        }
        for (reader, position) in self.positions.borrow().iter().enumerate() {
            if *position != sent {
                checks.fault(format_args!(
                    "reader {reader} has {position} of {sent} messages"
                ));
            }
        }
        checks.made("messages appended", self.acked.get());
        checks.made("deliveries in order", self.delivered.get());
    }
}
