//! One run of one contestant: a fresh server, the load, its result, and everything gone again.
//!
//! Owns: starting each contestant anew for each run, so that no one's merges or rewrites go on beside another's
//! measurement; what a Tideline with a stock is. Promises: the same line and generator for all. Must not: compare.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Parser;
use tideline_load::bench::{Bench, Ours, blocking, rest};
use tideline_load::exit::Stop;
use tideline_load::figures::quantity;
use tideline_load::outcome::{Better, Figure, Outcome};
use tideline_load::{cli, profile, report};

use crate::Peers;
use crate::appends::{Appends, Wire};
use crate::disk::{self, Batch};
use crate::programs::{INSTALL, Program, benchmark, find};
use crate::room::Room;
use crate::row::Contestant;

/// What little is.
const LITTLE: u64 = 100_000;

/// What all runs share.
pub(crate) struct Field {
    pub(crate) args: Peers,
    pub(crate) bench: Bench,
    /// How a stock is made.
    stock: String,
    titles: BTreeMap<Contestant, String>,
    /// Where programs are that are installed.
    programs: BTreeMap<&'static str, PathBuf>,
    /// Tideline with a large stock, once it is made.
    large: Option<Ours>,
    /// What Tideline's batches held when it last ran.
    batch: Option<Batch>,
}

/// A line of the load tool, for a server that is not Tideline.
#[derive(Parser)]
#[command(no_binary_name = true, args_override_self = true)]
enum Load {
    Append(Appends),
    Room(Room),
}

impl Field {
    pub(crate) fn new(
        args: Peers,
        seed: u64,
        stock: String,
        titles: BTreeMap<Contestant, String>,
    ) -> Field {
        let Peers {
            warm_up, seconds, ..
        } = args;
        let names = [
            ("connections", args.connections.to_string()),
            ("timelines", args.timelines.to_string()),
            ("positions", args.timelines.min(100).to_string()),
            ("size", args.size.to_string()),
            ("room_in_flight", args.room_in_flight.to_string()),
            ("stock", quantity(args.stock as f64, "1")),
            ("long", (seconds * 4.0).to_string()),
        ];
        let bench = Bench {
            measure: cli::measure,
            binary: args.binary.clone(),
            data: args.data.clone(),
            all: format!("--seed {seed} --warm-up {warm_up} --seconds {seconds}"),
            names: names.into(),
            faults: Vec::new(),
            invalid: Vec::new(),
        };
        let redis = args.redis_server.as_deref();
        let tool = redis.map(|server| server.with_file_name("redis-benchmark"));
        let programs = [
            ("redis-server", redis),
            (
                "redis-benchmark",
                tool.as_deref().filter(|tool| tool.is_file()),
            ),
            ("nats-server", args.nats_server.as_deref()),
        ];
        let programs = programs.into_iter();
        let programs = programs.filter_map(|(name, given)| Some((name, find(name, given)?)));
        Field {
            bench,
            stock,
            titles,
            programs: programs.collect(),
            large: None,
            batch: None,
            args,
        }
    }

    pub(crate) fn title(&self, who: Contestant) -> String {
        self.titles[&who].clone()
    }

    /// Why this one cannot run, if so.
    pub(crate) fn missing(&self, who: Contestant) -> Option<String> {
        let program = match who {
            Contestant::Redis => "redis-server",
            Contestant::RedisBenchmark => "redis-benchmark",
            Contestant::Synced | Contestant::Unsynced | Contestant::Nats => "nats-server",
            _ => return None,
        };
        self.installed(program).err().map(|stop| stop.to_string())
    }

    fn installed(&self, program: &str) -> Result<&Path, Stop> {
        let absent = || Stop::Own(format!("{program} is not installed: {INSTALL}"));
        self.programs
            .get(program)
            .map(PathBuf::as_path)
            .ok_or_else(absent)
    }

    /// The load on this one; what is wrong is kept.
    pub(crate) async fn run(&mut self, who: Contestant, line: &str) -> Result<Outcome, Stop> {
        match who {
            Contestant::Tideline => {
                let server = self.bench.start(&[]).await?;
                let outcome = self.ours(&server, line).await?;
                self.batch = Batch::of(&outcome).or(self.batch);
                Ok(outcome)
            }
            Contestant::Large => {
                let stock = self.args.stock;
                let server = match self.large.take() {
                    Some(server) => server,
                    None => self.filled(stock).await?,
                };
                let outcome = self.rested(&server, stock, line).await;
                self.large = Some(server);
                outcome
            }
            Contestant::Little => {
                let server = self.filled(LITTLE).await?;
                self.rested(&server, LITTLE, line).await
            }
            Contestant::NewLog => {
                let server = self.bench.start(&[]).await?;
                self.written(&server, "a", line).await
            }
            Contestant::OldLog => {
                // The log keeps one segment, so that the steady state is there soon.
                let retention = ("TIDELINE_RETENTION_BYTES", (64 << 20).to_string());
                let server = self.bench.start(&[retention]).await?;
                self.written(&server, "a", line).await?;
                self.written(&server, "b", line).await
            }
            Contestant::DiskReused => self.disk(true),
            Contestant::DiskGrowing => self.disk(false),
            _ => self.theirs(who, line).await,
        }
    }

