//! What a caller may read of many timelines, decided together.
//!
//! Owns: the decision about timelines that are named beside each other, also by the entries of an inbox. Promises: each
//! is refused as a read of it is; one view for all of a partition, and none where memory and rights by name tell. Must
//! not: read messages.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use tideline_model::Value;
use tideline_model::access::{Asker, INBOX, Membership, Right};

use super::super::members::MemberRow;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::Site;
use super::super::{Admission, Columns, Error, Message, Timelines};

impl Timelines {
    /// What a user may see now of these timelines, each with the epoch that it must be of.
    ///
    /// # Errors
    /// If a partition can't be read.
    pub async fn admissions(
        &self,
        asker: &Asker,
        wanted: &[(&str, &str)],
    ) -> Result<Vec<Result<Admission, Error>>, Error> {
        let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
        let mut found = vec![Err(Error::TimelineNotFound); wanted.len()];
        for (partition, indexes) in self.indexes_by_partition(&names) {
            let of_it = indexes.iter().map(|at| wanted[*at]);
            let of_it: Vec<(Name, String)> = of_it
                .map(|(name, epoch)| (Name::new(name), epoch.to_owned()))
                .collect();
            let (site, asker) = (self.site(partition), asker.clone());
            let read = self.read(partition, move |view| {
                let decide = |(name, epoch): &(Name, String)| {
                    let (head, reader) = site.admit(view, name, Some(epoch), &asker)?;
                    Ok(site.admission(name, &head, &reader))
                };
                Ok(of_it.iter().map(decide).collect::<Vec<_>>())
            });
            for (at, admitted) in indexes.into_iter().zip(read.await?) {
                found[at] = admitted;
            }
        }
        Ok(found)
    }

    /// The asker for a timeline whose entries name other timelines, each of which is to be decided on: an inbox.
    #[must_use]
    pub fn inbox_asker(asker: &Asker, timeline: &str) -> Option<Asker> {
        let is_decided = asker.claim().is_some() && timeline.starts_with(INBOX);
        is_decided.then(|| asker.clone())
    }

    /// Takes the entries of an inbox that name timelines which the caller may not read, or which are gone. What was
    /// looked up for it goes into `roles`.
    pub async fn hide_entries<'m>(
        &self,
        asker: &Asker,
        messages: impl IntoIterator<Item = &'m mut Message>,
        roles: &Roles,
    ) -> Result<(), Error> {
        let of_entry = |message: &Message| message.entry.as_ref().and_then(named);
        let messages: Vec<&mut Message> = messages.into_iter().collect();
        let named: BTreeSet<(String, String)> = messages
            .iter()
            .filter_map(|message| of_entry(message))
            .collect();
        let named: Vec<(&str, &str)> = named
            .iter()
            .map(|(name, epoch)| (name.as_str(), epoch.as_str()))
            .collect();
        let may = self.may_read(asker, &named, roles).await?;
        let shown = |(name, epoch): &(String, String)| {
            let at = named.binary_search(&(name.as_str(), epoch.as_str()));
            at.is_ok_and(|at| may[at])
        };
        for message in messages {
            if message.entry.is_some() && !of_entry(message).as_ref().is_some_and(shown) {
                message.hide();
            }
        }
        Ok(())
    }

    /// Whether memory knows that the caller may read what all these entries of an inbox name.
    #[must_use]
    pub fn shows_all(&self, asker: &Asker, messages: &[Message], roles: &Roles) -> bool {
        messages.iter().all(|message| {
            let Some((name, epoch)) = message.entry.as_ref().and_then(named) else {
                return false;
            };
            let partition = self.place(&name);
            let one = std::iter::once(name.as_str());
            let (found, _) = self
                .heads()
                .look_up(partition, one, |_, head| head.is_some());
            let head = found.into_iter().next().and_then(|(_, head)| head);
            head.is_some_and(|head| {
                let site = self.site(partition);
                site.is_readable(asker, (&name, &epoch), &head, roles) == Some(true)
            })
        })
    }

    /// Which of these timelines, each with its epoch, a caller may read.
    async fn may_read(
        &self,
        asker: &Asker,
        wanted: &[(&str, &str)],
        roles: &Roles,
    ) -> Result<Vec<bool>, Error> {
        let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
        let mut may = vec![false; wanted.len()];
        for (partition, indexes) in self.indexes_by_partition(&names) {
            let site = self.site(partition);
            let name = |at: usize| names[indexes[at]];
            let exists = |_: usize, head: Option<&HeadRow>| head.is_some();
            let heads = self.head_rows(partition, indexes.len(), name, exists);
            let mut doubted = Vec::new();
            for (at, head) in heads.await? {
                let Some(head) = head else { continue };
                let at = indexes[at];
                match site.is_readable(asker, wanted[at], &head, roles) {
                    Some(is_readable) => may[at] = is_readable,
                    None => doubted.push(at),
                }
            }
            let asked: Vec<Name> = doubted.iter().map(|at| Name::new(names[*at])).collect();
            if asked.is_empty() {
                continue;
            }
            let user = asker.user().to_owned();
            let read = self.read(partition, move |view| {
                let looked = asked.iter().map(|name| {
                    let Some(head) = HeadRow::existing(view, name)? else {
                        return Ok(None);
                    };
                    let member = MemberRow::load(view, name, &head, &user)?;
                    Ok(Some((head, member.map(|member| member.role))))
                });
                looked.collect::<Result<Vec<_>, Error>>()
            });
            for (at, looked) in doubted.into_iter().zip(read.await?) {
                let Some((head, role)) = looked else { continue };
                roles.keep(names[at], &head, role);
                may[at] = site.is_readable(asker, wanted[at], &head, roles) == Some(true);
            }
        }
        Ok(may)
    }
}

