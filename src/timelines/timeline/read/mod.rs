//! Reading timelines: going on from a position, many timelines at once, and in this file look-ups, ranges and lists.
//!
//! Owns: `timeline.get`, `timeline.list`, `message.get`, `message.range`. Promises: a page of one timeline is of one
//! view; a list shows the names of all partitions in order, none twice, none left out between `after` and `next`. Must
//! not: keep a view while it waits for another.

pub(super) mod admit_many;
pub(super) mod at_numbers;
pub(super) mod covered;
pub(super) mod newest;
pub(super) mod page;
pub(super) mod position;
pub(super) mod prefixes;
pub(super) mod resume;
pub(super) mod sync;

use tideline_model::access::Asker;
use tideline_model::{Direction, json_bytes};
use tideline_table::{Key, Purpose, Source, Txn, View, scan};

use super::growth;
use super::marks::look_up_own;
use super::members::Reader;
use super::rows::head::HeadRow;
use super::rows::tables::{HEADS, Name};
use super::time::shown;
use super::unread;
use super::write::Site;
use super::write::edit::load;
use super::{
    Error, List, Listed, Message, Page, Range, SMALL_BYTES, Standing, Target, TimelineInfo,
    Timelines,
};
use admit_many::Roles;
use page::{Room, Run};

/// Head rows that one view looks at, at most: deleted timelines are skipped.
/// Tests go through the cut with few.
pub(super) const HEADS_SCANNED_MAX: usize = if cfg!(test) { 2 } else { 4_096 };

impl Site {
    /// A timeline's incarnation and its last sequence.
    fn incarnation(&self, rows: &impl Source, target: &Target) -> Result<(u64, u64), Error> {
        let (_, head, _) = self.enter(rows, target)?;
        Ok((head.incarnation, head.last))
    }

    /// The head of a timeline as a user sees it, and the user.
    fn seen(
        &self,
        view: &View,
        name: &Name,
        epoch: Option<&str>,
        asker: &Asker,
    ) -> Result<(HeadRow, Reader), Error> {
        let (head, reader) = self.admit(view, name, epoch, asker)?;
        Ok((reader.sees(head), reader))
    }

    pub(super) fn get(&self, view: &View, target: Target) -> Result<TimelineInfo, Error> {
        let name = Name::new(&target.timeline);
        let (head, _) = self.seen(view, &name, target.epoch.as_deref(), &target.asker)?;
        Ok(self.info(view, target.timeline, &head)?)
    }

    pub(super) fn get_message(
        &self,
        view: &View,
        target: &Target,
        sequence: u64,
    ) -> Result<Message, Error> {
        let name = Name::new(&target.timeline);
        let epoch = target.epoch.as_deref();
        let (head, reader) = self.seen(view, &name, epoch, &target.asker)?;
        let mut message = load(view, &name, &head, sequence)?;
        growth::look_up(view, &name, &head, &mut message, None)?;
        let mut message = shown(message, &self.time);
        let reader = (target.asker.user(), &reader);
        look_up_own(view, (&name, &head), reader.0, [&mut message])?;
        unread::mask(view, (&name, &head), reader, [&mut message])?;
        Ok(message)
    }

    pub(super) fn range(&self, view: &View, mut range: Range) -> Result<Page, Error> {
        let name = Name::new(&range.timeline);
        let (head, reader) = self.seen(view, &name, range.epoch.as_deref(), &range.asker)?;
        let below = head.floor - 1;
        let (first, end) = if range.backward {
            let first = range.from.map_or(head.last, |from| from.min(head.last));
            (first, range.to.map_or(below, |to| to.max(below)))
        } else {
            let first = range.from.map_or(head.floor, |from| from.max(head.floor));
            let end = range.to.unwrap_or(u64::MAX).min(head.last + 1);
            (first, end)
        };
        if let Some(columns) = &mut range.columns {
            columns.sort_unstable();
            columns.dedup();
        }
        let mut room = Room {
            limit: range.limit,
            bytes: range.bytes_max,
            first_anyway: true,
        };
        let run = Run {
            name: &name,
            head: &head,
            first,
            end,
            backward: range.backward,
            columns: range.columns.as_deref(),
        };
        let (mut messages, next) = run.read(view, &mut room, &self.time)?;
        let reader = (range.asker.user(), &reader);
        look_up_own(view, (&name, &head), reader.0, &mut messages)?;
        unread::mask(view, (&name, &head), reader, &mut messages)?;
        Ok(Page {
            messages,
            next,
            head: self.epochs.head(&range.timeline, &head),
            closed: head.is_closed(),
        })
    }

    /// How a caller sees a timeline in lists; an unseen one is skipped without a word.
    pub(super) fn listed(
        &self,
        view: &View,
        timeline: &str,
        head: &HeadRow,
        asker: &Asker,
    ) -> Result<Option<Reader>, Error> {
        if head.dropped {
            return Ok(None);
        }
        match self.reader(view, &Name::new(timeline), head, asker) {
            Err(Error::TimelineNotFound) => Ok(None),
            reader => reader.map(Some),
        }
    }

    /// This partition's part of a list: up to `limit` timelines, and the name up to which that is all (`None` = to the
    /// end).
    fn list(&self, view: &View, list: &List) -> Result<(Vec<TimelineInfo>, Option<String>), Error> {
        let mut found = Vec::new();
        let mut scanned = 0;
        for (from, to) in segments(list) {
            for row in scan(view, &from, &to, Direction::Forward) {
                let (timeline, head) = HeadRow::named(&row?)?;
                if !timeline.starts_with(&list.prefix) {
                    return Ok((found, None));
                }
                scanned += 1;
                if let Some(reader) = self.listed(view, &timeline, &head, &list.asker)? {
                    if found.len() == list.limit {
                        let last: Option<&TimelineInfo> = found.last();
                        let reached = last.map(|info| info.timeline.clone());
                        return Ok((found, reached));
                    }
                    let seen = reader.sees(head);
                    found.push(self.info(view, timeline.clone(), &seen)?);
                }
                if scanned == HEADS_SCANNED_MAX {
                    return Ok((found, Some(timeline)));
                }
            }
        }
        Ok((found, None))
    }
}

