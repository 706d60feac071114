//! Partitions that are being made beside those that serve.
//!
//! Owns: how far each is, and the hold on the logs of those that end. Promises: once it is complete a partition has
//! exactly the rows that those that end show at their ends; what is given up is cleared away; there is one change at a
//! time. Must not: keep writes away from those that end, or decide when; who completes it has done that.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::hold::{Holder, NOTHING};
use super::inherited::{Concern, Inheritance, Inherited, concern, damaged, refused};
use super::map::Share;
use super::plan::{Outcome, Reshape};
use super::point::Point;
use super::shared::Shared;
use super::{OpenError, Partitions, ReadError, View, identity};
use crate::ids::{PartitionId, Position};
use crate::image::Image;
use crate::log::{self, LocalStorage};

/// A change of the partitions that is under way.
pub struct Making {
    pub(super) partitions: Partitions,
    reshape: Reshape,
    parents: Vec<Parent>,
    children: Vec<Child>,
    stop: CancellationToken,
    is_done: bool,
}

/// A partition that is to end.
struct Parent {
    share: Share,
    partition: Arc<Shared>,
    /// What is above in its log has not been looked at.
    read: Position,
}

/// A partition that is to begin.
struct Child {
    share: Share,
    /// Of those that end, the ones that share keys with it.
    parents: Vec<usize>,
    image: Image,
    /// What its image says that it covers: a number that rises, and only at the end is a position.
    covered: Position,
    /// What the parents have written since, and others' unfinished work.
    changed: BTreeSet<Bytes>,
    unfinished: BTreeSet<Bytes>,
}

/// How far a round has brought the partitions that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Batches that it looked at.
    pub batches: u64,
    /// Those that had come meanwhile were too many for it.
    pub is_behind: bool,
}

/// A round looks at about so many bytes of keys.
const ROUND_BYTES: usize = 32 << 20;
/// Bytes of log in memory at a time.
const READ_BYTES: usize = 4 << 20;

impl Making {
    /// Begins with all that those that end have now. Refused while another change is under way, and without room on the
    /// disk. Until it is complete all goes on as it was. It ends early when `stop` is cancelled. Blocks.
    pub fn begin(
        partitions: &Partitions,
        reshape: &Reshape,
        stop: CancellationToken,
    ) -> Result<Making, OpenError> {
        let estimate = partitions.estimate(reshape);
        estimate.check()?;
        let map = partitions.map();
        let at = |id| partitions.at(id);
        let ends = |id| at(id).map_or(Position::ZERO, |one| one.tail());
        let outcome = reshape.outcome(&map, &ends, true).map_err(refused)?;
        partitions.begin_change(&outcome)?;
        tracing::info!(ending = ?outcome.parents, beginning = ?outcome.children, bytes = estimate.bytes, "partitions are being made");
        let mut making = Making {
            partitions: partitions.clone(),
            reshape: reshape.clone(),
            parents: Vec::new(),
            children: Vec::new(),
            stop,
            is_done: false,
        };
        for id in &outcome.parents {
            let partition =
                at(*id).ok_or_else(|| refused(format!("there is no partition {id}")))?;
            let read = partition.tail();
            partition.hold.set(Holder::Reshape, read);
            let share = map.share(*id).expect("it is live").clone();
            making.parents.push(Parent {
                share,
                partition,
                read,
            });
        }
        Point::Announced.reached();
        for id in &outcome.children {
            making.child(outcome.map.share(*id).expect("it begins").clone())?;
        }
        Point::Loaded.reached();
        Ok(making)
    }

    /// Those that end.
    pub fn parents(&self) -> Vec<PartitionId> {
        self.parents.iter().map(|one| one.share.id).collect()
    }

    /// Whether keys of several that end come together.
    #[must_use]
    pub fn unites(&self) -> bool {
        self.children.iter().any(|child| child.parents.len() > 1)
    }

    fn child(&mut self, share: Share) -> Result<(), OpenError> {
        let overlaps =
            |parent: &Parent| parent.share.first <= share.last && parent.share.last >= share.first;
        let all = 0..self.parents.len();
        let mut child = Child {
            parents: all.filter(|at| overlaps(&self.parents[*at])).collect(),
            image: self.image(share.id)?,
            share,
            covered: Position::ZERO,
            changed: BTreeSet::new(),
            unfinished: BTreeSet::new(),
        };
        self.bring(&mut child, None)?;
        self.children.push(child);
        Ok(())
    }

