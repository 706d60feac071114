//! `growth`: what an append, a page, a delivery and a connection cost while timelines, history and audiences grow.
//!
//! Owns: how the curves of `growth.toml` are measured. Promises: each size has a server of its own, started on an empty
//! directory; merges have ended before anything is measured on a stock, or the step is not to be believed; when the
//! command ends, no server and no data is left. Must not: measure by itself: profiles do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bench::{self, Bench, Measure};
use crate::exit::{Stop, Verdict};
use crate::outcome::Outcome;
use crate::outcome::figures::{Sheet, Table, quantity, shown};
use crate::outcome::pictures::{Axis, Line, Panel, Picture, Points};
use crate::outcome::{pictures, report};

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
    #[arg(long, value_parser = NAMES, value_delimiter = ',')]
    pub only: Vec<String>,
    /// The largest size, of what grows
    #[arg(long, default_value_t = 10_000_000)]
    pub most: u64,
    /// Length of each measurement
    #[arg(long, default_value_t = 8.0)]
    pub seconds: f64,
}

const NAMES: [&str; 4] = ["timelines", "history", "subscribers", "connections"];
/// Not a profile: waits until the server has nothing left to flush and merge, and looks at its files.
const REST: &str = "rest";

/// What `growth.toml` says: the curves to measure and the pictures of them. It explains its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plans {
    curve: Vec<Curve>,
    picture: Vec<PicturePlan>,
}

/// A curve: first what `growth.toml` says, then what was found.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    of: String,
    name: String,
    along: String,
    sizes: Vec<u64>,
    run: Vec<String>,
    figures: Vec<(String, String, String)>,
    #[serde(skip_deserializing)]
    steps: Vec<(u64, Seen)>,
}

/// Figures of the profiles of one size, as `PROFILE FIGURE`.
type Seen = BTreeMap<String, f64>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PicturePlan {
    file: String,
    title: String,
    along: String,
    label: String,
    panels: Vec<(String, Vec<String>, f64)>,
}

fn plans() -> Plans {
    toml::from_str(include_str!("growth.toml")).expect("a file of this tool, read by a test")
}

/// What `growth.json` says.
#[derive(Serialize)]
struct Grown {
    #[serde(flatten)]
    sheet: Sheet,
    curve: Vec<Curve>,
}

/// Measures, writes, shows. Blocks.
pub fn run(args: &Growth, measure: Measure) -> Result<Verdict, Stop> {
    let (seconds, warm_up) = (args.seconds, (args.seconds / 4.0).min(2.0));
    let mut bench = Bench {
        binary: args.binary.clone(),
        data: args.data.clone(),
        // The same texts and choices at each size.
        all: format!("--seed 1 --seconds {seconds} --warm-up {warm_up}"),
        ..Bench::default()
    };
    let Plans { mut curve, picture } = plans();
    curve.retain(|curve| args.only.is_empty() || args.only.contains(&curve.of));
    bench::until_signal(walk(&mut curve, args.most, measure, &mut bench))?;
    let how = format!("Measured with the generator beside the server, {seconds} s a figure");
    let grown = Grown {
        sheet: Sheet {
            faults: bench.faults,
            invalid: bench.invalid,
            ..Sheet::new(how)
        },
        curve,
    };
    report::save(&grown, Some(&args.results.join("growth.json")))?;
    for plan in picture {
        let file = args.results.join(&plan.file);
        pictures::save(&drawn(plan, &grown.curve), &file)?;
    }
    for fault in &grown.sheet.faults {
        report::note(&format!("fault: {fault}"));
    }
    report::say(&grown.sheet.worth());
    Ok(grown.sheet.verdict())
}

/// Measures curves, and shows each when it is done.
async fn walk(
    curves: &mut [Curve],
    most: u64,
    measure: Measure,
    bench: &mut Bench,
) -> Result<(), Stop> {
    for curve in curves {
        curve.sizes.retain(|at| *at <= most);
        for &at in &curve.sizes {
            report::note(&format!("{}: {at} {}", curve.name, curve.along));
            let seen = step(curve, at, measure, bench).await?;
            curve.steps.push((at, seen));
        }
        report::say(&curve.table().markdown());
    }
    Ok(())
}

impl Curve {
    fn table(&self) -> Table {
        let title = format!("{}: {}", self.name, self.along);
        let figures = self.figures.iter().map(|(name, ..)| &**name);
        let mut table = Table::new([&*title].into_iter().chain(figures));
        for (at, seen) in &self.steps {
            let mut row = vec![quantity(*at as f64, "1")];
            for (_, source, unit) in &self.figures {
                row.push(shown(seen.get(source).copied(), unit));
            }
            table.rows.push(row);
        }
        table
    }

    /// A figure against the sizes.
    fn points(&self, figure: &str, unit: f64) -> Points {
        let source = self.figures.iter().find(|(name, ..)| name == figure);
        let point = |(at, seen): &(u64, Seen)| Some((*at as f64, seen.get(&source?.1)? / unit));
        self.steps.iter().filter_map(point).collect()
    }
}

