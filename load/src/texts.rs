//! The texts of a run's messages: windows of one long text.
//!
//! Owns: which there are. Promises: within a version, the same seed gives the same texts; messages that are sent about
//! the same time have different ones, as those of people do, and few have a part in common, so that a server which
//! keeps what is said twice only once gains next to nothing. Must not: say which message has which.

use crate::random::Random;

/// So many there are.
const WINDOWS: usize = 1_024;

/// A text begins where the one before ends, or so many bytes behind its beginning if that is less: each connection has
/// all of them in memory.
const STEP_MAX: usize = 64;

/// Texts of one length.
pub(crate) struct Texts {
    all: String,
    bytes: usize,
    step: usize,
}

impl Texts {
    /// Texts of so many bytes, letters and digits.
    pub(crate) fn new(seed: u64, bytes: usize) -> Texts {
        let step = bytes.min(STEP_MAX);
        let all = Random::new(seed).text(bytes + WINDOWS * step);
        Texts { all, bytes, step }
    }

    /// One of them; they begin anew after a while.
    pub(crate) fn at(&self, number: usize) -> &str {
        &self.all[number % WINDOWS * self.step..][..self.bytes]
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, text: &str) -> bool {
        text.len() == self.bytes && self.all.contains(text)
    }
}
