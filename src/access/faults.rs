//! The control of the tests of access: a switch that lets everybody do everything. Only in builds with the feature
//! `faults`.
//!
//! Owns: its name. Promises: nothing changes unless the environment variable `TIDELINE_FAULT` names it. Must not: be in
//! a release.

use std::sync::OnceLock;

/// Whether decisions are skipped, so that a test can show that it would notice.
pub(super) fn skips_decisions() -> bool {
    static SKIPS: OnceLock<bool> = OnceLock::new();
    *SKIPS.get_or_init(|| {
        let named = std::env::var("TIDELINE_FAULT").unwrap_or_default();
        named.split(',').any(|part| part == "skip_decision")
    })
}
