//! Which operations a connection chooses, and how often each.
//!
//! Owns: the kinds of operations and their shares. Promises: the same seed makes the same choices. Must not: know how
//! an operation is sent.

use std::str::FromStr;

use serde::Serialize;

use crate::random::Random;

/// An operation on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Put, Kind::Get, Kind::Range, Kind::Update, Kind::Cell];

    /// As in `--mix`, and in the result.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Get => "get",
            Kind::Range => "range",
            Kind::Update => "update",
            Kind::Cell => "cell",
        }
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
pub struct Mix {
    shares: Vec<(Kind, u64)>,
}

impl FromStr for Mix {
    type Err = String;

    /// `put=1,get=9`: nine gets for each put.
    fn from_str(text: &str) -> Result<Mix, String> {
        let share = |part: &str| {
            let (name, share) = part.split_once('=').unwrap_or((part, "1"));
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            let kind = kind.ok_or_else(|| format!("no operation is called {name}"))?;
            match share.parse() {
                Ok(share) if share <= SHARE_MAX => Ok((kind, share)),
                _ => Err(format!("not a number up to {SHARE_MAX}: {share}")),
            }
        };
        let shares: Vec<(Kind, u64)> = text.split(',').map(share).collect::<Result<_, _>>()?;
        let shares: Vec<_> = shares.into_iter().filter(|(_, share)| *share > 0).collect();
        for kind in Kind::ALL {
            if shares.iter().filter(|(other, _)| *other == kind).count() > 1 {
                return Err(format!("{} stands there twice", kind.name()));
            }
        }
        if shares.is_empty() {
            return Err("no operation at all".to_owned());
        }
        Ok(Mix { shares })
    }
}

const SHARE_MAX: u64 = 1_000_000;

impl From<Mix> for String {
    fn from(mix: Mix) -> String {
        let shares = mix.shares.iter();
        let shares: Vec<String> = shares
            .map(|(kind, share)| format!("{}={share}", kind.name()))
            .collect();
        shares.join(",")
    }
}

impl Mix {
    /// The kinds that are chosen at all.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.shares.iter().map(|(kind, _)| *kind)
    }

    /// Chooses one.
    pub fn draw(&self, random: &mut Random) -> Kind {
        let mut drawn = random.below(self.shares.iter().map(|(_, share)| share).sum());
        let hit = self.shares.iter().find(|(_, share)| {
            let hit = drawn < *share;
            drawn = drawn.saturating_sub(*share);
            hit
        });
        hit.map_or(Kind::Get, |(kind, _)| *kind)
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
        let drawn: Vec<Kind> = (0..4_000).map(|_| mix.draw(&mut random)).collect();
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
