//! Editing, deleting and recalling single messages.
//!
//! Owns: the change sequence, promise 7 of the protocol; [`bury`], by which alone a message becomes a tombstone.
//! Promises: an edit or burial takes the next change number; a message has one change row, that of its last change, so
//! that a reader that catches up meets each message once. Must not: touch ID rows: an ID is compared with the entry as
//! first appended.

use tideline_table::{Action, ReadError, Source, Txn, delete, put, record};

use super::super::growth;
use super::super::marks;
use super::super::rows::head::HeadRow;
use super::super::rows::lately::Lately;
use super::super::rows::stored;
use super::super::rows::stored::{MessageRow, change_row};
use super::super::rows::tables::{MESSAGES, Name};
use super::super::time::shown;
use super::super::unread;
use super::super::{Burial, Error, Message, Target, Timelines, UpdateMessage};
use super::{Site, check_size, merge, put_head, version};

impl Timelines {
    /// Makes a message a tombstone; `false` if it was one already.
    pub fn delete_message(
        &self,
        target: Target,
        sequence: u64,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        self.make_room(target, move |txn, site, target| {
            site.bury_message(txn, target, sequence, Burial::Deleted)
        })
    }

    /// The same, and the tombstone says which user recalled it, and why if there is a `reason`.
    pub fn recall_message(
        &self,
        target: Target,
        sequence: u64,
        reason: Option<String>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        self.make_room(target, move |txn, site, target| {
            let by = target.asker.sender().to_owned();
            site.bury_message(txn, target, sequence, Burial::Recalled { by, reason })
        })
    }
}

impl Site {
    pub(in super::super) fn update_message(
        &self,
        txn: &mut Txn<'_>,
        update: UpdateMessage,
    ) -> Result<Message, Error> {
        let name = Name::new(&update.timeline);
        let (mut head, reader) = self.admit(txn, &name, update.epoch.as_deref(), &update.asker)?;
        let message = load(txn, &name, &reader.sees(head), update.sequence)?;
        let mut message = shown(message, &self.time);
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        let (timestamp, change) = (message.timestamp, message.change);
        let written = (timestamp, message.sender.as_str());
        self.check_edit(txn, (&name, &head), (&update.asker, &reader), written)?;
        if update
            .expect_change
            .is_some_and(|expected| expected != change)
        {
            return Err(Error::ConditionFailed { actual: change });
        }
        if let Some(open) = &message.open {
            if update.set.iter().any(|(name, _)| *name == open.column) {
                return Err(Error::Grows("set"));
            }
            if update.remove.contains(&open.column) {
                return Err(Error::Grows("remove"));
            }
        }
        growth::look_up(txn, &name, &head, &mut message, None)?;
        let entry = message.entry.get_or_insert_default();
        let named = unread::named(entry);
        merge(entry, update.set, &update.remove);
        check_size(entry, update.limits)?;
        let before = message.edited_at.unwrap_or(message.timestamp);
        message.edited_at = Some(txn.now_ms().max(before));
        unread::edited(txn, &name, &head, &message, &named);
        write(txn, &name, &mut head, &mut message, Action::Update);
        put_head(txn, &name, &head);
        Ok(message)
    }

    /// Makes a message a tombstone; `false` if it was one already.
    pub(in super::super) fn bury_message(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        sequence: u64,
        burial: Burial,
    ) -> Result<bool, Error> {
        let (name, mut head, reader) = self.enter(txn, target)?;
        let message = load(txn, &name, &reader.sees(head), sequence)?;
        let message = shown(message, &self.time);
        if message.entry.is_none() {
            return Ok(false);
        }
        let written = (message.timestamp, message.sender.as_str());
        self.check_edit(txn, (&name, &head), (&target.asker, &reader), written)?;
        bury(txn, &name, &mut head, message, burial)?;
        put_head(txn, &name, &head);
        Ok(true)
    }
}

/// Makes a message that has an entry a tombstone, under the next change number. Every tombstone is made here. The head
/// is the caller's to put, once for as many messages as it buries.
pub(in super::super) fn bury(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    mut message: Message,
    burial: Burial,
) -> Result<(), ReadError> {
    if !tideline_base::faults::is_named("buried_uncounted") {
        unread::buried(txn, name, head, &message)?;
    }
    if message.open.is_some() {
        growth::end(txn, name, head, message.sequence)?;
    }
    message.bury(burial);
    marks::bury(txn, name, head, &mut message);
    write(txn, name, head, &mut message, Action::Delete);
    Ok(())
}

/// Reads a message that the head says can be read, as its row has it, with its reactions.
pub(in super::super) fn load(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<Message, Error> {
    if !head.holds(sequence) {
        return Err(Error::MessageNotFound);
    }
    Ok(load_held(rows, name, head, sequence)?)
}

/// Reads a message between floor and head, as its row has it, with its reactions.
pub(in super::super) fn load_held(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<Message, ReadError> {
    let mut message = stored::load(rows, name, head, sequence, None)?;
    marks::look_up(rows, name, head, &mut message)?;
    Ok(message)
}

/// The same with all that it has grown by. A call that is decided by less reads that first.
pub(in super::super) fn load_whole(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<Message, ReadError> {
    let mut message = load_held(rows, name, head, sequence)?;
    growth::look_up(rows, name, head, &mut message, None)?;
    Ok(message)
}

/// Writes a message's new form under the next change number. The caller puts the head.
pub(in super::super) fn write(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    message: &mut Message,
    action: Action,
) {
    message.change = next_change(txn, name, head, (message.sequence, message.change));
    if let Some(reactions) = &mut message.reactions {
        reactions.entry_change = message.change;
    }
    let row = MessageRow::of(message).row;
    let key = name.message_key(head.incarnation, message.sequence);
    txn.memo::<Lately>().forget_growing(key.as_bytes());
    let entry = put(txn, key, row, version(message.timestamp));
    record(txn, MESSAGES, action, entry, 1);
}

/// Gives a message the next change number in place of its last one (0 = none). The caller puts the head.
pub(in super::super) fn next_change(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    (sequence, last): (u64, u64),
) -> u64 {
    if last > 0 {
        delete(txn, name.change_key(head.incarnation, last));
    }
    head.change += 1;
    let key = name.change_key(head.incarnation, head.change);
    let now = version(txn.now_ms());
    put(txn, key, change_row(sequence), now);
    head.change
}
