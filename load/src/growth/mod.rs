//! `growth`: what an append, a page, a delivery and a connection cost while timelines, history and audiences grow.
//!
//! Owns: which curves there are and their sizes. Promises: each size has a server of its own, started on an empty
//! directory; when the command ends, no server and no data is left. Must not: measure by itself: profiles do.

mod audience;
mod stock;

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::curve::{Curve, Curves, FORMAT, Step};
use crate::exit::{Stop, Verdict};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::pictures;
use crate::process::{Launch, Server};
use crate::profile::{Profile, measure};
use crate::random::Random;
use crate::report;
use crate::setup::Setup;

/// Arguments of `growth`.
#[derive(Clone, Debug, clap::Args)]
pub struct Growth {
    /// Tideline's binary
    #[arg(long, default_value = "target/release/tideline")]
    pub binary: PathBuf,
    /// Data directories are made in here, and removed again: the disk that is measured
    #[arg(long, default_value = "./data/growth")]
    pub data: PathBuf,
    /// Where growth.json and the pictures go
    #[arg(long, default_value = "docs/results")]
    pub results: PathBuf,
    /// Curves to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Name>,
    /// The largest history, in messages
    #[arg(long, default_value_t = 10_000_000)]
    pub most: u64,
    /// Length of each measurement
    #[arg(long, default_value_t = 8.0)]
    pub seconds: f64,
    /// Bytes of text in each entry
    #[arg(long, default_value_t = 200)]
    pub size: usize,
}

/// A curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// More and more timelines of ten messages each
    Timelines,
    /// A thousand timelines that grow longer and longer
    History,
    /// One timeline with more and more subscribers
    Subscribers,
    /// More and more idle connections, then subscriptions
    Connections,
}

/// Measures, writes, tells. Blocks.
///
/// # Errors
///
/// A server does not start or cannot be reached, a limit of this machine, a file that cannot be written.
pub fn run(args: &Growth) -> Result<Verdict, Stop> {
    let wants = |name| args.only.is_empty() || args.only.contains(&name);
    let mut bench = Bench {
        args,
        faults: Vec::new(),
        invalid: Vec::new(),
    };
    let mut curves = Vec::new();
    if wants(Name::Timelines) {
        curves.push(stock::timelines(&mut bench)?);
    }
    if wants(Name::History) {
        curves.push(stock::history(&mut bench)?);
    }
    if wants(Name::Subscribers) {
        curves.push(audience::subscribers(&mut bench)?);
    }
    if wants(Name::Connections) {
        curves.push(audience::connections(&mut bench)?);
        curves.push(audience::subscriptions(&mut bench)?);
    }
    let Bench {
        faults, invalid, ..
    } = bench;
    let curves = Curves {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        machine: Machine::here(),
        seconds: args.seconds,
        faults,
        invalid,
        curves,
    };
    let failed = |error| Stop::Own(format!("{}: {error}", args.results.display()));
    fs::create_dir_all(&args.results).map_err(failed)?;
    curves.save(&args.results.join("growth.json"))?;
    pictures::draw_curves(&curves, &args.results)?;
    report::say(&curves.markdown());
    for fault in &curves.faults {
        report::note(&format!("fault: {fault}"));
    }
    Ok(Verdict::of(
        curves.faults.is_empty(),
        curves.invalid.is_empty(),
    ))
}

/// What all measurements share.
struct Bench<'a> {
    args: &'a Growth,
    faults: Vec<String>,
    invalid: Vec<String>,
}

/// A server on a directory of its own; dropped, both are gone.
struct Ours {
    server: Server,
    launch: Launch,
    place: PathBuf,
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.server.end();
        // What cannot be removed is left: there is nobody to tell.
        let _ = fs::remove_dir_all(&self.place);
    }
}

