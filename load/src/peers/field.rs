//! One run: a fresh server, the load, the figures, and everything gone again.
//!
//! Owns: starting each contestant anew for each run, so that nobody's merges or rewrites go on beside another's
//! measurement. Promises: the same plan for all; faults are collected with the name of who made them. Must not:
//! compare.

use std::path::PathBuf;
use std::time::Duration;

use super::engine::{self, Measured, Plan};
use super::floor::Echo;
use super::nats::JetStream;
use super::programs::{INSTALL, Ours, Program, Syncs};
use super::resp::Redis;
use super::table::Figures;
use super::tideline::Tideline;
use crate::exit::Stop;
use crate::pace::LATE_SHARE_MAX;
use crate::random::Random;
use crate::watch::{self, Metrics};

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    Tideline,
    Redis,
    /// JetStream that syncs before each acknowledgement.
    Synced,
    /// JetStream as it is by default.
    Unsynced,
    Echo,
}

impl Contestant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Contestant::Tideline => "Tideline",
            Contestant::Redis => "Redis Streams, appendfsync always",
            Contestant::Synced => "JetStream, sync_interval always",
            Contestant::Unsynced => "JetStream, default (no sync)",
            Contestant::Echo => "bare WebSocket echo",
        }
    }
}

/// The load of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) in_flight: usize,
    /// Requests per second; without it as many as go.
    pub(super) rate: Option<f64>,
}

/// How Tideline's batches were in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    /// Messages that share a sync, on average.
    pub(super) messages: f64,
    /// Bytes of such a batch.
    pub(super) bytes: f64,
}

/// What one run gave.
pub(super) struct Run {
    pub(super) figures: Figures,
    /// Of Tideline.
    pub(super) batches: Option<Batches>,
}

/// What all runs share.
pub(super) struct Field {
    pub(super) binary: PathBuf,
    pub(super) redis: Option<PathBuf>,
    pub(super) nats: Option<PathBuf>,
    pub(super) data: PathBuf,
    pub(super) connections: usize,
    pub(super) timelines: u64,
    pub(super) size: usize,
    /// Messages of a room that may not have reached everybody.
    pub(super) room_in_flight: u64,
    pub(super) warm_up: Duration,
    pub(super) seconds: Duration,
    pub(super) seed: u64,
    /// Messages of the row about growth.
    pub(super) stock: u64,
    /// Tideline's rates at full depth, as far as they were measured.
    pub(super) best: Vec<f64>,
    pub(super) faults: Vec<String>,
}

impl Field {
    /// Why this one cannot run, if so.
    pub(super) fn missing(&self, who: Contestant) -> Option<String> {
        let named = |name: &str| Some(format!("{name} is not installed: {INSTALL}"));
        match who {
            Contestant::Redis if self.redis.is_none() => named("redis-server"),
            Contestant::Synced | Contestant::Unsynced if self.nats.is_none() => {
                named("nats-server")
            }
            _ => None,
        }
    }

    pub(super) fn plan(&self, load: Load, pid: Option<u32>) -> Plan {
        Plan {
            connections: self.connections,
            in_flight: load.in_flight,
            keys: self.timelines,
            warm_up: self.warm_up,
            measured: self.seconds,
            rate: load.rate,
            seed: self.seed,
            pid,
        }
    }

    /// Tideline's side of the wire.
    pub(super) fn ours(&self, url: String, echo: bool) -> Tideline {
        Tideline {
            url,
            prefix: "peers/".into(),
            tag: Random::new(Random::fresh_seed()).text(6),
            size: self.size,
            seed: self.seed,
            echo,
        }
    }

