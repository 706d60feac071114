//! Faults of the disk under the real binary: what a power cut leaves, and calls that fail.
//!
//! Owns: the short forms of the programs in `tests/faults/`, and their controls, which must be noticed. The long ones:
//! `python3 tests/faults/all.py`; `docs/FAULTS.md` says what each injects. Must not: need anything but Python 3 and a C
//! compiler.

use std::process::Command;

/// Runs a program of `tests/faults/`; its words are its flags.
fn holds(program: &str, words: &str) {
    let ran = Command::new("python3")
        .arg(format!(
            "{}/tests/faults/{program}",
            env!("CARGO_MANIFEST_DIR")
        ))
        .args(words.split_whitespace())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TIDELINE_BIN", env!("CARGO_BIN_EXE_tideline"))
        .status()
        .expect("Python 3 is there");
    assert!(ran.success(), "{program} {words}");
}

#[test]
fn whatever_a_power_cut_leaves_has_all_that_was_acknowledged() {
    holds("crash_images.py", "--images 60");
    holds("crash_images.py", "--images 40 --split");
}

#[test]
fn a_call_that_fails_takes_nothing_that_was_acknowledged() {
    holds("failing_calls.py", "--short 20");
}

#[test]
#[cfg(feature = "faults")]
fn failing_calls_find_failures_of_a_sync_that_are_passed_over() {
    holds("failing_calls.py", "--short 6 --control");
}

#[test]
#[cfg(feature = "faults")]
fn crash_images_find_an_early_answer_and_syncs_left_out() {
    for control in ["ack_before_sync", "log_unsynced", "image_unsynced"] {
        holds(
            "crash_images.py",
            &format!("--images 20 --control {control}"),
        );
    }
}
