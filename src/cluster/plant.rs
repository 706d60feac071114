//! Bugs that the simulation plants, to show that it finds them.
//!
//! Owns: their list, and which of them is planted in the running test. Promises: outside of this crate's tests there is
//! none. Must not: do anything; each has its effect where it is asked for.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Plant {
    /// A claim goes out without an expected sequence, and its ack counts wherever it lands.
    ClaimAnywhere,
    /// A send without an answer counts as not written.
    SilenceIsFailure,
    /// A position that nobody finds a frame at counts as not written.
    AbsenceIsFailure,
    /// A resend has other bytes.
    OtherBytes,
    /// A follower takes the next frame that comes, whatever its position.
    SkipsGap,
    /// Frames of a lower term take effect.
    NoVoidRule,
    /// An owner acknowledges when it sends.
    AckBeforeStored,
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
    /// The stream is not looked at.
    NoAttach,
    /// What others said to be acknowledged is forgotten.
    HeardIgnored,
    /// A machine that stands still has a clock that does, too: of this a lease knows nothing.
    ClockStops,
    /// After a restart, a node waits for nobody's lease.
    WokenFree,
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

#[cfg(not(test))]
pub(crate) const fn is_planted(_: Plant) -> bool {
    false
}
