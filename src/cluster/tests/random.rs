//! Numbers from a seed.
//!
//! Owns: the generator (SplitMix64). Promises: the same seed, the same numbers, on every machine.

/// A stream of numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let one = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let two = (one ^ (one >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        two ^ (two >> 31)
    }

    /// Below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// In so many of a hundred cases.
    pub(crate) fn percent(&mut self, of: u64) -> bool {
        self.below(100) < of
    }

    /// One of these.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(of.len() as u64) as usize;
        &of[at]
    }
}
