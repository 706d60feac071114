//! `growth`: what an append, a page, a delivery and a connection cost while timelines, history and audiences grow.
//!
//! Owns: how the curves of `growth.toml` are measured. Promises: each size has a server of its own, started
//! on an empty directory; merges are over before anything is measured on a stock, or the step is not to be believed;
//! when the command ends, no server and no data is left. Must not: measure by itself: profiles do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::bench::{self, Bench, Measure};
use crate::exit::{Stop, Verdict};
use crate::figures::{Cell, Sheet, Table, cores};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::pictures::{Axis, Line, Panel, Picture};
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
    #[arg(long, value_parser = NAMES, value_delimiter = ',')]
    pub only: Vec<String>,
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

const NAMES: [&str; 4] = ["timelines", "history", "subscribers", "connections"];
/// Not a profile: waits until the server has nothing left to flush and merge, and looks at its files.
const REST: &str = "rest";
const SMALLEST: u64 = 10_000;

/// What `growth.toml` says: the curves to measure and the pictures of them. It explains its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plans {
    curve: Vec<CurvePlan>,
    picture: Vec<PicturePlan>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CurvePlan {
    of: String,
    name: String,
    along: String,
    sizes: Vec<u64>,
    run: Vec<String>,
    figures: Vec<(String, String, String)>,
}

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

/// Measures, writes, shows. Blocks.
pub fn run(args: &Growth, measure: Measure) -> Result<Verdict, Stop> {
    let (seconds, warm_up) = (args.seconds, (args.seconds / 4.0).min(2.0));
    let mut bench = Bench {
        binary: args.binary.clone(),
        data: args.data.clone(),
        // The same texts and choices at each size.
        all: format!("--seed 1 --seconds {seconds} --warm-up {warm_up}"),
        names: [("size".to_owned(), args.size.to_string())].into(),
        ..Bench::default()
    };
    let machine = cores(&Machine::here());
    let how =
        format!("Measured on {machine} with the generator beside the server, {seconds} s a figure");
    let mut sheet = Sheet::new(how);
    let Plans { curve, picture } = plans();
    sheet.tables = bench::until_signal(curves(curve, args, measure, &mut bench))?;
    (sheet.faults, sheet.invalid) = (bench.faults, bench.invalid);
    report::save(&sheet, Some(&args.results.join("growth.json")))?;
    for plan in picture {
        let file = args.results.join(&plan.file);
        pictures::save(&drawn(plan, &sheet), &file)?;
    }
    report::say(&sheet.markdown());
    for fault in &sheet.faults {
        report::note(&format!("fault: {fault}"));
    }
    Ok(sheet.verdict())
}

/// Measures the curves that are asked for: a table of each, a row for each size.
async fn curves(
    plans: Vec<CurvePlan>,
    args: &Growth,
    measure: Measure,
    bench: &mut Bench,
) -> Result<Vec<Table>, Stop> {
    let mut tables = Vec::new();
    let wanted = |plan: &CurvePlan| args.only.is_empty() || args.only.contains(&plan.of);
    for plan in plans.into_iter().filter(wanted) {
        let title = format!("{}: {}", plan.name, plan.along);
        let figures = plan.figures.iter().map(|(name, ..)| &**name);
        let mut table = Table::new([&*title].into_iter().chain(figures));
        for at in sizes(&plan.sizes, args.most) {
            bench.names.insert("at".into(), at.to_string());
            bench.names.insert("tenth".into(), (at / 10).to_string());
            let what = format!("{}, {at} {}", plan.name, plan.along);
            let seen = step(&plan, at, &what, measure, bench).await?;
            let figures = plan.figures.iter();
            let figures =
                figures.map(|(_, source, unit)| Cell::figure(seen.get(source).copied(), unit));
            let mut row = vec![Cell::figure(Some(at as f64), "1")];
            row.extend(figures);
            let shown: Vec<String> = row.iter().map(Cell::text).collect();
            report::note(&format!("{}: {}", plan.name, shown.join(", ")));
            table.rows.push(row);
        }
        tables.push(table);
    }
    Ok(tables)
}