/// Measures one size, on a server of its own.
async fn step(curve: &Curve, at: u64, measure: Measure, bench: &mut Bench) -> Result<Seen, Stop> {
    for (name, value) in [("at", at), ("tenth", at / 10)] {
        bench.names.insert(name.into(), value.to_string());
    }
    let what = format!("{}, {at} {}", curve.name, curve.along);
    // The log is kept up to so much here: by default it would take more of the disk than what is measured.
    let environment = [("TIDELINE_RETENTION_BYTES".to_owned(), (1 << 30).to_string())];
    let ours = bench.start(&environment.into()).await?;
    let mut seen = Seen::new();
    for line in &curve.run {
        if line == REST {
            match bench::rest(ours.pid).await {
                Some(rested) => drop(seen.insert("rest seconds".into(), rested.as_secs_f64())),
                None => bench.invalid.push(format!("{what}: merges went on")),
            }
            let [log, image] = ["log", "image"].map(|part| disk_bytes(ours.place.path(), part));
            seen.insert("rest log".into(), log as f64);
            seen.insert("rest image".into(), image as f64);
            seen.insert("rest image_per_message".into(), image as f64 / at as f64);
            continue;
        }
        let outcome = bench.run(line, &ours, &what, measure).await?;
        seen.append(&mut figures(&outcome));
        let own = ours.pid.and_then(own_memory);
        seen.extend(own.map(|own| (format!("{} own_memory", outcome.profile), own)));
    }
    Ok(seen)
}

/// The figures of a profile; of rates, also the server's processor time for each operation, µs.
fn figures(outcome: &Outcome) -> Seen {
    let mut seen = Seen::new();
    let used = outcome.figures.get("server_cpu_seconds");
    for (name, figure) in &outcome.figures {
        let (profile, count) = (&outcome.profile, figure.value * outcome.seconds);
        seen.insert(format!("{profile} {name}"), figure.value);
        if let Some(used) = used.filter(|_| figure.unit == "1/s" && count > 0.0) {
            let each = used.value * 1e6 / count;
            seen.insert(format!("{profile} CPU of {name}"), each);
        }
    }
    seen
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

/// A picture of all curves along one thing, so that they can be compared.
fn drawn(plan: PicturePlan, curves: &[Curve]) -> Picture {
    let curves = curves.iter().filter(|curve| curve.along == plan.along);
    let curves: Vec<&Curve> = curves.collect();
    let mut panels = Vec::new();
    for (label, figures, unit) in plan.panels {
        let mut lines = Vec::new();
        for curve in &curves {
            lines.extend(figures.iter().map(|figure| {
                let name = if curves.len() == 1 {
                    figure
                } else {
                    &curve.name
                };
                Line(name.clone(), curve.points(figure, unit))
            }));
        }
        panels.push(Panel::new(&label, lines));
    }
    let names: Vec<&str> = curves.iter().map(|curve| &*curve.name).collect();
    Picture {
        title: plan.title,
        subtitle: names.join(", "),
        x: Axis::Size(plan.label),
        panels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Better;
    use crate::outcome::figures::ABSENT;

    #[test]
    fn the_curves_that_come_with_the_tool_can_be_read() {
        let plans = plans();
        for plan in &plans.curve {
            assert!(NAMES.contains(&&*plan.of), "{}", plan.of);
        }
        for picture in &plans.picture {
            let along = |plan: &&Curve| plan.along == picture.along;
            for figure in picture.panels.iter().flat_map(|(_, figures, _)| figures) {
                let has = |plan: &Curve| plan.figures.iter().any(|(name, ..)| name == figure);
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
        let mut outcome = Outcome {
            profile: "a".into(),
            seconds: 2.0,
            ..Outcome::default()
        };
        outcome.figure("rate", 100.0, "1/s", Better::Higher);
        outcome.figure("server_cpu_seconds", 0.5, "s", Better::Lower);
        let seen = figures(&outcome);
        assert_eq!((seen["a CPU of rate"], seen["a rate"]), (2_500.0, 100.0));
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn curves_along_one_thing_are_lines_of_one_picture() {
        let Plans {
            mut curve,
            mut picture,
        } = plans();
        let step = |at, appends: Option<f64>| {
            let source = "append appends_per_second".to_owned();
            (at, appends.map(|rate| (source, rate)).into_iter().collect())
        };
        curve[0].steps = vec![step(1, Some(9.0)), step(2, None), step(3, Some(4.0))];
        assert_eq!(curve[0].points("appends", 2.0), [(1.0, 4.5), (3.0, 2.0)]);
        assert_eq!(curve[0].points("no such figure", 1.0), []);
        let table = curve[0].table();
        assert_eq!((&*table.rows[1][0], &*table.rows[1][1]), ("2", ABSENT));
        let drawn = drawn(picture.remove(0), &curve);
        let names = drawn.panels[0].1.iter().map(|line| &*line.0);
        let both = [&*curve[0].name, &*curve[1].name];
        assert_eq!(names.collect::<Vec<_>>(), both);
    }
}
