//! A pause at which a race of the feed shows. Only in tests and in builds with the feature `faults`.
//!
//! Owns: the fault `late_feed`. Promises: it breaks nothing, and waits only if the environment variable
//! `TIDELINE_FAULT` names it. Must not: be in a release.

use std::sync::OnceLock;
use std::time::Duration;

/// Waits before a batch is told, if the environment says so.
pub(super) async fn late() {
    static IS_LATE: OnceLock<bool> = OnceLock::new();
    let named = || std::env::var("TIDELINE_FAULT").is_ok_and(|text| text == "late_feed");
    if cfg!(feature = "faults") && *IS_LATE.get_or_init(named) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
