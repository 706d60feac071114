//! What the documents say of the metrics is true of them.
//!
//! Owns: the comparison of `docs/METRICS.md` with the catalogue, and the bound on the memory of samples. Promises:
//! fails when they part ways; `TIDELINE_BLESS=1 cargo test --test contract` writes the page anew. Must not: need a
//! server.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::fs;
use std::path::PathBuf;

use tideline::metrics::{Metrics, reference};

use crate::own_process::is_alone;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_reference_is_as_the_catalogue() {
    let path = root().join("docs/METRICS.md");
    let text = reference();
    if std::env::var_os("TIDELINE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(page == text, "TIDELINE_BLESS=1 cargo test --test contract");
}

/// What grows while 2 million samples come, in MB, with upkeep after each half a million or without.
fn growth(with_upkeep: bool) -> u64 {
    let metrics = Metrics::default();
    let histogram = metrics.families.request_seconds.of(&["ping"]);
    let before = resident_kb();
    for _ in 0..4 {
        for _ in 0..500_000 {
            histogram.record(0.0003);
        }
        if with_upkeep {
            metrics.upkeep();
        }
    }
    let growth = resident_kb().saturating_sub(before) / 1_000;
    let count = "tideline_request_seconds_count{method=\"ping\"} 2000000\n";
    assert!(metrics.render().contains(count));
    growth
}

fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.unwrap().trim().trim_end_matches(" kB");
    kb.parse().unwrap()
}

#[test]
fn samples_take_memory_until_the_next_upkeep_only() {
    if !is_alone("observe::samples_take_memory_until_the_next_upkeep_only") {
        return;
    }
    // 16 bytes for each sample: 8 MB and 32 MB, of which the second has the first 8 MB from the allocator.
    let (bounded, unbounded) = (growth(true), growth(false));
    assert!(bounded < 16, "{bounded} MB");
    // The control: the test would notice.
    assert!(unbounded > 16, "{unbounded} MB");
}
