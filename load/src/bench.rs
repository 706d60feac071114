//! Measurements in a row, each on a server with a directory of its own: what `growth` and the comparison with other
//! servers are made of.
//!
//! Owns: these servers and directories, the names in lines, the faults and doubts of all measurements. Promises: a
//! server is dead and its directory gone when its handle is dropped, also when a signal ends the work; what is measured
//! is a line that the command line knows, so that anybody can run it alone. Must not: measure by itself.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::exit::Stop;
use crate::outcome::Outcome;
use crate::random::Random;
use crate::run::machine::used;
use crate::run::process::Launch;

/// What runs the words of a line for its result alone.
pub type Measure = fn(&[String]) -> Result<Outcome, Stop>;

/// What all measurements of a command share.
#[derive(Default)]
pub struct Bench {
    /// Tideline's binary.
    pub binary: PathBuf,
    /// Directories are made in here.
    pub data: PathBuf,
    /// Flags of every line; those of a line win over them.
    pub all: String,
    /// What `{name}` means in a line; `{run}` is another text in each run.
    pub names: BTreeMap<String, String>,
    /// Broken promises so far, each under what was measured.
    pub faults: Vec<String>,
    /// What makes figures unbelievable so far.
    pub invalid: Vec<String>,
}

/// A server that runs until this is dropped.
pub struct Running {
    /// Where it takes the load.
    pub url: String,
    /// Its process, if it is not this one.
    pub pid: Option<u32>,
    /// What ends it when it is dropped: before its directory goes.
    pub server: Box<dyn Any + Send>,
    /// Its directory.
    pub place: TempDir,
}

impl Bench {
    /// A new directory, which goes away with its handle.
    pub fn place(&self, name: &str) -> Result<TempDir, Stop> {
        let made = std::fs::create_dir_all(&self.data);
        // Servers get absolute paths: some of them change their directory.
        let data = made.and_then(|()| std::fs::canonicalize(&self.data));
        let place = data.and_then(|data| tempfile::Builder::new().prefix(name).tempdir_in(data));
        place.map_err(|error| Stop::Own(format!("{}: {error}", self.data.display())))
    }

    /// Starts Tideline, with its defaults but for what `environment` says.
    pub async fn start(&self, environment: &BTreeMap<String, String>) -> Result<Running, Stop> {
        let place = self.place("tideline-")?;
        let mut launch = Launch::on_free_port(&self.binary, &place.path().join("data"))?;
        launch.environment = environment.clone().into_iter().collect();
        // Whatever ends the waiting, the server goes before its directory.
        let server = launch.start().await?;
        Ok(Running {
            url: launch.url(),
            pid: Some(server.0.id()),
            server: Box::new(server),
            place,
        })
    }

    /// The text with what its `{name}`s mean.
    pub fn filled(&self, text: &str) -> String {
        let names = self.names.iter();
        names.fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    /// Runs a line on a server; what it finds wrong is kept under `what`.
    pub async fn run(
        &mut self,
        line: &str,
        on: &Running,
        what: &str,
        measure: Measure,
    ) -> Result<Outcome, Stop> {
        let (profile, own) = line.split_once(' ').unwrap_or((line, ""));
        let pid = on.pid.map_or(String::new(), |pid| format!("--pid {pid}"));
        let line = format!(
            "{profile} --quiet --url {} {pid} {} {own}",
            on.url, self.all
        );
        let run = Random::new(Random::fresh_seed()).text(8);
        self.names.insert("run".into(), run);
        let words = self.filled(&line);
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let outcome = blocking(move || measure(&words)).await?;
        let named = |why: &String| format!("{what}, {}: {why}", outcome.profile);
        self.faults.extend(outcome.checks.told.iter().map(named));
        let reasons = outcome.validity.reasons.iter();
        self.invalid.extend(reasons.map(named));
        Ok(outcome)
    }
}

/// Work that blocks, on a thread of its own.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Stop> + Send + 'static,
) -> Result<T, Stop> {
    spawn_blocking(work).await?
}

/// Does the work, or ends it with a signal: then all that it holds is dropped, and a measurement whose server is gone
/// ends, too. Blocks.
pub fn until_signal<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let own = |error| Stop::Own(format!("no runtime: {error}"));
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(own)?;
    runtime.block_on(async {
        let mut interrupted = signal(SignalKind::interrupt()).map_err(own)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(own)?;
        tokio::select! {
            done = work => done,
            _ = interrupted.recv() => Err(Stop::Own("ended by SIGINT".into())),
            _ = terminated.recv() => Err(Stop::Own("ended by SIGTERM".into())),
        }
    })
}

const REST_MAX: Duration = Duration::from_secs(90);
/// A second with less processor time than this is quiet.
const QUIET_CPU_SECONDS: f64 = 0.05;
const QUIET_SECONDS: u32 = 3;

/// Waits until a server has nothing left to flush and merge, as its processor time shows. Returns how long that took,
/// or nothing if it went on.
pub async fn rest(pid: Option<u32>) -> Option<Duration> {
    let began = Instant::now();
    let cpu = || used(pid?, "cpu_seconds");
    let (mut quiet, mut now) = (0, cpu()?);
    while began.elapsed() < REST_MAX {
        sleep(Duration::from_secs(1)).await;
        let before = std::mem::replace(&mut now, cpu()?);
        let is_quiet = now - before < QUIET_CPU_SECONDS;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet == QUIET_SECONDS {
            let waited = Duration::from_secs(QUIET_SECONDS.into());
            return Some(began.elapsed().saturating_sub(waited));
        }
    }
    None
}