/// The keys of heads to walk: above `after`, from the prefix on, without the server's own names and what nobody but
/// members may read.
fn segments(list: &List) -> Vec<(Key, Key)> {
    let heads = || Key::new(HEADS, &[], list.prefix.len() + 8);
    let start = match &list.after {
        Some(after) if *after >= list.prefix => heads().string(after).above_all(),
        _ => heads().string(&list.prefix),
    };
    covered::of_users(&list.asker.coverage(), (start, heads().above_all()))
}

impl Timelines {
    /// How many members a timeline has, and the last version of a change of them.
    pub async fn members_standing(&self, target: Target) -> Result<Standing, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        self.read(partition, move |view| {
            let (_, head, _) = site.enter(view, &target)?;
            Ok(head.membership())
        })
        .await
    }

    /// Which of its name a timeline is that the caller may read, and its last sequence.
    pub async fn incarnation(&self, target: Target) -> Result<(u64, u64), Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        self.read(partition, move |view| site.incarnation(view, &target))
            .await
    }

    /// Reads in the writer's turn: behind the writes that were queued before, and in front of those that come after.
    pub(super) fn read_in_turn<R, F>(
        &self,
        timeline: &str,
        read: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&Txn<'_>, &Site) -> Result<R, Error> + Send + 'static,
    {
        let partition = self.place(timeline);
        self.submit(Purpose::Adds, partition, SMALL_BYTES, |txn, site| {
            read(txn, site)
        })
    }

    /// As [`Timelines::incarnation`], behind the writes that were queued before.
    pub fn incarnation_in_turn(
        &self,
        target: Target,
    ) -> impl Future<Output = Result<(u64, u64), Error>> + Send + use<> {
        let timeline = target.timeline.clone();
        self.read_in_turn(&timeline, move |txn, site| site.incarnation(txn, &target))
    }

    /// What is known of a timeline.
    pub async fn get(&self, target: Target) -> Result<TimelineInfo, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        self.read(partition, move |view| site.get(view, target))
            .await
    }

    /// One message, also a tombstone.
    pub async fn get_message(&self, target: Target, sequence: u64) -> Result<Message, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        let inbox_of = Timelines::inbox_asker(&target.asker, &target.timeline);
        let read = self.read(partition, move |view| {
            site.get_message(view, &target, sequence)
        });
        let mut message = read.await?;
        if let Some(asker) = inbox_of {
            self.hide_entries(&asker, [&mut message], &Roles::default())
                .await?;
        }
        Ok(message)
    }

    /// A page of messages.
    pub async fn range(&self, mut range: Range) -> Result<Page, Error> {
        let partition = self.place(&range.timeline);
        let site = self.site(partition);
        let inbox_of = Timelines::inbox_asker(&range.asker, &range.timeline);
        // What an entry names is decided whatever is asked for of it.
        let inbox_of = inbox_of.map(|asker| (asker, range.columns.take()));
        let read = self.read(partition, move |view| site.range(view, range));
        let mut page = read.await?;
        if let Some((asker, columns)) = inbox_of {
            self.hide_entries(&asker, &mut page.messages, &Roles::default())
                .await?;
            let entries = page
                .messages
                .iter_mut()
                .filter_map(|one| one.entry.as_mut());
            for (entry, columns) in entries.zip(std::iter::repeat(columns.as_ref())) {
                entry.retain(|(name, _)| columns.is_none_or(|columns| columns.contains(name)));
            }
        }
        Ok(page)
    }

    /// The timelines of all partitions in the order of their names.
    pub async fn list(&self, mut list: List) -> Result<Listed, Error> {
        loop {
            let mut found = Vec::new();
            // Up to where the answers of all partitions are complete.
            let mut complete: Option<String> = None;
            for partition in self.partitions() {
                let (site, part) = (self.site(partition), list.clone());
                let (timelines, reached) = self
                    .read(partition, move |view| site.list(view, &part))
                    .await?;
                found.extend(timelines);
                complete = match (complete, reached) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            found.sort_unstable_by(|a, b| a.timeline.cmp(&b.timeline));
            let mut next = complete;
            if let Some(bound) = &next {
                found.retain(|info| info.timeline <= *bound);
            }
            let kept = that_fit(&found, &list);
            if kept < found.len() {
                found.truncate(kept);
                next = found.last().map(|info| info.timeline.clone());
            }
            // Where rights are decided, one call skips a bounded number of hidden ones.
            if !found.is_empty() || next.is_none() || list.asker.claim().is_some() {
                let last = found.last().map(|info| info.timeline.clone());
                return Ok(Listed {
                    next: next.map(|reached| last.unwrap_or(reached)),
                    timelines: found,
                });
            }
            // Nothing but deleted or hidden timelines so far: go on behind them with fresh views.
            list.after = next;
        }
    }
}

/// How many of the first go into the page; at least one.
fn that_fit(found: &[TimelineInfo], list: &List) -> usize {
    let mut bytes = list.bytes_max;
    let fits = |info: &&TimelineInfo| {
        let size = json_bytes(&info.meta) + info.timeline.len() * 2 + 512;
        let fits = size <= bytes;
        bytes = bytes.saturating_sub(size);
        fits
    };
    let count = found.iter().take(list.limit).take_while(fits).count();
    count.max(1).min(found.len())
}
