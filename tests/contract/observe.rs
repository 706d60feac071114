//! What the documents say of the metrics is true of them.
//!
//! Owns: the comparison of `docs/METRICS.md` with the catalogue. Promises: fails when they part ways;
//! `TIDELINE_BLESS=1 cargo test --test contract` writes the page anew. Must not: need a server.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::fs;
use std::path::PathBuf;

use tideline::metrics::reference;

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
