//! `growth`: what an append, a page, a delivery and a connection cost while timelines, history and audiences grow.
//!
//! Owns: how the curves of `growth.toml` are measured. Promises: each size has a server of its own, started
//! on an empty directory; merges are over before anything is measured on a stock, or the step is not to be believed;
//! when the command ends, no server and no data is left. Must not: measure by itself: profiles do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::bench::{Findings, Measure, Ours, rest};
use crate::curve::{self, Curve, CurvePlan, Curves, FORMAT, Reading, Step};
use crate::exit::{Stop, Verdict};
use crate::machine::Machine;
use crate::{pictures, report};

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

/// A curve, or two that belong together.
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

/// Not a profile: waits until the server has nothing left to flush and merge, and looks at its files.
const REST: &str = "rest";
const SMALLEST: u64 = 10_000;

/// Measures, writes, shows. Blocks.
///
/// # Errors
///
/// A server does not start or cannot be reached, a limit of this machine, a file that cannot be written.
pub fn run(args: &Growth, measure: Measure) -> Result<Verdict, Stop> {
    let mut findings = Findings::default();
    let mut curves = Vec::new();
    for plan in curve::plans().curve {
        let of = Name::from_str(&plan.of, true).map_err(Stop::Own)?;
        if args.only.is_empty() || args.only.contains(&of) {
            curves.push(measured(plan, args, measure, &mut findings)?);
        }
    }
    let Findings { faults, invalid } = findings;
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
    report::save(&curves, Some(&args.results.join("growth.json")))?;
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

/// Measures one curve.
fn measured(
    plan: CurvePlan,
    args: &Growth,
    measure: Measure,
    findings: &mut Findings,
) -> Result<Curve, Stop> {
    let mut steps = Vec::new();
    for at in sizes(&plan.sizes, args.most) {
        let step = step(&plan, at, args, measure, findings)?;
        let text = |reading: &Reading| format!("{} {}", reading.name, reading.text());
        let figures: Vec<String> = step.figures.iter().map(text).collect();
        report::note(&format!("{}, {at}: {}", plan.name, figures.join(", ")));
        steps.push(step);
    }
    Ok(Curve {
        name: plan.name,
        along: plan.along,
        steps,
    })
}

fn sizes(planned: &[u64], most: u64) -> Vec<u64> {
    if !planned.is_empty() {
        return planned.to_vec();
    }
    let next = |size: &u64| Some(size * 10).filter(|next| *next <= most);
    std::iter::successors(Some(SMALLEST), next).collect()
}

/// Measures one size, on a server of its own.
fn step(
    plan: &CurvePlan,
    at: u64,
    args: &Growth,
    measure: Measure,
    findings: &mut Findings,
) -> Result<Step, Stop> {
    // The log is kept up to so much here: by default it would take more of the disk than what is measured.
    let environment = [("TIDELINE_RETENTION_BYTES", (1 << 30).to_string())];
    let ours = Ours::start(&args.binary, &args.data, &environment)?;
    let told = format!("{}, {at} {}", plan.name, plan.along);
    let mut seen = Seen::new();
    for line in &plan.run {
        if line == REST {
            match rest(ours.pid()) {
                Some(rested) => drop(seen.insert("rest seconds".into(), rested.as_secs_f64())),
                None => findings.invalid.push(format!("{told}: merges went on")),
            }
            let [log, image] = ["log", "image"].map(|part| disk_bytes(&ours.launch.data, part));
            seen.insert("rest log".into(), log as f64);
            seen.insert("rest image".into(), image as f64);
            seen.insert("rest image_per_message".into(), image as f64 / at as f64);
            continue;
        }
        let outcome = measure(&words(line, at, args, &ours))?;
        findings.add(&told, &outcome);
        let profile = &outcome.profile;
        let figures = outcome.figures.iter();
        seen.extend(figures.map(|(name, figure)| (format!("{profile} {name}"), figure.value)));
        seen.insert(format!("{profile} measured"), outcome.seconds);
        seen.extend(own_memory(ours.pid()).map(|own| (format!("{profile} own_memory"), own)));
    }
    let mut figures = Vec::new();
    for (name, source, unit) in &plan.figures {
        let value = match unit.as_str() {
            "µs" => cpu_each(&seen, source),
            _ => seen.get(source).copied(),
        };
        // One that could not be read stays absent.
        figures.extend(
            value
                .filter(|value| value.is_finite())
                .map(|value| Reading {
                    name: name.clone(),
                    value,
                    unit: unit.clone(),
                }),
        );
    }
    Ok(Step { at, figures })
}

/// Figures of the profiles of one step, as `PROFILE FIGURE`.
type Seen = BTreeMap<String, f64>;

/// A line's words for one size, and what all lines have.
fn words(line: &str, at: u64, args: &Growth, ours: &Ours) -> Vec<String> {
    let line = line
        .replace("{at}", &at.to_string())
        .replace("{tenth}", &(at / 10).to_string())
        .replace("{size}", &args.size.to_string());
    let (seconds, warm_up) = (args.seconds, (args.seconds / 4.0).min(2.0));
    // The same texts and choices at each size. The line's own settings come last, and win.
    let all = format!("--seed 1 --seconds {seconds} --warm-up {warm_up}");
    ours.words(&all, &line)
}

/// The server's processor time for each operation of a rate, µs.
fn cpu_each(seen: &Seen, rate: &str) -> Option<f64> {
    let (profile, _) = rate.split_once(' ')?;
    let count = seen.get(rate)? * seen.get(&format!("{profile} measured"))?;
    let used = seen.get(&format!("{profile} server_cpu_seconds"))?;
    (count > 0.0).then(|| used * 1e6 / count)
}

/// Memory that is not a file's: pages of the image that are mapped are the system's cache, and given back at need.
fn own_memory(pid: u32) -> Option<f64> {
    let process = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?;
    Some(process.status().ok()?.rssanon? as f64 * 1024.0)
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
    fn sizes_end_at_the_most() {
        assert_eq!(sizes(&[], 1_000_000), [10_000, 100_000, 1_000_000]);
        assert_eq!(sizes(&[], 99_999), [10_000]);
        assert_eq!(sizes(&[1, 10], 1), [1, 10]);
    }

    #[test]
    fn the_curves_that_come_with_the_tool_can_be_read() {
        let plans = curve::plans();
        for plan in &plans.curve {
            assert!(Name::from_str(&plan.of, false).is_ok(), "{}", plan.of);
        }
        for picture in &plans.picture {
            let along = |plan: &&CurvePlan| plan.along == picture.along;
            for figure in picture.panels.iter().flat_map(|(_, figures, _)| figures) {
                let has = |plan: &CurvePlan| plan.figures.iter().any(|(name, ..)| name == figure);
                assert!(plans.curve.iter().filter(along).all(has), "{figure}");
            }
        }
    }

    #[test]
    fn this_process_has_memory_of_its_own() {
        assert!(own_memory(std::process::id()).is_some_and(|bytes| bytes > 0.0));
    }

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

    #[test]
    fn processor_time_is_shared_by_the_operations() {
        let seen = [
            ("a rate", 100.0),
            ("a measured", 2.0),
            ("a server_cpu_seconds", 0.5),
        ];
        let seen = seen.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(cpu_each(&seen, "a rate"), Some(2_500.0));
        assert_eq!(cpu_each(&seen, "b rate"), None);
    }
}
