//! Going on from a reader's position: what a subscribe, a subscription's next page and a sync read.
//!
//! Owns: states, positions and catch-up of changes; promise 4 of the protocol. Promises: messages are contiguous from
//! the position on, or the state says why not; a change is returned once, in change order, in the message's newest
//! form; whatever is cut short says `more` and where to go on. Must not: wait for anything.

use tideline_model::Direction;
use tideline_table::{ReadError, View, damaged, scan};

use super::super::marks::look_up_own;
use super::super::members::Reader;
use super::super::rows::head::HeadRow;
use super::super::rows::stored::changed_sequence;
use super::super::rows::tables::Name;
use super::super::time::shown;
use super::super::unread;
use super::super::write::Site;
use super::super::write::edit::load_whole;
use super::super::{Admission, Changed, Error, Message, Resume, ResumeState, Target, Timelines};
use super::admit_many::Roles;
use super::page::{Room, Run};

/// Change rows that one view looks at, at most: most of them may be of messages above the position, which are skipped.
/// Tests go through the cut with few.
const CHANGES_SCANNED_MAX: usize = if cfg!(test) { 3 } else { 4_096 };

impl Resume {
    /// Whether the reader has never had anything of the timeline: then there is no history that it could miss.
    #[must_use]
    pub fn is_from_nothing(&self) -> bool {
        self.after.unwrap_or(0) == 0 && self.epoch.is_none()
    }
}

impl Timelines {
    /// What comes after a reader's position, and what changed behind it.
    pub async fn resume(&self, resume: Resume) -> Result<Changed, Error> {
        self.resume_into(resume, true).await
    }

    /// The same as a back end, and nothing below a floor.
    pub async fn resume_above(&self, floor: u64, resume: Resume) -> Result<Changed, Error> {
        self.resume_at_least(floor, resume, true).await
    }

    /// What a user may see now; refused as a read is.
    pub async fn admission(&self, target: Target) -> Result<Admission, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        let read = self.read(partition, move |view| {
            let (name, head, reader) = site.enter(view, &target)?;
            Ok(site.admission(&name, &head, &reader))
        });
        read.await
    }

    /// The same; without `first_anyway` there may be no message, if the first one is larger than the bytes.
    pub async fn resume_into(&self, resume: Resume, first_anyway: bool) -> Result<Changed, Error> {
        self.resume_at_least(0, resume, first_anyway).await
    }

    async fn resume_at_least(
        &self,
        floor: u64,
        mut resume: Resume,
        first_anyway: bool,
    ) -> Result<Changed, Error> {
        let partition = self.place(&resume.timeline);
        let inbox_of = Timelines::inbox_asker(&resume.asker, &resume.timeline);
        loop {
            let (site, asked) = (self.site(partition), resume.clone());
            let mut page = self
                .read(partition, move |view| {
                    site.resume(view, &asked, (floor, first_anyway))
                })
                .await?;
            if let Some(asker) = &inbox_of {
                self.hide_entries(asker, page.shown_mut(), &Roles::default())
                    .await?;
            }
            let is_empty = page.messages.is_empty()
                && page.grown.is_empty()
                && page.changed.iter().all(Vec::is_empty);
            let went_on = resume
                .changes_after
                .is_some_and(|at| page.change_position > at);
            if !(is_empty && page.more && went_on) {
                return Ok(page);
            }
            // A long stretch of changes that this reader does not need: go on behind it with a fresh view.
            resume.changes_after = Some(page.change_position);
        }
    }
}

impl Site {
    /// Nothing below `floor`. `first_anyway`: take one message or change even if it is larger than `bytes_max`.
    pub(in super::super) fn resume(
        &self,
        view: &View,
        resume: &Resume,
        (floor, first_anyway): (u64, bool),
    ) -> Result<Changed, Error> {
        let name = Name::new(&resume.timeline);
        let (head, reader) = self.admit(view, &name, None, &resume.asker)?;
        let mut seen = reader.sees(head);
        seen.floor = seen.floor.max(floor);
        let mut page = self.resume_at(view, (&name, &seen, &reader), resume, first_anyway)?;
        page.admission = self.admission(&name, &head, &reader);
        let asker = (resume.asker.user(), &reader);
        look_up_own(view, (&name, &head), asker.0, page.shown_mut())?;
        unread::mask(view, (&name, &head), asker, page.shown_mut())?;
        Ok(page)
    }

