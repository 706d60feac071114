//! `tideline-load peers` from outside, briefly: the rows that need nobody else, and programs that are not there.
//!
//! Owns: the proof that the comparison starts, loads, checks and ends servers by itself and leaves nothing behind. Must
//! not: assert on time, or need Redis or NATS.

use std::path::{Path, PathBuf};

use tideline_load::peers::{Name, Outcome, Peers, Verdict, run};

fn peers(only: &[Name], data: &Path) -> Outcome {
    let plan = Peers {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_tideline")),
        data: data.to_owned(),
        only: only.to_vec(),
        pairs: 1,
        seconds: 0.3,
        warm_up: 0.1,
        connections: 4,
        timelines: 50,
        size: 200,
        room_in_flight: 64,
        redis_server: Some("/no/such/redis-server".into()),
        nats_server: Some("/no/such/nats-server".into()),
        seed: Some(1),
        json: None,
    };
    let outcome = run(plan).expect("it runs to its end");
    let left = std::fs::read_dir(data).expect("a directory").count();
    assert_eq!(left, 0, "data is left behind");
    outcome
}

#[test]
fn the_floor_is_measured_beside_tideline() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let outcome = peers(&[Name::Floor], data.path());
    assert_eq!(outcome.faults, [""; 0], "{}", outcome.summary());
    // The echo, and the disk both ways.
    assert_eq!(outcome.rows.len(), 3, "{}", outcome.summary());
    for row in &outcome.rows {
        assert_eq!(row.verdict, Verdict::Told);
        assert!(row.tideline.is_some_and(|value| value > 0.0));
        assert!(row.other.is_some_and(|value| value > 0.0) && row.ratio.is_some());
    }
    let json = serde_json::to_value(&outcome).expect("JSON");
    let pair = &json["rows"][0]["pairs"][0];
    assert!(pair["tideline"]["value"].is_number() && pair["peer"]["value"].is_number());
}

#[test]
fn what_is_not_installed_is_named_with_the_line_that_installs_it() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let rows = [Name::Deep, Name::Single, Name::Jetstream, Name::Ack];
    let outcome = peers(&rows, data.path());
    assert!(outcome.held());
    let missing = |row: &tideline_load::peers::Told| row.verdict == Verdict::Missing;
    assert!(outcome.rows.iter().all(missing), "{}", outcome.summary());
    let text = outcome.summary();
    for name in ["redis-server", "nats-server"] {
        assert!(
            text.contains(&format!("{name} is not installed: apt-get install")),
            "{text}"
        );
    }
}
