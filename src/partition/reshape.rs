//! Partitions become others: each that begins is made whole from those that end, and then all of them count at once.
//!
//! Owns: how a new partition is made: its log, its image, which rows it takes over. Promises: those that end are not
//! changed; whatever ends when, a start finds the partitions of before or those of after, whole; a row that has no
//! place, or is not where it should be, ends the change before anything counts. Must not: know what a row means (the
//! rules say whose it is), or wait for what must be done before (the relay, long work).

use std::fmt;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::map::Share;
use super::plan::{Outcome, Reshape};
use super::shared::Shared;
use super::{Direction, OpenError, Owner, Partitions, ReadError, Rows, Rules, View, identity};
use crate::entry::Entry;
use crate::ids::{PartitionId, Position};
use crate::image::Image;
use crate::log::{self, LocalStorage};

/// What a reshape would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// How many partitions end.
    pub ending: usize,
    /// Bytes that are to be written, about.
    pub bytes: u64,
    /// Bytes that there is room for on the disk; `None` = it does not say.
    pub room: Option<u64>,
}

impl Estimate {
    /// Refuses what there is no room for.
    pub fn check(&self) -> Result<(), OpenError> {
        let needed = self.bytes + self.bytes / 8 + ROOM_BYTES;
        match self.room {
            Some(room) if room < needed => Err(refused(format!(
                "{needed} bytes are needed, and the disk has room for {room}"
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate {
            ending,
            bytes,
            room,
        } = self;
        let end = match ending {
            1 => "partition ends",
            _ => "partitions end",
        };
        write!(out, "{ending} {end}; about {bytes} bytes are written anew")?;
        match room {
            Some(room) => write!(out, ", the disk has room for {room}"),
            None => Ok(()),
        }
    }
}

/// Beside the rows: what new files take, and what the rest of the server may write meanwhile.
const ROOM_BYTES: u64 = 64 << 20;

impl Partitions {
    /// What a reshape would take. May block on the disk.
    #[must_use]
    pub fn estimate(&self, reshape: &Reshape) -> Estimate {
        let parents = reshape.parents(&self.map());
        let mut estimate = Estimate {
            ending: parents.len(),
            bytes: 0,
            room: None,
        };
        for parent in parents {
            let Some(partition) = self.at(parent) else {
                continue;
            };
            let figures = partition.figures();
            estimate.bytes += figures.image.bytes_used + figures.memtable_bytes as u64;
            estimate.room = crate::disk::left(&self.directory().log(parent), 0);
        }
        estimate
    }

    /// Makes the partitions own other ranges from the next opening on. Until then these go on, but whatever is written
    /// from now on is lost: nothing must be. The relay must be through, and so must be what is long work of it. With
    /// `keeps_logs` the logs of those that end stay, for readers of streams. Blocks.
    pub fn reshape(&self, reshape: &Reshape, keeps_logs: bool) -> Result<(), OpenError> {
        let estimate = self.estimate(reshape);
        estimate.check()?;
        let map = self.map();
        let ends = |id| self.at(id).map_or(Position::ZERO, |one| one.tail());
        let outcome = reshape.outcome(&map, &ends, keeps_logs).map_err(refused)?;
        if outcome.parents.is_empty() {
            return Ok(());
        }
        tracing::info!(ending = ?outcome.parents, beginning = ?outcome.children, bytes = estimate.bytes, "partitions become others");
        self.directory().draft(&outcome.map)?;
        #[cfg(any(test, feature = "faults"))]
        if self.inner.options.fault == Some(super::Fault::MapFirst) {
            self.directory().replace(outcome.map.clone())?;
            self.directory().draft(&outcome.map)?;
            // Long enough for a kill.
            std::thread::sleep(Duration::from_millis(500));
        }
        for child in &outcome.children {
            self.make(*child, &outcome)?;
        }
        self.directory().replace(outcome.map)
    }

    /// Makes a partition that is to begin.
    fn make(&self, id: PartitionId, outcome: &Outcome) -> Result<(), OpenError> {
        let share = outcome.map.share(id).expect("a child is in the map");
        let mut parents = Vec::new();
        let mut after_us = 0;
        for parent in &outcome.parents {
            let old = outcome.map.share(*parent).expect("it was there");
            if old.first <= share.last && old.last >= share.first {
                let partition = self
                    .at(*parent)
                    .ok_or_else(|| refused(format!("there is no partition {parent}")))?;
                let view = partition.view().map_err(damaged)?;
                after_us = after_us.max(last_us(&partition).map_err(damaged)?);
                parents.push((old.clone(), view, partition));
            }
        }
        let directory = self.directory();
        let (log_folder, image_folder) = (directory.log(id), directory.image(id));
        let storage = LocalStorage::new(&log_folder)
            .map_err(|error| OpenError::from_io("make", &log_folder, error))?;
        let log = log::begin(&storage, share.begins, after_us)
            .map_err(|error| OpenError::from(error).within(&log_folder))?;
        let within = |error| OpenError::from(error).within(&image_folder);
        let rules = Arc::clone(&self.inner.rules);
        let options = self.inner.options.image.clone();
        let image = Image::open(&image_folder, options, Arc::clone(&rules)).map_err(within)?;
        let level = parents.iter().map(|(_, _, one)| one.image().oldest_level());
        let level = level.max().unwrap_or(0);
        let from = parents.iter().map(|(old, view, _)| (old, view));
        let mut rows = Inherited::new(share, from, &*rules);
        let covered = Position(share.begins.0 - 1);
        if covered > Position::ZERO {
            image.load(covered, level, &mut rows).map_err(within)?;
        }
        rows.ended()?;
        identity::set_mark(&directory, (id, &outcome.map), &image, log)
    }
}

/// The time of a partition's newest batch, µs since 1970; 0 if there is none. May block on the disk.
pub(super) fn last_us(partition: &Shared) -> Result<u64, ReadError> {
    let Some(before) = partition.tail().0.checked_sub(1) else {
        return Ok(0);
    };
    let last = partition.batches(Position(before), 1)?;
    Ok(last.last().map_or(0, |batch| batch.commit_us()))
}

fn refused(what: String) -> OpenError {
    OpenError::NotReshaped { text: what }
}

fn damaged(error: ReadError) -> OpenError {
    OpenError::Damaged { text: error.0 }
}

/// The rows that a partition takes over, in order.
struct Inherited<'v> {
    share: &'v Share,
    parents: Vec<Parent<'v>>,
    rules: &'v dyn Rules,
    failed: Option<OpenError>,
    rows: u64,
    bytes: u64,
    told: Instant,
}

struct Parent<'v> {
    share: &'v Share,
    rows: Peekable<Rows<'v>>,
}

/// How often it is told how far a partition is.
const TELL_EVERY: Duration = Duration::from_secs(10);

impl<'v> Inherited<'v> {
    fn new(
        share: &'v Share,
        parents: impl Iterator<Item = (&'v Share, &'v View)>,
        rules: &'v dyn Rules,
    ) -> Inherited<'v> {
        let all = |view: &'v View| {
            let rows = view.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
            rows.peekable()
        };
        let parent = |(share, view)| Parent {
            share,
            rows: all(view),
        };
        Inherited {
            share,
            parents: parents.map(parent).collect(),
            rules,
            failed: None,
            rows: 0,
            bytes: 0,
            told: Instant::now(),
        }
    }

