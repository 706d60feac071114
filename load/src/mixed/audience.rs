//! Subscribers that are cut again and again and go on where they were.
//!
//! Owns: their count, and the latency of what they are pushed. Promises: from the first subscription to the end each
//! message comes once, in order, over all connections of a subscriber; at the end it has come as far as was
//! acknowledged; or it is a fault. Must not: look into entries; that is `replay`'s and `crash`'s matter.

use super::following::{Ear, Habit, Options, Shared, follow};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

use crate::exit::Stop;
use crate::follower::Event;
use crate::machine::wall_micros;
use crate::outcome::Better;
use crate::recorder::{Counts, Recorder};
use crate::run::{Phase, Run};

/// How long the subscribers may take to subscribe, and to catch up at the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// All subscribers of a run.
pub(super) struct Audience {
    run: Rc<Run>,
    shared: Arc<Shared>,
    deliveries: Rc<Recorder>,
    connected: Rc<Cell<f64>>,
    /// Subscriptions that were answered, each counted once.
    live: Cell<usize>,
    /// In the measurement: messages, connections that ended, subscriptions that went on from a position.
    messages: Cell<u64>,
    cuts: Cell<u64>,
    resumes: Cell<u64>,
}

/// One subscriber.
struct Seat {
    audience: Rc<Audience>,
    /// Subscriptions that it never had.
    unready: usize,
}

impl Audience {
    pub(super) fn new(run: &Rc<Run>, shared: &Arc<Shared>) -> Rc<Audience> {
        Rc::new(Audience {
            run: Rc::clone(run),
            shared: Arc::clone(shared),
            deliveries: run.recorder("delivery", Counts::Ended),
            connected: run.gauge("subscribers"),
            live: Cell::new(0),
            messages: Cell::new(0),
            cuts: Cell::new(0),
            resumes: Cell::new(0),
        })
    }

    /// A subscriber of these timelines, which is cut after so many seconds on average, if not 0. Its task ends when all
    /// that was written has come.
    pub(super) fn seat(
        self: &Rc<Audience>,
        number: usize,
        timelines: Vec<u64>,
        cut_seconds: f64,
    ) -> JoinHandle<()> {
        let cut_ms = cut_seconds * 1_000.0;
        let habit = if cut_ms > 0.0 {
            Habit::Cut
        } else {
            Habit::FromTheStart
        };
        let options = Options {
            name: format!("subscriber {number}"),
            habit,
            follows: timelines.iter().map(|one| (*one as usize, 0)).collect(),
            seed: self.run.seed_of((1 << 38) + number as u64),
            cuts: u32::MAX,
            cut_after_ms: ((cut_ms * 0.5) as u64, (cut_ms * 1.5) as u64),
            patience: PATIENCE,
        };
        let seat = Seat {
            audience: Rc::clone(self),
            unready: timelines.len(),
        };
        spawn_local(seat.live(options))
    }

    /// Waits until all have so many subscriptions together.
    pub(super) async fn all_live(&self, subscriptions: usize) -> Result<(), Stop> {
        let until = Instant::now() + PATIENCE;
        while self.live.get() < subscriptions {
            if Instant::now() > until {
                let first = self.run.checks.checked().told.into_iter().next();
                let why = first.unwrap_or_default();
                return Err(Stop::Unreachable(format!("no subscriptions: {why}")));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Enters what they did.
    pub(super) fn tell(&self) {
        self.run.rate("deliveries_per_second", self.messages.get());
        for (name, count) in [("cuts", &self.cuts), ("resumes", &self.resumes)] {
            let count = count.get() as f64;
            self.run.figure(name, count, "1", Better::Neither);
        }
    }

    fn count(&self, what: &Cell<u64>, more: u64) {
        if self.run.phase() == Phase::Measuring {
            what.set(what.get() + more);
        }
    }
}

impl Seat {
    async fn live(mut self, options: Options) {
        let audience = Rc::clone(&self.audience);
        let Audience { run, shared, .. } = &*audience;
        let places = match follow(shared, &options, &mut self).await {
            Ok(places) => places,
            Err(stop) => return self.fault(format!("{}: {stop}", options.name)),
        };
        for place in &places {
            let length = shared.progress[place.timeline].load(Ordering::Relaxed);
            if place.position != length {
                let (name, position) = (&shared.timelines[place.timeline], place.position);
                let who = &options.name;
                self.fault(format!(
                    "{who}: {name} came as far as {position} of {length}"
                ));
            }
        }
        let subscriptions = places.len() as u64;
        run.checks
            .made("subscriptions up to the end", subscriptions);
    }
}

impl Ear for Seat {
    fn hear(&mut self, event: Event<'_>) -> Result<(), String> {
        let audience = &self.audience;
        let checks = &audience.run.checks;
        match event {
            Event::Joined { after, .. } => {
                audience.count(&audience.resumes, u64::from(after > 0));
                if self.unready > 0 {
                    self.unready -= 1;
                    audience.live.set(audience.live.get() + 1);
                }
                Ok(())
            }
            Event::Heard(heard) => {
                audience.count(&audience.messages, heard.count);
                if !heard.live {
                    checks.made("messages resumed in order", heard.count);
                    return Ok(());
                }
                checks.made("messages pushed in order", heard.count);
                // The server's clock is this machine's, in ms.
                let took = wall_micros().saturating_sub(heard.timestamp * 1_000);
                let committed = heard.now.checked_sub(Duration::from_micros(took));
                let committed = committed.unwrap_or(heard.now);
                audience.deliveries.record(committed, heard.now);
                Ok(())
            }
            other => other.expected(),
        }
    }

    fn fault(&mut self, what: String) {
        self.audience.run.checks.fault(what);
    }

    fn connected(&mut self, begun: bool) {
        let audience = &self.audience;
        let more = if begun { 1.0 } else { -1.0 };
        audience.connected.set(audience.connected.get() + more);
        audience.count(&audience.cuts, u64::from(!begun));
    }
}
