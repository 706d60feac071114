//! What the clients of a storm share: the timelines, where their heads are, what every message is, and the times.
//!
//! Owns: these, and the count of what came. Promises: each timeline has one epoch, the first that anybody was told.
//! Must not: know connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::client::Client;
use crate::random::Random;
use crate::recorder::{Counts, Recorder};
use crate::run::Run;
use crate::template::timeline_name;

/// See the top.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    timelines: Vec<Timeline>,
    /// The entry of all messages, as JSON.
    pub(super) entry: String,
    head: Cell<u64>,
    began: Cell<Instant>,
    last: Cell<Instant>,
    /// From the first connect of all to a client's last head.
    caught_up: Rc<Recorder>,
    /// From a client's own connect to its open connection.
    connect: Rc<Recorder>,
    /// From a client's subscribes to its last head.
    resume: Rc<Recorder>,
    delivered: Cell<u64>,
}

/// One of the shared timelines.
pub(super) struct Timeline {
    pub(super) name: String,
    epoch: RefCell<Option<String>>,
}

impl Board {
    pub(super) fn new(run: &Rc<Run>, prefix: &str, timelines: u64, size: usize) -> Board {
        let timeline = |number| Timeline {
            name: timeline_name(prefix, number),
            epoch: RefCell::default(),
        };
        let now = Instant::now();
        Board {
            run: Rc::clone(run),
            timelines: (0..timelines).map(timeline).collect(),
            // As the preload sends it.
            entry: json!({ "text": Random::new(run.seed).text(size) }).to_string(),
            head: Cell::new(0),
            began: Cell::new(now),
            last: Cell::new(now),
            caught_up: run.recorder("caught_up", Counts::Ended),
            connect: run.recorder("connect", Counts::Ended),
            resume: run.recorder("resume", Counts::Ended),
            delivered: Cell::new(0),
        }
    }

    pub(super) fn timelines(&self) -> u64 {
        self.timelines.len() as u64
    }

    pub(super) fn timeline(&self, number: u64) -> &Timeline {
        &self.timelines[number as usize]
    }

    /// Every timeline now holds, or is about to hold, so many messages.
    pub(super) fn heads_are(&self, head: u64) {
        self.head.set(head);
    }

    pub(super) fn head(&self) -> u64 {
        self.head.get()
    }

    /// The return begins.
    pub(super) fn begin(&self) {
        self.began.set(Instant::now());
    }

    /// A client stands at every head.
    pub(super) fn arrived(&self, from: Instant, connected: Instant, now: Instant) {
        self.last.set(now);
        self.connect.record(from, connected);
        self.resume.record(connected, now);
        self.caught_up.record(self.began.get(), now);
    }

    /// From the beginning of the return to the last arrival.
    pub(super) fn took(&self) -> Duration {
        self.last.get().saturating_duration_since(self.began.get())
    }

    /// So many messages came, each where it belongs.
    pub(super) fn delivered(&self, count: u64) {
        self.delivered.set(self.delivered.get() + count);
    }

    /// At the end: who lacks something.
    pub(super) fn close(&self, clients: &[Client]) {
        let checks = &self.run.checks;
        let mut there = 0;
        for client in clients {
            let missing = client.missing(self);
            if missing.is_empty() {
                there += 1;
            } else {
                let number = client.number;
                checks.fault(format_args!("client {number} lacks {}", missing.join(", ")));
            }
        }
        checks.made("clients with everything", there);
        checks.made("deliveries in order", self.delivered.get());
    }
}

impl Timeline {
    /// Whether this is the epoch that all were told.
    pub(super) fn stands(&self, epoch: &str) -> bool {
        let mut known = self.epoch.borrow_mut();
        known.get_or_insert_with(|| epoch.to_owned()) == epoch
    }

    /// The epoch, once anybody was told it.
    pub(super) fn epoch(&self) -> Option<String> {
        self.epoch.borrow().clone()
    }
}
