//! Reactions as rows.
//!
//! Owns: the columns of these rows, and how a reaction moves a count and the list of the last users. Promises: counts
//! are exact; the users are the last ones, newest first, as far as there are that many (see [`Reaction::users`]). Must
//! not: read or write a store.
//!
//! ```text
//! reaction  $change (that added it)
//! sums      $change (of the last reaction), +NAME (how many, then the last users) for each name
//!           or, once the message is a tombstone, only $gone
//! ```

use serde_json::{Value, json};

use crate::model::{ValueRef, json_text_bytes};
use crate::ordered::{self, Reader};
use crate::table::{Malformed, Row, RowWriter, number_in};

/// Names of reactions on one message, at most.
pub(super) const NAMES_MAX: usize = 64;
/// Users that a message tells of each.
pub(super) const USERS_MAX: usize = 10;

const CHANGE: &str = "$change";
const GONE: &str = "$gone";
/// In front of each name.
const NAME: char = '+';

/// The reactions to a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reactions {
    /// The number of the message's last change that was no reaction; 0 = there is none.
    pub entry_change: u64,
    /// In the order of the names; empty = all were taken back.
    pub by_name: Vec<Reaction>,
}

/// One reaction to a message, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaction {
    /// What the users have chosen, mostly an emoji.
    pub name: String,
    /// How many users.
    pub count: u64,
    /// The last of them, newest first: ten, or all if there are fewer. While there are more than a thousand, a user
    /// that takes it back is not replaced.
    pub users: Vec<String>,
    /// The reader has it too, and is not among `users`. Not stored.
    pub mine: bool,
}

/// The row of the sums of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::timeline) struct Sums {
    /// The number of the last change that was a reaction.
    pub(in crate::timeline) change: u64,
    pub(in crate::timeline) by_name: Vec<Reaction>,
}

impl Sums {
    /// `None` = the message is a tombstone, and its reactions are on their way out.
    pub(in crate::timeline) fn decode(value: &[u8]) -> Result<Option<Sums>, Malformed> {
        let mut sums = Sums::default();
        for cell in Row::parse(value)?.columns() {
            let cell = cell?;
            match (cell.name, cell.value) {
                (CHANGE, ValueRef::Integer(number)) => sums.change = number.cast_unsigned(),
                (GONE, _) => return Ok(None),
                (name, ValueRef::Binary(value)) => {
                    let name = name.strip_prefix(NAME).ok_or(Malformed)?;
                    sums.by_name.push(reaction(name, value)?);
                }
                _ => return Err(Malformed),
            }
        }
        Ok(Some(sums))
    }

    pub(super) fn encode(&self) -> RowWriter {
        let mut row = RowWriter::new(64 * (self.by_name.len() + 1));
        row.put(CHANGE, self.change.into());
        let mut value = Vec::new();
        for reaction in &self.by_name {
            value.clear();
            ordered::push_u64(&mut value, reaction.count);
            for user in &reaction.users {
                ordered::push_string(&mut value, user);
            }
            let name = format!("{NAME}{}", reaction.name);
            row.put(&name, ValueRef::Binary(&value));
        }
        row
    }
}

fn reaction(name: &str, value: &[u8]) -> Result<Reaction, Malformed> {
    let mut value = Reader::new(value);
    let mut reaction = Reaction {
        name: name.to_owned(),
        count: value.u64()?,
        users: Vec::new(),
        mine: false,
    };
    while !value.rest().is_empty() {
        let user = value.string()?;
        reaction.users.push(user.into_owned());
    }
    Ok(reaction)
}

/// The sums of a message that is a tombstone now: its reactions are hidden, and a merge may drop them.
pub(in crate::timeline) fn gone() -> RowWriter {
    RowWriter::of(GONE, ValueRef::Boolean(true))
}

/// Whether a row of sums says that the reactions are to go.
pub(in crate::timeline) fn is_gone(value: &[u8]) -> Result<bool, Malformed> {
    Ok(Row::parse(value)?.column(GONE)?.is_some())
}

/// The row of a user's reaction, added by a change.
pub(super) fn reaction_row(change: u64) -> RowWriter {
    RowWriter::of(CHANGE, change.into())
}

/// The change that added it.
pub(super) fn added_by(value: &[u8]) -> Result<u64, Malformed> {
    number_in(value, CHANGE)
}

impl Reactions {
    /// The most bytes that they take in a message as compact JSON.
    pub(in crate::timeline) fn json_bytes_max(&self) -> usize {
        let one = |reaction: &Reaction| {
            let users = reaction.users.iter().map(|user| json_text_bytes(user) + 1);
            44 + json_text_bytes(&reaction.name) + users.sum::<usize>()
        };
        16 + self.by_name.iter().map(one).sum::<usize>()
    }

    /// `{NAME: {"count", "users"}}`, as a message carries them.
    pub(in crate::timeline) fn json_text(&self) -> String {
        let one = |reaction: &Reaction| {
            let said = json!({"count": reaction.count, "users": reaction.users});
            (reaction.name.clone(), said)
        };
        Value::Object(self.by_name.iter().map(one).collect()).to_string()
    }

    pub(super) fn of(&self, name: &str) -> Option<&Reaction> {
        let place = self.place(name).ok()?;
        Some(&self.by_name[place])
    }

    /// Counts one more user in.
    pub(super) fn add(&mut self, name: &str, user: &str) {
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
    pub(super) fn remove(&mut self, name: &str, user: &str) -> Option<&mut Reaction> {
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

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.by_name
            .binary_search_by(|reaction| reaction.name.as_str().cmp(name))
    }
}

/// Of how many users a reaction tells, if so many have it.
pub(super) fn told_of(count: u64) -> usize {
    usize::try_from(count).map_or(USERS_MAX, |count| count.min(USERS_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_come_back(
            names in proptest::collection::btree_map("\\PC{1,5}", (1u64..1 << 40, proptest::collection::vec("\\PC{1,4}", 0..4)), 0..5),
            change in 1u64..1 << 53,
            bytes: Vec<u8>,
        ) {
            let by_name = names.into_iter()
                .map(|(name, (count, users))| Reaction { name, count, users, mine: false })
                .collect();
            let sums = Sums { change, by_name };
            let row = sums.encode().finish(3);
            prop_assert_eq!(is_gone(&row), Ok(false));
            prop_assert_eq!(Sums::decode(&row), Ok(Some(sums)));
            prop_assert_eq!(added_by(&reaction_row(change).finish(3)), Ok(change));
            let _ = (Sums::decode(&bytes).is_ok(), added_by(&bytes).is_ok(), is_gone(&bytes).is_ok());
        }
    }

    #[test]
    fn the_sums_of_a_tombstone_say_only_that() {
        let row = gone().finish(3);
        assert_eq!((Sums::decode(&row), is_gone(&row)), (Ok(None), Ok(true)));
    }

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
