//! Many timelines at once: which have news for a reader, and the news.
//!
//! Owns: `sync`. Promises: quiet timelines cost a look-up in memory; a reply ends at the caller's bytes and says so;
//! the one at `start` comes first, so that none starves if the caller begins elsewhere each time. Must not: wait for
//! news.

use std::borrow::Cow;

use tideline_base::ids::PartitionId;
use tideline_model::access::Asker;
use tideline_model::timelines::Grown;
use tideline_table::View;

use super::super::follow::heads::Found;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::Site;
use super::super::{
    Changed, Error, Head, Resume, ResumeState, SyncAsker, SyncPosition, SyncState, Synced,
    Timelines,
};
use super::admit_many::Roles;

/// Positions whose heads are looked up before their pages are read.
const LOOK_UPS: usize = 512;
/// Timelines that are read from one view.
const TIMELINES_PER_VIEW: usize = 32;
/// What a timeline costs in a reply beside its messages: names, numbers, epoch.
const FRAME_BYTES: usize = 256;

/// What a head tells about a position.
enum News {
    None,
    Some,
    /// There is none, or none for this reader.
    Deleted(SyncState),
}

impl Timelines {
    /// Those of `positions` that have news or are not of their timeline's history, beginning at index `start` and going
    /// round, as the asker sees them. Ends when about `bytes_max` are reached, and then says
    /// `true`: those not shown may have news too.
    pub async fn sync(
        &self,
        positions: &[SyncPosition<'_>],
        asker: SyncAsker<'_>,
        bytes_max: usize,
        start: usize,
    ) -> Result<(Vec<Synced>, bool), Error> {
        let (last, first) = positions.split_at(start.checked_rem(positions.len()).unwrap_or(0));
        let mut reply = Reply {
            synced: Vec::new(),
            bytes: bytes_max,
            is_full: false,
        };
        for chunk in first.chunks(LOOK_UPS).chain(last.chunks(LOOK_UPS)) {
            if reply.is_full {
                break;
            }
            for (partition, positions) in self.by_partition(chunk) {
                self.sync_partition(partition, &positions, asker, &mut reply)
                    .await?;
            }
        }
        Ok((reply.synced, reply.is_full))
    }

    async fn sync_partition(
        &self,
        partition: PartitionId,
        positions: &[SyncPosition<'_>],
        asker: SyncAsker<'_>,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let site = self.site(partition);
        let has_news = |index: usize, head: Option<&HeadRow>| {
            !matches!(site.news(&positions[index], head, asker), News::None)
        };
        let name = |index: usize| positions[index].timeline;
        let count = positions.len();
        let heads = self.head_rows(partition, count, name, has_news).await?;
        let mut asked = Vec::new();
        for (index, head) in heads {
            let position = &positions[index];
            match site.news(position, head.as_ref(), asker) {
                News::None => {}
                News::Some => asked.push(Resume {
                    timeline: position.timeline.to_owned(),
                    asker: asker.asker.clone(),
                    after: position.rewind.is_none().then_some(position.after),
                    rewind: position.rewind,
                    epoch: position.epoch.map(str::to_owned),
                    changes_after: position.changes_after,
                    open: position.open.to_vec(),
                    parts: false,
                    limit: asker.limit,
                    bytes_max: 0,
                }),
                News::Deleted(state) => reply.add(Synced {
                    timeline: position.timeline.to_owned(),
                    state,
                    page: None,
                }),
            }
        }
        let mut asked = asked.into_iter().peekable();
        while asked.peek().is_some() && !reply.is_full {
            let group: Vec<_> = asked.by_ref().take(TIMELINES_PER_VIEW).collect();
            let mut part = reply.empty();
            let site = site.clone();
            let part = self.read(partition, move |view| {
                site.sync(view, group, &mut part)?;
                Ok(part)
            });
            let mut part = part.await?;
            for Synced { timeline, page, .. } in &mut part.synced {
                if let (Some(asker), Some(page)) =
                    (Timelines::inbox_asker(asker.asker, timeline), page)
                {
                    self.hide_entries(&asker, page.shown_mut(), &Roles::default())
                        .await?;
                }
            }
            reply.join(part);
        }
        Ok(())
    }

    /// Positions by partition, that of the first position first.
    fn by_partition<'s, 'p>(
        &self,
        positions: &'s [SyncPosition<'p>],
    ) -> Vec<(PartitionId, Cow<'s, [SyncPosition<'p>]>)> {
        let place = |position: &SyncPosition<'_>| self.place(position.timeline);
        if let Some(partition) = positions.first().map(place)
            && positions.iter().all(|one| place(one) == partition)
        {
            return vec![(partition, Cow::Borrowed(positions))];
        }
        let mut parts: Vec<(PartitionId, Cow<'s, [SyncPosition<'p>]>)> = Vec::new();
        for position in positions {
            let partition = place(position);
            match parts.iter_mut().find(|(id, _)| *id == partition) {
                Some((_, part)) => part.to_mut().push(*position),
                None => parts.push((partition, Cow::Owned(vec![*position]))),
            }
        }
        parts
    }

    /// The head of a timeline, from memory where it can be; `None` if there is no such timeline.
    pub async fn head(&self, timeline: &str) -> Result<Option<Head>, Error> {
        let head = self.head_row(timeline).await?;
        Ok(head.map(|head| self.inner.epochs.head(timeline, &head)))
    }

    /// The same of a timeline that its user sees as everybody does; `None` also where only the store tells what they
    /// may see.
    pub async fn open_head(&self, timeline: &str, asker: &Asker) -> Result<Option<Head>, Error> {
        if !asker.reads_by_name(timeline.as_bytes()) {
            return Ok(None);
        }
        let partition = self.place(timeline);
        let site = self.site(partition);
        let heads = self.head_rows(partition, 1, |_| timeline, |_, _| true);
        let head = heads.await?.into_iter().next().and_then(|(_, head)| head);
        let is_open = |head: &HeadRow| {
            let bound = head.members > 0 || site.is_members_only(&Name::new(timeline), head);
            asker.user().is_empty() || !bound
        };
        let head = head.filter(is_open);
        Ok(head.map(|head| site.epochs.head(timeline, &head)))
    }

    /// Whether a timeline has messages that are open.
    pub async fn grows(&self, timeline: &str) -> Result<bool, Error> {
        let head = self.head_row(timeline).await?;
        Ok(head.is_some_and(|head| head.open > 0))
    }

    async fn head_row(&self, timeline: &str) -> Result<Option<HeadRow>, Error> {
        let partition = self.place(timeline);
        let heads = self.head_rows(partition, 1, |_| timeline, |_, _| true);
        Ok(heads.await?.into_iter().next().and_then(|(_, head)| head))
    }

    /// The heads of existing timelines of one partition, of which there are `count` names: in order, those that
    /// `matter`.
    pub(in super::super) async fn head_rows<'n>(
        &self,
        partition: PartitionId,
        count: usize,
        name: impl Fn(usize) -> &'n str,
        matter: impl Fn(usize, Option<&HeadRow>) -> bool,
    ) -> Result<Found, Error> {
        let names = (0..count).map(&name);
        let (mut heads, asked) = self.heads().look_up(partition, names, &matter);
        if asked.is_empty() {
            return Ok(heads);
        }
        let names: Vec<_> = asked
            .iter()
            .map(|asked| Name::new(name(asked.index)))
            .collect();
        let wanted = names.clone();
        let read = self
            .read(partition, move |view| {
                let rows = wanted.iter().map(|name| HeadRow::existing(view, name));
                Ok(rows.collect::<Result<Vec<_>, _>>()?)
            })
            .await?;
        for ((asked, name), head) in asked.iter().zip(&names).zip(read) {
            if matter(asked.index, head.as_ref()) {
                heads.push((asked.index, head));
            }
            self.heads().settle(partition, name.as_bytes(), asked, head);
        }
        heads.sort_unstable_by_key(|(index, _)| *index);
        Ok(heads)
    }
}