    /// All were given, or this ended it.
    fn ended(self) -> Result<(), OpenError> {
        tracing::info!(partition = %self.share.id, rows = self.rows, bytes = self.bytes, "a partition was made");
        self.failed.map_or(Ok(()), Err)
    }

    /// The next key that a parent has, and its row in each.
    fn next_key(&mut self) -> Result<Option<(Bytes, Vec<Option<Bytes>>)>, OpenError> {
        let mut lowest: Option<Bytes> = None;
        for parent in &mut self.parents {
            match parent.rows.peek() {
                Some(Ok((key, _))) if lowest.as_ref().is_none_or(|lowest| key < lowest) => {
                    lowest = Some(key.clone());
                }
                Some(Err(error)) => return Err(damaged(error.clone())),
                _ => {}
            }
        }
        let Some(lowest) = lowest else {
            return Ok(None);
        };
        let is_it =
            |row: &Result<(Bytes, Bytes), ReadError>| matches!(row, Ok((key, _)) if *key == lowest);
        let take = |parent: &mut Parent<'_>| Some(parent.rows.next_if(is_it)?.ok()?.1);
        let rows = self.parents.iter_mut().map(take).collect();
        Ok(Some((lowest, rows)))
    }

    /// What the partition has under a key; `None` = nothing.
    fn own(&self, key: &[u8], mut rows: Vec<Option<Bytes>>) -> Result<Option<Bytes>, OpenError> {
        let table = self.rules.table(key).0;
        let shown = || key[..key.len().min(64)].escape_ascii();
        match self.rules.owner(key) {
            Some(Owner::Hash(hash)) => {
                let mut with_rows = self.parents.iter().zip(&rows);
                if with_rows.any(|(parent, row)| row.is_some() && !parent.share.owns(hash)) {
                    return Err(refused(format!(
                        "a row of table {table} is not where it belongs: {}",
                        shown()
                    )));
                }
                let found = rows.into_iter().flatten().next();
                Ok(found.filter(|_| self.share.owns(hash)))
            }
            Some(Owner::Each) if rows.len() == 1 => Ok(rows.remove(0)),
            Some(Owner::Each) => Ok(self.rules.unite(key, &rows)),
            Some(Owner::Nobody) => Ok(None),
            Some(Owner::Unfinished) => Err(refused(format!(
                "work is left to do in table {table} ({}); serve the directory for a while and try again",
                shown()
            ))),
            None => Err(refused(format!(
                "nobody says which partition a row of table {table} belongs to: {}",
                shown()
            ))),
        }
    }
}

impl Iterator for Inherited<'_> {
    type Item = (Bytes, Entry);

    fn next(&mut self) -> Option<(Bytes, Entry)> {
        loop {
            let found = self.next_key().and_then(|next| match next {
                None => Ok(None),
                Some((key, rows)) => Ok(Some((self.own(&key, rows)?, key))),
            });
            match found {
                Ok(None) => return None,
                Ok(Some((None, _))) => {}
                Ok(Some((Some(value), key))) => {
                    self.rows += 1;
                    self.bytes += (key.len() + value.len()) as u64;
                    self.tell();
                    return Some((key, Entry::put(value)));
                }
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
    }
}

impl Inherited<'_> {
    fn tell(&mut self) {
        if self.rows.is_multiple_of(TELL_ROWS) && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            tracing::info!(partition = %self.share.id, rows = self.rows, bytes = self.bytes, "a partition is being made");
        }
    }
}

/// The clock is looked at once in so many rows.
const TELL_ROWS: u64 = 4_096;
