//! Which operations a connection chooses, and how often each.
//!
//! Owns: the kinds of operations and their shares. Promises: the same seed makes the same choices. Must not: know how
//! an operation is sent.

use std::str::FromStr;

use clap::ValueEnum;
use serde::Serialize;

use crate::random::Random;

/// An operation on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// PutRow: a whole row.
    Put,
    /// GetRow: a whole row.
    Get,
    /// GetRange: a page of rows.
    Range,
    /// UpdateRow: one column of a wide row.
    Update,
    /// GetRow: one column of a wide row.
    Cell,
}

impl Kind {
    /// As in `--mix`, and in the result.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether it is about wide rows.
    #[must_use]
    pub fn is_wide(self) -> bool {
        matches!(self, Kind::Update | Kind::Cell)
    }
}

/// How often each is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Mix(Vec<(Kind, u64)>);

const SHARE_MAX: u64 = 1_000_000;

impl FromStr for Mix {
    type Err = String;

    /// `put=1,get=9`: nine gets for each put.
    fn from_str(text: &str) -> Result<Mix, String> {
        let mut shares: Vec<(Kind, u64)> = Vec::new();
        for part in text.split(',') {
            let (name, share) = part.split_once('=').unwrap_or((part, "1"));
            let kind = Kind::from_str(name, false);
            let kind = kind.map_err(|_| format!("no operation is called {name}"))?;
            let share = share.parse().ok().filter(|share| *share <= SHARE_MAX);
            let share = share.ok_or_else(|| format!("{part}: not a number up to {SHARE_MAX}"))?;
            if shares.iter().any(|(other, _)| *other == kind) {
                return Err(format!("{name} is there twice"));
            }
            shares.push((kind, share));
        }
        shares.retain(|(_, share)| *share > 0);
        if shares.is_empty() {
            return Err("no operation at all".to_owned());
        }
        Ok(Mix(shares))
    }
}

impl From<Mix> for String {
    fn from(mix: Mix) -> String {
        let share = |(kind, share): &(Kind, u64)| format!("{}={share}", kind.name());
        mix.0.iter().map(share).collect::<Vec<_>>().join(",")
    }
}

impl Mix {
    /// The kinds that are chosen at all.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().map(|(kind, _)| *kind)
    }

    /// Chooses one, by its place among the kinds.
    pub fn draw(&self, random: &mut Random) -> usize {
        let mut drawn = random.below(self.0.iter().map(|(_, share)| share).sum());
        let hit = self.0.iter().position(|(_, share)| {
            let hit = drawn < *share;
            drawn = drawn.saturating_sub(*share);
            hit
        });
        hit.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_errors_told() {
        let mix: Mix = "put=1,range=3,get=0".parse().expect("a mix");
        assert_eq!(String::from(mix.clone()), "put=1,range=3");
        let mut random = Random::new(1);
        let kinds: Vec<Kind> = mix.kinds().collect();
        let drawn: Vec<Kind> = (0..4_000).map(|_| kinds[mix.draw(&mut random)]).collect();
        let count = |kind| drawn.iter().filter(|other| **other == kind).count();
        assert_eq!(count(Kind::Put) + count(Kind::Range), 4_000);
        assert!((800..1_200).contains(&count(Kind::Put)));
        for (text, part) in [
            ("puts=1", "puts"),
            ("put=x", "not a number"),
            ("put=1,put=2", "twice"),
            ("put=0", "at all"),
        ] {
            let error = text.parse::<Mix>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
