//! Every decoder that sees bytes from outside or from the disk, over its corpus and over what is near to that.
//!
//! Owns: how many inputs are tried, and the control. Promises: each run tries the same ones; a failure names the
//! decoder and writes the input down. Must not: know a decoder (`targets`), or search: `tests/fuzz/run.sh` does.

#![cfg(feature = "faults")]
#![allow(clippy::unwrap_used)] // a failed step is a failed test

mod mutate;
mod targets;

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mutate::Mutator;
use targets::{ONLY, Target, all};

/// Of each decoder.
const MUTATIONS: usize = 1_500;
/// Set for the process that runs them: it counts its memory, and may end at any input.
const INSIDE: &str = "TIDELINE_FUZZ_INSIDE";
const TEST: &str = "decoders_bear_their_corpora_and_what_is_near_to_them";

#[test]
fn decoders_bear_their_corpora_and_what_is_near_to_them() {
    if env::var_os(INSIDE).is_some() {
        return all().iter().for_each(run);
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = |more: &[(&str, &str)]| {
        let mut again = Command::new(env::current_exe().unwrap());
        again.args([TEST, "--exact", "--nocapture"]).env(INSIDE, "");
        again
            .env("TMPDIR", folder.path())
            .envs(more.iter().copied());
        again.output().unwrap()
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let found = inside(&[]);
    assert!(found.status.success(), "{}", said(&found));
    // The control: a decoder that believes the counts of its input.
    let found = inside(&[("TIDELINE_FAULT", "counts_believed"), (ONLY, "log_segment")]);
    assert!(!found.status.success(), "the planted bug was not found");
    let planted = said(&found);
    let shows = |text: &str| planted.contains(text);
    assert!(shows("log_segment") || shows("allocation"), "{planted}");
}

fn run(target: &Target) {
    let corpus = corpus(target.name);
    assert!(!corpus.is_empty(), "{} has no corpus", target.name);
    let mut mutator = Mutator::of(target.name);
    let near = (0..MUTATIONS).map(|_| mutator.mutated(&corpus));
    for input in corpus.iter().cloned().chain(near) {
        if catch_unwind(AssertUnwindSafe(|| target.run(&input))).is_err() {
            let path =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.input", target.name));
            fs::write(&path, &input).unwrap();
            panic!(
                "{}: {} bytes, in {}; the panic is above",
                target.name,
                input.len(),
                path.display()
            );
        }
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(target);
    let files = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}
