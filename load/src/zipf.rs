//! Zipf's law: few timelines get most of the messages, as conversations do.
//!
//! Owns: nothing but the numbers from 0 that the tool counts by. Promises: number k is drawn in proportion to
//! 1 / (k + 1)^skew, and a skew of 0 draws all alike; the same seed draws the same numbers. Must not: be made with a
//! skew that is not 0 or more: the profile refuses it.

use crate::random::Random;

/// The distribution over `0..count`.
#[derive(Clone, Debug)]
pub struct Zipf(rand_distr::Zipf<f64>);

impl Zipf {
    /// Over `count` numbers, at least 1; `skew` is 0 or more.
    #[must_use]
    pub fn new(count: usize, skew: f64) -> Zipf {
        let zipf = rand_distr::Zipf::new(count.max(1) as f64, skew);
        Zipf(zipf.expect("a skew that is 0 or more"))
    }

    /// Draws one.
    pub fn draw(&self, random: &mut Random) -> usize {
        random.draw(&self.0) as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(count: usize, skew: f64, draws: u32) -> Vec<f64> {
        let (zipf, mut random) = (Zipf::new(count, skew), Random::new(7));
        let mut counts = vec![0.0; count];
        for _ in 0..draws {
            counts[zipf.draw(&mut random)] += 1.0;
        }
        counts
    }

    #[test]
    fn each_number_comes_as_often_as_its_weight_says() {
        for skew in [0.0, 0.8, 1.0, 1.5] {
            let counts = counted(100, skew, 200_000);
            let all: f64 = (1..=100).map(|rank| f64::from(rank).powf(-skew)).sum();
            for rank in [1, 2, 10, 50] {
                let expected = 200_000.0 * f64::from(rank).powf(-skew) / all;
                let found = counts[rank as usize - 1];
                let most = 5.0 * expected.sqrt();
                assert!(
                    (found - expected).abs() < most,
                    "skew {skew}, rank {rank}: {found} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn one_number_is_always_drawn() {
        assert_eq!(counted(1, 1.0, 100), [100.0]);
    }
}