impl Bench<'_> {
    /// Starts a server on an empty directory.
    fn server(&self) -> Result<Ours, Stop> {
        let number = Random::new(Random::fresh_seed()).bits() >> 32;
        let place = self.args.data.join(format!("growth-{number:08x}"));
        let failed = |error| Stop::Own(format!("{}: {error}", place.display()));
        fs::create_dir_all(&place).map_err(failed)?;
        let mut launch = Launch::on_free_port(&self.args.binary, &place.join("data"))?;
        launch.environment = vec![("TIDELINE_RETENTION_BYTES".into(), LOG_BYTES.to_string())];
        let server = launch.start()?;
        Ok(Ours {
            server,
            launch,
            place,
        })
    }

    /// Runs a profile on it; its faults and doubts are collected under the curve and size.
    fn measure<P: Profile>(
        &mut self,
        ours: &Ours,
        step: &str,
        make: impl FnOnce(Setup) -> P,
    ) -> Result<Outcome, Stop> {
        let outcome = measure(&make(Setup {
            url: ours.launch.url(),
            binary: None,
            data: None,
            environment: Vec::new(),
            pid: Some(ours.server.pid()),
            warm_up: (self.args.seconds / 4.0).min(2.0),
            seconds: self.args.seconds,
            late_ms: 5.0,
            seed: Some(SEED),
            label: None,
            json: None,
            pictures: None,
            quiet: true,
        }))?;
        for fault in &outcome.checks.told {
            self.faults.push(format!("{step}, {}: {fault}", P::NAME));
        }
        for reason in &outcome.validity.reasons {
            self.invalid.push(format!("{step}, {}: {reason}", P::NAME));
        }
        Ok(outcome)
    }
}

/// Followers' log is kept up to so much here: by default it would take more of the disk than what is measured.
const LOG_BYTES: u64 = 1 << 30;
/// The same texts and choices at each size.
const SEED: u64 = 1;

/// A figure of a profile, if it has it.
fn figure(outcome: &Outcome, name: &str) -> Option<f64> {
    Some(outcome.figures.get(name)?.value)
}

/// The server's processor time for each of so many operations a second, µs.
fn cpu_each(outcome: &Outcome, per_second: &str) -> Option<f64> {
    let count = figure(outcome, per_second)? * outcome.seconds;
    (count > 0.0).then(|| Some(figure(outcome, "server_cpu_seconds")? * 1e6 / count))?
}

/// Says which step was measured.
fn tell(name: &str, step: &Step) {
    let figures: Vec<String> = step
        .figures
        .iter()
        .map(|reading| format!("{} {}", reading.name, reading.text()))
        .collect();
    report::note(&format!("{name}, {}: {}", step.at, figures.join(", ")));
}

/// A curve of steps that are measured one after the other.
fn curve(
    bench: &mut Bench<'_>,
    name: &str,
    along: &str,
    sizes: impl IntoIterator<Item = u64>,
    mut measure: impl FnMut(&mut Bench<'_>, &mut Step) -> Result<(), Stop>,
) -> Result<Curve, Stop> {
    let mut steps = Vec::new();
    for size in sizes {
        let mut step = Step::at(size);
        measure(bench, &mut step)?;
        tell(name, &step);
        steps.push(step);
    }
    Ok(Curve {
        name: name.to_owned(),
        along: along.to_owned(),
        steps,
    })
}

/// Bytes on the disk of all files below a folder that have `part` in their path, holes not counted. What goes away
/// meanwhile counts nothing.
fn disk_bytes(folder: &Path, part: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk_bytes(&entry.path(), part),
        Ok(found) if entry.path().iter().any(|name| name == part) => found.blocks() * 512,
        Ok(_) | Err(_) => 0,
    };
    entries.map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_count() {
        let folder = std::env::temp_dir().join(format!("growth-test-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).expect("made");
        fs::write(folder.join("a/b/c"), vec![1; 10_000]).expect("written");
        fs::write(folder.join("d"), vec![1; 10_000]).expect("written");
        let found = [disk_bytes(&folder, "b"), disk_bytes(&folder, "d")];
        fs::remove_dir_all(&folder).expect("removed");
        for found in found {
            assert!((10_000..100_000).contains(&found), "{found}");
        }
        assert_eq!(disk_bytes(&folder, "b"), 0);
    }
}
