//! The read lease: until when an owner may answer reads without asking, and from when its successor may answer at all.
//!
//! Owns: both bounds, and what is assumed of clocks. Promises: while steady clocks run at rates within 4.7 % of true
//! time, the first ends before the second begins, on any two nodes. Must not: read a clock, or use times of day.
//!
//! An owner's lease runs from the *first sending* of its last stored frame. A successor waits from the moment at which
//! it *received* the last frame below its claim, which is later than any of those sendings. A stopped process is safe,
//! since its clock runs on. A virtual machine whose clock stands still with it may answer old reads for one lease:
//! whoever has such uses [`ReadProof::Log`].

use crate::plant::{Plant, is_planted};

/// Milliseconds of a node's steady clock, which nobody sets and which counts on in sleep. Comparable within one
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SteadyMs(pub u64);

impl SteadyMs {
    /// Ms since an earlier time; 0 if that is later.
    #[must_use]
    pub fn since(self, earlier: SteadyMs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// So many ms later.
    #[must_use]
    pub fn plus(self, ms: u64) -> SteadyMs {
        SteadyMs(self.0 + ms)
    }
}

/// How an owner knows that a read shows every acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadProof {
    /// By its lease; if that has lapsed, by the log.
    Lease,
    /// By the log: a frame that was sent after the read came was stored.
    Log,
    /// It does not: reads may be old.
    None,
}

/// What an owner may answer reads by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    lease_ms: u64,
    /// When the last stored frame was first sent.
    proven: Option<SteadyMs>,
}

impl Lease {
    pub(crate) fn new(lease_ms: u32) -> Lease {
        Lease {
            lease_ms: lease_ms.into(),
            proven: None,
        }
    }

    /// A frame was stored in order.
    pub(crate) fn stored(&mut self, first_sent: SteadyMs, now: SteadyMs) {
        let from_ack = is_planted(Plant::LeaseFromAck);
        self.proven = Some(if from_ack { now } else { first_sent });
    }

    /// Whether a read that came at `asked` shows all, if its view was taken before `now` was read.
    pub(crate) fn proves(&self, asked: SteadyMs, now: SteadyMs) -> bool {
        let Some(proven) = self.proven else {
            return false;
        };
        // Of the same millisecond it is not known which came first.
        proven > asked || now.since(proven) < self.lease_ms || self.is_for_ever()
    }

    fn is_for_ever(&self) -> bool {
        self.lease_ms > 0 && is_planted(Plant::LeaseForEver)
    }
}

/// From when all leases of other owners are over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// Of all owners before the present one.
    before: SteadyMs,
    until: SteadyMs,
}

impl Hold {
    /// Of a process that begins, and does not know when what it has on disk was received.
    pub(crate) fn woken(now: SteadyMs, lease_ms: u32) -> Hold {
        if is_planted(Plant::WokenFree) {
            return Hold::default();
        }
        let until = now.plus(wait_ms(lease_ms));
        Hold {
            before: until,
            until,
        }
    }

    /// A frame of the present owner was received.
    pub(crate) fn received(&mut self, now: SteadyMs, lease_ms: u32) {
        self.until = self.until.max(now.plus(wait_ms(lease_ms)));
    }

    /// Another owner begins.
    pub(crate) fn claimed(&mut self) {
        self.before = self.until;
    }

    /// The present owner has ended its own lease; those before it may still hold one.
    pub(crate) fn resigned(&mut self) {
        self.until = self.before;
        if is_planted(Plant::ResignEndsAll) {
            *self = Hold::default();
        }
    }

    pub(crate) fn until(&self) -> SteadyMs {
        if is_planted(Plant::NoHold) {
            return SteadyMs(0);
        }
        self.until
    }
}

/// How long a successor waits: the lease, a tenth of it for the rates of two clocks, and two ms, because each of the
/// two times was cut to whole ones.
fn wait_ms(lease_ms: u32) -> u64 {
    let lease_ms = u64::from(lease_ms);
    match lease_ms {
        0 => 0,
        _ if is_planted(Plant::NoMargin) => lease_ms,
        _ => lease_ms + lease_ms.div_ceil(10) + 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_runs_from_the_first_sending_and_the_log_proves_beyond_it() {
        let mut lease = Lease::new(500);
        assert!(!lease.proves(SteadyMs(0), SteadyMs(0)));
        lease.stored(SteadyMs(1_000), SteadyMs(1_300));
        assert!(lease.proves(SteadyMs(1_400), SteadyMs(1_499)));
        assert!(!lease.proves(SteadyMs(1_400), SteadyMs(1_500)));
        // It was sent after the read came, so the read has waited for it.
        assert!(lease.proves(SteadyMs(999), SteadyMs(9_000)));
        assert!(!lease.proves(SteadyMs(1_000), SteadyMs(9_000)));
        let mut none = Lease::new(0);
        none.stored(SteadyMs(1_000), SteadyMs(1_000));
        assert!(!none.proves(SteadyMs(1_000), SteadyMs(1_000)));
    }

    #[test]
    fn a_resignation_frees_from_its_owners_lease_only() {
        let mut hold = Hold::default();
        hold.received(SteadyMs(1_000), 500);
        assert_eq!(hold.until(), SteadyMs(1_552));
        hold.claimed();
        hold.received(SteadyMs(1_100), 500);
        assert_eq!(hold.until(), SteadyMs(1_652));
        hold.resigned();
        assert_eq!(hold.until(), SteadyMs(1_552));
    }
}
