//! `room`: one timeline, many subscribers: how many messages a second reach everybody, and how long each takes.
//!
//! Owns: the measurement: one publisher, listeners on threads of their own. Promises: every subscriber got every
//! message once and in order, or it is a fault; in the closed loop at most `--in-flight` messages have not reached
//! everybody. Must not: count a message as delivered before its subscriber's connection handed it over.

mod board;
mod listener;
mod publisher;
mod subject;

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{oneshot, watch};

use self::board::{Board, WAY_MAX};
use self::listener::{Heard, Listener};
use self::publisher::{Counted, Publisher};
use self::subject::Subject;
use crate::exit::Stop;
use crate::outcome::Better;
use crate::profile::{Profile, need_files};
use crate::rpc::{CallError, Client};
use crate::run::Run;
use crate::setup::Setup;

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
        let subject = Arc::new(self.prepare(run).await?);
        let board = Arc::new(Board::new(self.threads));
        let (end, ended) = watch::channel(false);
        let threads = self.listen(&subject, &board, &ended).await?;
        let publisher = Publisher::open(self, run, Arc::clone(&subject), Arc::clone(&board));
        let publisher = publisher.await?;
        let publishing = async {
            let worked = publisher.work().await;
            // After an error nothing is left to measure.
            run.end_early();
            worked
        };
        let (worked, ()) = tokio::join!(publishing, run.measure());
        // Nobody listens if all threads have ended.
        let _ = end.send(true);
        let heard = gather(threads)?;
        let (counted, sent) = worked?;
        for fault in board.faults() {
            run.checks.fault(fault);
        }
        run.detail("timeline", &subject.timeline);
        self.tell(run, counted, sent, board.deliveries(), heard);
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

    /// A timeline of this run's own.
    async fn prepare(&self, run: &Run) -> Result<Subject, Stop> {
        #[derive(Deserialize)]
        struct Created {
            epoch: String,
        }
        let timeline = format!("room-{}", run.tag);
        let unreachable = |error: CallError| Stop::Unreachable(error.to_string());
        let mut client = Client::open(&run.url).await.map_err(unreachable)?;
        let created: Result<Created, CallError> = client
            .call("timeline.create", json!({ "timeline": timeline }))
            .await;
        let epoch = created.map_err(unreachable)?.epoch;
        Ok(Subject::new(
            &run.url, &timeline, &epoch, self.size, run.seed,
        ))
    }

    /// Starts the listeners and waits until all are subscribed.
    async fn listen(
        &self,
        subject: &Arc<Subject>,
        board: &Arc<Board>,
        end: &watch::Receiver<bool>,
    ) -> Result<Vec<JoinHandle<Heard>>, Stop> {
        let (mut threads, mut waiting) = (Vec::new(), Vec::new());
        for lane in 0..self.threads {
            let (ready, told) = oneshot::channel();
            // The remainder goes to the first ones.
            let extra = usize::from(lane < self.subscribers % self.threads);
            let listener = Listener {
                lane,
                subscribers: self.subscribers / self.threads + extra,
                counts: self.counts(),
                subject: Arc::clone(subject),
                board: Arc::clone(board),
                ready,
                end: end.clone(),
            };
            threads.push(listener.start()?);
            waiting.push(told);
        }
        for told in waiting {
            let gone = |_| Stop::Own("a listeners' thread ended".into());
            told.await.map_err(gone)??;
        }
        Ok(threads)
    }

    /// Enters what was found.
    fn tell(&self, run: &Run, counted: Counted, sent: u64, deliveries: u64, heard: Heard) {
        let seconds = run.window().length().as_secs_f64().max(0.001);
        let measured = counted.deliveries as f64;
        run.figure(
            "deliveries_per_second",
            measured / seconds,
            "1/s",
            Better::Higher,
        );
        let messages = counted.messages as f64 / seconds;
        run.figure("messages_per_second", messages, "1/s", Better::Higher);
        if let Some(used) = run.value("server_cpu_seconds") {
            let each = used * 1e9 / measured.max(1.0);
            run.figure("server_cpu_per_delivery", each, "ns", Better::Lower);
        }
        let together = deliveries as f64 / heard.pushes.max(1) as f64;
        run.figure("messages_per_push", together, "1", Better::Neither);
        run.checks.made("messages sent", sent);
        run.checks.made("deliveries in order", deliveries);
        run.checks.made("pushes compared whole", heard.parsed);
        run.recorded(heard.recorded);
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
                sum.pushes += heard.pushes;
                sum.parsed += heard.parsed;
            }
        }
    }
    sum.ok_or_else(|| Stop::Own("no listeners".into()))
}
