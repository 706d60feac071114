//! Tests that look at the memory of their process, each in a process of its own.
//!
//! Owns: the second start of this program with one test. Promises: a failure there is one here. Must not: be needed by
//! tests of the real binary.

use std::process::Command;

const ALONE: &str = "TIDELINE_TEST_ALONE";

/// Whether the caller is in a process of its own. If not, it has been run in one by the time that this returns.
///
/// # Panics
/// If the test, by this name, failed there or is not there.
pub(crate) fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().expect("this program"));
    again.args([test, "--exact", "--nocapture"]).env(ALONE, "");
    let again = again.output().expect("this program runs");
    let said = String::from_utf8_lossy(&again.stdout);
    let has_run = again.status.success() && said.contains("1 passed");
    assert!(
        has_run,
        "{said}\n{}",
        String::from_utf8_lossy(&again.stderr)
    );
    false
}
