//! The marks that messages carry when they are read, and lose when they become tombstones.
//!
//! Owns: the way from a message to the row of its sums. Promises: a message's change number is the highest of its own
//! and its reactions'; where the head says that the timeline never had a reaction, nothing is read. Must not: change a
//! row, but for [`bury`].

use std::iter::Peekable;
use std::ops::Range;

use tideline_model::Direction;
use tideline_model::timelines::{Reaction, Reactions};
use tideline_table::{ReadError, Rows, Source, Txn, View, damaged, delete, put, scan};

use super::super::Message;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::version;
use super::row::{Sums, gone};

/// Gives a message its reactions.
pub(in super::super) fn look_up(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    message: &mut Message,
) -> Result<(), ReadError> {
    if !head.has_reactions() {
        return Ok(());
    }
    let key = name.reaction_sums_key(head.incarnation, message.sequence);
    match rows.row(&key)? {
        Some(value) => show(key.as_bytes(), &value, message),
        None => Ok(()),
    }
}

fn show(key: &[u8], value: &[u8], message: &mut Message) -> Result<(), ReadError> {
    let sums = Sums::decode(value).map_err(|_| damaged(key, "not sums of reactions"))?;
    if let Some(sums) = sums {
        message.reactions = Some(Box::new(Reactions {
            entry_change: message.change,
            by_name: sums.by_name,
        }));
        message.change = message.change.max(sums.change);
    }
    Ok(())
}

/// The sums of consecutive messages, read along with them.
pub(in super::super) struct Walk<'v> {
    name: Name,
    rows: Peekable<Rows<'v>>,
    direction: Direction,
}

impl<'v> Walk<'v> {
    /// `None` if there are none.
    pub(in super::super) fn new(
        view: &'v View,
        (name, head): (&Name, &HeadRow),
        sequences: &Range<u64>,
        direction: Direction,
    ) -> Option<Walk<'v>> {
        if !head.has_reactions() {
            return None;
        }
        let key = |sequence| name.reaction_sums_key(head.incarnation, sequence);
        let rows = scan(view, &key(sequences.start), &key(sequences.end), direction);
        Some(Walk {
            name: name.clone(),
            rows: rows.peekable(),
            direction,
        })
    }

    /// Gives the next message its reactions.
    pub(in super::super) fn look_up(&mut self, message: &mut Message) -> Result<(), ReadError> {
        loop {
            let next = match self.rows.peek() {
                None => return Ok(()),
                Some(Ok((key, _))) => {
                    let number = self.name.number_of(key);
                    number.map_err(|_| damaged(key, "not sums of reactions"))?
                }
                // The error itself comes below.
                Some(Err(_)) => message.sequence,
            };
            let is_ahead = match self.direction {
                Direction::Forward => next > message.sequence,
                Direction::Backward => next < message.sequence,
            };
            if is_ahead {
                return Ok(());
            }
            let Some((key, value)) = self.rows.next().transpose()? else {
                return Ok(());
            };
            if next == message.sequence {
                return show(&key, &value, message);
            }
        }
    }
}

/// Sets `mine` of each reaction: the reader has it too, and is not among its last users.
pub(in super::super) fn look_up_own<'m>(
    rows: &impl Source,
    (name, head): (&Name, &HeadRow),
    user: &str,
    messages: impl IntoIterator<Item = &'m mut Message>,
) -> Result<(), ReadError> {
    if user.is_empty() || !head.has_reactions() {
        return Ok(());
    }
    for message in messages {
        let sequence = message.sequence;
        let reactions = message.reactions.iter_mut();
        for reaction in reactions.flat_map(|all| &mut all.by_name) {
            reaction.mine = is_own(rows, (name, head), (sequence, &*reaction), user)?;
        }
    }
    Ok(())
}

/// Whether a user has a reaction to a message without being among its last users: their own row says it.
pub(super) fn is_own(
    rows: &impl Source,
    (name, head): (&Name, &HeadRow),
    (sequence, reaction): (u64, &Reaction),
    user: &str,
) -> Result<bool, ReadError> {
    let names_all = reaction.count <= reaction.users.len() as u64;
    if names_all || reaction.users.iter().any(|one| one == user) {
        return Ok(false);
    }
    let key = name.reaction_key(head.incarnation, sequence, &reaction.name, user);
    Ok(rows.row(&key)?.is_some())
}

/// Takes pin and reactions from a message that becomes a tombstone. Of reactions this costs one small row, whatever
/// their number: it hides them, and they go in merges.
pub(in super::super) fn bury(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &HeadRow,
    message: &mut Message,
) {
    if std::mem::take(&mut message.pinned) {
        delete(txn, name.pin_key(head.incarnation, message.sequence));
    }
    if message.reactions.take().is_some() {
        let key = name.reaction_sums_key(head.incarnation, message.sequence);
        let now = version(txn.now_ms());
        put(txn, key, gone(), now);
    }
}
