//! What committed batches did to timelines, one change after the other, for readers that follow many of them.
//!
//! Owns: reading changes out of a batch's entries and change records. Promises: the batch alone is enough, so reading
//! it again gives the same; each change once, in the order of its timeline: of a message that a batch changed more than
//! once the newest form, where the last change is. A place in a batch counts what the batch holds, whatever timelines
//! are asked for. Must not: show the server's own timelines, or an entry that has expired.
//!
//! A place's number counts the batch's entries first (a timeline is made or deleted where its head is), then the
//! entries that its change records name.

mod touched;

use tideline_base::ids::{PartitionId, Position};
use tideline_base::ordered::Reader;
use tideline_model::{json_bytes, json_text_bytes};
use tideline_table::{Batch, FollowError, Malformed, PageBounds, Place, ReadError, Tail};

use super::marks::Sums;
use super::members::settings_row::SettingsRow;
use super::members::{MemberRow, Settings};
use super::rows::head::HeadRow;
use super::rows::stored;
use super::rows::stored::MetaRow;
use super::rows::tables::{Name, incarnation_of};
use super::time::shown;
use super::write::{Site, is_made_at};
use super::{Message, Meta, Reaction, Standing, Timelines};
use touched::{Kind, Seen, Touched};

/// A change of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineChange {
    /// The timeline's ID.
    pub timeline: String,
    /// Its epoch.
    pub epoch: String,
    /// What happened.
    pub what: What,
}

/// What happened to a timeline.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It was made.
    Created {
        /// Its meta.
        meta: Meta,
        /// The meta's version.
        version: u64,
        /// ms.
        created_at: u64,
    },
    /// It was deleted.
    Deleted,
    /// A message was appended; the last sequence then.
    Appended(Message, u64),
    /// A message was edited, deleted or pinned. Without its reactions.
    Changed(Message),
    /// The reactions to a message changed.
    Reacted {
        /// The message.
        sequence: u64,
        /// The number of the change.
        change: u64,
        /// All that there are now.
        reactions: Vec<Reaction>,
    },
    /// The meta was updated.
    Updated {
        /// The whole new meta.
        meta: Meta,
        /// Its version.
        version: u64,
    },
    /// The settings were changed.
    Configured {
        /// Those in force.
        settings: Box<Settings>,
        /// Their version.
        version: u64,
    },
    /// A member came, changed or, without a row, went.
    Member {
        /// The user.
        user: String,
        /// As they are now.
        row: Option<Box<MemberRow>>,
        /// All members.
        standing: Standing,
    },
    /// A member has read.
    Read {
        /// The user.
        user: String,
        /// Up to here they have read.
        read: u64,
        /// Up to here they have received.
        received: u64,
    },
}

/// Changes of timelines in one partition, in order.
#[derive(Clone, Debug)]
pub struct ChangesPage {
    /// The changes.
    pub changes: Vec<TimelineChange>,
    /// Behind the last of them, and behind all that was looked at.
    pub next: Place,
    /// Whether the page ended before the log did.
    pub is_more: bool,
}

/// How much of the log is read at once, and for one page.
const READ_BYTES: usize = 1 << 20;
const SCANNED_BYTES_MAX: usize = 8 << 20;

/// A control of the tests: pages of exactly this many bytes lose the next change where they end within a batch.
#[cfg(test)]
pub(crate) const PLANTED_PAGE_BYTES: usize = 777_777;

impl Timelines {
    /// Reads changes of the timelines whose IDs begin with `prefix`, from a place in a partition's log on.
    pub async fn changes(
        &self,
        partition: PartitionId,
        place: Place,
        prefix: &str,
        bounds: PageBounds,
    ) -> Result<ChangesPage, FollowError> {
        let Some(tail) = self.inner.partitions.log(partition) else {
            return Err(FollowError::PositionLost);
        };
        if place.position < tail.first() {
            return Err(FollowError::PositionLost);
        }
        let (site, prefix, log) = (self.site(partition), prefix.to_owned(), tail.clone());
        let read = move || site.read_changes(&log, place, &prefix, bounds);
        let page = self.inner.partitions.read_logs(read).await;
        let mut page = page.map_err(|error| match place.position < tail.first() {
            true => FollowError::PositionLost,
            false => error.into(),
        })?;
        for change in &mut page.changes {
            if let What::Appended(message, _) = &mut change.what {
                self.mark(&change.timeline, std::iter::once(message));
            }
        }
        Ok(page)
    }
}

impl Site {
    /// May block on the disk.
    fn read_changes(
        &self,
        tail: &Tail,
        from: Place,
        prefix: &str,
        bounds: PageBounds,
    ) -> Result<ChangesPage, ReadError> {
        let mut page = Taken {
            changes: Vec::new(),
            bytes: 0,
            bounds,
        };
        let (mut next, mut scanned) = (from, 0);
        loop {
            let before = Position(next.position.0 - 1);
            let batches = tail.batches(before, READ_BYTES)?;
            let mut is_more = false;
            for batch in &batches {
                is_more = page.is_full() || scanned >= SCANNED_BYTES_MAX;
                if is_more {
                    break;
                }
                scanned += batch.bytes();
                let taken = self.take(batch, next, prefix, &mut page);
                let taken = taken
                    .map_err(|_| ReadError(format!("batch {}: not its changes", batch.position)))?;
                next = taken.unwrap_or_else(|| Place::before(batch.position.next()));
                is_more = taken.is_some();
                if is_more {
                    break;
                }
            }
            if is_more || batches.is_empty() {
                return Ok(ChangesPage {
                    changes: page.changes,
                    next,
                    is_more,
                });
            }
        }
    }

