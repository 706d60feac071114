//! Who talks with whom: the members of each timeline.
//!
//! Owns: how large groups are and who is in them. Promises: the same seed makes the same groups; members of a timeline
//! differ; small groups are as many more than large ones as their sizes differ (uniform in the logarithm), so that a
//! range from 2 has many conversations of two and few large rooms. Must not: know of connections.

use std::str::FromStr;

use serde::Serialize;

use crate::random::Random;

/// Members of a timeline: from so many to so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Sizes {
    least: usize,
    /// None: up to all users.
    most: Option<usize>,
}

impl FromStr for Sizes {
    type Err = String;

    /// `2..50`, `2..` (up to all users), or `10` (all groups alike).
    fn from_str(text: &str) -> Result<Sizes, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("not a number: {text}"));
        let (least, most) = match text.split_once("..") {
            None => (number(text)?, Some(number(text)?)),
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        if least == 0 || most.is_some_and(|most| most < least) {
            return Err("not a range from 1 or more upwards".into());
        }
        Ok(Sizes { least, most })
    }
}

impl From<Sizes> for String {
    fn from(sizes: Sizes) -> String {
        let most = sizes.most.map(|most| most.to_string());
        format!("{}..{}", sizes.least, most.unwrap_or_default())
    }
}

impl Sizes {
    /// The smallest group.
    pub(super) fn least(self) -> usize {
        self.least
    }

    fn draw(self, users: usize, random: &mut Random) -> usize {
        let most = self.most.unwrap_or(users).min(users).max(self.least);
        let span = (most + 1) as f64 / self.least as f64;
        let size = self.least as f64 * span.powf(random.unit());
        (size as usize).clamp(self.least, most)
    }
}

/// The members of each timeline, as numbers of users.
pub(super) fn groups(users: usize, timelines: usize, sizes: Sizes, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut all: Vec<usize> = (0..users).collect();
    let group = |_| {
        let size = sizes.draw(users, &mut random);
        // The first `size` places of a shuffle that goes no further.
        for place in 0..size {
            let other = random.between(place as u64, users as u64) as usize;
            all.swap(place, other);
        }
        all[..size].to_vec()
    };
    (0..timelines).map(group).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, written) in [("2..50", "2..50"), ("2..", "2.."), ("7", "7..7")] {
            let sizes: Sizes = text.parse().expect("legal");
            assert_eq!(String::from(sizes), written);
        }
        for odd in ["", "0..5", "5..2", "a..b", "..3", "-1"] {
            assert!(odd.parse::<Sizes>().is_err(), "{odd}");
        }
    }

    #[test]
    fn groups_are_within_their_sizes_and_small_ones_are_many() {
        let sizes = "2..40".parse().expect("legal");
        let made = groups(100, 2_000, sizes, 3);
        assert_eq!(made, groups(100, 2_000, sizes, 3));
        for group in &made {
            assert!((2..=40).contains(&group.len()));
            assert!(group.iter().all(|user| *user < 100));
            assert_eq!(group.iter().collect::<HashSet<_>>().len(), group.len());
        }
        let of = |from, to| {
            let fits = |group: &&Vec<usize>| (from..to).contains(&group.len());
            made.iter().filter(fits).count()
        };
        assert!(of(2, 3) > 200 && of(2, 3) > of(20, 22), "{}", of(2, 3));
        assert!(of(30, 41) > 50, "{}", of(30, 41));
        let everybody = groups(5, 3, "5..".parse().expect("legal"), 1);
        assert!(everybody.iter().all(|group| group.len() == 5));
    }
}
