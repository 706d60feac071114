//! One run of a profile: warm-up, measurement, what is looked at meanwhile, and the result at the end.
//!
//! Owns: the phases, the recorders, the checks, the samples. Promises: every profile's result has the same parts, made
//! here. Must not: know what a profile does. Everything lives on one thread: the server needs the machine more than its
//! load does.
//!
//! Use, in a profile's `drive`: make recorders and spawn the clients with `tokio::task::spawn_local` (each holds the
//! `Rc<Run>`, and looks at `run.phase()`); `run.measure().await` goes through warm-up and measurement; wait for the
//! clients, check, enter figures. A profile with other phases calls `begin` and `finish` itself.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checks::Checks;
use crate::exit::Stop;
use crate::machine::{Machine, Usage, wall_micros};
use crate::outcome::{Better, FORMAT, Figure, Outcome, Samples};
use crate::pace::{Gaps, LATE_SHARE_MAX, Pace};
use crate::process::{Launch, Server};
use crate::progress::Progress;
use crate::random::Random;
use crate::recorder::{Counts, Recorded, Recorder, Window};
use crate::setup::Setup;
use crate::watch::{self, Metrics};

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Load is on, nothing counts.
    WarmingUp,
    /// Everything counts.
    Measuring,
    /// No new operations; what is on the way is waited for.
    Ending,
}

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
    phase: Cell<Phase>,
    window: Arc<Window>,
    ended: Notify,
    /// The server, if it was started here.
    pub server: RefCell<Option<(Launch, Server)>>,
    recorders: RefCell<Vec<Rc<Recorder>>>,
    gauges: RefCell<Vec<(String, Rc<Cell<f64>>)>>,
    /// The result, as far as it is known.
    outcome: RefCell<Outcome>,
    /// At the beginning of the measurement.
    metrics: RefCell<Metrics>,
    usage: Cell<[Usage; 2]>,
    progress: Progress,
}

impl Run {
    /// A run against a server.
    #[must_use]
    pub fn new(setup: &Setup, url: String, pid: Option<u32>) -> Rc<Run> {
        let seed = setup.seed.unwrap_or_else(Random::fresh_seed);
        Rc::new(Run {
            url,
            seed,
            tag: Random::new(Random::fresh_seed()).text(8),
            setup: setup.clone(),
            checks: Checks::default(),
            pid,
            phase: Cell::new(Phase::WarmingUp),
            window: Arc::new(Window::default()),
            ended: Notify::new(),
            server: RefCell::default(),
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
            metrics: RefCell::default(),
            usage: Cell::default(),
            progress: Progress::new(setup.quiet),
        })
    }