impl Site {
    fn news(
        &self,
        position: &SyncPosition<'_>,
        head: Option<&HeadRow>,
        asker: SyncAsker<'_>,
    ) -> News {
        let Some(head) = head else {
            let state = without_page(position.timeline, asker.asker);
            if state == SyncState::Forbidden {
                return News::Deleted(state);
            }
            // The reader never had anything of it: nothing yet.
            let is_new = position.after == 0 && position.epoch.is_none();
            return if is_new {
                News::None
            } else {
                News::Deleted(state)
            };
        };
        if position.rewind.is_some() {
            return if head.last > 0 {
                News::Some
            } else {
                News::None
            };
        }
        let is_foreign = position
            .epoch
            .is_some_and(|epoch| !self.epochs.is(epoch, position.timeline, head.incarnation));
        let has_changes = position
            .changes_after
            .is_some_and(|after| head.change > after);
        // Whether they may still read only their row tells.
        let is_bound = || {
            let name = Name::new(position.timeline);
            match asker.is_member {
                true => !asker.asker.reads_in_any_role(name.id()),
                false if !asker.asker.reads_by_name(name.id()) => true,
                false => !asker.asker.user().is_empty() && self.is_members_only(&name, head),
            }
        };
        let asks_parts = !position.open.is_empty();
        if is_foreign || has_changes || asks_parts || head.last != position.after || is_bound() {
            News::Some
        } else {
            News::None
        }
    }

