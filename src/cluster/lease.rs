//! The read lease: until when an owner may answer reads without asking, and from when its successor may answer at all.
//!
//! Owns: both bounds, and what is assumed of clocks. Promises: while steady clocks run at rates within 4.7 % of true
//! time, the first ends before the second begins, on any two nodes. Must not: read a clock, or use times of day.
//!
//! An owner's lease runs from the *first sending* of its last stored frame. A successor waits from the moment at which
//! it *received* the last frame below its claim, which is later than any of those sendings. A stopped process is safe,
//! since its clock runs on. A virtual machine whose clock stands still with it may answer old reads for one lease;
//! [`ReadProof::Log`] is for such machines.

use crate::plant::{Plant, is_planted};

/// Milliseconds of a node's steady clock, which is never set and counts on during sleep. Two of them can be compared
/// within one process only.
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
    /// Not at all: reads may be old.
    None,
}

/// The present owner's right to answer reads.
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

    /// A frame of the owner was stored.
    pub(crate) fn stored(&mut self, first_sent: SteadyMs, now: SteadyMs) {
        let from_ack = is_planted(Plant::LeaseFromAck);
        self.proven = Some(if from_ack { now } else { first_sent });
    }

    /// Until when reads need no further proof.
    pub(crate) fn until(&self) -> SteadyMs {
        self.proven
            .map_or(SteadyMs(0), |proven| proven.plus(self.lease_ms))
    }

    /// Whether a read that came at `asked` shows every acknowledged write. Its view was taken before `now` was read.
    pub(crate) fn proves(&self, asked: SteadyMs, now: SteadyMs) -> bool {
        let Some(proven) = self.proven else {
            return false;
        };
        if is_planted(Plant::LeaseForEver) && self.lease_ms > 0 {
            return true;
        }
        // Within one millisecond it is not known which came first.
        proven > asked || now.since(proven) < self.lease_ms
    }
}

/// From when all leases of other owners are over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// When the leases of all owners before the present one are over.
    before: SteadyMs,
    /// The same, with the present owner's.
    until: SteadyMs,
}

impl Hold {
    /// For a process that begins: it does not know when it received what it has on disk.
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
