//! Bugs that tests plant, to show that they find them: the simulation, and those with real servers.
//!
//! Owns: their list, and which of them is planted in the running test. Promises: outside of tests there is none. Must
//! not: do anything; each has its effect where `is_planted` asks for it.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Plant {
    // Of a node's driver and its machine: these are planted in `tests/world/`, some in `src/jetstream/`, too.
    /// A claim goes out without an expected sequence, and its ack counts wherever it was stored.
    ClaimAnywhere,
    /// A write is acknowledged when its frame is sent.
    AckBeforeStored,
    /// A resend has other bytes.
    OtherBytes,
    /// What other nodes say to be in the stream does not reach the node.
    HeardIgnored,
    /// A machine that stands still has a clock that stands still, too: a lease knows nothing of such a pause.
    ClockStops,

    // Of the decisions.
    /// A send without an answer counts as not written.
    SilenceIsFailure,
    /// A direct get that finds no frame counts as "not written".
    AbsenceIsFailure,
    /// A follower takes the next frame that comes, whatever its position.
    SkipsGap,
    /// Frames of a lower term take effect.
    NoVoidRule,
    /// A new owner waits as long as the lease is, without a margin for the rates of clocks.
    NoMargin,
    /// A new owner does not wait.
    NoHold,
    /// A lease never lapses.
    LeaseForEver,
    /// A lease counts from the ack.
    LeaseFromAck,
    /// A resignation ends the wait for all earlier leases, not only for its owner's.
    ResignEndsAll,
    /// A successor waits by its own setting of the lease.
    OwnLease,
    /// An owner that resigns goes on to answer until its frame is stored.
    ResignLate,
    /// A look finds every stream right.
    NoAttach,
    /// After a restart, a node does not wait for leases of before.
    WokenFree,
    /// Frames go from the stream although not all images have them.
    TrimsUncovered,
    /// A node that does not hear itself guesses as others do.
    DeafGuess,
    /// An owner that waits for the stream is followed by a node that does not know whether the stream answers.
    StalledIsGone,
    /// A claim is sent again although the owner is heard again.
    ClaimGoesOn,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Plant>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn plant(what: Option<Plant>) {
    PLANTED.set(what);
}

#[cfg(test)]
pub(crate) fn is_planted(what: Plant) -> bool {
    PLANTED.get() == Some(what)
}

/// In a process whose `TIDELINE_FAULT` names `cluster_` and the bug, in builds for tests.
#[cfg(not(test))]
pub(crate) fn is_planted(what: Plant) -> bool {
    cfg!(feature = "faults") && tideline_base::faults::is_named(&format!("cluster_{what:?}"))
}