    /// A seed for one part of the run (connection 7, the texts), which no other part has.
    #[must_use]
    pub fn seed_of(&self, part: u64) -> u64 {
        Random::new(self.seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits()
    }

    /// What names begin with: as the flags say, or so that no earlier run used it.
    #[must_use]
    pub fn prefix(&self, given: Option<&str>, kind: &str) -> String {
        given.map_or_else(|| format!("{kind}-{}/", self.tag), str::to_owned)
    }

    /// A recorder of latencies: "ack", "page". The first one made is what the progress shows.
    pub fn recorder(&self, name: &str, counts: Counts) -> Rc<Recorder> {
        let recorder = Rc::new(Recorder::new(name, counts, Arc::clone(&self.window)));
        self.recorders.borrow_mut().push(Rc::clone(&recorder));
        recorder
    }

    /// Enters what a recorder on another thread held.
    pub fn recorded(&self, recorded: Recorded) {
        self.outcome.borrow_mut().latency(recorded);
    }

    /// A number that is sampled every second, for pictures: `connections`. Its unit is the end of its name.
    pub fn gauge(&self, name: &str) -> Rc<Cell<f64>> {
        let gauge = Rc::new(Cell::new(0.0));
        let mut gauges = self.gauges.borrow_mut();
        gauges.push((name.to_owned(), Rc::clone(&gauge)));
        gauge
    }

    /// Where the run is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// When measuring is on.
    #[must_use]
    pub fn window(&self) -> &Arc<Window> {
        &self.window
    }

    /// Ends the measurement now: enough was measured, or it can't go on.
    pub fn end_early(&self) {
        if self.phase.get() != Phase::Ending {
            self.window.end(Instant::now());
            self.phase.set(Phase::Ending);
            self.ended.notify_waiters();
        }
    }

    /// Waits until nothing new is to be sent. Cancel-safe.
    pub async fn ended(&self) {
        while self.phase.get() != Phase::Ending {
            // On one thread nothing comes between the look at the phase and the first poll of this.
            self.ended.notified().await;
        }
    }

    /// A schedule of `rate` operations a second, for the part of the run whose seed it takes.
    #[must_use]
    pub fn pace(&self, rate: f64, gaps: Gaps, part: u64) -> Pace {
        let late = Duration::from_secs_f64(self.setup.late_ms.max(0.0) / 1_000.0);
        Pace::new(rate, gaps, self.seed_of(part), late, &self.window)
    }

    /// The figures may not be believed, and why.
    pub fn invalid(&self, reason: impl Into<String>) {
        let (reason, reasons) = (
            reason.into(),
            &mut self.outcome.borrow_mut().validity.reasons,
        );
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    /// Enters how an open loop kept to its schedule; more than 1 % late makes the run invalid.
    pub fn paced(&self, pace: &Pace) {
        let lateness = &mut self.outcome.borrow_mut().validity.lateness;
        lateness.get_or_insert_default().add(pace.lateness());
    }

    /// Enters a figure.
    pub fn figure(&self, name: &str, value: f64, unit: &str, better: Better) {
        let unit = unit.to_owned();
        let figure = Figure {
            value,
            unit,
            better,
        };
        let figures = &mut self.outcome.borrow_mut().figures;
        figures.insert(name.to_owned(), figure);
    }

    /// A figure that was entered.
    #[must_use]
    pub fn value(&self, figure: &str) -> Option<f64> {
        Some(self.outcome.borrow().figures.get(figure)?.value)
    }

    /// Enters a figure of so many in the measurement, by the second.
    pub fn rate(&self, name: &str, count: u64) {
        let seconds = self.window.length().as_secs_f64().max(0.001);
        self.figure(name, count as f64 / seconds, "1/s", Better::Higher);
    }

    /// Enters something that is neither figure nor setting: prefix, counts by kind.
    pub fn detail(&self, name: &str, value: impl Serialize) {
        if let Ok(value) = serde_json::to_value(value) {
            let details = &mut self.outcome.borrow_mut().details;
            details.insert(name.to_owned(), value);
        }
    }

    /// Says on the progress line what is going on.
    pub fn tell(&self, what: &str) {
        self.progress.tell(what);
    }

    /// Warm-up, then the measurement, each as long as the flags say.
    pub async fn measure(self: &Rc<Run>) {
        self.measure_for(self.setup.seconds).await;
    }

    /// As `measure`, but so long; infinite = until `end_early`.
    pub async fn measure_for(self: &Rc<Run>, seconds: f64) {
        self.progress.stage("warm-up", self.setup.warm_up);
        self.pass(self.setup.warm_up).await;
        self.begin().await;
        self.progress.stage("measuring", seconds);
        self.pass(seconds).await;
        self.finish().await;
    }

    /// Lets so many seconds go by, showing it, unless the run is ended early.
    pub async fn pass(&self, seconds: f64) {
        // Centuries mean "until it is ended": an instant can't be infinite.
        let most = Duration::from_secs(1 << 33);
        let length = Duration::try_from_secs_f64(seconds.max(0.0));
        let until = Instant::now() + length.unwrap_or(most).min(most);
        while self.phase.get() != Phase::Ending && Instant::now() < until {
            let tick = Instant::now() + Duration::from_millis(250);
            tokio::select! {
                () = tokio::time::sleep_until(until.min(tick)) => {}
                () = self.ended() => {}
            }
            let first = self.recorders.borrow().first().map(|first| first.count());
            self.progress.tick(first.unwrap_or(0));
        }
    }

    /// Measuring begins.
    pub async fn begin(self: &Rc<Run>) {
        let metrics = watch::metrics(&self.url).await;
        self.metrics.replace(metrics.unwrap_or_default());
        if self.phase.get() == Phase::Ending {
            return;
        }
        self.usage.set(self.use_now());
        self.window.begin(Instant::now());
        self.phase.set(Phase::Measuring);
        self.sample();
        tokio::task::spawn_local(Rc::clone(self).sampling());
    }

    /// Measuring ends; nothing new is sent from here on.
    pub async fn finish(&self) {
        self.end_early();
        self.sample();
        let (before, after) = (self.usage.get(), self.use_now());
        let seconds = self.window.length().as_secs_f64().max(0.001);
        for ((who, before), after) in PROCESSES.into_iter().zip(before).zip(after) {
            let used = |of: fn(&Usage) -> Option<f64>| Some(of(&after)? - of(&before)?);
            if let Some(cpu) = used(|usage| usage.cpu_seconds) {
                self.figure(&format!("{who}_cpu_seconds"), cpu, "s", Better::Neither);
                let share = cpu * 100.0 / seconds;
                self.figure(&format!("{who}_cpu_share"), share, "%", Better::Neither);
            }
            if let Some(written) = used(|usage| usage.written_bytes).filter(|_| who == "server") {
                self.figure("server_written_bytes", written, "bytes", Better::Lower);
            }
        }
        let after = watch::metrics(&self.url).await.unwrap_or_default();
        self.outcome.borrow_mut().metrics = watch::moved(&self.metrics.borrow(), after);
    }

    fn use_now(&self) -> [Usage; 2] {
        let server = self.pid.map(Usage::of).unwrap_or_default();
        [Usage::of(std::process::id()), server]
    }

    async fn sampling(self: Rc<Run>) {
        let mut every = tokio::time::interval(Duration::from_secs(1));
        every.tick().await;
        while self.phase.get() == Phase::Measuring {
            every.tick().await;
            if self.phase.get() == Phase::Measuring {
                self.sample();
            }
        }
    }

    /// Samples gauges and processes now; profiles may do so at their own moments, too.
    pub fn sample(&self) {
        let at = (self.window.length().as_secs_f64() * 1_000.0).round() / 1_000.0;
        let samples = &mut self.outcome.borrow_mut().series.samples;
        let mut put = |name: String, value: f64| {
            let column = samples.entry(name).or_default();
            column.at.push(at);
            column.value.push(value);
        };
        for (name, gauge) in self.gauges.borrow().iter() {
            put(name.clone(), gauge.get());
        }
        for (who, usage) in PROCESSES.into_iter().zip(self.use_now()) {
            for (name, value) in usage.values() {
                if let Some(value) = value {
                    put(format!("{who}_{name}"), value);
                }
            }
        }
    }

    /// What was sampled under a name so far.
    #[must_use]
    pub fn samples(&self, name: &str) -> Option<Samples> {
        self.outcome.borrow().series.samples.get(name).cloned()
    }

    /// The result, when the profile is through.
    pub fn outcome(&self, profile: &str, settings: &impl Serialize) -> Result<Outcome, Stop> {
        let settings = serde_json::to_value(settings);
        let settings = settings.map_err(|error| Stop::Own(format!("settings: {error}")))?;
        let Value::Object(settings) = settings else {
            return Err(Stop::Own("settings that are no object".into()));
        };
        self.progress.clear();
        let lateness = self.outcome.borrow().validity.lateness;
        if let Some(lateness) = lateness.filter(|lateness| lateness.share() > LATE_SHARE_MAX) {
            let percent = lateness.share() * 100.0;
            self.invalid(format!(
                "the generator fell behind: {percent:.1} % of the operations were sent more than {} ms late",
                self.setup.late_ms
            ));
        }
        let mut outcome = self.outcome.borrow().clone();
        outcome.profile = profile.to_owned();
        outcome.settings = settings;
        outcome.seconds = self.window.length().as_secs_f64();
        outcome.validity.valid = outcome.validity.reasons.is_empty();
        outcome.checks = self.checks.checked();
        for recorder in self.recorders.borrow().iter() {
            outcome.latency(recorder.recorded());
        }
        Ok(outcome)
    }
}

/// Whose use of the machine is looked at.
const PROCESSES: [&str; 2] = ["generator", "server"];
