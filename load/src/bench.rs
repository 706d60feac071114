//! Measurements in a row, each on a server with a directory of its own: what `growth` and the comparison with other
//! servers are made of.
//!
//! Owns: these servers and directories, and the faults and doubts of all measurements. Promises: a server is dead and
//! its directory gone when its handle is dropped; what is measured is a line that the command line knows, so that
//! anybody can run it alone. Must not: measure by itself: profiles do.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::exit::Stop;
use crate::machine::used;
use crate::outcome::Outcome;
use crate::process::{Launch, Server};
use crate::random::Random;

/// A directory that goes away with its handle.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// Makes a new one in `data`.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new(data: &Path, name: &str) -> Result<Place, Stop> {
        let run = Random::new(Random::fresh_seed()).bits() >> 32;
        let path = data.join(format!("{name}-{run:08x}"));
        let failed = |error| Stop::Own(format!("{}: {error}", path.display()));
        fs::create_dir_all(&path).map_err(failed)?;
        Ok(Place(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is left: nobody is there to be told.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A Tideline on a directory of its own.
pub struct Ours {
    server: Server,
    /// How it was started.
    pub launch: Launch,
    /// Dropped after the server is dead.
    _place: Place,
}

impl Ours {
    /// Starts it on a new directory in `data`. Blocks.
    ///
    /// # Errors
    ///
    /// It cannot be started, or is not ready in time.
    pub fn start(binary: &Path, data: &Path, environment: &[(&str, String)]) -> Result<Ours, Stop> {
        let place = Place::new(data, "tideline")?;
        let mut launch = Launch::on_free_port(binary, &place.path().join("data"))?;
        let pair = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
        launch.environment = environment.iter().map(pair).collect();
        let server = launch.start()?;
        Ok(Ours {
            server,
            launch,
            _place: place,
        })
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The words of a profile's command line on this server. `line` is the profile and flags, which win over those that
    /// are for `all` profiles.
    #[must_use]
    pub fn words(&self, all: &str, line: &str) -> Vec<String> {
        let (url, pid) = (self.launch.url(), self.pid());
        let (profile, own) = line.split_once(' ').unwrap_or((line, ""));
        let words = format!("{profile} --quiet --url {url} --pid {pid} {all} {own}");
        words.split_whitespace().map(str::to_owned).collect()
    }
}

const REST_MAX: Duration = Duration::from_secs(90);
/// A second with less processor time than this is quiet.
const QUIET_CPU_SECONDS: f64 = 0.05;
const QUIET_SECONDS: u32 = 3;

/// Waits until a server has nothing left to flush and merge, as its processor time shows. Returns how long that took,
/// or nothing if it went on. Blocks.
#[must_use]
pub fn rest(pid: u32) -> Option<Duration> {
    let began = Instant::now();
    let (mut quiet, mut before) = (0, used(pid, "cpu_seconds")?);
    while began.elapsed() < REST_MAX {
        sleep(Duration::from_secs(1));
        let now = used(pid, "cpu_seconds")?;
        let is_quiet = now - before < QUIET_CPU_SECONDS;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        before = now;
        if quiet == QUIET_SECONDS {
            let waited = Duration::from_secs(QUIET_SECONDS.into());
            return Some(began.elapsed().saturating_sub(waited));
        }
    }
    None
}

/// What runs a profile's command line for its result alone: the command line, which is above this module.
pub type Measure = fn(&[String]) -> Result<Outcome, Stop>;

/// Broken promises and doubts of all measurements so far, each under what was measured.
#[derive(Debug, Default)]
pub struct Findings {
    /// Promises that were broken.
    pub faults: Vec<String>,
    /// What makes figures unbelievable.
    pub invalid: Vec<String>,
}

impl Findings {
    /// Takes in what a measurement found.
    pub fn add(&mut self, step: &str, outcome: &Outcome) {
        let named = |what: &String| format!("{step}, {}: {what}", outcome.profile);
        self.faults.extend(outcome.checks.told.iter().map(named));
        let reasons = outcome.validity.reasons.iter();
        self.invalid.extend(reasons.map(named));
    }
}
