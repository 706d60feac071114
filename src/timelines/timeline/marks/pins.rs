//! Pins: the messages that all readers of a timeline are to find.
//!
//! Owns: pinning, unpinning, listing. Promises: at most [`PINS_MAX`] of a timeline; a pin is a change of its message.
//! Must not: pin a tombstone.

use tideline_model::Direction;
use tideline_table::{Action, ReadError, RowWriter, Source, Txn, View, damaged, delete, put, scan};

use super::super::growth;
use super::super::read::page::Room;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::time::shown;
use super::super::unread::mask;
use super::super::write::edit::{load, load_whole, write};
use super::super::write::{Site, put_head, version};
use super::super::{Error, Message, Target};
use super::of_message::look_up_own;

/// Messages of one timeline that can be pinned at a time.
pub(super) const PINS_MAX: usize = 100;

/// Which pinned messages are to be listed.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Where, and the asker.
    pub target: Target,
    /// Only those above this sequence.
    pub after: u64,
    /// Messages at most (already clamped).
    pub limit: usize,
    /// Approximate bytes at most; at least one message is returned all the same.
    pub bytes_max: usize,
}

impl Site {
    /// Pins a message or unpins it; `false` if it was so already.
    pub(in super::super) fn pin(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        sequence: u64,
        pins: bool,
    ) -> Result<bool, Error> {
        let (name, mut head, reader) = self.enter(txn, target)?;
        let message = load(txn, &name, &reader.sees(head), sequence)?;
        let mut message = shown(message, &self.time);
        if message.entry.is_none() && pins {
            return Err(Error::Deleted);
        }
        if message.pinned == pins {
            return Ok(false);
        }
        let key = name.pin_key(head.incarnation, sequence);
        if pins {
            let pinned = pins_of(txn, &name, &head, 0).count();
            if pinned >= PINS_MAX {
                return Err(Error::TooMany {
                    field: "sequence",
                    limit: PINS_MAX as u64,
                    actual: pinned as u64 + 1,
                });
            }
            let now = version(txn.now_ms());
            put(txn, key, RowWriter::new(0), now);
        } else {
            delete(txn, key);
        }
        message.pinned = pins;
        growth::look_up(txn, &name, &head, &mut message, None)?;
        write(txn, &name, &mut head, &mut message, Action::Update);
        put_head(txn, &name, &head);
        Ok(true)
    }

    /// Pinned messages in order, and the sequence to go on after if there are more.
    pub(in super::super) fn pinned(
        &self,
        view: &View,
        pinned: &Pinned,
    ) -> Result<(Vec<Message>, Option<u64>), Error> {
        let target = &pinned.target;
        let (name, head, reader) = self.enter(view, target)?;
        let head = reader.sees(head);
        let asker = (target.asker.user(), &reader);
        let mut room = Room {
            limit: pinned.limit,
            bytes: pinned.bytes_max,
            first_anyway: true,
        };
        let mut messages: Vec<Message> = Vec::new();
        for sequence in pins_of(view, &name, &head, pinned.after + 1) {
            let message = load_whole(view, &name, &head, sequence?)?;
            let mut message = shown(message, &self.time);
            look_up_own(view, (&name, &head), asker.0, [&mut message])?;
            mask(view, (&name, &head), asker, [&mut message])?;
            if message.entry.is_none() {
                continue;
            }
            if !room.take(&message) {
                let next = messages.last().map(|last| last.sequence);
                return Ok((messages, next));
            }
            messages.push(message);
        }
        Ok((messages, None))
    }
}

/// The sequences of pinned messages, from the floor or above it on.
pub(super) fn pins_of<'r>(
    rows: &'r impl Source,
    name: &Name,
    head: &HeadRow,
    from: u64,
) -> impl Iterator<Item = Result<u64, ReadError>> + 'r {
    let key = |sequence| name.pin_key(head.incarnation, sequence);
    let (from, to) = (key(from.max(head.floor)), key(u64::MAX));
    let name = name.clone();
    scan(rows, &from, &to, Direction::Forward).map(move |row| {
        let (key, _) = row?;
        let number = name.number_of(&key);
        number.map_err(|_| damaged(&key, "not a pin's key"))
    })
}
