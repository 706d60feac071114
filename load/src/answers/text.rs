//! What is written: the text of every token, so that a reader can tell each of them from all others.
//!
//! Owns: these texts. Promises: the same number of the same answer is always the same token; they are of all lengths
//! from one letter on, and hold what JSON escapes and what takes several bytes. Must not: keep any.

use std::ops::Range;

/// What tokens are made of: 32 of them.
const LETTERS: [&str; 32] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "k", "l", "m", "n", "o", "p", "r", "s", "t", "u",
    "v", "w", "z", ".", ",", "0", "7", " ", "\n", "\"", "é", "水", "🙂",
];

/// Those of an answer from the first number to before the second one, one behind the other.
pub(super) fn tokens(lane: usize, answer: u64, numbers: Range<usize>) -> String {
    numbers
        .map(|number| token(lane, answer, number as u64))
        .collect()
}

fn token(lane: usize, answer: u64, number: u64) -> String {
    let seed = (lane as u64) << 48 ^ answer << 24 ^ number;
    let mut bits = mixed(seed);
    let length = 1 + bits % 8;
    bits >>= 3;
    let letter = |_| {
        let letter = LETTERS[(bits & 31) as usize];
        bits >>= 5;
        letter
    };
    (0..length).map(letter).collect()
}

/// All bits of the result depend on all bits of the number (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_of_many_kinds_and_repeat() {
        let all = tokens(3, 2, 0..2_000);
        assert_eq!(all, tokens(3, 2, 0..1_000) + &tokens(3, 2, 1_000..2_000));
        assert_ne!(all, tokens(3, 3, 0..2_000));
        assert_ne!(all, tokens(4, 2, 0..2_000));
        for letter in LETTERS {
            assert!(all.contains(letter), "{letter:?}");
        }
        let lengths = (0..100).map(|part| token(0, 1, part).chars().count());
        let lengths: std::collections::BTreeSet<usize> = lengths.collect();
        assert!(lengths.iter().eq(&[1, 2, 3, 4, 5, 6, 7, 8]));
    }
}
