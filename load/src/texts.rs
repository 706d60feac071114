//! The texts of a run's messages: windows of one long text.
//!
//! Owns: which there are. Promises: within a version, the same seed gives the same texts; messages that are sent about
//! the same time have different ones, as those of people do, so that a server which keeps what is said twice only once
//! gains nothing. Must not: say which message has which.

use crate::random::Random;

/// So many there are.
const WINDOWS: usize = 1_024;

/// Texts of one length.
pub(crate) struct Texts {
    all: String,
    bytes: usize,
}

impl Texts {
    /// Texts of so many bytes, letters and digits.
    pub(crate) fn new(seed: u64, bytes: usize) -> Texts {
        let all = Random::new(seed).text(bytes + WINDOWS);
        Texts { all, bytes }
    }

    /// One of them; they begin anew after a while.
    pub(crate) fn at(&self, number: usize) -> &str {
        &self.all[number % WINDOWS..][..self.bytes]
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, text: &str) -> bool {
        text.len() == self.bytes && self.all.contains(text)
    }
}
