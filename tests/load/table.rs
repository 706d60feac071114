//! `tideline-load table` from outside, briefly: every operation on rows, from several connections, in both loops.
//!
//! Owns: the proof that the profile drives a real server through Tablestore's API and checks what it says it checks.
//! Must not: assert on time, or on a rate.

use tideline_load::cli::measure;
use tideline_load::exit::Stop;
use tideline_load::outcome::Outcome;

/// A run with these words against a server of its own.
fn run(words: &str) -> Result<Outcome, Stop> {
    let data = tempfile::tempdir().expect("a temporary directory");
    let folder = data.path().join("data");
    let words = format!("table --quiet --warm-up 0.1 --seconds 1 --seed 7 --late-ms 1000 {words}");
    let (binary, folder) = (env!("CARGO_BIN_EXE_tideline"), folder.display());
    let line = format!("{words} --binary {binary} --data {folder}");
    measure(&Vec::from_iter(line.split_whitespace().map(str::to_owned)))
}

fn held(words: &str) -> Outcome {
    let outcome = run(words).expect("the server is there");
    assert!(outcome.held(), "{words}: {:#?}", outcome.checks.told);
    outcome
}

/// In both loops, with memtables so small that rows come from sorted runs, too.
fn held_in_both_loops(words: &str, kinds: &[&str], read_back: [u64; 2]) {
    for pace in ["", "--rate 100"] {
        let outcome = held(&format!(
            "{words} {pace} --env TIDELINE_MEMTABLE_BYTES=262144"
        ));
        let made = &outcome.checks.made;
        let cells = [made["rows read back"], made["cells read back"]];
        assert_eq!(cells, read_back, "{made:?}");
        for kind in kinds {
            assert!(outcome.latencies[*kind].count > 0, "{kind}");
        }
        for kind in [
            "rows compared whole",
            "cells compared",
            "rows of ranges in order",
            "capacity units compared",
        ] {
            assert!(made[kind] > 0, "{kind}: {made:?}");
        }
        assert!(outcome.figures.contains_key("server_cpu_per_operation"));
    }
}

#[test]
fn rows_are_what_was_written_and_ranges_are_whole() {
    // Pages of 100 rows and what is left at the end of the table.
    let words = "--connections 6 --mix put=4,get=4,range=1,cell=1 --rows 1550 --row-bytes 300";
    held_in_both_loops(words, &["put", "get", "range", "cell"], [1_550, 15_500]);
}

#[test]
fn columns_of_wide_rows_are_what_was_written() {
    let words =
        "--connections 6 --mix update,cell,get,range --rows 2 --columns 1010 --row-bytes 20200";
    held_in_both_loops(words, &["update", "cell", "get", "range"], [2, 2_020]);
}

#[test]
fn rows_that_were_put_in_transactions_are_there() {
    let words = "--connections 6 --mix transaction=4,get=4 --rows 700 --row-bytes 300";
    let outcome = held(words);
    assert!(outcome.latencies["transaction"].count > 0);
    assert_eq!(outcome.checks.made["rows read back"], 700);
}

#[test]
fn rows_that_expire_may_be_missing_and_nothing_else() {
    let words = "--connections 3 --mix put=1,get=1,range=1 --rows 300 --row-bytes 5000 --columns 3 \
                 --time-to-live 1 --settle 1.2";
    let outcome = held(words);
    // Written again, rows are there again.
    assert!(outcome.checks.made["rows of ranges in order"] > 0);
}

#[test]
fn what_can_not_be_measured_is_said() {
    let refused = |words: &str, part: &str| {
        let Err(stop) = run(words) else {
            panic!("{words} was run");
        };
        assert!(stop.to_string().contains(part), "{words}: {stop}");
    };
    refused("--connections 20 --rows 10", "of its own");
    refused("--in-flight 2", "one request on the way");
    refused("--row-bytes 40", "at least 8 bytes");
    refused("--mix update=1 --time-to-live 5", "never expire");
    refused("--columns 1 --indexes 2", "column of its own");
    refused(
        "--columns 1 --row-bytes 2000 --indexes 1",
        "at most 1,024 bytes",
    );
    refused("--mix update=1,put=1", "one kind of writes");
    refused("--mix transaction=1,put=1", "one kind of writes");
    refused("--mix transaction=1,update=1", "one kind of writes");
    refused("--mix transaction --connections 9 --rows 8", "of its own");
    refused("--key-secret other", "Signature mismatch");
    refused("--instance elsewhere", "The instance is not found");
}
