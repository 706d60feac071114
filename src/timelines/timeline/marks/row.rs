//! Reactions as rows.
//!
//! Owns: the columns of these rows. Promises: what is read is what was written. Must not: read or write a store.
//!
//! ```text
//! reaction  $change (that added it)
//! sums      $change (of the last reaction), +NAME (how many, then the last users) for each name
//!           or, once the message is a tombstone, only $gone
//! ```

use tideline_base::ordered::{self, Reader};
use tideline_model::ValueRef;
use tideline_model::timelines::Reaction;
use tideline_table::{Malformed, Row, RowWriter, number_in};

/// Names of reactions on one message, at most.
pub(super) const NAMES_MAX: usize = 64;

const CHANGE: &str = "$change";
const GONE: &str = "$gone";
/// In front of each name.
const NAME: char = '+';

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
}
