//! Small seeded random numbers (SplitMix64), so that a run can be repeated from the seed that it printed.
//!
//! Owns: the generator. Promises: the same seed gives the same numbers, on every machine. Must not: be used for
//! anything that has to be unpredictable.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A seed that differs from run to run.
    #[must_use]
    pub fn fresh_seed() -> u64 {
        // The standard library's hash keys are random for each process: enough for a seed, and no further dependency.
        RandomState::new().build_hasher().finish() >> 16
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`; `bound` is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply and shift: the bias is below 2^-32 for the small bounds used here.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A fraction in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).max(1))
    }

    /// `count` different numbers in `0..bound`, which is not less, in order.
    pub fn some(&mut self, count: u64, bound: u64) -> Vec<u64> {
        let mut chosen = std::collections::BTreeSet::new();
        while (chosen.len() as u64) < count {
            chosen.insert(self.below(bound));
        }
        chosen.into_iter().collect()
    }

    /// `length` letters and digits.
    pub fn text(&mut self, length: usize) -> String {
        const LETTERS: &[u8; 64] =
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        (0..length)
            .map(|_| char::from(LETTERS[(self.bits() & 63) as usize]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_repeats_and_bounds_hold() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        for bound in 1..200 {
            let x = a.below(bound);
            assert_eq!(x, b.below(bound));
            assert!(x < bound);
        }
        assert!((5..9).contains(&a.between(5, 9)));
        assert!((0.0..1.0).contains(&a.unit()));
        assert_eq!(a.text(20).len(), 20);
    }
}