impl Site {
    /// Whether a caller may read an epoch of a timeline with this head; `None` = that depends on what they are there,
    /// which is not known.
    fn is_readable(
        &self,
        asker: &Asker,
        (name, epoch): (&str, &str),
        head: &HeadRow,
        roles: &Roles,
    ) -> Option<bool> {
        if !self.epochs.is(epoch, name, head.incarnation) {
            return Some(false);
        }
        let has_read = |role: Option<&str>| {
            let members_only = role.is_none() && self.is_members_only(&Name::new(name), head);
            let membership = Membership { role, members_only };
            asker.rights(name.as_bytes(), membership).has(Right::Read)
        };
        // Nobody may do less as a member.
        if has_read(None) || asker.user().is_empty() || head.members == 0 {
            return Some(has_read(None));
        }
        let role = roles.of(name, head)?;
        Some(role.is_some_and(|role| has_read(Some(&role))))
    }
}

/// What one user is in timelines, as far as it was looked up.
#[derive(Debug, Default)]
pub struct Roles(Mutex<HashMap<String, (Membered, Option<String>)>>);

/// Which timeline, and which of its members' versions.
type Membered = (u64, u64);

impl Roles {
    /// Their role, `None` = no member; if it is known of this head.
    fn of(&self, name: &str, head: &HeadRow) -> Option<Option<String>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, role) = known.get(name)?;
        (*of == (head.incarnation, head.member_version)).then(|| role.clone())
    }

    fn keep(&self, name: &str, head: &HeadRow, role: Option<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ROLES_MAX {
            known.clear();
        }
        let of = (head.incarnation, head.member_version);
        known.insert(name.to_owned(), (of, role));
    }
}

const ROLES_MAX: usize = 1_024;

/// The timeline and the epoch that an entry of an inbox names.
fn named(entry: &Columns) -> Option<(String, String)> {
    let text = |name: &str| {
        let at = entry.binary_search_by(|(one, _)| one.as_str().cmp(name));
        match &entry[at.ok()?].1 {
            Value::String(text) => Some(text.clone()),
            _ => None,
        }
    };
    Some((text("timeline")?, text("epoch")?))
}