    /// Starts, loads, checks, ends.
    pub(super) async fn run(&mut self, who: Contestant, load: Load) -> Result<Run, Stop> {
        let (seed, size) = (self.seed, self.size);
        let mut batches = None;
        let measured = match who {
            Contestant::Tideline => {
                let server = Ours::start(&self.binary, &self.data, &[]).await?;
                let peer = self.ours(server.launch.url(), false);
                let plan = self.plan(load, Some(server.pid()));
                let measured = engine::run(&peer, &plan).await?;
                batches = self::batches(&server.launch.url()).await;
                measured
            }
            Contestant::Redis => {
                let binary = self.redis.as_deref().ok_or_else(|| absent(who))?;
                let server = Program::redis(binary, &self.data).await?;
                let address = server.address.clone();
                let peer = Redis {
                    address,
                    size,
                    seed,
                };
                engine::run(&peer, &self.plan(load, Some(server.pid()))).await?
            }
            Contestant::Synced | Contestant::Unsynced => {
                let syncs = match who {
                    Contestant::Synced => Syncs::Always,
                    _ => Syncs::Default,
                };
                let binary = self.nats.as_deref().ok_or_else(|| absent(who))?;
                let server = Program::nats(binary, &self.data, syncs).await?;
                let address = server.address.clone();
                let peer = JetStream {
                    address,
                    size,
                    seed,
                };
                let unready = |error| Stop::Unreachable(format!("JetStream: {error}"));
                peer.prepare().await.map_err(unready)?;
                engine::run(&peer, &self.plan(load, Some(server.pid()))).await?
            }
            Contestant::Echo => {
                let failed = |error| Stop::Own(format!("the echo: {error}"));
                let echo = Echo::start().map_err(failed)?;
                let peer = self.ours(format!("ws://{}/", echo.address), true);
                engine::run(&peer, &self.plan(load, None)).await?
            }
        };
        for fault in &measured.faults {
            self.faults.push(format!("{}: {fault}", who.name()));
        }
        let figures = figures(&measured, load.rate.is_some());
        Ok(Run { figures, batches })
    }
}

fn absent(who: Contestant) -> Stop {
    Stop::Own(format!("{} is not installed", who.name()))
}

/// The value is the rate, or with a rate set the 99th percentile in ms.
fn figures(measured: &Measured, paced: bool) -> Figures {
    let per_second = measured.per_second();
    let ms = |quantile| measured.latency.value_at_quantile(quantile) as f64 / 1_000.0;
    let share = |used: f64| used / measured.seconds.max(0.001);
    let late_share = measured.late as f64 / (measured.latency.len() as f64).max(1.0);
    Figures {
        value: if paced { ms(0.99) } else { per_second },
        per_second: Some(per_second),
        latency_ms: Some([ms(0.5), ms(0.99), ms(0.999)]),
        generator_cpu: Some(share(measured.generator_cpu_seconds)),
        server_cpu: measured.server_cpu_seconds.map(share),
        late_share: paced.then_some(late_share),
        refused: Some(measured.refused),
        invalid: (paced && late_share > LATE_SHARE_MAX).then(|| {
            let percent = late_share * 100.0;
            format!("the generator sent {percent:.1} % of the requests too late")
        }),
    }
}

/// Mean batch of a Tideline server since its start, from its metrics; absent if they cannot be read.
async fn batches(url: &str) -> Option<Batches> {
    let metrics = watch::metrics(url).await.ok()?;
    let mean = |name: &str| {
        let count = total(&metrics, &format!("{name}_count"));
        (count > 0.0).then(|| total(&metrics, &format!("{name}_sum")) / count)
    };
    Some(Batches {
        messages: mean("tideline_commit_batch_closures")?,
        bytes: mean("tideline_commit_batch_bytes")?,
    })
}

/// The sum over all labels of a metric.
fn total(metrics: &Metrics, name: &str) -> f64 {
    let mine = metrics
        .iter()
        .filter(|(full, _)| full.split('{').next() == Some(name));
    mine.fold(0.0, |sum, (_, value)| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_no_other() {
        let metrics = watch::parse("a_sum{p=\"0\"} 2\na_sum{p=\"1\"} 3.5\na_sums 9\nb_sum 1\n");
        for (name, sum) in [("a_sum", 5.5_f64), ("b_sum", 1.0), ("c", 0.0)] {
            assert_eq!(total(&metrics, name).to_bits(), sum.to_bits());
        }
    }
}
