//! Planted bugs: promises of the server that `TIDELINE_FAULT` breaks, most of them as they once were broken.
//!
//! Owns: the list; `docs/SIMULATION.md` says which are found. Must not: break anything; that is done where the names
//! have an effect.

/// A bug that can be planted.
pub(crate) struct Plant {
    /// In `TIDELINE_FAULT`.
    pub(crate) name: &'static str,
    /// What it breaks.
    pub(crate) breaks: &'static str,
    /// Found within a few seeds, so that the test command can look for it.
    pub(crate) is_quick: bool,
}

const fn plant(name: &'static str, breaks: &'static str) -> Plant {
    let is_quick = false;
    Plant {
        name,
        breaks,
        is_quick,
    }
}

const fn quick(name: &'static str, breaks: &'static str) -> Plant {
    let is_quick = true;
    Plant {
        name,
        breaks,
        is_quick,
    }
}

pub(crate) const PLANTS: &[Plant] = &[
    quick(
        "ack_before_log",
        "an append is acknowledged before its batch is handed to the log",
    ),
    quick(
        "ack_before_sync",
        "an append is acknowledged between the write of its batch and the sync",
    ),
    quick("log_unsynced", "the log is written and not synced"),
    plant(
        "names_unsynced",
        "the log's folder is not synced: a new segment has no name after a cut",
    ),
    plant(
        "torn_end_stays",
        "what a start finds behind the last whole batch is not cut off and synced",
    ),
    plant("show_unsynced", "readers see a batch before its sync"),
    plant(
        "rows_late",
        "an append is acknowledged before its rows can be read",
    ),
    plant(
        "ack_before_shown",
        "an append is acknowledged before the tail has moved",
    ),
    plant(
        "failed_sync_counts",
        "a batch whose sync failed is acknowledged",
    ),
    plant(
        "flushed_unsynced",
        "a memtable is flushed before the log has synced what is in it",
    ),
    plant(
        "view_in_other_order",
        "a view takes the image before the memtables",
    ),
    plant(
        "retired_early",
        "a memtable goes before its run is in the image",
    ),
    plant(
        "ids_forgotten",
        "an append that is sent again is appended again",
    ),
    quick(
        "condition_ignored",
        "expect_head is not compared with the head",
    ),
    plant(
        "times_fall",
        "a clock that was set back turns the times of a timeline back",
    ),
    plant(
        "buried_uncounted",
        "a deletion is not counted in what is unread",
    ),
    quick("own_unread", "own messages count as unread"),
    plant("marks_fall", "a read position goes back"),
    plant(
        "bundle_reversed",
        "appends of one read of the socket are queued in reverse",
    ),
    plant(
        "rest_forgotten",
        "what a subscription's first page has no room for is not pushed",
    ),
    plant(
        "born_one_late",
        "pushes from a partition that was born begin behind its first batch",
    ),
    plant("births_end", "a stream ends at the birth of partitions"),
    plant(
        "ended_not_held",
        "the log of an ended partition is not kept for streams that are behind",
    ),
    plant(
        "reshape_forgets",
        "what is written while partitions are made is not taken over",
    ),
    plant(
        "relay_cursor_first",
        "the relay notes how far it is before it has written",
    ),
    plant(
        "relay_twice,relay_no_check",
        "what the relay writes twice counts twice",
    ),
    plant(
        "relay_forgets_failed",
        "what the relay could not write is not tried again",
    ),
    plant(
        "clock_deadlock",
        "a jump of the clock is told under the lock that the clock takes",
    ),
    plant(
        "timer_ends",
        "what time brings ends for good with the first failure",
    ),
    plant("image_unsynced", "the image is committed and not synced"),
];
