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
mod count;
mod first_members;
pub(super) mod gone;
mod hides;
mod keys;
mod mentions;
mod own_marks;
mod read_set;
mod receipts;
mod senders;
mod verify;

#[cfg(test)]
mod tests;

use tideline_table::{ReadError, Txn};

use super::Message;
use super::rows::head::HeadRow;
use super::rows::tables::Name;

pub use count::Unread;
pub(super) use count::unread;
pub use hides::Hidden;
pub(super) use hides::{is_hidden, mask};
pub(super) use keys::last_of_node;
pub(super) use mentions::named;
pub use read_set::{Cleared, ReadMark, ReadState};
pub use receipts::{Receipt, Receipts};

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
