//! Writing to a timeline: making, appending, editing, deleting, trimming; in this file what these share.
//!
//! Owns: the life of a timeline and its meta. Promises: every write but the scheduling of a message puts the head row,
//! so that a follower of the log knows the state of each timeline in it; delete and trim write one small row whatever
//! they give up; an incarnation is above every earlier one of its name. Must not: read rows for a reader.

pub(super) mod append;
pub(super) mod create;
pub(super) mod edit;
pub(super) mod make_ids;

use tideline_base::ids::{PartitionId, Position};
use tideline_model::{Value, json_bytes};
use tideline_table::{Action, ReadError, Source, Txn, damaged, delete, put, record};

use super::growth::{self, Heard};
use super::members::{Configured, Policies};
use super::rows::drop_rules::Window;
use super::rows::epoch::Epochs;
use super::rows::head::HeadRow;
use super::rows::stored::MetaRow;
use super::rows::tables::{METAS, Name};
use super::time::{Alarm, Time};
use super::{Columns, EntryLimits, Error, Meta, Room, Target, TimelineInfo, Timelines, UpdateMeta};

/// What a call knows of where it runs.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) partition: PartitionId,
    pub(super) epochs: std::sync::Arc<Epochs>,
    pub(super) window: Window,
    pub(super) policies: Policies,
    pub(super) time: std::sync::Arc<Time>,
    pub(super) room: std::sync::Arc<Room>,
}

impl Site {
    /// Whether messages of the partition that go into inboxes are taken now.
    pub(super) fn has_room(&self) -> bool {
        self.room.get().is_none_or(|room| room(self.partition))
    }

    /// Where due rows of the partition are noted.
    pub(super) fn alarm(&self) -> std::sync::Arc<Alarm> {
        self.time.alarm(self.partition)
    }

    /// When open messages of the partition were heard.
    pub(super) fn heard(&self) -> std::sync::Arc<Heard> {
        self.time.heard(self.partition)
    }

    pub(super) fn epoch(&self, name: &Name, head: &HeadRow) -> Result<String, ReadError> {
        let timeline = name.text();
        let timeline = timeline.map_err(|_| damaged(name.head_key().as_bytes(), "not a name"))?;
        Ok(self.epochs.text(&timeline, head.incarnation))
    }

    /// Refuses if an epoch is given that is not the head's.
    pub(super) fn check_epoch(
        &self,
        name: &Name,
        head: &HeadRow,
        epoch: Option<&str>,
    ) -> Result<(), Error> {
        let Some(epoch) = epoch else {
            return Ok(());
        };
        let actual = self.epoch(name, head)?;
        if actual == epoch {
            Ok(())
        } else {
            Err(Error::EpochChanged { actual })
        }
    }

    /// For what may create a timeline: with an epoch it never does, because then the caller means one that existed.
    pub(super) fn check_epoch_or_create(
        &self,
        name: &Name,
        existing: &Option<HeadRow>,
        create: bool,
        epoch: Option<&str>,
    ) -> Result<(), Error> {
        match (existing, epoch) {
            (Some(head), epoch) => self.check_epoch(name, head, epoch),
            (None, _) if !create => Err(Error::TimelineNotFound),
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Error::EpochChanged {
                actual: String::new(),
            }),
        }
    }

    pub(super) fn update(
        &self,
        txn: &mut Txn<'_>,
        update: UpdateMeta,
    ) -> Result<(Meta, u64), Error> {
        let name = Name::new(&update.timeline);
        let (head, _) = self.admit(txn, &name, update.epoch.as_deref(), &update.asker)?;
        let mut row = load_meta(txn, &name)?;
        if update
            .expect_version
            .is_some_and(|version| version != row.version)
        {
            return Err(Error::ConditionFailed {
                actual: row.version,
            });
        }
        merge(&mut row.meta, update.set, &update.remove);
        check_size(&row.meta, update.limits)?;
        row.version += 1;
        row.updated_at = txn.now_ms().max(row.updated_at);
        let entry = put(txn, name.meta_key(), row.encode(), version(row.updated_at));
        put_head(txn, &name, &head);
        record(txn, METAS, Action::Update, entry, 1);
        Ok((row.meta, row.version))
    }

    pub(super) fn delete(&self, txn: &mut Txn<'_>, target: &Target) -> Result<bool, Error> {
        let (name, head, _) = match self.enter(txn, target) {
            Err(Error::TimelineNotFound) => return Ok(false),
            admitted => admitted?,
        };
        put_head(txn, &name, &HeadRow::dropped(head.incarnation));
        delete(txn, name.meta_key());
        Ok(true)
    }

    pub(super) fn trim(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        before: u64,
    ) -> Result<u64, Error> {
        let (name, mut head, reader) = self.enter(txn, target)?;
        let floor = before.min(head.last + 1);
        if floor > head.floor {
            let before = std::mem::replace(&mut head.floor, floor);
            growth::trimmed(txn, &name, &mut head, before)?;
            put_head(txn, &name, &head);
        }
        Ok(reader.floor.max(head.floor))
    }

    /// What is returned of a timeline that exists.
    pub(super) fn info(
        &self,
        rows: &impl Source,
        timeline: String,
        head: &HeadRow,
    ) -> Result<TimelineInfo, ReadError> {
        let name = Name::new(&timeline);
        let meta = load_meta(rows, &name)?;
        let configured = self.configured(rows, &name, head)?;
        Ok(self.epochs.info(timeline, head, meta, configured))
    }
}

