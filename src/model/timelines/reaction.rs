//! Reactions to a message.
//!
//! Owns: how a reaction moves a count and the list of the last users, and the form in which clients get them: an object
//! by name. Promises: counts are exact; the users are the last ones, newest first, as far as there are that many (see
//! [`Reaction::users`]). Must not: know their rows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json_text_bytes;

/// Users that a message tells of each.
pub const USERS_MAX: usize = 10;

/// The reactions to a message; by name to those that read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reactions {
    /// The number of the message's last change that was no reaction; 0 = there is none.
    #[serde(skip)]
    pub entry_change: u64,
    /// In the order of the names; empty = all were taken back.
    #[serde(with = "by_name")]
    pub by_name: Vec<Reaction>,
}

impl From<Vec<Reaction>> for Reactions {
    fn from(by_name: Vec<Reaction>) -> Reactions {
        Reactions {
            entry_change: 0,
            by_name,
        }
    }
}

/// How many users have one reaction to a message, and some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "reaction")]
pub struct Reaction {
    /// What the users have chosen, mostly an emoji.
    #[serde(skip)]
    pub name: String,
    /// How many.
    pub count: u64,
    /// The last ten, newest first, or all if there are fewer. While there are more than 1,000, one who takes it back is
    /// not replaced until others come. In the answer to a `reaction.list` of one reaction: a page of all, by name.
    pub users: Vec<String>,
    /// The caller has it too, and is not among the users that are named. Pushes, which many share, do not say it.
    // Not stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mine: bool,
}

/// The reactions to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "reaction.list.result")]
pub struct ReactionPage {
    /// All, or the one that was asked for if there is such a one.
    #[serde(with = "by_name")]
    #[schemars(with = "BTreeMap<String, Reaction>")]
    pub reactions: Vec<Reaction>,
    /// What to pass as `after` for the next page of users; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Whether a message says nothing of reactions.
#[allow(clippy::ref_option)] // as serde calls it
pub(super) fn has_none(reactions: &Option<Box<Reactions>>) -> bool {
    reactions.as_ref().is_none_or(|all| all.by_name.is_empty())
}

/// Reactions as an object: for `#[serde(with = "by_name")]`.
pub mod by_name {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Reaction;

    /// Writes them in their order.
    pub fn serialize<S: Serializer>(all: &[Reaction], into: S) -> Result<S::Ok, S::Error> {
        into.collect_map(all.iter().map(|reaction| (&reaction.name, reaction)))
    }

    /// Reads them.
    pub fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: From<Vec<Reaction>>,
    {
        let named = |(name, reaction)| Reaction { name, ..reaction };
        let all = BTreeMap::<String, Reaction>::deserialize(from)?;
        Ok(all.into_iter().map(named).collect::<Vec<_>>().into())
    }
}

impl Reactions {
    /// The most bytes that they take in a message as compact JSON.
    #[must_use]
    pub fn json_bytes_max(&self) -> usize {
        let one = |reaction: &Reaction| {
            let users = reaction.users.iter().map(|user| json_text_bytes(user) + 1);
            44 + json_text_bytes(&reaction.name) + users.sum::<usize>()
        };
        16 + self.by_name.iter().map(one).sum::<usize>()
    }

    /// `{NAME: {"count", "users"}}`, as a message carries them.
    #[must_use]
    pub fn json_text(&self) -> String {
        let one = |reaction: &Reaction| {
            let said = json!({"count": reaction.count, "users": reaction.users});
            (reaction.name.clone(), said)
        };
        Value::Object(self.by_name.iter().map(one).collect()).to_string()
    }

    /// The one of a name.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Reaction> {
        let place = self.place(name).ok()?;
        Some(&self.by_name[place])
    }

    /// Counts one more user in.
    pub fn add(&mut self, name: &str, user: &str) {
        let place = self.place(name).unwrap_or_else(|place| {
            let new = Reaction {
                name: name.to_owned(),
                ..Reaction::default()
            };
            self.by_name.insert(place, new);
            place
        });
        let reaction = &mut self.by_name[place];
        reaction.count += 1;
        reaction.users.insert(0, user.to_owned());
        reaction.users.truncate(USERS_MAX);
    }

    /// Counts a user out. Gives the reaction if it now tells of fewer users than it should.
    pub fn remove(&mut self, name: &str, user: &str) -> Option<&mut Reaction> {
        let place = self.place(name).ok()?;
        let reaction = &mut self.by_name[place];
        reaction.count = reaction.count.saturating_sub(1);
        reaction.users.retain(|other| other != user);
        if reaction.count == 0 {
            self.by_name.remove(place);
            return None;
        }
        let reaction = &mut self.by_name[place];
        let lacks = reaction.users.len() < told_of(reaction.count);
        lacks.then_some(reaction)
    }

    /// At most so many bytes in any encoding.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        encoded_bytes_max(&self.by_name)
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.by_name
            .binary_search_by(|reaction| reaction.name.as_str().cmp(name))
    }
}

/// Of how many users a reaction tells, if so many have it.
pub fn told_of(count: u64) -> usize {
    usize::try_from(count).map_or(USERS_MAX, |count| count.min(USERS_MAX))
}

/// At most so many bytes in any encoding.
#[must_use]
pub fn encoded_bytes_max(by_name: &[Reaction]) -> usize {
    let text = |text: &str| json_text_bytes(text) + 5;
    let one = |reaction: &Reaction| {
        let users: usize = reaction.users.iter().map(|user| text(user)).sum();
        56 + text(&reaction.name) + users
    };
    18 + by_name.iter().map(one).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_users_are_told_newest_first() {
        let mut reactions = Reactions::default();
        for user in 0..12 {
            reactions.add("+1", &format!("u{user}"));
        }
        reactions.add("+", "a");
        assert_eq!(reactions.by_name[0].name, "+");
        let one = reactions.of("+1").unwrap();
        assert_eq!((one.count, one.users.len()), (12, 10));
        assert_eq!(
            (one.users[0].as_str(), one.users[9].as_str()),
            ("u11", "u2")
        );
        assert!(reactions.remove("+1", "u0").is_none(), "was not told of");
        let lacking = reactions.remove("+1", "u5").unwrap();
        assert_eq!((lacking.count, lacking.users.len()), (10, 9));
        assert!(reactions.remove("+", "a").is_none());
        assert!(reactions.of("+").is_none());
    }
}
