//! Which entries of a batch are a change of the timelines that are asked for.
//!
//! Owns: their order in the batch. Promises: an appended message is there where it was appended, anything else where it
//! was changed last. Must not: say what a change shows.

use std::collections::{HashMap, HashSet};

use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ordered::Reader;
use tideline_table::{Action, Batch, Change, Malformed, split_key};

use super::super::members::changed_member;
use super::super::rows::head::HeadRow;
use super::super::rows::stored::MetaRow;
use super::super::rows::tables::{
    HEADS, MEMBER_CHANGES, MEMBERS, MESSAGES, METAS, Name, REACTION_SUMS, SETTINGS,
};
use super::What;

/// An entry of a batch that tells something of a timeline.
pub(super) struct Seen<'b> {
    pub(super) kind: Kind,
    /// The timeline's ID, encoded.
    pub(super) name: &'b [u8],
    /// The key's columns.
    pub(super) columns: &'b [u8],
    entry: EntryKind,
    pub(super) value: &'b [u8],
}

impl<'b> Seen<'b> {
    fn new(kind: Kind, (name, columns): (&'b [u8], &'b [u8]), entry: KeyedEntry<'b>) -> Seen<'b> {
        Seen {
            kind,
            name,
            columns,
            entry: entry.kind,
            value: entry.value,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Head,
    Meta,
    /// Whether it was appended.
    Message(bool),
    Reactions,
    Settings,
    Member,
}

/// The asked-for timelines whose heads a batch holds.
pub(super) struct Touched<'b> {
    prefix: &'b str,
    /// By encoded name.
    pub(super) heads: HashMap<&'b [u8], HeadRow>,
    metas: HashMap<&'b [u8], &'b [u8]>,
    /// Encoded keys of changes of members.
    member_changes: HashSet<&'b [u8]>,
}

impl<'b> Touched<'b> {
    pub(super) fn new(batch: &'b Batch, prefix: &'b str) -> Result<Touched<'b>, Malformed> {
        let mut touched = Touched {
            prefix,
            heads: HashMap::new(),
            metas: HashMap::new(),
            member_changes: HashSet::new(),
        };
        for entry in batch.entries() {
            if let Some((HEADS, name)) = split_key(entry.key)
                && entry.kind == EntryKind::Put
                && touched.is_asked(name)?
            {
                touched.heads.insert(name, HeadRow::decode(entry.value)?);
            }
        }
        if touched.heads.is_empty() {
            return Ok(touched);
        }
        for entry in batch.entries() {
            match split_key(entry.key) {
                Some((METAS, name)) if entry.kind == EntryKind::Put => {
                    touched.metas.insert(name, entry.value);
                }
                Some((MEMBER_CHANGES, columns)) => {
                    touched.member_changes.insert(columns);
                }
                _ => {}
            }
        }
        Ok(touched)
    }

    /// Whether a timeline is asked for. None of the server's own is.
    fn is_asked(&self, name: &[u8]) -> Result<bool, Malformed> {
        let name = Reader::new(name).string()?;
        Ok(name.starts_with(self.prefix) && !name.starts_with('$'))
    }

    /// Everything that may tell something, with its number in the batch.
    pub(super) fn in_order(&self, batch: &'b Batch) -> Result<Vec<(u32, Seen<'b>)>, Malformed> {
        let mut found = Vec::new();
        if !self.heads.is_empty() {
            for (number, entry) in (0..).zip(batch.entries()) {
                if let Some((HEADS, name)) = split_key(entry.key)
                    && self.heads.contains_key(name)
                {
                    found.push((number, Seen::new(Kind::Head, (name, name), entry)));
                }
            }
        }
        let mut number = u32::try_from(batch.entries().len())?;
        // An entry is reported once: an appended message where it was appended, anything else at its last change.
        let mut told: HashMap<u32, usize> = HashMap::new();
        for record in batch.changes() {
            let change = Change::decode(record)?;
            let entries = batch.entries_in(change.indexes()).ok_or(Malformed)?;
            for (index, entry) in (change.first..).zip(entries) {
                let at = number;
                number += 1;
                let kind = match change.table {
                    METAS => Kind::Meta,
                    MESSAGES => Kind::Message(change.action == Action::Put),
                    REACTION_SUMS => Kind::Reactions,
                    SETTINGS => Kind::Settings,
                    MEMBERS => Kind::Member,
                    _ => continue,
                };
                let (_, columns) = split_key(entry.key).ok_or(Malformed)?;
                let name = Reader::new(columns).skip()?;
                // Only members change without their timeline's head.
                let is_asked =
                    self.heads.contains_key(name) || kind == Kind::Member && self.is_asked(name)?;
                if !is_asked {
                    continue;
                }
                let seen = Seen::new(kind, (name, columns), entry);
                match told.get(&index).copied() {
                    Some(before) if is_append(&found[before]) => {}
                    before => {
                        told.insert(index, found.len());
                        found.push((at, seen));
                        if let Some(before) = before {
                            found[before].0 = u32::MAX;
                        }
                    }
                }
            }
        }
        found.retain(|(number, _)| *number != u32::MAX);
        Ok(found)
    }

    pub(super) fn meta(&self, name: &[u8]) -> Result<Option<MetaRow>, Malformed> {
        let value = self.metas.get(name);
        value.map(|value| MetaRow::decode(value)).transpose()
    }

    pub(super) fn member(&self, seen: &Seen<'_>, incarnation: u64) -> Result<What, Malformed> {
        let member = changed_member(seen.columns, seen.entry, seen.value)?;
        let (user, head) = (member.user, self.heads.get(seen.name));
        let standing = head.map(HeadRow::membership).unwrap_or_default();
        let Some(row) = member.row else {
            return Ok(What::Member {
                user,
                row: None,
                standing,
            });
        };
        // A member's marks move without a new version.
        let name = Name::of(seen.columns)?;
        let change = name.member_change_key(incarnation, row.version);
        let (_, change) = split_key(change.as_bytes()).ok_or(Malformed)?;
        Ok(match self.member_changes.contains(change) {
            true => What::Member {
                user,
                row: Some(Box::new(row)),
                standing,
            },
            false => What::Read {
                user,
                read: row.read,
                received: row.received,
            },
        })
    }
}

fn is_append((_, seen): &(u32, Seen<'_>)) -> bool {
    seen.kind == Kind::Message(true)
}