impl Epochs {
    /// What is known of a timeline by its rows.
    pub(super) fn info(
        &self,
        timeline: String,
        head: &HeadRow,
        meta: MetaRow,
        configured: Configured,
    ) -> TimelineInfo {
        let shown = self.head(&timeline, head);
        TimelineInfo {
            timeline,
            epoch: shown.epoch,
            meta: meta.meta,
            version: meta.version,
            head: shown.head,
            floor: shown.floor,
            change_head: shown.change_head,
            created_at: meta.created_at,
            updated_at: meta.updated_at,
            last_at: (head.last > 0).then_some(head.last_at),
            closed: head.is_closed(),
            settings: configured.settings.with_defaults(),
            settings_version: configured.version,
            members_count: u64::from(head.members),
        }
    }
}

/// The head of a timeline that begins in this batch. `found` is what an earlier one of its name left.
///
/// The incarnation is the place of its making: batch and closure. Only inboxes that one closure makes share one. (Those
/// of before were the batch's position alone, which is below every place from then on.)
pub(super) fn new_head(txn: &Txn<'_>, found: Option<HeadRow>) -> HeadRow {
    let earlier = found.map_or(0, |head| head.incarnation);
    HeadRow::new(Timelines::place_of(txn).max(earlier + 1))
}

impl Timelines {
    /// The place of a closure in its partition's log: batch and turn. No two closures have the same, and it rises.
    #[must_use]
    pub fn place_of(txn: &Txn<'_>) -> u64 {
        let turn = u64::from(txn.turn());
        assert!(turn < 1 << TURN_BITS, "more closures than a batch takes");
        txn.position().0 << TURN_BITS | turn
    }
}

/// Whether the timeline with this incarnation was made in the batch at a position.
pub(super) fn is_made_at(incarnation: u64, position: Position) -> bool {
    made_at(incarnation) == position
}

/// The batch in which the timeline with this incarnation was made.
pub(super) fn made_at(incarnation: u64) -> Position {
    Position(incarnation >> TURN_BITS)
}

/// Far above what `commit_jobs_max` and `requests_in_flight_max` together let into one batch.
const TURN_BITS: u32 = 20;

pub(super) fn put_head(txn: &mut Txn<'_>, name: &Name, head: &HeadRow) {
    let now = version(txn.now_ms());
    head.store(txn, name, now);
}

/// Writes the meta of a timeline that begins.
pub(super) fn put_new_meta(txn: &mut Txn<'_>, name: &Name, meta: Meta) -> MetaRow {
    let now = txn.now_ms();
    let row = MetaRow {
        meta,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    put(txn, name.meta_key(), row.encode(), version(now));
    row
}

/// The meta of a timeline that exists.
pub(super) fn load_meta(rows: &impl Source, name: &Name) -> Result<MetaRow, ReadError> {
    let key = name.meta_key();
    let value = rows
        .row(&key)?
        .ok_or_else(|| damaged(key.as_bytes(), "the timeline exists without its meta"))?;
    MetaRow::decode(&value).map_err(|_| damaged(key.as_bytes(), "not a meta"))
}

/// Refuses what would append to a closed timeline.
pub(super) fn check_open(head: &HeadRow) -> Result<(), Error> {
    match head.is_closed() {
        true => Err(Error::TimelineClosed),
        false => Ok(()),
    }
}

/// Brings columns into the order of the store.
pub(super) fn sort(columns: &mut [(String, Value)]) {
    if !columns.is_sorted_by(|a, b| a.0 < b.0) {
        columns.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    }
}

/// Merges new values into sorted columns and takes names out.
pub fn merge(columns: &mut Columns, set: Columns, remove: &[String]) {
    columns.retain(|(name, _)| !remove.contains(name));
    for (name, value) in set {
        match columns.binary_search_by(|(other, _)| other.cmp(&name)) {
            Ok(at) => columns[at].1 = value,
            Err(at) => columns.insert(at, (name, value)),
        }
    }
}

/// Refuses columns that grew beyond the limits.
pub(super) fn check_size(columns: &Columns, limits: EntryLimits) -> Result<(), Error> {
    let EntryLimits {
        entry_bytes_max,
        entry_names_max,
    } = limits;
    check_limits([
        ("entry_names_max", entry_names_max, columns.len()),
        ("entry_bytes_max", entry_bytes_max, json_bytes(columns)),
    ])
}

/// Refuses what is above one of these limits; each with its name.
pub fn check_limits<const N: usize>(limits: [(&'static str, u64, usize); N]) -> Result<(), Error> {
    for (limit, allowed, actual) in limits {
        let actual = actual as u64;
        if actual > allowed {
            return Err(Error::TooLarge {
                limit,
                limit_bytes: allowed,
                actual_bytes: actual,
            });
        }
    }
    Ok(())
}

/// A time as a cell's version.
pub(super) fn version(ms: u64) -> i64 {
    ms.cast_signed()
}
