//! One run of a profile: warm-up, measurement, what is looked at meanwhile, and the result at the end.
//!
//! Owns: the phases, the recorders, the checks, the samples. Promises: every profile's result has the same parts, made
//! here. Must not: know what a profile does. Everything lives on one thread: the server needs the machine more than its
//! load does.
//!
//! Use, in a profile's `drive`: make recorders and spawn the clients with `tokio::task::spawn_local` (each holds the
//! `Rc<Run>`, and looks at `run.phase()`); `run.measure().await` goes through warm-up and measurement; wait for the
//! clients, check, enter figures. A profile with other phases calls `begin` and `finish` itself.

pub(crate) mod groups;
pub mod machine;
pub mod process;
pub mod scenario;
pub mod setup;
pub(crate) mod tally;
pub mod watch;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

pub use crate::client::pace::Gaps;
use crate::client::pace::{LATE_SHARE_MAX, Lateness, Pace};
use crate::exit::Stop;
pub use crate::outcome::Better;
use crate::outcome::checks::Checks;
pub use crate::outcome::recorder::{Counts, Phase};
use crate::outcome::recorder::{Recorder, Window};
use crate::outcome::{FORMAT, Moved, Outcome, Samples};
use crate::random::Random;
use machine::{Machine, usage, used, wall_micros};
use process::{Launch, Server};
use setup::Setup;
use watch::metrics;

/// One run. Profiles share it by `Rc`.
pub struct Run {
    /// Where to connect.
    pub url: String,
    /// Seed of everything that is chosen.
    pub seed: u64,
    /// A text of this run's own, for names that no earlier run used.
    pub tag: String,
    /// The flags that every profile has.
    pub setup: Setup,
    /// What was checked.
    pub checks: Checks,
    /// The server's process, if known.
    pub pid: Option<u32>,
    /// The server, if it was started here.
    pub server: RefCell<Option<(Launch, Server)>>,
    /// When measuring is on.
    pub window: Rc<Window>,
    ended: Notify,
    lateness: Rc<RefCell<Lateness>>,
    recorders: RefCell<Vec<Rc<Recorder>>>,
    gauges: RefCell<Vec<(String, Rc<Cell<f64>>)>>,
    /// The result, as far as it is known.
    outcome: RefCell<Outcome>,
    bar: ProgressBar,
}

