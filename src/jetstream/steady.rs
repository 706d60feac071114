//! The steady clock.
//!
//! Owns: which of the system's clocks it is. Promises: it is never set, and counts on during sleep. Must not: know why
//! anybody asks.

use tideline_cluster::SteadyMs;

/// Now.
#[must_use]
pub fn steady_now() -> SteadyMs {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    SteadyMs(seconds * 1_000 + nanos / 1_000_000)
}