    fn image(&self, id: PartitionId) -> Result<Image, OpenError> {
        let folder = self.partitions.directory().image(id);
        let inner = &self.partitions.inner;
        let options = inner.options.image.clone();
        Image::open(&folder, options, Arc::clone(&inner.rules))
            .map_err(|error| OpenError::from(error).within(&folder))
    }

    /// Looks at what those that end have written since, and brings it into those that are made. Blocks.
    pub fn catch_up(&mut self) -> Result<Round, OpenError> {
        let round = self.look()?;
        let mut children = std::mem::take(&mut self.children);
        let brought = children
            .iter_mut()
            .try_for_each(|child| self.bring(child, None));
        self.children = children;
        brought.map(|()| round)
    }

    /// Brings the rest, and makes all that must be there before the change counts. Nothing may be written any more
    /// into those that end. Says what will be. Blocks.
    pub(super) fn complete(&mut self, keeps_logs: bool) -> Result<Outcome, OpenError> {
        #[cfg(any(test, feature = "faults"))]
        let forgets = self.partitions.inner.options.fault == Some(super::Fault::ReshapeForgets);
        #[cfg(not(any(test, feature = "faults")))]
        let forgets = false;
        while !forgets && self.look()?.is_behind {}
        let ends = |id| {
            self.partitions
                .at(id)
                .map_or(Position::ZERO, |one| one.tail())
        };
        let map = self.partitions.map();
        let outcome = self.reshape.outcome(&map, &ends, keeps_logs);
        let outcome = outcome.map_err(refused)?;
        self.partitions.directory().announce(&outcome.map)?;
        let mut children = std::mem::take(&mut self.children);
        for child in &mut children {
            let begins = outcome.map.share(child.share.id).map(|share| share.begins);
            child.share.begins = begins.unwrap_or_default();
            self.bring(child, Some(Position(child.share.begins.0 - 1)))?;
        }
        Point::Brought.reached();
        for child in children {
            self.enter(child, &outcome)?;
        }
        Point::Made.reached();
        Ok(outcome)
    }

    /// Notes the keys that the next batches of those that end have changed.
    fn look(&mut self) -> Result<Round, OpenError> {
        let rules = Arc::clone(&self.partitions.inner.rules);
        let mut round = Round {
            batches: 0,
            is_behind: false,
        };
        let mut bytes = 0;
        for at in 0..self.parents.len() {
            let Parent {
                partition, read, ..
            } = &mut self.parents[at];
            let mut own = self.children.iter_mut();
            let mut own: Vec<&mut Child> = own
                .by_ref()
                .filter(|child| child.parents.contains(&at))
                .collect();
            while *read < partition.tail() {
                if bytes >= ROUND_BYTES {
                    round.is_behind = true;
                    break;
                }
                for batch in partition.batches(*read, READ_BYTES).map_err(damaged)? {
                    for entry in batch.entries() {
                        for child in &mut own {
                            bytes += child.note(&*rules, entry.key);
                        }
                    }
                    *read = batch.position;
                    round.batches += 1;
                }
                if self.stop.is_cancelled() {
                    return Err(refused("the server stops".to_owned()));
                }
            }
            partition.hold.set(Holder::Reshape, *read);
        }
        Ok(round)
    }

