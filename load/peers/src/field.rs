//! One run: a fresh server, the load, its result, and everything gone again.
//!
//! Owns: starting each contestant anew for each run, so that no one's merges or rewrites go on beside another's
//! measurement. Promises: the same generator and settings for all; faults are collected with the name of the one who
//! made them. Must not: compare.

use std::path::PathBuf;

use tideline_load::bench::{self, Findings, Ours};
use tideline_load::cli;
use tideline_load::exit::Stop;
use tideline_load::exit::joined;
use tideline_load::generator::Flow;
use tideline_load::outcome::Outcome;
use tideline_load::pairs::Figures;
use tideline_load::profile::{self, Profile};
use tideline_load::report;
use tideline_load::setup::Setup;
use tokio::task::spawn_blocking;

use crate::Peers;
use crate::echo::{Echo, Server};
use crate::keyed::{Keyed, Peer};
use crate::nats::JetStream;
use crate::programs::{INSTALL, Program, find};
use crate::redis::Redis;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Tideline,
    Redis,
    /// JetStream that syncs before each acknowledgement.
    Synced,
    /// JetStream as it is by default.
    Unsynced,
    Echo,
}

impl Contestant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Tideline => "Tideline",
            Contestant::Redis => "Redis Streams, appendfsync always",
            Contestant::Synced => "JetStream, sync_interval always",
            Contestant::Unsynced => "JetStream, default (no sync)",
            Contestant::Echo => "bare WebSocket echo",
        }
    }
}

/// What all runs share.
pub(crate) struct Field {
    pub(crate) args: Peers,
    pub(crate) seed: u64,
    pub(crate) redis: Option<PathBuf>,
    pub(crate) nats: Option<PathBuf>,
    /// Tideline's rates at full depth, as far as they were measured.
    pub(crate) best: Vec<f64>,
    pub(crate) findings: Findings,
}

impl Field {
    pub(crate) fn new(mut args: Peers, seed: u64) -> Result<Field, Stop> {
        // Servers get absolute paths: some of them change their directory.
        let failed = |error| Stop::Own(format!("{}: {error}", args.data.display()));
        std::fs::create_dir_all(&args.data).map_err(failed)?;
        args.data = std::fs::canonicalize(&args.data).map_err(failed)?;
        Ok(Field {
            redis: find("redis-server", args.redis_server.as_deref()),
            nats: find("nats-server", args.nats_server.as_deref()),
            args,
            seed,
            best: Vec::new(),
            findings: Findings::default(),
        })
    }

    /// Why this one cannot run, if so.
    pub(crate) fn missing(&self, who: Contestant) -> Option<String> {
        let (program, found) = match who {
            Contestant::Tideline | Contestant::Echo => return None,
            Contestant::Redis => ("redis-server", &self.redis),
            Contestant::Synced | Contestant::Unsynced => ("nats-server", &self.nats),
        };
        let named = || format!("{program} is not installed: {INSTALL}");
        found.is_none().then(named)
    }

