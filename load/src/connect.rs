//! `connect`: thousands of idle connections, and what each costs the server in memory.
//!
//! Owns: idle connections, also those of other profiles. Promises: they are open and answered before it measures, and
//! all of them are there at the end, or it is a fault. Must not: send anything while it measures.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};

use crate::exit::Stop;
use crate::generator::rate;
use crate::pipe::Way;
use crate::profile::{Profile, need_files};
use crate::rpc::Client;
use crate::run::{Better, Run};

/// Arguments of `connect`; warm-up and seconds are not used.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
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
    /// Open so many a second [default: as fast as they are answered]
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// From so many addresses of the loopback, 127.1.0.1 and on, in turn [0: one]
    #[arg(long, default_value_t = 0)]
    addresses: u32,
}

/// So many are being opened at a time.
const OPENING: usize = 100;
/// The first of the addresses: 127.1.0.1.
const ADDRESS: u32 = 0x7f01_0001;

impl Profile for Connect {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.connections as u64)?;
        // One connection first, so that what the server makes once is not counted as a connection's.
        drop(open(run, self.subscriptions, 0, Way::Plain).await?);
        sleep(Duration::from_millis(200)).await;
        let before = run.used("resident_bytes");
        run.begin().await;
        let (began, idle) = (Instant::now(), Idle(run.gauge("connections")));
        idle.come(run, self).await?;
        let opening = began.elapsed().as_secs_f64();
        run.pass(self.hold_seconds).await;
        run.sample();
        let after = run.used("resident_bytes");
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
    /// So many connections, without subscriptions, as fast as they are answered.
    pub(crate) fn plain(connections: usize) -> Connect {
        Connect {
            connections,
            ..Connect::default()
        }
    }
}

/// Connections that do nothing: how many there are.
#[derive(Default)]
pub(crate) struct Idle(Rc<Cell<f64>>);

impl Idle {
    /// Opens connections. Each follows some timelines and answers pings until the server or the run ends it.
    pub(crate) async fn come(&self, run: &Rc<Run>, coming: &Connect) -> Result<(), Stop> {
        let began = Instant::now();
        let add = async |number: usize| {
            if let Some(rate) = coming.rate {
                sleep_until(began + Duration::from_secs_f64(number as f64 / rate)).await;
            }
            let from = (number as u32).checked_rem(coming.addresses);
            let from = from.map(|nth| Ipv4Addr::from_bits(ADDRESS + nth).into());
            let way = from.map_or(Way::Plain, Way::From);
            let client = open(run, coming.subscriptions, number, way).await?;
            let (held, run) = (Rc::clone(&self.0), Rc::clone(run));
            held.update(|held| held + 1.0);
            spawn_local(async move {
                client.idle(&run.checks).await;
                held.update(|held| held - 1.0);
            });
            Ok(())
        };
        let numbers = stream::iter((0..coming.connections).map(Ok));
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
async fn open(run: &Run, follows: usize, number: usize, way: Way) -> Result<Client, Stop> {
    let mut client = Client::open_as(&run.url, way, None).await?;
    client.call::<IgnoredAny>("ping", json!({})).await?;
    for offset in 0..follows {
        let params = json!({ "timeline": format!("idle/{}", (number + offset) % 1_000) });
        client.call::<IgnoredAny>("subscribe", params).await?;
    }
    Ok(client)
}
