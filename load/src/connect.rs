//! `connect`: thousands of idle connections, opened at a rate and held, and what each costs the server in memory.
//!
//! Owns: idle connections, also those of other profiles. Promises: they are open and answered before it measures, and
//! all of them are there at the end, or it is a fault. Must not: send anything while it measures.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::exit::{Stop, joined};

use crate::machine::Usage;
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::recorder::Counts;
use crate::rpc::Client;
use crate::run::Run;
use crate::setup::Setup;

/// Arguments of `connect`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Connect {
    /// Warm-up and seconds are not used: the ramp is part of what is measured
    #[command(flatten)]
    #[serde(flatten)]
    setup: Setup,
    /// How many connections
    #[arg(long, default_value_t = 5_000)]
    connections: usize,
    /// How long they stay idle before the memory is read
    #[arg(long, default_value_t = 10.0)]
    hold_seconds: f64,
    /// Subscribe each connection to this many timelines (of 1,000)
    #[arg(long, default_value_t = 0)]
    subscriptions: usize,
}

/// So many are opened a second.
const RATE: f64 = 2_000.0;

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
        let memory = || run.pid.and_then(|pid| Usage::of(pid).resident_bytes);
        let before = memory();
        run.begin().await;
        let (began, idle) = (Instant::now(), Idle(run.gauge("connections")));
        self.ramp(run, &idle).await?;
        let opening = began.elapsed().as_secs_f64();
        run.pass(self.hold_seconds).await;
        run.sample();
        let after = memory();
        run.finish().await;
        idle.check(run, self.connections);
        let open = idle.0.get();
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
    /// Opens them by the clock, and waits for the last.
    async fn ramp(&self, run: &Rc<Run>, idle: &Idle) -> Result<(), Stop> {
        let opening = run.recorder("open", Counts::Scheduled);
        let mut pace = run.pace(RATE, Gaps::Fixed, 0);
        let mut tasks = Vec::with_capacity(self.connections);
        while tasks.len() < self.connections {
            let Some(scheduled) = pace.due(Instant::now()) else {
                pace.wait().await;
                continue;
            };
            let (run, idle, opening) = (Rc::clone(run), idle.clone(), Rc::clone(&opening));
            let (subscriptions, number) = (self.subscriptions, tasks.len());
            tasks.push(spawn_local(async move {
                idle.add(&run, subscriptions, number).await?;
                opening.record(scheduled, Instant::now());
                Ok(())
            }));
        }
        run.paced(&pace);
        for task in tasks {
            joined(task).await?;
        }
        Ok(())
    }
}

/// Connections that do nothing: how many there are.
#[derive(Clone, Default)]
pub(crate) struct Idle(Rc<Cell<f64>>);

impl Idle {
    /// Opens one more; it answers the server's pings until the server ends it or the run does.
    pub(crate) async fn add(
        &self,
        run: &Run,
        subscriptions: usize,
        number: usize,
    ) -> Result<(), Stop> {
        let client = open(run, subscriptions, number).await?;
        let held = Rc::clone(&self.0);
        held.set(held.get() + 1.0);
        spawn_local(async move {
            client.idle().await;
            held.set(held.get() - 1.0);
        });
        Ok(())
    }

    /// As many as were opened must be there.
    pub(crate) fn check(&self, run: &Run, opened: usize) {
        run.checks.made("idle connections held", opened as u64);
        let missing = opened as f64 - self.0.get();
        if missing > 0.0 {
            let what = format_args!("{missing} connections ended while they were idle");
            run.checks.fault(what);
        }
    }
}

async fn open(run: &Run, subscriptions: usize, number: usize) -> Result<Client, Stop> {
    let mut client = Client::open(&run.url).await?;
    client.call::<IgnoredAny>("ping", json!({})).await?;
    for offset in 0..subscriptions {
        let params = json!({ "timeline": format!("idle/{}", (number + offset) % 1_000) });
        client.call::<IgnoredAny>("subscribe", params).await?;
    }
    Ok(client)
}
