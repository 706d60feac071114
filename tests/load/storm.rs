//! `tideline-load storm` from outside, briefly: a hundred clients that are cut at once and all come back.
//!
//! Owns: the proof that the profile drives a real server, and that it would say so if somebody were missing. Promises:
//! it takes seconds. Must not: assert on time.

use tideline_load::cli::measure;
use tideline_load::exit::Stop;
use tideline_load::outcome::Outcome;

fn storm(more: &[&str]) -> Result<Outcome, Stop> {
    let words = "storm --quiet --clients 100 --timelines 20 --per-client 10 --behind 10 --seed 7";
    let words = words.split_whitespace().chain(more.iter().copied());
    measure(&Vec::from_iter(words.map(str::to_owned)))
}

#[test]
fn everybody_comes_back_without_a_gap() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let folder = data.path().join("data");
    let folder = folder.to_str().expect("a path that is text");
    let outcome = storm(&["--binary", env!("CARGO_BIN_EXE_tideline"), "--data", folder]);
    let outcome = outcome.expect("the server is there");
    assert!(outcome.held(), "{:#?}", outcome.checks.told);
    let made = &outcome.checks.made;
    assert_eq!(made["subscriptions up to the end"], 100 * 10, "{made:?}");
    // Before the cut 2 messages, while away 10, at the end one more; of ten timelines.
    assert_eq!(
        made["deliveries in order"],
        100 * 10 * (2 + 10 + 1),
        "{made:?}"
    );
    for latency in ["caught_up", "connect", "resume"] {
        assert_eq!(outcome.latencies[latency].count, 100, "{latency}");
    }
    assert!(outcome.figures.contains_key("all_caught_up"));
}

#[test]
fn more_clients_than_open_files_are_refused_at_once() {
    let storm = storm(&["--clients", "1000000000"]);
    let error = storm.expect_err("nothing is there, and it does not matter");
    assert!(matches!(error, Stop::Own(_)), "{error}");
    assert!(error.to_string().contains("ulimit -n"), "{error}");
}