impl Run {
    /// A run against a server.
    pub fn new(setup: &Setup, url: String, pid: Option<u32>) -> Rc<Run> {
        let seed = setup.seed.unwrap_or_else(Random::fresh_seed);
        let bar = match setup.quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::no_length(),
        };
        let style = ProgressStyle::with_template(PROGRESS).expect("a constant that parses");
        Rc::new(Run {
            url,
            seed,
            tag: Random::new(Random::fresh_seed()).text(8),
            setup: setup.clone(),
            checks: Checks::default(),
            pid,
            server: RefCell::default(),
            window: Rc::default(),
            ended: Notify::new(),
            lateness: Rc::default(),
            recorders: RefCell::default(),
            gauges: RefCell::default(),
            outcome: RefCell::new(Outcome {
                format: FORMAT,
                tool: env!("CARGO_PKG_VERSION").to_owned(),
                label: setup.label.clone(),
                began_ms: wall_micros() / 1_000,
                seed,
                machine: Machine::here(),
                ..Outcome::default()
            }),
            bar: bar.with_style(style),
        })
    }

    /// Whether there are several addresses: then connections that are lost come again.
    pub fn is_cluster(&self) -> bool {
        self.url.contains(',')
    }

    /// A seed for one part of the run (connection 7, the texts), which no other part has.
    pub fn seed_of(&self, part: u64) -> u64 {
        Random::new(self.seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(u64::MAX)
    }

    /// What names begin with, so that no earlier run used it.
    pub fn prefix(&self, kind: &str) -> String {
        format!("{kind}-{}/", self.tag)
    }

    /// A recorder of latencies: "ack", "page". The first one made is what the progress shows.
    pub fn recorder(&self, name: &str, counts: Counts) -> Rc<Recorder> {
        let recorder = Rc::new(Recorder::new(name, counts, Rc::clone(&self.window)));
        self.recorders.borrow_mut().push(Rc::clone(&recorder));
        recorder
    }

    /// A number that is sampled every second, for pictures: `connections`. Its unit is the end of its name.
    pub fn gauge(&self, name: &str) -> Rc<Cell<f64>> {
        let gauge = Rc::default();
        let named = (name.to_owned(), Rc::clone(&gauge));
        self.gauges.borrow_mut().push(named);
        gauge
    }

    /// Where the run is.
    pub fn phase(&self) -> Phase {
        self.window.phase()
    }

    /// Ends the measurement now: enough was measured, or it can't go on.
    pub fn end_early(&self) {
        self.window.end(Instant::now());
        self.ended.notify_waiters();
    }

    /// A fault after which nothing is left to measure.
    pub fn fault(&self, what: &str) {
        self.checks.fault(what);
        self.end_early();
    }

    /// Waits until what is on its way has come; it is a fault if that takes too long.
    pub async fn wait_for(&self, what: &str, is_done: impl Fn() -> bool) {
        self.checks.wait_for(&is_done).await;
        if !is_done() {
            self.fault(&format!("not all {what} came in time"));
        }
    }

    /// Waits until nothing new is to be sent. Cancel-safe.
    pub async fn ended(&self) {
        while self.phase() != Phase::Ending {
            // On one thread nothing comes between the look at the phase and the first poll of this.
            self.ended.notified().await;
        }
    }

    /// A schedule of `rate` operations a second, for the part of the run whose seed it takes; more than 1 % late makes
    /// the run invalid.
    pub fn pace(&self, rate: f64, gaps: Gaps, part: u64) -> Pace {
        let late = Duration::from_secs_f64(self.setup.late_ms.max(0.0) / 1_000.0);
        let seed = self.seed_of(part);
        Pace::new(rate, gaps, seed, late, &self.window, &self.lateness)
    }

    /// The figures may not be believed, and why.
    pub fn invalid(&self, reason: impl Into<String>) {
        let reason = reason.into();
        let reasons = &mut self.outcome.borrow_mut().validity.reasons;
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    /// Enters a figure.
    pub fn figure(&self, name: &str, value: f64, unit: &str, better: Better) {
        let mut outcome = self.outcome.borrow_mut();
        outcome.figure(name, value, unit, better);
    }

    /// Counts so many more of something: a figure, which neither is good nor bad unless it was entered as that.
    pub fn add(&self, name: &str, more: u64) {
        let mut outcome = self.outcome.borrow_mut();
        match outcome.figures.get_mut(name) {
            Some(figure) => figure.value += more as f64,
            None => outcome.figure(name, more as f64, "1", Better::Neither),
        }
    }

    /// A figure that was entered.
    pub fn value(&self, figure: &str) -> Option<f64> {
        Some(self.outcome.borrow().figures.get(figure)?.value)
    }

    /// Enters a figure of so many in the measurement, by the second.
    pub fn rate(&self, name: &str, count: u64) {
        self.figure(name, count as f64 / self.seconds(), "1/s", Better::Higher);
    }

    /// Enters something that is neither figure nor setting: prefix, counts by kind.
    pub fn detail(&self, name: &str, value: impl Serialize) {
        let details = &mut self.outcome.borrow_mut().details;
        details.insert(name.to_owned(), json!(value));
    }

    /// Says on the progress line what is going on.
    pub fn tell(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Warm-up, then the measurement, each as long as the flags say.
    pub async fn measure(self: &Rc<Run>) {
        self.measure_for(self.setup.seconds).await;
    }

    /// As `measure`, but so long; infinite = until `end_early`.
    pub async fn measure_for(self: &Rc<Run>, seconds: f64) {
        self.pass(self.setup.warm_up).await;
        self.begin().await;
        self.pass(seconds).await;
        self.finish().await;
    }

    /// Lets so many seconds go by, showing it, unless the run is ended early.
    pub async fn pass(&self, seconds: f64) {
        let is_measuring = self.phase() == Phase::Measuring;
        let stage = if is_measuring { "measuring" } else { "warm-up" };
        self.bar.set_prefix(format!("{stage}, {seconds} s"));
        // Infinite is as long as there is.
        let length = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        // Errors mean that the time is up.
        let _ = tokio::time::timeout(length, self.ended()).await;
    }

    /// Measuring begins.
    pub async fn begin(self: &Rc<Run>) {
        let metrics = metrics(&self.url).await.unwrap_or_default();
        if self.phase() == Phase::Ending {
            return;
        }
        let moved = metrics.into_iter().map(|(name, before)| {
            let after = before;
            (name, Moved { before, after })
        });
        self.outcome.borrow_mut().metrics = moved.collect();
        self.window.begin(Instant::now());
        self.sample();
        tokio::task::spawn_local(Rc::clone(self).sampling());
    }

    /// Measuring ends; nothing new is sent from here on.
    pub async fn finish(&self) {
        self.end_early();
        self.sample();
        let grown = |name: &str| {
            let Samples { at, value } = self.samples(name)?;
            // Of a server that was killed meanwhile not all is known.
            (at.last() == Some(&self.at())).then_some(value.last()? - value.first()?)
        };
        for who in PROCESSES {
            if let Some(cpu) = grown(&format!("{who}_cpu_seconds")) {
                let name = |of| format!("{who}_cpu_{of}");
                self.figure(&name("seconds"), cpu, "s", Better::Neither);
                let share = cpu * 100.0 / self.seconds();
                self.figure(&name("share"), share, "%", Better::Neither);
            }
        }
        let written = "server_written_bytes";
        if let Some(bytes) = grown(written) {
            self.figure(written, bytes, "bytes", Better::Lower);
        }
        let metrics = metrics(&self.url).await.unwrap_or_default();
        let moved = &mut self.outcome.borrow_mut().metrics;
        for (name, after) in metrics {
            // What is new began at 0.
            moved.entry(name).or_default().after = after;
        }
    }

    /// Of the measurement so far, never 0.
    fn seconds(&self) -> f64 {
        self.window.length().as_secs_f64().max(0.001)
    }

    /// When it is, from the beginning of the measurement up to its end.
    fn at(&self) -> f64 {
        self.window.length().as_millis() as f64 / 1_000.0
    }

    async fn sampling(self: Rc<Run>) {
        let mut every = tokio::time::interval(Duration::from_secs(1));
        every.tick().await;
        while self.phase() == Phase::Measuring {
            every.tick().await;
            if self.phase() == Phase::Measuring {
                self.sample();
            }
        }
    }

    /// Samples gauges and processes now; profiles may do so at their own moments, too.
    pub fn sample(&self) {
        if let Some(first) = self.recorders.borrow().first() {
            self.bar.set_position(first.count());
        }
        let at = self.at();
        let samples = &mut self.outcome.borrow_mut().series.samples;
        let mut put = |name: String, value: f64| {
            let column = samples.entry(name).or_default();
            column.at.push(at);
            column.value.push(value);
        };
        for (name, gauge) in self.gauges.borrow().iter() {
            put(name.clone(), gauge.get());
        }
        let pids = [Some(std::process::id()), self.pid];
        for (who, pid) in PROCESSES.into_iter().zip(pids) {
            for (name, value) in pid.map(usage).unwrap_or_default() {
                put(format!("{who}_{name}"), value);
            }
        }
    }

    /// What the server uses now, as samples call it; `None` if its process is not known.
    pub fn used(&self, name: &str) -> Option<f64> {
        used(self.pid?, name)
    }

    /// What was sampled under a name so far.
    pub fn samples(&self, name: &str) -> Option<Samples> {
        self.outcome.borrow().series.samples.get(name).cloned()
    }

    /// The result, when the profile is through.
    pub fn outcome(&self, profile: &str, settings: &impl Serialize) -> Result<Outcome, Stop> {
        let Ok(Value::Object(settings)) = serde_json::to_value(settings) else {
            return Err(Stop::Own("settings that are no object".to_owned()));
        };
        self.bar.finish_and_clear();
        let lateness = *self.lateness.borrow();
        let (percent, late_ms) = (lateness.share() * 100.0, self.setup.late_ms);
        if lateness.share() > LATE_SHARE_MAX {
            self.invalid(format!(
                "the generator fell behind: {percent:.1} % of the operations were sent more than {late_ms} ms late"
            ));
        }
        let mut outcome = self.outcome.take();
        outcome.profile = profile.to_owned();
        outcome.settings = settings;
        outcome.seconds = self.window.length().as_secs_f64();
        outcome.validity.lateness = Some(lateness).filter(|lateness| lateness.sent > 0);
        outcome.validity.valid = outcome.validity.reasons.is_empty();
        outcome.checks = self.checks.checked();
        for recorder in self.recorders.borrow().iter() {
            let (total, seconds) = recorder.recorded();
            outcome.latency(recorder.name(), &total, seconds);
        }
        Ok(outcome)
    }
}

const PROGRESS: &str = "{prefix} {elapsed}: {pos} so far, {per_sec} {msg}";
/// Whose use of the machine is looked at.
const PROCESSES: [&str; 2] = ["generator", "server"];
