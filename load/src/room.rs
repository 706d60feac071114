//! `room`: one timeline, many subscribers: how many messages a second reach everybody, and how long each takes.
//!
//! Owns: the measurement: one publisher, listeners on threads of their own. Promises: every subscriber got every
//! message once and in order, or it is a fault; in the closed loop at most `--in-flight` messages have not reached
//! everybody. Must not: count a message as delivered before its subscriber's connection handed it over.

mod listeners;

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use self::listeners::{Heard, Listeners};
use crate::exit::Stop;
use crate::ledger::{Desk, Intake, Ledger, Numbering, WAY_MAX, by_the_clock};
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::recorder::Counts;
use crate::run::{Phase, Run};
use crate::setup::Setup;

/// Phases change by themselves: nothing is waited for longer.
const GLANCE: Duration = Duration::from_millis(1);

/// Arguments of `room`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Room {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Subscribers, each on a connection of its own
    #[arg(long, default_value_t = 1_000)]
    pub subscribers: usize,
    /// Threads that the subscribers are spread over
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Closed loop: so many messages may not have reached everybody yet
    #[arg(long, default_value_t = 64)]
    pub in_flight: u64,
    /// Open loop instead: so many messages a second; latency then counts from the scheduled time
    #[arg(long, conflicts_with = "in_flight")]
    pub rate: Option<f64>,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    pub size: usize,
}

impl Profile for Room {
    const NAME: &'static str = "room";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        need_files(run, self.subscribers as u64)?;
        let timeline = format!("room-{}", run.tag);
        let subscribers = self.subscribers as u64;
        // The publisher's is behind those of the listeners.
        let lanes = self.threads + 1;
        let timelines = [(timeline.clone(), subscribers)];
        let ledger = Ledger::new(run, timelines, Numbering::InOrder, lanes, self.size);
        ledger.reached(self.threads, u64::MAX);
        let (end, ended) = watch::channel(false);
        let threads = self.listen(run, &ledger, &ended).await?;
        let desk = self.publisher(run, &ledger).await?;
        tokio::join!(self.publish(run, &ledger, &desk), run.measure());
        ledger.settled(&run.checks).await;
        // Nobody listens if all threads have ended.
        let _ = end.send(true);
        let heard = gather(threads)?;
        ledger.close(&run.checks, &heard.counts);
        run.detail("timeline", timeline);
        self.tell(run, &ledger, heard);
        Ok(())
    }
}

impl Room {
    fn check(&self) -> Result<(), Stop> {
        let rate_wrong = self.rate.is_some_and(|rate| !(rate > 0.0 && rate < 1e7));
        if self.subscribers == 0 || self.threads == 0 || self.in_flight == 0 || rate_wrong {
            return Err(Stop::Usage("a count or rate of 0".into()));
        }
        let most = WAY_MAX / 2;
        if self.in_flight > most {
            return Err(Stop::Usage(format!("more than {most} in flight")));
        }
        Ok(())
    }

    /// What belongs to the measurement.
    fn measured(&self) -> Counts {
        self.rate.map_or(Counts::Ended, |_| Counts::Scheduled)
    }

    /// Starts the listeners and waits until all are subscribed.
    async fn listen(
        &self,
        run: &Run,
        ledger: &Arc<Ledger>,
        end: &watch::Receiver<bool>,
    ) -> Result<Vec<JoinHandle<Heard>>, Stop> {
        let (mut threads, mut waiting) = (Vec::new(), Vec::new());
        for lane in 0..self.threads {
            let (ready, is_ready) = oneshot::channel();
            // The remainder goes to the first ones.
            let extra = usize::from(lane < self.subscribers % self.threads);
            let listeners = Listeners {
                url: run.url.clone(),
                lane,
                subscribers: self.subscribers / self.threads + extra,
                measured: self.measured(),
                window: Arc::clone(run.window()),
                ledger: Arc::clone(ledger),
                ready,
                end: end.clone(),
            };
            threads.push(listeners.start()?);
            waiting.push(is_ready);
        }
        for is_ready in waiting {
            let gone = |_| Stop::Own("a listeners' thread ended".into());
            is_ready.await.map_err(gone)??;
        }
        Ok(threads)
    }

    /// The connection that publishes.
    async fn publisher(&self, run: &Rc<Run>, ledger: &Arc<Ledger>) -> Result<Rc<Desk>, Stop> {
        let intake = Intake::new(ledger, self.threads, run.window(), 1);
        let intake = intake.acking(run.recorder("ack", self.measured()));
        Desk::publisher(&Rc::new(intake), run).await
    }

    /// Publishes until the run ends.
    async fn publish(&self, run: &Run, ledger: &Ledger, desk: &Desk) {
        let put = |scheduled| desk.put(ledger, 0, scheduled);
        if let Some(rate) = self.rate {
            return by_the_clock(run, ledger, run.pace(rate, Gaps::Fixed, 0), put).await;
        }
        while run.phase() != Phase::Ending && !ledger.failed() {
            let on_way = ledger.sent() - ledger.minimum();
            (on_way..self.in_flight).for_each(|_| put(Instant::now()));
            tokio::select! {
                () = ledger.news.notified() => {}
                () = tokio::time::sleep(GLANCE) => {}
            }
        }
        run.end_early();
    }

    /// Enters what was found.
    fn tell(&self, run: &Run, ledger: &Ledger, heard: Heard) {
        let Heard { counts, recorded } = heard;
        run.rate("deliveries_per_second", counts.measured);
        let messages = counts.measured / self.subscribers as u64;
        run.rate("messages_per_second", messages);
        if let Some(used) = run.value("server_cpu_seconds") {
            let each = used * 1e9 / (counts.measured as f64).max(1.0);
            run.figure("server_cpu_per_delivery", each, "ns", Better::Lower);
        }
        let together = counts.together();
        run.figure("messages_per_push", together, "1", Better::Neither);
        run.checks.made("messages sent", ledger.sent());
        run.recorded(recorded);
    }
}

fn gather(threads: Vec<JoinHandle<Heard>>) -> Result<Heard, Stop> {
    let mut sum: Option<Heard> = None;
    for thread in threads {
        let failed = |_| Stop::Own("a listeners' thread failed".into());
        let heard = thread.join().map_err(failed)?;
        match &mut sum {
            None => sum = Some(heard),
            Some(sum) => {
                sum.recorded.add(heard.recorded);
                sum.counts.add(heard.counts);
            }
        }
    }
    sum.ok_or_else(|| Stop::Own("no listeners".into()))
}
