//! `tideline-load search` from outside, briefly: an index that is made, searches with appends beside them, and a server
//! that does not wait for what was acknowledged.
//!
//! Owns: the proof that the profile finds nothing in a server that keeps its promises, and the planted error. Must not:
//! assert on speed.

use std::fs;

use tideline_load::cli::measure;
use tideline_load::outcome::Outcome;

/// Some hundred lines, with these words more.
fn run(words: &str) -> Outcome {
    let data = tempfile::tempdir().expect("a temporary directory");
    let (folder, logs) = (data.path().join("data"), data.path().join("logs"));
    fs::create_dir(&logs).expect("a new folder");
    let line = |number: usize| {
        format!(
            "[10:{number:02}] <ann> the tide of day {number} is in at {}\n",
            number * 7 % 60
        )
    };
    let lines: String = (0..60).map(line).collect();
    fs::write(logs.join("harbour.raw.txt"), lines).expect("room");
    let (binary, folder, logs) = (
        env!("CARGO_BIN_EXE_tideline"),
        folder.display(),
        logs.display(),
    );
    let line = format!(
        "search {logs} --quiet --messages 500 --rate 50 --connections 1 --appends 60 --marks 30 --warm-up 0.1 --seconds 2 \
         --seed 7 --late-ms 10000 {words} --binary {binary} --data {folder}"
    );
    let words = Vec::from_iter(line.split_whitespace().map(str::to_owned));
    measure(&words).expect("the server is there")
}

#[test]
fn what_is_searched_for_is_found() {
    let outcome = run("");
    assert!(outcome.held(), "{:#?}", outcome.checks.told);
    let made = &outcome.checks.made;
    assert!(
        made["hits"] > 0 && made["messages found behind their acknowledgement"] > 0,
        "{made:?}"
    );
    for kind in [
        "word",
        "words",
        "phrase",
        "beginning",
        "best",
        "found",
        "ack",
    ] {
        assert!(outcome.latencies[kind].count > 0, "{kind}");
    }
    assert_eq!(outcome.figures["stored"].value, 500.0);
    assert!(outcome.figures["index_bytes_per_message"].value > 0.0);
}

#[cfg(feature = "faults")]
#[test]
fn a_server_that_does_not_wait_is_noticed() {
    let outcome = run("--env TIDELINE_FAULT=search_waits_not");
    assert!(outcome.checks.faults > 0);
}