    fn resume_at(
        &self,
        view: &View,
        (name, head, reader): (&Name, &HeadRow, &Reader),
        resume: &Resume,
        first_anyway: bool,
    ) -> Result<Changed, ReadError> {
        let shown = self.epochs.head(&resume.timeline, head);
        let after = resume.after.unwrap_or_else(|| match resume.rewind {
            Some(count) => head.last.saturating_sub(count).max(head.floor - 1),
            None => head.last,
        });
        let other_epoch = resume
            .epoch
            .as_ref()
            .is_some_and(|epoch| *epoch != shown.epoch);
        if other_epoch || after > head.last {
            return Ok(Changed {
                head: shown,
                state: ResumeState::EpochChanged,
                messages: Vec::new(),
                changed: None,
                grown: Vec::new(),
                open: Vec::new(),
                position: after,
                change_position: resume.changes_after.unwrap_or(0),
                more: false,
                admission: Admission::default(),
            });
        }
        let mut room = Room {
            limit: resume.limit,
            bytes: resume.bytes_max,
            first_anyway,
        };
        let (mut changed, change_position) = match resume.changes_after {
            None => (None, head.change),
            Some(changes_after) => {
                let (changed, position) =
                    self.changes(view, (name, head), (changes_after, after), &mut room)?;
                (Some(changed), position)
            }
        };
        let told = (&mut changed, &mut room);
        let missing = self.missing_parts(view, (name, head), (resume, after, reader), told)?;
        // Those that had no room come as what has changed, with the pages that follow.
        let left_out = missing.left_out.map(|change| change.saturating_sub(1));
        let change_position = change_position.min(left_out.unwrap_or(u64::MAX));
        if left_out.is_some() {
            changed.get_or_insert_default();
        }
        room.limit = resume.limit;
        let first = (after + 1).max(head.floor);
        let run = Run {
            name,
            head,
            first,
            end: head.last + 1,
            backward: false,
            columns: None,
        };
        let (messages, next) = run.read(view, &mut room, &self.time)?;
        Ok(Changed {
            state: if first > after + 1 {
                ResumeState::TooOld
            } else {
                ResumeState::Ok
            },
            position: next.unwrap_or(head.last + 1) - 1,
            more: next.is_some() || change_position < shown.change_head || missing.more,
            grown: missing.grown,
            open: missing.open,
            head: shown,
            messages,
            changed,
            change_position,
            admission: Admission::default(),
        })
    }

    /// Messages from the floor to the position that changed above a change number, and the change number up to which
    /// that is all.
    fn changes(
        &self,
        view: &View,
        (name, head): (&Name, &HeadRow),
        (changes_after, after): (u64, u64),
        room: &mut Room,
    ) -> Result<(Vec<Message>, u64), ReadError> {
        let mut messages = Vec::new();
        if changes_after >= head.change {
            return Ok((messages, head.change));
        }
        let key = |change| name.change_key(head.incarnation, change);
        let (from, to) = (key(changes_after + 1), key(head.change + 1));
        let mut position = changes_after;
        for (scanned, row) in scan(view, &from, &to, Direction::Forward).enumerate() {
            let (key, value) = row?;
            if room.limit == 0 || scanned == CHANGES_SCANNED_MAX {
                return Ok((messages, position));
            }
            let number = name
                .number_of(&key)
                .map_err(|_| damaged(&key, "not a change"))?;
            let sequence = changed_sequence(&value).map_err(|_| damaged(&key, "not a change"))?;
            // What is above the position comes in its newest form when the reader gets there.
            if (head.floor..=after).contains(&sequence) {
                let message = shown(load_whole(view, name, head, sequence)?, &self.time);
                if message.change == number {
                    if !room.take(&message) {
                        return Ok((messages, position));
                    }
                    messages.push(message);
                }
            }
            position = number;
        }
        Ok((messages, head.change))
    }
}
