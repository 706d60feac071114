//! `slow`: readers that stop reading beside readers that do not, on one timeline while messages flow.
//!
//! Owns: the order of events: all read, some stop, the server closes those, they resume. Promises: a reader that stops
//! is closed by the server, with 4000 if it reads again in time to hear it; one that pauses for less stays; all have
//! everything once, in order, at the end; latency is that of the readers that never stopped. Must not: take a reader
//! for closed because of its own clock: the server's count of slow closes says it.

mod reader;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::Instant;

use self::reader::{Ends, Habit, Reader};
use crate::exit::Stop;
use crate::ledger::{Desk, Intake, Ledger, Numbering, by_the_clock};
use crate::machine::used;
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::recorder::Counts;
use crate::run::{Phase, Run};
use crate::setup::Setup;
use crate::watch::metrics;

/// What the server takes longer for, behind its own patience, is a fault.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the server is asked how many it closed: much less than the 2 s for which it says goodbye.
const LOOK: Duration = Duration::from_millis(200);
/// Of so many pushes one is compared whole.
const SAMPLE: u64 = 64;

/// Arguments of `slow`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Slow {
    /// What every profile has; measuring goes on for --seconds, or until the stalled readers were closed if that is
    /// later
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Readers that read all the time
    #[arg(long, default_value_t = 100)]
    pub healthy: usize,
    /// Readers that stop reading when measuring begins, until the server has closed them
    #[arg(long, default_value_t = 20)]
    pub stalled: usize,
    /// Readers that pause again and again, for a third of the server's patience
    #[arg(long, default_value_t = 5)]
    pub pausing: usize,
    /// The server's setting slow_consumer_ms
    #[arg(long, default_value_t = 60_000)]
    pub slow_consumer_ms: u64,
    /// Messages a second; those of a few seconds must be more than the server's socket_send_bytes, or nobody stalls
    #[arg(long, default_value_t = 200.0)]
    pub rate: f64,
    /// How messages follow one another
    #[arg(long, value_enum, default_value_t = Gaps::Fixed)]
    pub gaps: Gaps,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 1_000)]
    pub size: usize,
    /// Receive buffer of the readers that stop, bytes
    #[arg(long, default_value_t = 4_096)]
    pub receive_bytes: u32,
}

impl Profile for Slow {
    const NAME: &'static str = "slow";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let readers = self.healthy + self.stalled + self.pausing;
        if self.healthy == 0 || !(self.rate.is_finite() && self.rate > 0.0) {
            return Err(Stop::Usage("no healthy readers, or a rate of 0".into()));
        }
        need_files(run, readers as u64)?;
        let timelines = [(format!("slow-{}", run.tag), readers as u64)];
        let ledger = Ledger::new(run, timelines, Numbering::InOrder, 2, self.size);
        let (acks, delivery) = (
            run.recorder("ack", Counts::Scheduled),
            run.recorder("delivery", Counts::Scheduled),
        );
        // Only readers that never stop have a latency: the others chose theirs.
        let healthy = Intake::new(&ledger, 0, run.window(), SAMPLE)
            .acking(Rc::clone(&acks))
            .timing(Rc::clone(&delivery));
        let slow = Intake::new(&ledger, 1, run.window(), SAMPLE);
        let intakes = [Rc::new(healthy), Rc::new(slow)];
        let (stage, _) = watch::channel(false);
        let ends = Rc::new(Ends::default());
        let tasks = self.open(run, &intakes, &stage, &ends).await?;
        let desk = Desk::publisher(&intakes[0], run).await?;
        let pace = run.pace(self.rate, self.gaps, 1);
        let sending = by_the_clock(run, &ledger, pace, |scheduled| {
            desk.put(&ledger, 0, scheduled);
        });
        let (measured, watching) = (
            run.measure_for(f64::INFINITY),
            self.watch_over(run, &ledger, &stage),
        );
        tokio::join!(sending, measured, watching);
        ledger.settled(&run.checks).await;
        tasks.iter().for_each(AbortHandle::abort);
        let mut counts = intakes[0].counts();
        counts.add(intakes[1].counts());
        ledger.close(&run.checks, &counts);
        run.rate("appends_per_second", acks.count());
        run.rate("deliveries_per_second", delivery.count());
        ends.tell(run);
        Ok(())
    }
}