    /// Reads pages until the part is full.
    fn sync(&self, view: &View, asked: Vec<Resume>, part: &mut Reply) -> Result<(), Error> {
        for mut resume in asked {
            resume.bytes_max = part.bytes.saturating_sub(FRAME_BYTES);
            let is_first = part.synced.is_empty();
            let page = match self.resume(view, &resume, (0, is_first)) {
                Ok(page) => page,
                Err(Error::TimelineNotFound) => {
                    let state = without_page(&resume.timeline, &resume.asker);
                    // Deleted since its head was looked up; a reader that had nothing of it yet need not hear of that.
                    if state == SyncState::Forbidden || !resume.is_from_nothing() {
                        part.add(Synced {
                            timeline: resume.timeline,
                            state,
                            page: None,
                        });
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            if is_quiet(&resume, &page) {
                continue;
            }
            let got_nowhere = page.more
                && page.messages.is_empty()
                && page.grown.is_empty()
                && page.changed.iter().all(Vec::is_empty)
                && resume
                    .changes_after
                    .is_none_or(|after| page.change_position <= after);
            if got_nowhere || (part.bytes < FRAME_BYTES && !is_first) {
                part.is_full = true;
                return Ok(());
            }
            part.add(Synced {
                timeline: resume.timeline,
                state: match page.state {
                    ResumeState::Ok if resume.rewind.is_some() => SyncState::New,
                    state => state.into(),
                },
                page: Some(page),
            });
        }
        Ok(())
    }
}

/// The state of a timeline that is not there for a reader. It depends on the reader's rights by name alone, so a reader
/// without them does not learn whether the timeline exists.
fn without_page(timeline: &str, asker: &Asker) -> SyncState {
    match asker.reads_by_name(timeline.as_bytes()) {
        true => SyncState::Deleted,
        false => SyncState::Forbidden,
    }
}

/// Whether a page was read only to learn that its reader may still have it.
fn is_quiet(resume: &Resume, page: &Changed) -> bool {
    page.state == ResumeState::Ok
        && !page.more
        && page.messages.is_empty()
        && page.grown.is_empty()
        && page.changed.iter().all(Vec::is_empty)
        && resume.after == Some(page.head.head)
        && resume
            .changes_after
            .is_none_or(|after| after >= page.head.change_head)
}

/// A reply while it is being filled.
struct Reply {
    synced: Vec<Synced>,
    /// Room that is left.
    bytes: usize,
    /// Something did not fit.
    is_full: bool,
}

impl Reply {
    fn add(&mut self, synced: Synced) {
        let messages = |page: &Changed| {
            let changed = page.changed.iter().flatten();
            let messages = page.messages.iter().chain(changed);
            let grown = page.grown.iter();
            let grown = grown.map(|one| Grown::json_bytes_max(&one.text));
            messages
                .map(super::super::Message::json_bytes_max)
                .chain(grown)
                .sum::<usize>()
        };
        let bytes = FRAME_BYTES + synced.timeline.len() + synced.page.as_ref().map_or(0, messages);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.synced.push(synced);
    }

    /// A part for what still has room here. It may exceed the room only if nothing is here yet.
    fn empty(&self) -> Reply {
        Reply {
            synced: Vec::new(),
            bytes: self.bytes,
            is_full: false,
        }
    }

    fn join(&mut self, part: Reply) {
        self.synced.extend(part.synced);
        self.bytes = part.bytes;
        self.is_full = part.is_full;
    }
}
