//! `connect`: thousands of idle connections, and what each costs the server in memory.
//!
//! Owns: the measurement of an idle connection. Promises: the connections are open and answered before it measures.
//! Must not: send anything while it measures.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::exit::Stop;
use crate::process::{open_files_max, resident_bytes};
use crate::rpc::Client;

/// Arguments of `connect`.
#[derive(Clone, Debug, clap::Args)]
pub struct Connect {
    /// The server
    #[arg(long, default_value = "ws://127.0.0.1:7070/v1/connect")]
    pub url: String,
    /// How many connections
    #[arg(long, default_value_t = 5_000)]
    pub connections: usize,
    /// How long they stay idle before the memory is read
    #[arg(long, default_value_t = 10)]
    pub hold_seconds: u64,
    /// The server's process ID, for its memory
    #[arg(long)]
    pub pid: Option<u32>,
    /// Subscribe each connection to this many timelines (of 1,000)
    #[arg(long, default_value_t = 0)]
    pub subscriptions: usize,
    /// Write the result as JSON into this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Connections held.
    pub connections: usize,
    /// Subscriptions of each.
    pub subscriptions: usize,
    /// Seconds it took to open them.
    pub opening_seconds: f64,
    /// The server's resident memory before.
    pub resident_bytes_before: Option<u64>,
    /// And while they are open and idle.
    pub resident_bytes_held: Option<u64>,
    /// The difference for one connection.
    pub bytes_per_connection: Option<f64>,
}

impl Outcome {
    /// The line at the end of a run.
    #[must_use]
    pub fn summary(&self) -> String {
        let Outcome {
            connections,
            subscriptions,
            opening_seconds,
            ..
        } = self;
        let memory = match (self.resident_bytes_before, self.resident_bytes_held) {
            (Some(before), Some(held)) => format!(
                "server memory {:.1} MB before, {:.1} MB held, {:.2} KB per connection",
                before as f64 / 1e6,
                held as f64 / 1e6,
                self.bytes_per_connection.unwrap_or(0.0) / 1e3
            ),
            _ => "server memory not read (no --pid)".to_owned(),
        };
        format!(
            "{connections} connections with {subscriptions} subscriptions each, opened in \
             {opening_seconds:.1} s; {memory}"
        )
    }
}

/// Opens, holds, measures.
pub async fn run(args: Connect) -> Result<Outcome, Stop> {
    let needed = args.connections as u64 + 50;
    for pid in [Some(std::process::id()), args.pid].into_iter().flatten() {
        if open_files_max(pid).is_some_and(|most| most < needed) {
            return Err(Stop::Own(format!(
                "process {pid} may open fewer than {needed} files: raise it with ulimit -n"
            )));
        }
    }
    let memory = |pid: Option<u32>| pid.map(resident_bytes).transpose();
    // One connection first, so that what the server makes once is not counted as a connection's.
    drop(open(&args, 0).await?);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = memory(args.pid)?;
    let began = std::time::Instant::now();
    let mut held = Vec::with_capacity(args.connections);
    while held.len() < args.connections {
        let wave = (args.connections - held.len()).min(64);
        let opening = (0..wave).map(|offset| open(&args, held.len() + offset));
        let opened: Vec<_> = futures_util::future::join_all(opening).await;
        for client in opened {
            held.push(client?);
        }
    }
    let opening_seconds = began.elapsed().as_secs_f64();
    hold(&mut held, Duration::from_secs(args.hold_seconds)).await?;
    let after = memory(args.pid)?;
    let per = before
        .zip(after)
        .map(|(before, after)| (after as f64 - before as f64) / args.connections.max(1) as f64);
    Ok(Outcome {
        connections: held.len(),
        subscriptions: args.subscriptions,
        opening_seconds,
        resident_bytes_before: before,
        resident_bytes_held: after,
        bytes_per_connection: per,
    })
}

/// Keeps the connections and answers the server's pings, so that none is closed as silent.
async fn hold(held: &mut [Client], time: Duration) -> Result<(), Stop> {
    let until = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for client in held.iter_mut() {
            if let Some(Err(error)) = client.receive_now() {
                return Err(Stop::Unreachable(format!(
                    "an idle connection ended: {error}"
                )));
            }
        }
    }
    Ok(())
}

async fn open(args: &Connect, number: usize) -> Result<Client, Stop> {
    let unreachable = |error| Stop::Unreachable(format!("connection {number}: {error}"));
    let mut client = Client::open_small(&args.url).await.map_err(unreachable)?;
    let _: Value = client.call("ping", json!({})).await.map_err(unreachable)?;
    for offset in 0..args.subscriptions {
        let timeline = format!("idle/{}", (number + offset) % 1_000);
        let params = json!({ "timeline": timeline });
        let _: Value = client
            .call("subscribe", params)
            .await
            .map_err(unreachable)?;
    }
    Ok(client)
}
