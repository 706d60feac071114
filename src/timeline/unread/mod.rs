//! What a member has not read: counts that are exact, made from rows that are written with the messages.
//!
//! Owns: the rows of senders, mentions, hides and tombstones, the formula, and a member's own marks: read positions,
//! cleared and hidden messages. Promises: a count is that of one view or transaction and equals what one would count in
//! its messages; its cost does not grow with the distance; a timeline without members costs nothing. Must not: decide
//! which users are members.
//!
//! Why the formula holds: sequences have no holes, so `head - low` is all. A sender's ordinals have none either. A
//! message becomes a tombstone once, and the batch that buries it adds it to the tree of all and to its sender's. What
//! is own and gone is taken off twice and given back once; a hide of such a message is not counted. Only rows above the
//! member's floor are read, so trims and merges do not matter.

mod calls;
mod counted;
mod gone;
mod hides;
mod keys;
mod mentions;
mod read_set;
mod receipts;
mod senders;
mod verify;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::model::Direction;
use crate::table::{ReadError, Source, Txn, damaged, scan};

use super::Message;
use super::members::MemberRow;
use super::rows::head::HeadRow;
use super::rows::stored;
use super::rows::tables::Name;

use gone::{ALL, Leaves};

pub use hides::Hidden;
pub(super) use hides::{is_hidden, mask};
pub(super) use keys::last_of_node;
pub(super) use mentions::named;
pub use read_set::{Cleared, ReadMark, ReadState};
pub use receipts::{Receipt, Receipts};

/// What a member has not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Messages above what the member has read and can see; own, hidden and deleted ones do not count.
    pub unread: u64,
    /// Those of them that mention the member, up to [`MENTIONS_MAX`].
    pub mentions: u64,
}

/// More mentions are not counted.
const MENTIONS_MAX: u64 = 100;
/// So near to the head the messages themselves are read. Tests use the formula earlier.
const NEAR: u64 = if cfg!(test) { 4 } else { 64 };
/// But no more than so many bytes of them.
const NEAR_BYTES: usize = 64 << 10;

/// Counts what a member has not read.
pub(super) fn unread(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    (user, member): (&str, &MemberRow),
) -> Result<Unread, ReadError> {
    let low = member.read.max(head.floor.max(member.floor()) - 1);
    let all = head.last.saturating_sub(low);
    if all == 0 {
        return Ok(Unread::default());
    }
    let of = (name, head);
    let hides = hides::above(rows, of, (user, member), low)?;
    if all <= NEAR
        && let Some(unread) = near(rows, of, user, (low, &hides))?
    {
        return Ok(unread);
    }
    let own = senders::above(rows, of, user, low)?;
    let gone = gone::above(rows, of, ALL, low)?;
    let own_gone = match own {
        0 => 0,
        _ => gone::above(rows, of, user, low)?,
    };
    let mut leaves = Leaves::new(rows, of);
    let mut hidden = 0;
    for (sequence, own) in &hides {
        if !own && !leaves.has(*sequence)? {
            hidden += 1;
        }
    }
    let mut mentioned = 0;
    for sequence in mentions::above(rows, of, user, low) {
        mentioned += u64::from(!hides.contains_key(&sequence?));
        if mentioned == MENTIONS_MAX {
            break;
        }
    }
    let counted = (all + own_gone).checked_sub(own + gone + hidden);
    Ok(Unread {
        unread: counted
            .ok_or_else(|| damaged(name.head_key().as_bytes(), "more rows than messages"))?,
        mentions: mentioned,
    })
}

/// The same from the messages; `None` if they are too large for it.
fn near(
    rows: &impl Source,
    (name, head): gone::Of<'_>,
    user: &str,
    (low, hides): (u64, &BTreeMap<u64, bool>),
) -> Result<Option<Unread>, ReadError> {
    let key = |sequence| name.message_key(head.incarnation, sequence);
    let (from, to) = (key(low + 1), key(head.last + 1));
    let (mut unread, mut bytes) = (Unread::default(), 0);
    for row in scan(rows, &from, &to, Direction::Forward) {
        let (key, value) = row?;
        bytes += value.len();
        if bytes > NEAR_BYTES {
            return Ok(None);
        }
        let sequence = name.number_of(&key);
        let sequence = sequence.map_err(|_| damaged(&key, "not a message's key"))?;
        let message = stored::outline(&value).map_err(|_| damaged(&key, "not a message"))?;
        if message.deleted || message.sender == user || hides.contains_key(&sequence) {
            continue;
        }
        unread.unread += 1;
        let names = message.mentions.map(mentions::named_in);
        if names.is_some_and(|names| mentions::is_of(&names, user)) {
            unread.mentions += 1;
        }
    }
    Ok(Some(unread))
}

/// Writes the rows of messages that a batch has appended to a timeline with members: their sequences and the users that
/// they mention.
pub(super) fn appended<'m>(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &HeadRow,
    sender: &str,
    messages: impl Iterator<Item = (u64, &'m [String])> + Clone,
) -> Result<(), ReadError> {
    let sequences = messages.clone().map(|(sequence, _)| sequence);
    senders::write(txn, (name, head), sender, sequences)?;
    for (sequence, named) in messages {
        mentions::write(txn, (name, head), (sequence, sender), &[], named);
    }
    Ok(())
}

/// Takes a message that this batch makes a tombstone out of what members count. `message` is as it was before.
pub(super) fn buried(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &HeadRow,
    message: &Message,
) -> Result<(), ReadError> {
    if message.sequence > head.counted() {
        return Ok(());
    }
    let place = (message.sequence, message.sender.as_str());
    gone::add(txn, (name, head), place)?;
    let named = message.entry.as_ref().map_or_else(Vec::new, named);
    mentions::write(txn, (name, head), place, &named, &[]);
    Ok(())
}

/// Brings the rows of a message up to an edit. `message` has its new form, `before` are the users that it named.
pub(super) fn edited(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &HeadRow,
    message: &Message,
    before: &[String],
) {
    if message.sequence <= head.counted() {
        let place = (message.sequence, message.sender.as_str());
        let now = message.entry.as_ref().map_or_else(Vec::new, named);
        mentions::write(txn, (name, head), place, before, &now);
    }
}
