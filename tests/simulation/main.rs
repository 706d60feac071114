//! Deterministic simulation: the real server in a machine whose threads, clock, disk and network follow from a seed.
//!
//! Owns: the commands of `docs/SIMULATION.md`. Promises: a seed that fails prints its replay; the same seed twice is
//! the same run, call by call. Must not: change the server, or be told by anything else than the seed what happens.

// Traces and figures are for people.
#![allow(clippy::disallowed_macros)]

mod client;
#[path = "../client_frame/mod.rs"]
mod client_frame;
mod machine;
mod plan;
mod plants;
mod random;
mod socket;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use plants::PLANTS;
use world::{Outcome, Task, World};

/// Seeds of the test command. Each build has other runs, so these are few; `night` is for many.
const SEEDS: u64 = 8;
/// A night ends when so many have failed.
const FAILURES_MAX: usize = 20;
/// So many seeds may a planted bug take.
const PLANTED_SEEDS: u64 = 2_000;

/// Where the machine is built and worlds lie: in memory if there is such a place.
fn place() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    let prefix = "tideline-simulation-";
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir_in(folder)
        .expect("a temporary folder")
}

fn library() -> (tempfile::TempDir, PathBuf) {
    let folder = place();
    let library = machine::build(folder.path());
    (folder, library)
}

fn run(library: &Path, seed: u64, fault: &str, is_traced: bool) -> Outcome {
    let folder = place();
    let task = Task {
        seed,
        fault,
        library,
        folder: folder.path(),
        is_traced,
    };
    let outcome = World::new(&task).run();
    if is_traced {
        let log = std::fs::read(folder.path().join("server.log")).unwrap_or_default();
        eprintln!("{}", String::from_utf8_lossy(&log));
    }
    outcome
}

/// What some seeds came to, until one fails.
#[derive(Default)]
struct Sum {
    seeds: u64,
    lives: u64,
    calls: u64,
    ns: u64,
    cuts: u64,
    kills: u64,
    /// Those that failed, by number.
    failed: BTreeMap<u64, Outcome>,
}

/// Runs seeds on all processors until so many have failed.
fn search(library: &Path, (first, count): (u64, u64), fault: &str, failures_max: usize) -> Sum {
    let next = AtomicU64::new(first);
    let sum = Mutex::new(Sum::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= first + count {
                return;
            }
            let outcome = run(library, seed, fault, false);
            let mut sum = sum.lock().expect("no panic");
            sum.seeds += 1;
            sum.lives += outcome.lives;
            sum.calls += outcome.calls;
            sum.ns += outcome.ns;
            sum.cuts += outcome.cuts;
            sum.kills += outcome.kills;
            if sum.seeds.is_multiple_of(10_000) {
                println!("{} seeds", sum.seeds);
            }
            if !outcome.wrong.is_empty() {
                sum.failed.insert(seed, outcome);
                if sum.failed.len() >= failures_max {
                    next.store(u64::MAX / 2, Ordering::SeqCst);
                }
            }
        }
    };
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    sum.into_inner().expect("no panic")
}

/// Fails with the commands that show the seeds that failed.
fn hold(sum: &Sum) {
    for (seed, outcome) in &sum.failed {
        println!(
            "seed {seed}:\n  {}\nreplay: TIDELINE_SEED={seed} cargo test --locked --features \
             tideline/faults --test simulation replay -- --ignored --nocapture 2> trace.txt",
            outcome.wrong.join("\n  ")
        );
    }
    let failed = Vec::from_iter(sum.failed.keys());
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

fn number(name: &str, or: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(or, |text| text.parse().expect("a number"))
}

#[test]
fn seeds_hold_are_the_same_twice_and_planted_bugs_are_found() {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        eprintln!("nothing is simulated: the machine is written for Linux on x86-64");
        return;
    }
    let (_folder, library) = library();
    let [one, other] = [1, 1].map(|seed| run(&library, seed, "", false).sum);
    assert_eq!(one, other, "the same seed was another run");
    hold(&search(&library, (1, SEEDS), "", 1));
    for plant in PLANTS.iter().filter(|plant| plant.is_quick) {
        let sum = search(&library, (1, PLANTED_SEEDS), plant.name, 1);
        assert!(!sum.failed.is_empty(), "{} was not found", plant.name);
    }
}

#[test]
#[ignore = "a night: TIDELINE_SEEDS, and TIDELINE_SEED as the first"]
fn night() {
    let (_folder, library) = library();
    let began = Instant::now();
    let first = number("TIDELINE_SEED", 1);
    let fault = std::env::var("TIDELINE_FAULT").unwrap_or_default();
    let seeds = (first, number("TIDELINE_SEEDS", 1_000_000));
    let sum = search(&library, seeds, &fault, FAILURES_MAX);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} seeds from {first}: {} simulated hours, {} lives of the server, {} events of clients, \
         {} power cuts, {} kills, {} seeds failed; {seconds:.0} s, {:.1} seeds/s",
        sum.seeds,
        sum.ns / 3_600_000_000_000,
        sum.lives,
        sum.calls,
        sum.cuts,
        sum.kills,
        sum.failed.len(),
        sum.seeds as f64 / seconds
    );
    hold(&sum);
}

#[test]
#[ignore = "one seed, with all that happens: TIDELINE_SEED; of a planted bug: TIDELINE_FAULT"]
fn replay() {
    let (_folder, library) = library();
    let fault = std::env::var("TIDELINE_FAULT").unwrap_or_default();
    let outcome = run(&library, number("TIDELINE_SEED", 1), &fault, true);
    println!("{outcome:#?}");
    assert!(outcome.wrong.is_empty());
}

#[test]
#[ignore = "all planted bugs, or those whose names begin as TIDELINE_FAULT says"]
fn plants() {
    let (_folder, library) = library();
    let chosen = std::env::var("TIDELINE_FAULT").unwrap_or_default();
    let mut missed = Vec::new();
    for plant in PLANTS
        .iter()
        .filter(|plant| plant.name.starts_with(&chosen))
    {
        let seeds = (1, number("TIDELINE_SEEDS", PLANTED_SEEDS));
        let sum = search(&library, seeds, plant.name, 1);
        let (name, breaks) = (plant.name, plant.breaks);
        match sum.failed.first_key_value() {
            Some((seed, outcome)) => println!(
                "| `{name}` | {breaks} | {} | {seed} | {} |",
                sum.seeds, outcome.wrong[0]
            ),
            None => {
                println!("| `{name}` | {breaks} | not in {} | | |", sum.seeds);
                missed.push(name);
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
