//! `connect`: thousands of idle connections, opened at a rate and held, and what each costs the server in memory.
//!
//! Owns: the measurement of an idle connection. Promises: the connections are open and answered before it measures,
//! and all of them are there at the end, or it is a fault. Must not: send anything while it measures.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::exit::Stop;
use crate::machine::used;
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::recorder::Counts;
use crate::rpc::{CallError, Client};
use crate::run::Run;
use crate::setup::Setup;

/// Arguments of `connect`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Connect {
    /// What every profile has; warm-up and seconds are not used: the ramp is part of what is measured
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// How many connections
    #[arg(long, default_value_t = 5_000)]
    pub connections: usize,
    /// Open so many a second
    #[arg(long, default_value_t = 2_000.0)]
    pub connect_rate: f64,
    /// How long they stay idle before the memory is read
    #[arg(long, default_value_t = 10.0)]
    pub hold_seconds: f64,
    /// Subscribe each connection to this many timelines (of 1,000)
    #[arg(long, default_value_t = 0)]
    pub subscriptions: usize,
}

impl Profile for Connect {
    const NAME: &'static str = "connect";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.connections as u64)?;
        // One connection first, so that what the server makes once is not counted as a connection's.
        drop(open(run, self.subscriptions, 0).await?);
        sleep(Duration::from_millis(200)).await;
        let memory = || used(run.pid?, "resident_bytes");
        let before = memory();
        run.begin().await;
        let began = Instant::now();
        let held = self.ramp(run).await?;
        let opening = began.elapsed().as_secs_f64();
        run.pass(self.hold_seconds).await;
        run.sample();
        let (after, open) = (memory(), held.get());
        run.finish().await;
        run.checks.made("connections held", self.connections as u64);
        let missing = self.connections as f64 - open;
        if missing > 0.0 {
            let what = format_args!("{missing} connections ended while they were idle");
            run.checks.fault(what);
        }
        run.figure("connections", open, "1", Better::Higher);
        let rate = open / opening.max(0.001);
        run.figure("opened_per_second", rate, "1/s", Better::Higher);
        if let Some((before, after)) = before.zip(after) {
            let per = (after - before) / self.connections.max(1) as f64;
            run.figure("bytes_per_connection", per, "bytes", Better::Lower);
            run.figure("resident_before", before, "bytes", Better::Neither);
            run.figure("resident_held", after, "bytes", Better::Lower);
        }
        Ok(())
    }
}

impl Connect {
    /// Opens them by the clock; each lives in a task of its own until the run ends. Returns how many are open.
    async fn ramp(&self, run: &Rc<Run>) -> Result<Rc<Cell<f64>>, Stop> {
        let opening = run.recorder("open", Counts::Scheduled);
        let held = run.gauge("connections");
        let failed: Rc<RefCell<Option<Stop>>> = Rc::default();
        let mut pace = run.pace(self.connect_rate, Gaps::Fixed, 0);
        for number in 0..self.connections {
            let scheduled = loop {
                if let Some(scheduled) = pace.due(Instant::now()) {
                    break scheduled;
                }
                pace.wait().await;
            };
            let (run, subscriptions) = (Rc::clone(run), self.subscriptions);
            let (opening, held, failed) = (opening.clone(), held.clone(), failed.clone());
            spawn_local(async move {
                match open(&run, subscriptions, number).await {
                    Ok(mut client) => {
                        opening.record(scheduled, Instant::now());
                        held.set(held.get() + 1.0);
                        // Answers the server's pings, until the server ends it or the run does.
                        while client.receive().await.is_ok() {}
                        held.set(held.get() - 1.0);
                    }
                    Err(stop) => *failed.borrow_mut() = Some(stop),
                }
            });
        }
        run.paced(&pace);
        let patience = Instant::now() + Duration::from_secs(30);
        while held.get() < self.connections as f64 && Instant::now() < patience {
            if let Some(stop) = failed.borrow_mut().take() {
                return Err(stop);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(held)
    }
}

async fn open(run: &Run, subscriptions: usize, number: usize) -> Result<Client, Stop> {
    let opening = async {
        let mut client = Client::open(&run.url).await?;
        let _: Value = client.call("ping", json!({})).await?;
        for offset in 0..subscriptions {
            let timeline = format!("idle/{}", (number + offset) % 1_000);
            let params = json!({ "timeline": timeline });
            let _: Value = client.call("subscribe", params).await?;
        }
        Ok(client)
    };
    let lost = |error: CallError| Stop::Unreachable(format!("connection {number}: {error}"));
    opening.await.map_err(lost)
}
