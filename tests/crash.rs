//! `kill -9` under sixteen writers, a few rounds of what `tideline-load crash` does in twenty; and the control that
//! must fail.
//!
//! Owns: the proof that an acknowledgement means "in the log" as far as a killed process can show it (power cuts are
//! the recording backend's matter, in `src/log/`). Must not: assert on time.

use std::path::PathBuf;

use tideline_load::crash::{Crash, Outcome, run};

fn crash(rounds: u32, environment: &[(&str, &str)]) -> Outcome {
    let data = tempfile::tempdir().expect("a temporary directory");
    let plan = Crash {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_tideline")),
        data: data.path().join("data"),
        rounds,
        writers: 16,
        in_flight: 8,
        kill_after_ms_min: 200,
        kill_after_ms_max: 1_000,
        pause_micros: 2_000,
        environment: environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        seed: None,
        json: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime
        .block_on(run(plan))
        .expect("the server comes back each time")
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let outcome = crash(5, &[]);
    assert!(
        outcome.verdict.held(),
        "{}\n{:#?}",
        outcome.summary(),
        outcome.verdict.faults
    );
    assert!(outcome.verdict.messages > 1_000, "{}", outcome.summary());
}

/// A server that acknowledges before the log append must be caught, or the test above proves nothing.
#[test]
#[cfg(feature = "faults")]
fn acknowledging_before_the_log_append_is_caught() {
    let caught = (0..4).any(|_| {
        let outcome = crash(5, &[("TIDELINE_FAULT", "ack_before_log")]);
        !outcome.verdict.held()
    });
    assert!(
        caught,
        "no round noticed that acknowledged messages were not in the log"
    );
}
