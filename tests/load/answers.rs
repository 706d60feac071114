//! `tideline-load answers` from outside, briefly: with kills, and against servers that break what it checks.
//!
//! Owns: the proof that the profile finds nothing in a server that keeps its promises, and each of the planted errors.
//! Must not: assert on speed.

use tideline_load::cli::measure;
use tideline_load::outcome::Outcome;

/// A few answers, with these words more.
fn run(words: &str) -> Outcome {
    let data = tempfile::tempdir().expect("a temporary directory");
    let folder = data.path().join("data");
    let (binary, folder) = (env!("CARGO_BIN_EXE_tideline"), folder.display());
    let line = format!(
        "answers --quiet --answers 6 --viewers 3 --rate 60 --tokens 70 --repeats 20 --cut 2 --warm-up 0.1 --seconds 3 \
         --seed 7 --late-ms 10000 {words} --binary {binary} --data {folder}"
    );
    let words = Vec::from_iter(line.split_whitespace().map(str::to_owned));
    measure(&words).expect("the server is there")
}

#[test]
fn every_viewer_gets_every_token_once_while_the_server_is_killed() {
    let outcome = run("--kills 2 --window-ms 40");
    holds(&outcome);
    assert_eq!(outcome.figures["kills"].value, 2.0);
    assert!(outcome.figures["resumes"].value > 0.0);
}

#[test]
fn tokens_that_fall_due_while_a_part_is_on_its_way_are_one_part() {
    let outcome = run("--join --kills 1");
    holds(&outcome);
    let figures = &outcome.figures;
    assert!(figures["parts_per_second"].value < figures["tokens_per_second"].value);
}

fn holds(outcome: &Outcome) {
    assert!(outcome.held(), "{:#?}", outcome.checks.told);
    let made = &outcome.checks.made;
    let (acknowledged, shown) = (
        made["tokens acknowledged"],
        made["tokens shown once and in order"],
    );
    assert!(acknowledged > 0 && shown == 3 * acknowledged, "{made:?}");
    assert_eq!(made["tokens read back"], acknowledged);
    assert!(made["repeats answered as such"] > 0 && made["answers read while they grow"] > 0);
    assert!(outcome.latencies["shown"].count > 0 && outcome.latencies["ack"].count > 0);
}

#[cfg(feature = "faults")]
#[test]
fn a_server_that_breaks_what_is_checked_is_noticed() {
    for fault in ["part_repeated", "grown_late", "ack_before_sync,late_sync"] {
        let outcome = run(&format!("--env TIDELINE_FAULT={fault}"));
        assert!(outcome.checks.faults > 0, "{fault}");
    }
}
