//! Promises broken on purpose, so that a test can show that it would notice. Only in builds with the feature `faults`.
//!
//! Owns: the names of the faults. Promises: without the environment variable nothing changes. Must not: be in a release.

use std::sync::OnceLock;

/// Whether `TIDELINE_FAULT` names this fault.
pub(super) fn is_set(name: &str) -> bool {
    static FAULT: OnceLock<Option<String>> = OnceLock::new();
    FAULT
        .get_or_init(|| std::env::var("TIDELINE_FAULT").ok())
        .as_deref()
        == Some(name)
}
