//! Promises broken on purpose, so that a test can show that it would notice. Only in tests and in builds with the
//! feature `faults`.
//!
//! Owns: the names of the faults. Promises: nothing changes unless a test's options or, with the feature, the
//! environment variable `TIDELINE_FAULT` name one. Must not: be in a release.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A broken promise of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers "done" before anything of the batch is handed to the log.
    AckBeforeLog,
    /// Answers "done" between the write of the batch and its sync.
    AckBeforeSync,
    /// Waits between showing a batch to followers of the log and showing its rows to readers. Breaks nothing, as long
    /// as followers get no batch whose rows can't be read yet.
    LateTail,
    /// New partitions take over without what was written while they were made.
    ReshapeForgets,
    /// The first cut of the process comes too late. Breaks nothing.
    LateCut,
    /// On a log that machines share: answers "done" when a batch is sent on its way.
    MemberAnswersEarly,
    /// On such a log: keeps the rows of a batch that is not in it.
    MemberKeepsRows,
}

impl Fault {
    /// The one that the environment names, in builds that have the feature.
    pub(super) fn from_environment() -> Option<Fault> {
        let mut names = tideline_base::faults::named()
            .iter()
            .map(|one| &one.name[..]);
        names.find_map(|name| match name {
            "ack_before_log" => Some(Fault::AckBeforeLog),
            "ack_before_sync" => Some(Fault::AckBeforeSync),
            "late_tail" => Some(Fault::LateTail),
            "reshape_forgets" => Some(Fault::ReshapeForgets),
            "late_cut" => Some(Fault::LateCut),
            "member_answers_early" => Some(Fault::MemberAnswersEarly),
            "member_keeps_rows" => Some(Fault::MemberKeepsRows),
            _ => None,
        })
    }

    /// Whether this batch is the one that the log fails at, as in `log_fails:9`. Breaks nothing.
    pub(super) fn fails_log() -> bool {
        tideline_base::faults::comes("log_fails")
    }

    /// Waits before a batch counts as synced, if `late_sync` is named. Breaks nothing.
    pub(super) fn syncs_late() {
        if tideline_base::faults::is_named("late_sync") {
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Whether this is the cut that comes too late.
    pub(super) fn makes_late(fault: Option<Fault>) -> bool {
        static HAS_COME: AtomicBool = AtomicBool::new(false);
        fault == Some(Fault::LateCut) && !HAS_COME.swap(true, Ordering::SeqCst)
    }
}
