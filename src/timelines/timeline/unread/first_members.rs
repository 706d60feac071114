//! The first members of a timeline that has messages.
//!
//! Owns: writing the rows of messages that were appended while there were no members. Promises: it goes in slices, with
//! appends between them, and the head says how far it has come (`counted`), in the batch of the rows; so a crash leaves
//! nothing that is wrong, and the next call goes on from there. Must not: add members.

use std::collections::BTreeMap;

use tideline_model::Direction;
use tideline_table::{ReadError, Txn, damaged, scan};

use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::Name;
use super::super::write::{Site, put_head};
use super::{gone, mentions, senders};

/// Messages of one batch, and how many bytes of them are read.
const SLICE: usize = if cfg!(test) { 3 } else { 1_024 };
const SLICE_BYTES: usize = 1 << 20;

impl Site {
    /// Makes a timeline without members ready to get some. `false`: the batch did a part of it and nothing else may be
    /// done in it; to be called again in another batch. `true`: the caller may give the head members, and store it.
    pub(in crate::timeline) fn count_for_members(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        head: &mut HeadRow,
    ) -> Result<bool, ReadError> {
        if head.counted() < head.last {
            count_slice(txn, name, head)?;
            put_head(txn, name, head);
        }
        Ok(head.counted() == head.last)
    }
}

/// Writes the rows of the next messages.
fn count_slice(txn: &mut Txn<'_>, name: &Name, head: &mut HeadRow) -> Result<(), ReadError> {
    let mut next = (head.counted() + 1).max(head.floor);
    let key = |sequence| name.message_key(head.incarnation, sequence);
    let mut by_sender: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut mentioned = Vec::new();
    let mut gone = Vec::new();
    let mut bytes = 0;
    for row in scan(txn, &key(next), &key(head.last + 1), Direction::Forward).take(SLICE) {
        let (key, value) = row?;
        if name.number_of(&key) != Ok(next) {
            return Err(damaged(&key, "a message is missing before it"));
        }
        let message = stored::outline(&value).map_err(|_| damaged(&key, "not a message"))?;
        if message.deleted {
            gone.push((next, message.sender.to_owned()));
        } else if let Some(json) = message.mentions {
            let named = mentions::named_in(json);
            mentioned.push((next, message.sender.to_owned(), named));
        }
        let sequences = by_sender.entry(message.sender.to_owned()).or_default();
        sequences.push(next);
        next += 1;
        bytes += value.len();
        if bytes >= SLICE_BYTES {
            break;
        }
    }
    if by_sender.is_empty() && next <= head.last {
        return Err(damaged(
            key(next).as_bytes(),
            "missing between floor and head",
        ));
    }
    for (sender, sequences) in by_sender {
        senders::write(txn, (name, head), &sender, sequences)?;
    }
    for (sequence, sender, named) in mentioned {
        mentions::write(txn, (name, head), (sequence, &sender), &[], &named);
    }
    for (sequence, sender) in gone {
        gone::add(txn, (name, head), (sequence, &sender))?;
    }
    head.set_counted(next - 1);
    Ok(())
}
