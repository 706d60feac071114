//! Seeded random numbers, so that a run can be repeated from the seed that it printed.
//!
//! Owns: the few calls of `rand` that the tool makes. Promises: within a version, the same seed gives the same numbers.
//! Must not: be used for anything that has to be unpredictable.

use rand::distr::{Alphanumeric, Distribution, SampleString as _};
use rand::rngs::SmallRng;
use rand::seq::index;
use rand::{RngExt as _, SeedableRng as _};

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Random(SmallRng);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Random {
        Random(SmallRng::seed_from_u64(seed))
    }

    /// A seed that differs from run to run; small enough to be a number in any JSON.
    pub fn fresh_seed() -> u64 {
        rand::random::<u64>() >> 16
    }

    /// A number in `0..bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound.max(1))
    }

    /// A fraction in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// One of a distribution.
    pub fn draw<T>(&mut self, from: &impl Distribution<T>) -> T {
        from.sample(&mut self.0)
    }

    /// `count` different numbers in `0..bound`, which is not less, in order.
    pub fn some(&mut self, count: u64, bound: u64) -> Vec<u64> {
        let chosen = index::sample(&mut self.0, bound as usize, count as usize);
        let mut chosen: Vec<u64> = chosen.into_iter().map(|one| one as u64).collect();
        chosen.sort_unstable();
        chosen
    }

    /// `length` letters and digits.
    pub fn text(&mut self, length: usize) -> String {
        Alphanumeric.sample_string(&mut self.0, length)
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
        assert_eq!(a.below(0), 0);
        let some = a.some(5, 9);
        assert!(some.len() == 5 && some.is_sorted_by(|a, b| a < b) && some[4] < 9);
        assert_eq!(a.text(20).len(), 20);
    }
}