    /// The load on a server that is not Tideline.
    async fn theirs(&mut self, who: Contestant, line: &str) -> Result<Outcome, Stop> {
        let (server, wire) = match who {
            Contestant::Echo => (Program::echo().await?, Wire::Echo),
            Contestant::Redis | Contestant::RedisBenchmark => {
                let redis = self.installed("redis-server")?;
                (Program::redis(&self.bench, redis).await?, Wire::Redis)
            }
            _ => {
                let nats = self.installed("nats-server")?;
                (
                    Program::nats(&self.bench, nats, who).await?,
                    Wire::JetStream,
                )
            }
        };
        let words = self.bench.words(line, &server.address, server.pid);
        let wrong = |error: clap::Error| Stop::Usage(format!("{line}: {error}"));
        let load = Load::try_parse_from(words).map_err(wrong)?;
        if let (Load::Append(load), Contestant::RedisBenchmark) = (&load, who) {
            let rate = benchmark(self.installed("redis-benchmark")?, load).await?;
            return Ok(with_rate(rate, &[]));
        }
        let outcome = blocking(move || match load {
            Load::Append(load) => profile::measure(&Appends { wire, ..load }),
            Load::Room(load) => profile::measure(&load),
        });
        let (outcome, name) = (outcome.await?, self.title(who));
        self.bench.found(&name, &outcome);
        self.doubts();
        Ok(outcome)
    }

    /// What the disk would allow with Tideline's mean batch.
    fn disk(&self, reused: bool) -> Result<Outcome, Stop> {
        let unread = || Stop::Own("the server's metrics could not be read".into());
        let Batch { messages, bytes } = self.batch.ok_or_else(unread)?;
        let (place, seconds) = (self.bench.place("floor-")?, self.args.seconds);
        let rate = disk::probe(place.path(), reused, bytes, seconds.clamp(0.01, 3.0));
        let failed = |error| Stop::Own(format!("{}: {error}", place.path().display()));
        let parts = [("batch_messages", messages), ("batch_bytes", bytes)];
        Ok(with_rate(rate.map_err(failed)? * messages, &parts))
    }

    async fn ours(&mut self, server: &Ours, line: &str) -> Result<Outcome, Stop> {
        let name = self.title(Contestant::Tideline);
        let outcome = self.bench.run(server, line, &name).await;
        self.doubts();
        outcome
    }

    fn doubts(&mut self) {
        for reason in self.bench.invalid.drain(..) {
            report::note(&format!("not valid: {reason}"));
        }
    }

    /// A server with so many messages, sent as fast as it takes them.
    async fn filled(&mut self, stock: u64) -> Result<Ours, Stop> {
        let messages = quantity(stock as f64, "1");
        report::note(&format!("{messages} messages go in first"));
        let server = self.bench.start(&[]).await?;
        let line = self.stock.clone();
        self.there(stock);
        self.ours(&server, &line).await?;
        Ok(server)
    }

    /// The load on a server with so much there, after it has stopped writing.
    async fn rested(&mut self, server: &Ours, stock: u64, line: &str) -> Result<Outcome, Stop> {
        self.there(stock);
        quiet(server).await;
        self.ours(server, line).await
    }

    fn there(&mut self, stock: u64) {
        let names = &mut self.bench.names;
        names.insert("there", stock.to_string());
        names.insert("tenth", (stock / 10).max(1).to_string());
    }

    /// The load, and what the disk has written for it.
    async fn written(&mut self, server: &Ours, part: &str, line: &str) -> Result<Outcome, Stop> {
        self.bench.names.insert("part", part.to_owned());
        let counters = disk::counters(server.place())?;
        let before = disk::written(&counters)?;
        let mut outcome = self.ours(server, line).await?;
        quiet(server).await;
        let bytes = disk::settled(&counters).await? - before;
        let entries = outcome
            .details
            .get("acknowledged")
            .and_then(|count| count.as_f64());
        let each = disk::entry_bytes(self.args.size, self.args.connections);
        let times = bytes / (entries.unwrap_or(0.0) * each).max(1.0);
        enter(&mut outcome, "write_amplification", times, "×");
        Ok(outcome)
    }
}

/// Waits until a server has nothing left to flush and merge.
async fn quiet(server: &Ours) {
    if rest(server.pid()).await.is_none() {
        report::note("the server is still merging");
    }
}

fn enter(outcome: &mut Outcome, name: &str, value: f64, unit: &str) {
    let (unit, better) = (unit.to_owned(), Better::Neither);
    let figure = Figure {
        value,
        unit,
        better,
    };
    outcome.figures.insert(name.to_owned(), figure);
}

/// A result that is a rate of appends.
fn with_rate(rate: f64, parts: &[(&str, f64)]) -> Outcome {
    let mut outcome = Outcome::default();
    enter(&mut outcome, "appends_per_second", rate, "1/s");
    for (name, value) in parts {
        enter(&mut outcome, name, *value, "1");
    }
    outcome
}
