//! `slow`: readers that stop reading beside readers that do not, on one timeline while messages flow.
//!
//! Owns: the order of events: all read, some stop, the server closes those, they resume. Promises: who stops reading is
//! closed by the server, with 4000 if it reads again in time to hear it; who pauses for less stays; everybody has
//! everything once, in order, at the end; latency is that of the readers that never stopped. Must not: take a reader
//! for closed because of its own clock: the server's count of slow closes tells.

mod board;
mod publisher;
mod reader;

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

use crate::exit::Stop;
use crate::machine::Usage;
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::rpc::{CallError, Client};
use crate::run::{Phase, Run};
use crate::setup::Setup;
use crate::watch::metrics;
use board::Board;
use reader::{Habit, Reader};

/// How long what is on the way at the end is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the server is asked how many it closed: much less than the 2 s for which it says goodbye.
const LOOK: Duration = Duration::from_millis(200);

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
        let timeline = format!("slow-{}", run.tag);
        let epoch = create(run, &timeline).await?;
        let board = Rc::new(Board::new(run, &timeline, &epoch, self.size, readers));
        let (stage, _) = watch::channel(false);
        let tasks = self.open(&board, &stage).await?;
        let sending = publisher::run(Rc::clone(&board), self.rate, self.gaps);
        let sending = spawn_local(sending);
        let measured = run.measure_for(f64::INFINITY);
        tokio::join!(measured, self.watch_over(&board, &stage));
        run.checks
            .wait_for(|| board.complete() && sending.is_finished())
            .await;
        sending.abort();
        for task in tasks {
            task.abort();
        }
        board.close();
        self.tell(run, &board);
        Ok(())
    }
}

/// Makes the timeline; returns its epoch.
async fn create(run: &Run, timeline: &str) -> Result<String, Stop> {
    #[derive(serde::Deserialize)]
    struct Created {
        epoch: String,
    }
    let unreachable = |error: CallError| Stop::Unreachable(error.to_string());
    let mut client = Client::open(&run.url).await.map_err(unreachable)?;
    let created = client.call("timeline.create", json!({ "timeline": timeline }));
    let created: Created = created.await.map_err(unreachable)?;
    Ok(created.epoch)
}

impl Slow {
    fn patience(&self) -> Duration {
        Duration::from_millis(self.slow_consumer_ms)
    }

    /// All readers, subscribed.
    async fn open(
        &self,
        board: &Rc<Board>,
        stage: &watch::Sender<bool>,
    ) -> Result<Vec<JoinHandle<()>>, Stop> {
        let habits = [
            (Habit::Healthy, self.healthy),
            (Habit::Stalled, self.stalled),
            (Habit::Pausing(self.patience()), self.pausing),
        ];
        let habits = habits
            .into_iter()
            .flat_map(|(habit, count)| std::iter::repeat_n(habit, count));
        let opening = habits.enumerate().map(|(number, habit)| {
            Reader::open(Rc::clone(board), number, habit, self.receive_bytes)
        });
        let mut tasks = Vec::new();
        for opened in join_all(opening).await {
            let reader = opened.map_err(|error| Stop::Unreachable(format!("a reader: {error}")))?;
            tasks.push(spawn_local(reader.live(stage.subscribe())));
        }
        Ok(tasks)
    }

    /// Waits until the server has closed the stalled readers, then lets them read again; ends the measurement.
    async fn watch_over(&self, board: &Board, stage: &watch::Sender<bool>) {
        let run = &board.run;
        while run.phase() == Phase::WarmingUp {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let began = Instant::now();
        let before = slow_closes(run).await;
        board
            .memory
            .borrow_mut()
            .push(run.pid.and_then(|pid| Usage::of(pid).resident_bytes));
        // The buffers fill up first; then the server looks four times within its patience.
        let until = began + 2 * self.patience() + PATIENCE;
        let mut closed = 0.0;
        while closed < self.stalled as f64 && run.phase() == Phase::Measuring {
            if Instant::now() >= until {
                run.checks.fault(format_args!(
                    "{:?} after {} readers stopped reading the server has closed {closed}",
                    began.elapsed(),
                    self.stalled
                ));
                break;
            }
            tokio::time::sleep(LOOK).await;
            closed = slow_closes(run).await - before;
        }
        let took = began.elapsed();
        if self.stalled > 0 {
            let seconds = took.as_secs_f64();
            run.figure("seconds_to_close", seconds, "s", Better::Neither);
        }
        if closed > 0.0 && took < self.patience() {
            run.checks.fault(format_args!(
                "{closed} readers were closed as slow within {took:?}, before the server's patience ends"
            ));
        }
        board
            .memory
            .borrow_mut()
            .push(run.pid.and_then(|pid| Usage::of(pid).resident_bytes));
        // Errors mean that nobody is left to hear it, which is told elsewhere.
        let _ = stage.send(true);
        let left = self.setup.seconds - began.elapsed().as_secs_f64();
        let left = Duration::try_from_secs_f64(left).unwrap_or_default();
        // Those that were closed resume while messages still flow.
        tokio::select! {
            () = tokio::time::sleep(left.max(Duration::from_secs(1))) => {}
            () = run.ended() => {}
        }
        run.end_early();
    }

    fn tell(&self, run: &Run, board: &Board) {
        let seconds = run.window().length().as_secs_f64().max(0.001);
        let (acks, deliveries) = board.measured();
        let rate = |count: u64| count as f64 / seconds;
        run.figure("appends_per_second", rate(acks), "1/s", Better::Higher);
        let rate = rate(deliveries);
        run.figure("deliveries_per_second", rate, "1/s", Better::Higher);
        let ends = board.ends.get();
        let figure = |name, count: u64| run.figure(name, count as f64, "1", Better::Neither);
        figure("closed_with_4000", ends.told);
        figure("cut_without_goodbye", ends.cut);
        figure("pausing_closed", ends.pausing);
        figure("pauses", ends.pauses);
        run.checks
            .made("stalled readers closed and resumed", ends.told + ends.cut);
        run.checks.made("pauses caught up", ends.pauses);
        if let [Some(before), Some(stalled)] = board.memory.borrow()[..] {
            let more = stalled - before;
            run.figure("resident_before", before, "bytes", Better::Neither);
            run.figure("resident_growth_stalled", more, "bytes", Better::Lower);
        }
    }
}

/// How many connections the server has closed with 4000 so far.
async fn slow_closes(run: &Run) -> f64 {
    let metrics = metrics(&run.url).await.unwrap_or_default();
    let closes = metrics.get(r#"tideline_closes_total{reason="slow_consumer"}"#);
    closes.copied().unwrap_or(0.0)
}
