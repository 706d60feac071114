//! `connect`: thousands of idle connections, and what each costs the server in memory.
//!
//! Owns: idle connections, also those of other profiles. Promises: they are open and answered before it measures, and
//! all of them are there at the end, or it is a fault. Must not: send anything while it measures.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::{TryStreamExt as _, stream};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::exit::Stop;
use crate::machine::used;
use crate::profile::{Profile, need_files};
use crate::rpc::Client;
use crate::run::{Better, Run};

/// Arguments of `connect`; warm-up and seconds are not used.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Connect {
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

/// So many are being opened at a time.
const OPENING: usize = 100;

impl Profile for Connect {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.connections as u64)?;
        // One connection first, so that what the server makes once is not counted as a connection's.
        drop(open(run, self.subscriptions, 0).await?);
        sleep(Duration::from_millis(200)).await;
        let memory = || used(run.pid?, "resident_bytes");
        let before = memory();
        run.begin().await;
        let (began, idle) = (Instant::now(), Idle(run.gauge("connections")));
        idle.open(run, self.connections, self.subscriptions).await?;
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

/// Connections that do nothing: how many there are.
#[derive(Default)]
pub(crate) struct Idle(Rc<Cell<f64>>);

impl Idle {
    /// Opens `count` connections. Each follows some timelines and answers pings until the server or the run ends it.
    pub(crate) async fn open(
        &self,
        run: &Rc<Run>,
        count: usize,
        follows: usize,
    ) -> Result<(), Stop> {
        let add = async |number| {
            let client = open(run, follows, number).await?;
            let (held, run) = (Rc::clone(&self.0), Rc::clone(run));
            held.update(|held| held + 1.0);
            spawn_local(async move {
                client.idle(&run.checks).await;
                held.update(|held| held - 1.0);
            });
            Ok(())
        };
        let numbers = stream::iter((0..count).map(Ok));
        numbers.try_for_each_concurrent(OPENING, add).await
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

/// Opens one connection, which is answered and follows some timelines.
async fn open(run: &Run, follows: usize, number: usize) -> Result<Client, Stop> {
    let mut client = Client::open(&run.url).await?;
    client.call::<IgnoredAny>("ping", json!({})).await?;
    for offset in 0..follows {
        let params = json!({ "timeline": format!("idle/{}", (number + offset) % 1_000) });
        client.call::<IgnoredAny>("subscribe", params).await?;
    }
    Ok(client)
}
