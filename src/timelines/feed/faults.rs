//! A pause at which a race of the feed shows. Only in tests and in builds with the feature `faults`.
//!
//! Owns: the fault `late_feed`. Promises: it breaks nothing, and waits only if the environment variable
//! `TIDELINE_FAULT` names it. Must not: be in a release.

use std::time::Duration;

use tideline_base::faults;

/// Waits before a batch is announced, if the environment says so.
pub(super) async fn late() {
    if faults::is_named("late_feed") {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
