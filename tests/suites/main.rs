//! The suites in other languages, each against the real binary.
//!
//! Owns: which suites there are, and how many run at a time. Promises: each says how it ended and how long it took; the
//! words of the command line choose those whose names have one in them. Must not: know what a suite tests.

#![allow(clippy::disallowed_macros)] // what a suite said is for people

mod centrifuge;
mod clients;
mod console;
mod docs;
mod durable;
mod node_bed;
mod packages;
mod protocol;
mod python_bed;
mod tablestore;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// The longest first: what is left at the end is short.
const SUITES: [(&str, fn()); 10] = [
    ("protocol::python_suite", protocol::python_suite),
    ("tablestore::official_sdks", tablestore::official_sdks),
    (
        "clients::suites_of_the_clients",
        clients::suites_of_the_clients,
    ),
    ("console::in_a_browser", console::in_a_browser),
    ("docs::pages", docs::pages),
    ("durable::conformance", durable::conformance),
    ("centrifuge::official_sdks", centrifuge::official_sdks),
    ("packages::files_and_wheel", packages::files_and_wheel),
    ("console::modules", console::modules),
    ("tablestore::llama_index", tablestore::llama_index),
];
/// So many run at a time: with three, two cores were full, and tests in a browser ran out of patience.
const TOGETHER: usize = 2;

fn main() -> ExitCode {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    if let Some(ended) = docs::as_program(&program) {
        return ended;
    }
    let (flags, words): (Vec<String>, Vec<String>) = words.partition(|word| word.starts_with('-'));
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let mut wanted: Vec<_> = SUITES.iter().filter(|(name, _)| is_wanted(name)).collect();
    // These ask the tests of other binaries for something else than to run.
    if flags
        .iter()
        .any(|flag| flag == "--list" || flag == "--ignored")
    {
        wanted.clear();
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some((name, suite)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            // Why it failed was printed by the panic.
            let is_well = catch_unwind(suite).is_ok();
            failed.fetch_add(usize::from(!is_well), Ordering::Relaxed);
            let (end, took) = (if is_well { "ok" } else { "FAILED" }, began.elapsed());
            println!("suite {name} ... {end} ({} s)", took.as_secs());
        }
    };
    thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    println!("{} suites, {failed} failed", wanted.len());
    ExitCode::from(u8::from(failed > 0))
}