    /// Takes what is left of a batch behind `from`; where to go on if the page is full before its end.
    fn take(
        &self,
        batch: &Batch,
        from: Place,
        prefix: &str,
        page: &mut Taken,
    ) -> Result<Option<Place>, Malformed> {
        let first = match from.position == batch.position {
            true => from.index,
            false => 0,
        };
        let of = Touched::new(batch, prefix)?;
        for (number, seen) in of.in_order(batch)? {
            if number < first {
                continue;
            }
            if page.is_full() {
                #[cfg(test)]
                let number = number + u32::from(page.bounds.bytes == PLANTED_PAGE_BYTES);
                return Ok(Some(Place {
                    position: batch.position,
                    index: number,
                }));
            }
            if let Some(change) = self.change(batch, &of, &seen)? {
                page.push(change);
            }
        }
        Ok(None)
    }

    /// What one entry tells, if it tells something.
    fn change(
        &self,
        batch: &Batch,
        of: &Touched<'_>,
        seen: &Seen<'_>,
    ) -> Result<Option<TimelineChange>, Malformed> {
        let Seen {
            name,
            columns,
            value,
            ..
        } = *seen;
        let head = of.heads.get(name);
        let incarnation = match seen.kind {
            Kind::Head | Kind::Meta => head.map(|head| head.incarnation).ok_or(Malformed)?,
            _ => incarnation_of(columns)?.0,
        };
        // The batch may have deleted the timeline afterwards, and made another one of its name.
        let is_now = |head: &&HeadRow| !head.dropped && head.incarnation == incarnation;
        if seen.kind != Kind::Head && head.is_some_and(|head| !is_now(&head)) {
            return Ok(None);
        }
        let was_made = head.is_some_and(|head| is_made_at(head.incarnation, batch.position));
        let what = match seen.kind {
            Kind::Head => match head.filter(is_now) {
                None => Some(What::Deleted),
                Some(_) if was_made => of.meta(name)?.map(|meta| What::Created {
                    meta: meta.meta,
                    version: meta.version,
                    created_at: meta.created_at,
                }),
                Some(_) => None,
            },
            // A timeline that the batch makes is reported whole at the place of the making.
            Kind::Meta if was_made => None,
            Kind::Meta => Some(updated(MetaRow::decode(value)?)),
            Kind::Message(appended) => self.message(seen, head, appended)?,
            Kind::Reactions => reacted(seen, head)?,
            Kind::Settings => Some(self.settings(seen)?),
            Kind::Member => Some(of.member(seen, incarnation)?),
        };
        let timeline = Reader::new(name).string()?.into_owned();
        let epoch = self.epochs.text(&timeline, incarnation);
        Ok(what.map(|what| TimelineChange {
            timeline,
            epoch,
            what,
        }))
    }

    fn message(
        &self,
        seen: &Seen<'_>,
        head: Option<&HeadRow>,
        appended: bool,
    ) -> Result<Option<What>, Malformed> {
        let sequence = incarnation_of(seen.columns)?.1.u64()?;
        let head = head.ok_or(Malformed)?;
        if !head.holds(sequence) {
            return Ok(None); // trimmed away by the same batch
        }
        let message = shown(stored::message(sequence, seen.value, None)?, &self.time);
        Ok(Some(match appended {
            true => What::Appended(message, head.last),
            false => What::Changed(message),
        }))
    }

    fn settings(&self, seen: &Seen<'_>) -> Result<What, Malformed> {
        let row = SettingsRow::decode(seen.value)?;
        let settings = self.in_force(&Name::of(seen.columns)?, row.settings);
        Ok(What::Configured {
            settings: Box::new(settings),
            version: row.version,
        })
    }
}

fn updated(meta: MetaRow) -> What {
    What::Updated {
        version: meta.version,
        meta: meta.meta,
    }
}

fn reacted(seen: &Seen<'_>, head: Option<&HeadRow>) -> Result<Option<What>, Malformed> {
    let sequence = incarnation_of(seen.columns)?.1.u64()?;
    // A tombstone has none; it is a change of its own.
    let sums = Sums::decode(seen.value)?;
    let is_held = head.is_some_and(|head| head.holds(sequence));
    Ok(sums.filter(|_| is_held).map(|sums| What::Reacted {
        sequence,
        change: sums.change,
        reactions: sums.by_name,
    }))
}

/// A page while it is made.
struct Taken {
    changes: Vec<TimelineChange>,
    bytes: usize,
    bounds: PageBounds,
}

impl Taken {
    fn is_full(&self) -> bool {
        self.changes.len() >= self.bounds.count || self.bytes >= self.bounds.bytes
    }

    fn push(&mut self, change: TimelineChange) {
        self.bytes += change.json_bytes_about();
        self.changes.push(change);
    }
}

impl TimelineChange {
    /// About how many bytes it takes as compact JSON.
    fn json_bytes_about(&self) -> usize {
        let what = match &self.what {
            What::Created { meta, .. } | What::Updated { meta, .. } => json_bytes(meta),
            What::Appended(message, _) | What::Changed(message) => message.json_bytes_max(),
            What::Reacted { reactions, .. } => {
                let one = |one: &Reaction| {
                    let users = one.users.iter().map(|user| json_text_bytes(user) + 1);
                    44 + json_text_bytes(&one.name) + users.sum::<usize>()
                };
                reactions.iter().map(one).sum()
            }
            What::Member { user, row, .. } => {
                let attributes = row.as_ref().map_or(0, |row| json_bytes(&row.attributes));
                json_text_bytes(user) + attributes + 200
            }
            What::Read { user, .. } => json_text_bytes(user) + 80,
            What::Configured { .. } => 300,
            What::Deleted => 0,
        };
        // Kind, epoch, numbers.
        200 + json_text_bytes(&self.timeline) + what
    }
}
