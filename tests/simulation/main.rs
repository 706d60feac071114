//! Deterministic simulation: the real server in a machine whose threads, clock, disk and network follow from a seed.
//!
//! Owns: the commands of `docs/SIMULATION.md`. Promises: a seed that fails prints its replay; the same seed twice is the
//! same run, call by call. Must not: change the server.

mod client;
mod machine;
mod plan;
mod random;
mod socket;
mod world;

use std::path::{Path, PathBuf};

use world::{Outcome, Task, World};

/// Where the machine is built and worlds lie: in memory if there is such a place.
fn place() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    tempfile::tempdir_in(folder).expect("a temporary folder")
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

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str, or: u64) -> u64 {
    setting(name).map_or(or, |text| text.parse().expect("a number"))
}

fn library() -> (tempfile::TempDir, PathBuf) {
    let folder = place();
    let library = machine::build(folder.path());
    (folder, library)
}

#[test]
#[ignore = "one seed, with all that happens: TIDELINE_SEED"]
fn replay() {
    let (_folder, library) = library();
    let seed = number("TIDELINE_SEED", 1);
    let fault = setting("TIDELINE_PLANT").unwrap_or_default();
    let outcome = run(&library, seed, &fault, setting("TIDELINE_QUIET").is_none());
    println!("{outcome:#?}");
    assert!(outcome.wrong.is_empty());
}

#[test]
#[ignore = "some seeds"]
fn some() {
    let (_folder, library) = library();
    let (from, count) = (number("TIDELINE_SEED", 1), number("TIDELINE_SEEDS", 20));
    let fault = setting("TIDELINE_PLANT").unwrap_or_default();
    let began = std::time::Instant::now();
    for seed in from..from + count {
        let outcome = run(&library, seed, &fault, false);
        println!(
            "{seed} {:x} {} calls {} lives {} ms {:?}",
            outcome.sum,
            outcome.calls,
            outcome.lives,
            outcome.ns / 1_000_000,
            outcome.wrong.iter().take(3).collect::<Vec<_>>()
        );
    }
    println!("{:?}", began.elapsed());
}
