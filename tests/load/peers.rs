//! `tideline-peers` from outside, briefly: the rows that need nobody else, and programs that are not there.
//!
//! Owns: the proof that the comparison starts, loads, checks and ends servers by itself, hands over each row when it is
//! done, and leaves nothing behind. Must not: assert on time, or need Redis or NATS.

use std::path::{Path, PathBuf};

use tideline_load::exit;
use tideline_peers::{Outcome, Peers, Row, Verdict, run};

fn plan(only: &[&str], data: &Path) -> Peers {
    Peers {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_tideline")),
        data: data.to_owned(),
        only: only.iter().map(|name| (*name).to_owned()).collect(),
        pairs: 1,
        seconds: 0.3,
        set: [
            ("connections", "4"),
            ("timelines", "50"),
            ("positions", "50"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        programs: Some("/no/such/folder".into()),
        json: None,
    }
}

fn peers(only: &[&str], data: &Path) -> Outcome {
    let plan = plan(only, data);
    let mut shown = Vec::new();
    let outcome = run(plan, &mut |row, sofar| {
        // Each row is there as soon as it is done, in what is saved, too.
        shown.push(row.text());
        assert!(!sofar.whole && sofar.rows.len() == shown.len());
    });
    let outcome = outcome.expect("it runs to its end");
    assert!(outcome.whole);
    let text: Vec<String> = outcome.rows.iter().map(Row::text).collect();
    assert_eq!(shown, text);
    let left = std::fs::read_dir(data).expect("a directory").count();
    assert_eq!(left, 0, "data is left behind");
    outcome
}

#[test]
fn the_floor_is_measured_beside_tideline() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let outcome = peers(&["floor"], data.path());
    assert_eq!(outcome.sheet.faults, [""; 0], "{}", outcome.summary());
    // The echo, and the disk both ways.
    assert_eq!(outcome.rows.len(), 3, "{}", outcome.summary());
    for row in &outcome.rows {
        assert_eq!(row.verdict(), Verdict::NoBar);
        assert!(row.tideline().is_some_and(|value| value > 0.0));
        assert!(row.other().is_some_and(|value| value > 0.0) && row.ratio().is_some());
    }
    let json = serde_json::to_value(&outcome).expect("JSON");
    let pair = &json["rows"][0]["pairs"][0];
    assert!(pair["tideline"]["value"].is_number() && pair["peer"]["value"].is_number());
}

#[test]
fn the_table_names_what_is_not_installed_and_goes_on() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let rows = ["deep", "single", "jetstream", "ack", "amplification"];
    let outcome = peers(&rows, data.path());
    assert_eq!(outcome.sheet.verdict(), exit::Verdict::Held);
    let lines: Vec<String> = outcome.rows.iter().map(Row::text).collect();
    let table = [lines.join("\n"), outcome.summary()].join("\n");
    let missing = |name: &str, program: &str| {
        let of = |row: &&Row| row.name == name && row.verdict() == Verdict::Missing;
        let why = format!("missing |\n  {name}: {program} is not installed: apt-get install");
        let named = outcome.rows.iter().filter(of).count();
        assert_eq!(table.matches(&why).count(), named, "{table}");
        named
    };
    // Redis, and its own tool; JetStream with and without syncs.
    assert_eq!(missing("deep", "redis-server"), 2, "{table}");
    assert_eq!(missing("single", "redis-server"), 1, "{table}");
    assert_eq!(missing("ack", "redis-server"), 1, "{table}");
    assert_eq!(missing("jetstream", "nats-server"), 2, "{table}");
    // What needs nobody else is measured all the same.
    let measured = outcome.rows.iter().filter(|row| row.tideline().is_some());
    assert_eq!(measured.count(), 2, "{table}");
    assert!(table.contains("6 missing, 0 invalid, 0 failed"), "{table}");
    assert!(!table.contains('{'), "a name is left: {table}");
}

#[test]
fn a_row_that_fails_says_why_and_leaves_the_others() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut plan = plan(&["poll", "idle"], data.path());
    plan.binary = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let outcome = run(plan, &mut |_, _| {}).expect("it runs to its end");
    assert_eq!(outcome.sheet.verdict(), exit::Verdict::Invalid);
    assert!(outcome.whole && outcome.sheet.invalid.len() == 2);
    for (row, name) in outcome.rows.iter().zip(["poll", "idle"]) {
        assert_eq!((row.verdict(), &*row.name), (Verdict::Failed, name));
        assert!(row.text().contains("Cargo.toml"), "{}", row.text());
    }
}