impl Slow {
    fn patience(&self) -> Duration {
        Duration::from_millis(self.slow_consumer_ms)
    }

    /// All readers, subscribed.
    async fn open(
        &self,
        run: &Rc<Run>,
        intakes: &[Rc<Intake>; 2],
        stage: &watch::Sender<bool>,
        ends: &Rc<Ends>,
    ) -> Result<Vec<AbortHandle>, Stop> {
        let habits = [
            (Habit::Healthy, self.healthy),
            (Habit::Stalled, self.stalled),
            (Habit::Pausing(self.patience()), self.pausing),
        ];
        let habits = habits
            .into_iter()
            .flat_map(|(habit, count)| std::iter::repeat_n(habit, count));
        let opening = habits.map(|habit| {
            let intake = &intakes[usize::from(habit != Habit::Healthy)];
            Reader::open(run, intake, ends, habit, self.receive_bytes)
        });
        let mut tasks = Vec::new();
        for opened in join_all(opening).await {
            tasks.push(spawn_local(opened?.live(stage.subscribe())).abort_handle());
        }
        Ok(tasks)
    }

    /// Waits until the server has closed the stalled readers, then lets them read again; ends the measurement.
    async fn watch_over(&self, run: &Run, ledger: &Arc<Ledger>, stage: &watch::Sender<bool>) {
        while run.phase() == Phase::WarmingUp {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let began = Instant::now();
        let closed_before = slow_closes(run).await;
        let memory = || used(run.pid?, "resident_bytes");
        let memory_before = memory();
        // The buffers fill up first; then the server looks four times within its patience.
        let until = began + 2 * self.patience() + PATIENCE;
        let mut closed = 0.0;
        while closed < self.stalled as f64 && run.phase() == Phase::Measuring {
            if Instant::now() >= until {
                let (took, stalled) = (began.elapsed(), self.stalled);
                ledger.fault(format!(
                    "{took:?} after {stalled} readers stopped reading the server has closed {closed}"
                ));
                break;
            }
            tokio::time::sleep(LOOK).await;
            closed = slow_closes(run).await - closed_before;
        }
        let took = began.elapsed();
        if self.stalled > 0 {
            let seconds = took.as_secs_f64();
            run.figure("seconds_to_close", seconds, "s", Better::Neither);
        }
        if closed > 0.0 && took < self.patience() {
            ledger.fault(format!(
                "{closed} readers were closed as slow within {took:?}, before the server's patience ends"
            ));
        }
        if let (Some(before), Some(stalled)) = (memory_before, memory()) {
            run.figure("resident_before", before, "bytes", Better::Neither);
            let growth = stalled - before;
            run.figure("resident_growth_stalled", growth, "bytes", Better::Lower);
        }
        // Errors mean that no reader is left, which is a fault of its own.
        let _ = stage.send(true);
        // Those that were closed resume while messages still flow.
        let left = self.setup.seconds - began.elapsed().as_secs_f64();
        let left = Duration::try_from_secs_f64(left).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(left.max(Duration::from_secs(1))) => {}
            () = run.ended() => {}
        }
        run.end_early();
    }
}

/// How many connections the server has closed with 4000 so far.
async fn slow_closes(run: &Run) -> f64 {
    let metrics = metrics(&run.url).await.unwrap_or_default();
    let closes = metrics.get(r#"tideline_closes_total{reason="slow_consumer"}"#);
    closes.copied().unwrap_or(0.0)
}