    /// Brings what has changed into a partition that is made; all that there is if it has nothing yet. `to`: it is
    /// complete then, and covers its parents up to there.
    fn bring(&self, child: &mut Child, to: Option<Position>) -> Result<(), OpenError> {
        let of = || child.parents.iter().map(|at| &self.parents[*at]);
        let read = of().map(|parent| parent.read.0).max().unwrap_or(0);
        // One below what is read: the last one must have a number, too.
        let label = to.unwrap_or(Position(read.saturating_sub(1)));
        if label <= child.covered {
            return Ok(());
        }
        let views: Result<Vec<View>, _> = of().map(|parent| parent.partition.view()).collect();
        let views = views.map_err(damaged)?;
        let parents = of().map(|parent| &parent.share).zip(&views).collect();
        let rules = &*self.partitions.inner.rules;
        let inheritance = Inheritance::new(&child.share, parents, rules);
        if child.covered == Position::ZERO {
            let level = of().map(|one| one.partition.image().oldest_level()).max();
            let mut rows = Inherited::new(inheritance, &self.stop);
            child.image.load(label, level.unwrap_or(0), &mut rows)?;
            child.unfinished.extend(rows.ended()?);
            child.changed.clear();
        } else {
            let mut keys = std::mem::take(&mut child.changed);
            if to.is_some() {
                keys.append(&mut child.unfinished);
            }
            let mut failed = None;
            let mut entries = keys.into_iter().map_while(|key| {
                let entry = inheritance.entry(&key);
                Some((key, entry.map_err(|error| failed = Some(error)).ok()?))
            });
            let from = child.covered;
            child.image.flush(from, label, &mut entries, &mut || {})?;
            drop(entries);
            failed.map_or(Ok(()), Err)?;
        }
        child.covered = label;
        match to {
            None => self.compact(&child.image),
            Some(_) if child.unfinished.is_empty() => Ok(()),
            Some(_) => Err(refused("work is left to do; try again".to_owned())),
        }
    }

    /// Merges runs while there are so many that the partition would begin by slowing its writers down.
    fn compact(&self, image: &Image) -> Result<(), OpenError> {
        let inner = &self.partitions.inner;
        while image.pressure().slow && !self.stop.is_cancelled() {
            let nothing = Arc::new(Vec::new());
            let view = View::new(image.covered(), nothing, image, Arc::clone(&inner.rules));
            let view = view.map_err(damaged)?;
            let read = |key: &[u8]| view.get(key).ok().flatten();
            let done = image.compact(inner.clock.now_ms(), &read)?;
            if !done.more {
                break;
            }
        }
        Ok(())
    }

    /// Makes the log of a partition that has all its rows, and has its image say whose it is.
    fn enter(&self, child: Child, outcome: &Outcome) -> Result<(), OpenError> {
        let Child {
            share,
            image,
            parents,
            ..
        } = child;
        let mut after_us = 0;
        for at in parents {
            after_us = after_us.max(last_us(&self.parents[at].partition).map_err(damaged)?);
        }
        let directory = self.partitions.directory();
        let folder = directory.log(share.id);
        let storage = LocalStorage::new(&folder)
            .map_err(|error| OpenError::from_io("make", &folder, error))?;
        let log = log::begin(&storage, share.begins, after_us)
            .map_err(|error| OpenError::from(error).within(&folder))?;
        identity::set_mark(&directory, (share.id, &outcome.map), &image, log)
    }

    /// The change counts: nothing is to be cleared away.
    pub(super) fn done(&mut self) {
        self.is_done = true;
    }
}

impl Child {
    /// Notes a key that a parent has written, if it is its own. Gives about the bytes that this takes.
    fn note(&mut self, rules: &dyn super::Rules, key: &[u8]) -> usize {
        let keys = match concern(&self.share, rules, key) {
            Concern::Own => &mut self.changed,
            Concern::Unfinished => &mut self.unfinished,
            Concern::Not => return 0,
        };
        match keys.contains(key) {
            true => 0,
            false => {
                keys.insert(Bytes::copy_from_slice(key));
                key.len() + KEY_BYTES
            }
        }
    }
}

/// What a key takes in memory beside its bytes.
const KEY_BYTES: usize = 64;

/// The time of a partition's newest batch, µs since 1970; 0 if there is none. May block on the disk.
pub(super) fn last_us(partition: &Shared) -> Result<u64, ReadError> {
    let Some(before) = partition.tail().0.checked_sub(1) else {
        return Ok(0);
    };
    let last = partition.batches(Position(before), 1)?;
    Ok(last.last().map_or(0, |batch| batch.commit_us()))
}

impl Drop for Making {
    fn drop(&mut self) {
        for parent in &self.parents {
            parent.partition.hold.set(Holder::Reshape, NOTHING);
        }
        // Nothing in them is open any more.
        self.children.clear();
        self.partitions.end_change(self.is_done);
    }
}