    /// Starts Tideline, with its defaults but for what `environment` says.
    pub(crate) async fn start(&self, environment: &[(&'static str, String)]) -> Result<Ours, Stop> {
        let (binary, data) = (self.args.binary.clone(), self.args.data.clone());
        let environment = environment.to_vec();
        joined(spawn_blocking(move || {
            Ours::start(&binary, &data, &environment)
        }))
        .await
    }

    /// Runs a line of the load tool's command line on a fresh Tideline.
    pub(crate) async fn ours(&mut self, line: &str) -> Result<Outcome, Stop> {
        let server = self.start(&[]).await?;
        self.ours_on(&server, line).await
    }

    /// The same on one that runs already.
    pub(crate) async fn ours_on(&mut self, server: &Ours, line: &str) -> Result<Outcome, Stop> {
        let Peers {
            warm_up, seconds, ..
        } = self.args;
        let all = format!(
            "--seed {} --warm-up {warm_up} --seconds {seconds}",
            self.seed
        );
        let words = server.words(&all, line);
        let outcome = joined(spawn_blocking(move || cli::measure(&words))).await?;
        Ok(self.found(Contestant::Tideline.name(), outcome))
    }

    /// Runs one of our own profiles, on a server that is not Tideline.
    pub(crate) async fn other<P>(&mut self, name: &str, profile: P) -> Result<Outcome, Stop>
    where
        P: Profile + Send + 'static,
    {
        let outcome = joined(spawn_blocking(move || profile::measure(&profile))).await?;
        Ok(self.found(name, outcome))
    }

    fn found(&mut self, name: &str, outcome: Outcome) -> Outcome {
        self.findings.add(name, &outcome);
        for reason in self.findings.invalid.drain(..) {
            report::note(&format!("not valid: {reason}"));
        }
        outcome
    }

    pub(crate) fn setup(&self, url: &str, pid: Option<u32>) -> Setup {
        Setup {
            url: url.to_owned(),
            binary: None,
            data: None,
            environment: Vec::new(),
            pid,
            warm_up: self.args.warm_up,
            seconds: self.args.seconds,
            late_ms: 5.0,
            seed: Some(self.seed),
            label: None,
            json: None,
            pictures: None,
            quiet: true,
        }
    }

    /// The line of Tideline's appends.
    pub(crate) fn append_line(&self, flow: &Flow) -> String {
        let Peers {
            timelines, size, ..
        } = self.args;
        let how = match flow.rate {
            Some(rate) => format!("--rate {rate}"),
            None => format!("--in-flight {}", flow.in_flight),
        };
        let connections = flow.connections;
        format!("append --connections {connections} {how} --timelines {timelines} --size {size}")
    }

    /// One contestant's appends, on a fresh server.
    pub(crate) async fn appends(&mut self, who: Contestant, flow: &Flow) -> Result<Outcome, Stop> {
        let absent = || Stop::Own(format!("{} is not installed", who.name()));
        let data = &self.args.data;
        match who {
            Contestant::Tideline => self.ours(&self.append_line(flow)).await,
            Contestant::Redis => {
                let binary = self.redis.as_deref().ok_or_else(absent)?;
                let server = Program::redis(binary, data).await?;
                self.keyed(who, flow, Redis, &server.address, Some(server.pid()))
                    .await
            }
            Contestant::Synced | Contestant::Unsynced => {
                let binary = self.nats.as_deref().ok_or_else(absent)?;
                // Else it syncs every two minutes.
                let always = (who == Contestant::Synced).then_some("sync_interval: always");
                let server = Program::nats(binary, data, always.unwrap_or("")).await?;
                self.keyed(who, flow, JetStream, &server.address, Some(server.pid()))
                    .await
            }
            Contestant::Echo => {
                let failed = |error| Stop::Own(format!("the echo: {error}"));
                let server = Server::start().map_err(failed)?;
                self.keyed(who, flow, Echo, &server.url(), None).await
            }
        }
    }

    async fn keyed<P: Peer>(
        &mut self,
        who: Contestant,
        flow: &Flow,
        peer: P,
        address: &str,
        pid: Option<u32>,
    ) -> Result<Outcome, Stop> {
        let profile = Keyed {
            setup: self.setup(address, pid),
            flow: flow.clone(),
            timelines: self.args.timelines,
            size: self.args.size,
            peer,
        };
        self.other(who.name(), profile).await
    }
}

/// A result, with one figure of it as the value of a row.
pub(crate) fn figures(outcome: &Outcome, value: &str) -> Result<Figures, Stop> {
    let figure = |name: &str| Some(outcome.figures.get(name)?.value);
    let missing = || Stop::Own(format!("{}: no figure {value}", outcome.profile));
    let share = |name| Some(figure(name)? / outcome.seconds.max(0.001));
    let ms = |micros: u64| micros as f64 / 1e3;
    let acks = outcome.latencies.get("ack").filter(|acks| acks.count > 0);
    Ok(Figures {
        value: figure(value).ok_or_else(missing)?,
        per_second: figure("appends_per_second"),
        latency_ms: acks.map(|acks| [acks.p50, acks.p99, acks.p999].map(ms)),
        generator_cpu: share("generator_cpu_seconds"),
        server_cpu: share("server_cpu_seconds"),
        late_share: outcome.validity.lateness.map(|lateness| lateness.share()),
        refused: figure("busy").map(|count| count as u64),
        invalid: outcome.validity.reasons.first().cloned(),
    })
}

/// Waits until a server has nothing left to flush and merge.
pub(crate) async fn quiet(server: &Ours) -> Result<(), Stop> {
    let pid = server.pid();
    let rested = joined(spawn_blocking(move || Ok(bench::rest(pid)))).await?;
    if rested.is_none() {
        report::note("the server is still merging");
    }
    Ok(())
}
