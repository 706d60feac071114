//! Duplicates: messages whose IDs are known from an append before.
//!
//! Owns: what a known ID means for an append that repeats it. Promises: the same message gets its first answer again,
//! or its number if it was scheduled and has been appended; another one under this ID is refused. Must not: forget an
//! ID (`rows/drop_rules.rs` says how long one is remembered).

use super::super::super::Error;
use super::super::super::growth;
use super::super::super::rows::head::HeadRow;
use super::super::super::rows::lately::Lately;
use super::super::super::rows::stored::IdRow;
use super::super::super::rows::tables::Name;
use super::super::Site;
use super::answer::Answer;
use super::{KnownBy, Looked, Prepared, When};
use tideline_table::{ReadError, Txn, load};

impl Prepared {
    /// Looks up the IDs of appends that will run in this batch, together. Of a timeline that was not written lately, or
    /// that they make anew, each is looked up by itself.
    pub(super) fn look(appends: &mut [Prepared], txn: &mut Txn<'_>) {
        let lately = txn.memo::<Lately>();
        let known = appends
            .iter()
            .map(|append| lately.incarnation(&append.name));
        let known: Vec<Option<u64>> = known.collect();
        for (append, incarnation) in appends.iter_mut().zip(known) {
            let Prepared { name, messages, .. } = append;
            for by in messages.iter_mut().filter_map(|one| one.known_by.as_mut()) {
                by.looked = incarnation.map(|incarnation| Looked {
                    incarnation,
                    key: name.id_key(incarnation, &by.columns),
                    is_new: false,
                });
            }
        }
        let messages = appends.iter_mut().flat_map(|append| &mut append.messages);
        let known_by = messages.filter_map(|message| message.known_by.as_mut());
        let mut looked: Vec<&mut Looked> = known_by.filter_map(|by| by.looked.as_mut()).collect();
        let keys: Vec<&[u8]> = looked.iter().map(|one| one.key.as_bytes()).collect();
        let lacks = txn.lacks(&keys);
        for (one, is_new) in looked.iter_mut().zip(lacks) {
            one.is_new = is_new;
        }
    }

    /// Answers the messages whose IDs are known, and counts them.
    pub(super) fn look_up(
        &mut self,
        txn: &Txn<'_>,
        site: &Site,
        existing: Option<&HeadRow>,
    ) -> Result<usize, Error> {
        let mut known = 0;
        for (index, message) in self.messages.iter_mut().enumerate() {
            let (Some(head), Some(by)) = (existing, &message.known_by) else {
                continue;
            };
            let Some(row) = remembered(txn, site, &self.name, head, by)? else {
                continue;
            };
            // Of one that still waits, only the same call is a repeat.
            let scheduled = row.scheduled();
            let is_other = match self.when {
                When::Delivery(_) if scheduled.is_some() => continue,
                When::Later(_) => false,
                When::Now | When::Delivery(_) => scheduled.is_some(),
            };
            if row.hash != by.hash || is_other {
                return Err(Error::MessageIdConflict { index });
            }
            known += 1;
            let parts = match &message.open {
                Some(_) => growth::parts_of(txn, &self.name, head, row.sequence)?,
                None => None,
            };
            message.answer = Answer {
                sequence: row.sequence,
                timestamp: row.timestamp,
                duplicate: true,
                scheduled,
                parts,
            };
        }
        Ok(known)
    }
}

/// The row of an ID, while it is remembered.
fn remembered(
    txn: &Txn<'_>,
    site: &Site,
    name: &Name,
    head: &HeadRow,
    by: &KnownBy,
) -> Result<Option<IdRow>, ReadError> {
    if tideline_base::faults::is_named("ids_forgotten") {
        return Ok(None);
    }
    let looked = by.looked.as_ref();
    let looked = looked.filter(|looked| looked.incarnation == head.incarnation);
    let made;
    let key = match looked {
        Some(Looked { key, is_new, .. }) if *is_new && txn.staged(key.as_bytes()).is_none() => {
            return Ok(None);
        }
        Some(Looked { key, .. }) => key,
        None => {
            made = name.id_key(head.incarnation, &by.columns);
            &made
        }
    };
    let row = load(txn, key, "not a message ID's row", IdRow::decode)?;
    Ok(row.filter(|row| site.window.remembers(row, head.last, txn.now_ms())))
}