fn sizes(planned: &[u64], most: u64) -> Vec<u64> {
    if !planned.is_empty() {
        return planned.to_vec();
    }
    let next = |size: &u64| Some(size * 10).filter(|next| *next <= most);
    std::iter::successors(Some(SMALLEST), next).collect()
}

/// Figures of the profiles of one size, as `PROFILE FIGURE`.
type Seen = BTreeMap<String, f64>;

/// Measures one size, on a server of its own.
async fn step(
    plan: &CurvePlan,
    at: u64,
    what: &str,
    measure: Measure,
    bench: &mut Bench,
) -> Result<Seen, Stop> {
    // The log is kept up to so much here: by default it would take more of the disk than what is measured.
    let environment = [("TIDELINE_RETENTION_BYTES".to_owned(), (1 << 30).to_string())];
    let ours = bench.start(&environment.into()).await?;
    let mut seen = Seen::new();
    for line in &plan.run {
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
        seen.append(&mut figures(&bench.run(line, &ours, what, measure).await?));
        let profile = line.split(' ').next().unwrap_or_default();
        let own = ours.pid.and_then(own_memory);
        seen.extend(own.map(|own| (format!("{profile} own_memory"), own)));
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
fn drawn(plan: PicturePlan, sheet: &Sheet) -> Picture {
    let suffix = format!(": {}", plan.along);
    let name = |table: &Table| Some(table.columns[0].strip_suffix(&suffix)?.to_owned());
    let mut curves = Vec::new();
    for table in &sheet.tables {
        curves.extend(name(table).map(|name| (name, table)));
    }
    let mut panels = Vec::new();
    for (label, figures, unit) in &plan.panels {
        let mut lines = Vec::new();
        for (name, table) in &curves {
            lines.extend(figures.iter().map(|figure| {
                let name = if curves.len() == 1 { figure } else { name };
                Line(name.clone(), points(table, figure, *unit))
            }));
        }
        panels.push(Panel::new(label, lines));
    }
    let names: Vec<&str> = curves.iter().map(|(name, _)| &**name).collect();
    Picture {
        title: plan.title,
        subtitle: format!("{}; {} cores", names.join(", "), sheet.machine.cores),
        x: Axis::Size(plan.label),
        panels,
    }
}

/// A column against the first one.
fn points(table: &Table, column: &str, unit: f64) -> Vec<(f64, f64)> {
    let at = table.columns.iter().position(|title| title == column);
    let point = |row: &Vec<Cell>| match (row.first(), row.get(at?)) {
        (Some(Cell::Figure(x, _)), Some(Cell::Figure(y, _))) => Some((*x, y / unit)),
        _ => None,
    };
    table.rows.iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Better;

    #[test]
    fn sizes_end_at_the_most() {
        assert_eq!(sizes(&[], 1_000_000), [10_000, 100_000, 1_000_000]);
        assert_eq!(sizes(&[], 99_999), [10_000]);
        assert_eq!(sizes(&[1, 10], 1), [1, 10]);
    }

    #[test]
    fn the_curves_that_come_with_the_tool_can_be_read() {
        let plans = plans();
        for plan in &plans.curve {
            assert!(NAMES.contains(&&*plan.of), "{}", plan.of);
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
        let mut table = Table::new(["few: messages", "appends"]);
        let row = |at: f64, value| vec![Cell::figure(Some(at), "1"), Cell::figure(value, "1/s")];
        table.rows = vec![row(1.0, Some(9.0)), row(2.0, None), row(3.0, Some(4.0))];
        assert_eq!(points(&table, "appends", 2.0), [(1.0, 4.5), (3.0, 2.0)]);
        assert_eq!(points(&table, "pages", 1.0), []);
        let mut sheet = Sheet::new(String::new());
        let mut many = table.clone();
        many.columns[0] = "many: messages".into();
        sheet.tables = vec![table, many];
        let plan = plans().picture.remove(0);
        let picture = drawn(plan, &sheet);
        let names = picture.panels[0].1.iter().map(|line| &*line.0);
        assert_eq!(names.collect::<Vec<_>>(), ["few", "many"]);
    }
}
