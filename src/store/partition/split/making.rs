//! A split or merge under way: the children are made while their parents serve.
//!
//! Owns: how far each child is, and the hold on the parents' logs. Promises: a complete child has exactly the rows that
//! its parents show at their ends; a change that is given up is cleared away; there is one change at a time. Must not:
//! keep writes away from the parents, or choose the moment of the cut: the caller of [`Making::cut`] does both.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::super::directory::identity;
use super::super::directory::map::Share;
use super::super::follow::hold::Holder;
use super::super::shared::Shared;
use super::super::{Batch, OpenError, Owner, Partitions, Rules, View};
use super::fault_point::Point;
use super::inherited::{Inheritance, Inherited, damaged, refused};
use super::noted::Noted;
use super::plan::{Outcome, Reshape};
use crate::image::Image;
use crate::log;
use crate::log::LocalStorage;
use tideline_base::ids::{PartitionId, Position};

/// A split or merge under way.
pub struct Making {
    pub(in super::super) partitions: Partitions,
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
    /// Its log was read up to here.
    read: Position,
    /// [`Hold::published_bytes`] at that position, or a batch more.
    ///
    /// [`Hold::published_bytes`]: super::super::follow::hold::Hold::published_bytes
    read_bytes: u64,
}

/// A partition that is to begin.
struct Child {
    share: Share,
    /// The parents that share keys with it, each with the position up to which its rows were copied.
    parents: Vec<(usize, Position)>,
    /// `None` = it is closed.
    image: Option<Image>,
    /// What its image covers: a number that rises with each flush, and a position of its log only at the end.
    covered: Position,
    /// What the parents have written since the copy.
    noted: Noted,
    /// Keys of unfinished work: at the end there must be none.
    unfinished: BTreeSet<Bytes>,
}

/// How far a round has brought the children, in bytes of the parents' logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// What it took over.
    pub taken: u64,
    /// What was written meanwhile.
    pub came: u64,
    /// What is left.
    pub left: u64,
}

/// A round looks at about so many bytes of log, which it has in memory.
const ROUND_BYTES: u64 = 16 << 20;
/// Bytes of log that are read at a time.
const READ_BYTES: usize = 4 << 20;

impl Making {
    /// Begins: copies all rows that the parents have now. Refused while another change is under way, and without room
    /// on the disk. The parents serve as before. Ends early when `stop` is cancelled. Blocks.
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
        let outcome = reshape.outcome(&map, &ends, Position::ZERO, true);
        let outcome = outcome.map_err(refused)?;
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
            // In this order: else more log would seem to be left than there is.
            let read = partition.tail();
            let read_bytes = partition.hold.published_bytes();
            partition.hold.set(Holder::Reshape, read);
            let share = map.share(*id).expect("it is live").clone();
            making.parents.push(Parent {
                share,
                partition,
                read,
                read_bytes,
            });
        }
        Point::Announced.reached();
        for id in &outcome.children {
            making.child(outcome.map.share(*id).expect("it begins").clone())?;
        }
        Point::Loaded.reached();
        Ok(making)
    }

    /// The partitions that end.
    pub fn parents(&self) -> Vec<PartitionId> {
        self.parents.iter().map(|one| one.share.id).collect()
    }

    /// Whether a child has several parents.
    #[must_use]
    pub fn unites(&self) -> bool {
        self.children.iter().any(|child| child.parents.len() > 1)
    }

    fn child(&mut self, share: Share) -> Result<(), OpenError> {
        let overlaps =
            |parent: &Parent| parent.share.first <= share.last && parent.share.last >= share.first;
        let all = 0..self.parents.len();
        let mut child = Child {
            parents: all
                .filter(|at| overlaps(&self.parents[*at]))
                .map(|at| (at, Position::ZERO))
                .collect(),
            image: None,
            share,
            covered: Position::ZERO,
            noted: Noted::default(),
            unfinished: BTreeSet::new(),
        };
        self.load(&mut child)?;
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

    /// Brings what the parents have written since the last round into the children. Blocks.
    pub fn catch_up(&mut self) -> Result<Round, OpenError> {
        let before = self.published_bytes();
        let taken = self.look()?;
        let mut children = std::mem::take(&mut self.children);
        let brought = children
            .iter_mut()
            .try_for_each(|child| self.bring(child, None));
        self.children = children;
        brought?;
        let published = self.published_bytes();
        let read: u64 = self.parents.iter().map(|parent| parent.read_bytes).sum();
        Ok(Round {
            taken,
            came: published.saturating_sub(before),
            left: published.saturating_sub(read),
        })
    }

    fn published_bytes(&self) -> u64 {
        let published = |parent: &Parent| parent.partition.hold.published_bytes();
        self.parents.iter().map(published).sum()
    }

    /// Has the parents' writers wait so many steps before each batch, so that the children can catch up; 0 = no wait.
    /// The wait ends when this is dropped.
    pub fn slow_down(&self, steps: u16) {
        for parent in &self.parents {
            parent.partition.flush_lag.slow_down(steps);
        }
    }

    /// Brings the rest, and makes all that must be there before the children count. The parents must be sealed. Gives
    /// the map of afterwards. If the parents have gone on instead, it may be called again. Blocks.
    pub(in super::super) fn complete(&mut self, keeps_logs: bool) -> Result<Outcome, OpenError> {
        #[cfg(any(test, feature = "faults"))]
        let forgets =
            self.partitions.inner.options.fault == Some(super::super::Fault::ReshapeForgets);
        #[cfg(not(any(test, feature = "faults")))]
        let forgets = false;
        while !forgets && self.look()? > 0 {}
        let ends = |id| {
            self.partitions
                .at(id)
                .map_or(Position::ZERO, |one| one.tail())
        };
        let map = self.partitions.map();
        let covered = self.children.iter().map(|child| child.covered).max();
        let above = covered.unwrap_or_default().next();
        let outcome = self.reshape.outcome(&map, &ends, above, keeps_logs);
        let outcome = outcome.map_err(refused)?;
        self.partitions.directory().announce(&outcome.map)?;
        let mut children = std::mem::take(&mut self.children);
        for child in &mut children {
            let begins = outcome.map.share(child.share.id).map(|share| share.begins);
            child.share.begins = begins.unwrap_or_default();
            self.bring(child, Some(Position(child.share.begins.0 - 1)))?;
        }
        Point::Brought.reached();
        for child in &mut children {
            self.enter(child, &outcome)?;
        }
        self.children = children;
        Point::Made.reached();
        Ok(outcome)
    }

    /// Notes for each child what the next batches of the parents' logs change. Gives their bytes; 0 = there are none.
    fn look(&mut self) -> Result<u64, OpenError> {
        let rules = Arc::clone(&self.partitions.inner.rules);
        let mut bytes = 0;
        for at in 0..self.parents.len() {
            let parent = &mut self.parents[at];
            let before = bytes;
            while bytes < ROUND_BYTES && parent.read < parent.partition.tail() {
                let batches = parent.partition.batches(parent.read, READ_BYTES);
                for batch in batches.map_err(damaged)? {
                    for child in &mut self.children {
                        child.note(&*rules, (at, &parent.share), &batch);
                    }
                    parent.read = batch.position;
                    bytes += batch.bytes() as u64;
                }
                if self.stop.is_cancelled() {
                    return Err(refused("the server stops".to_owned()));
                }
            }
            parent.read_bytes += bytes - before;
            parent.partition.hold.set(Holder::Reshape, parent.read);
        }
        Ok(bytes)
    }

    /// Copies the parents' rows into a child that has nothing yet.
    fn load(&self, child: &mut Child) -> Result<(), OpenError> {
        let of = || child.parents.iter().map(|(at, _)| &self.parents[*at]);
        let views: Result<Vec<View>, _> = of().map(|parent| parent.partition.view()).collect();
        let views = views.map_err(damaged)?;
        let parents = of().map(|parent| &parent.share).zip(&views).collect();
        let level = of().map(|one| one.partition.image().oldest_level()).max();
        let rules = &*self.partitions.inner.rules;
        let inheritance = Inheritance::new(&child.share, parents, rules);
        let mut rows = Inherited::new(inheritance, &self.stop);
        let (image, to) = (self.image(child.share.id)?, child.covered.next());
        image.load(to, level.unwrap_or(0), &mut rows)?;
        child.unfinished.extend(rows.ended()?);
        for ((_, copied), view) in child.parents.iter_mut().zip(&views) {
            *copied = view.position();
        }
        (child.image, child.covered) = (Some(image), to);
        Ok(())
    }

    /// Brings what was noted into a child. With `to` the child is complete afterwards, and covers its parents up to
    /// there.
    fn bring(&self, child: &mut Child, to: Option<Position>) -> Result<(), OpenError> {
        if to.is_none() && child.noted.is_empty() {
            return Ok(());
        }
        let of = || child.parents.iter().map(|(at, _)| &self.parents[*at]);
        let views: Result<Vec<View>, _> = of().map(|parent| parent.partition.view()).collect();
        let views = views.map_err(damaged)?;
        let parents = of().map(|parent| &parent.share).zip(&views).collect();
        let rules = &*self.partitions.inner.rules;
        let inheritance = Inheritance::new(&child.share, parents, rules);
        let mut noted = std::mem::take(&mut child.noted);
        if to.is_some() {
            let unfinished = std::mem::take(&mut child.unfinished);
            unfinished.into_iter().for_each(|key| noted.look_up(key));
        }
        let mut failed = None;
        let mut entries = noted.into_order(rules).map_while(|(key, entry)| {
            let entry = entry.map_or_else(|| inheritance.entry(&key), Ok);
            Some((key, entry.map_err(|error| failed = Some(error)).ok()?))
        });
        let image = match child.image.take() {
            Some(image) => image,
            None => self.image(child.share.id)?,
        };
        let (from, label) = (child.covered, to.unwrap_or_else(|| child.covered.next()));
        image.flush(from, label, &mut entries, &mut || {})?;
        drop(entries);
        failed.map_or(Ok(()), Err)?;
        child.covered = label;
        if to.is_none() {
            self.compact(&image)?;
        }
        child.image = Some(image);
        Ok(())
    }

    /// Merges a child's runs while there are so many that its writers would be slowed down at once.
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

    /// Makes the log of a complete child, writes into its image whose it is, and closes both.
    fn enter(&self, child: &mut Child, outcome: &Outcome) -> Result<(), OpenError> {
        let mut after_us = 0;
        for (at, _) in &child.parents {
            after_us = after_us.max(self.parents[*at].partition.last_us().map_err(damaged)?);
        }
        let Some(image) = child.image.take() else {
            return Err(refused("what was made is not at hand".to_owned()));
        };
        let (directory, id) = (self.partitions.directory(), child.share.id);
        // An earlier cut that came too late has left one.
        directory.remove_log(id)?;
        let folder = directory.log(id);
        let storage = LocalStorage::new(&folder)
            .map_err(|error| OpenError::from_io("make", &folder, error))?;
        let log = log::begin(&storage, child.share.begins, after_us)
            .map_err(|error| OpenError::from(error).within(&folder))?;
        identity::set_mark(&directory, (id, &outcome.map), &image, log)
    }

    /// The children count now: nothing is to be cleared away.
    pub(in super::super) fn done(&mut self) {
        self.is_done = true;
    }
}

impl Child {
    /// Notes what a batch of a parent does to rows of this child.
    fn note(&mut self, rules: &dyn Rules, (at, parent): (usize, &Share), batch: &Batch) {
        let is_alone = self.parents.len() == 1;
        let copied = self.parents.iter().find(|(own, _)| *own == at);
        if copied.is_none_or(|(_, copied)| batch.position <= *copied) {
            return;
        }
        for (key, entry) in batch.owned_entries() {
            match rules.owner(&key) {
                Some(Owner::Hash(hash)) if !self.share.owns(hash) => {}
                Some(Owner::Nobody) => {}
                Some(Owner::Hash(hash)) if parent.owns(hash) => self.noted.entry(key, entry),
                Some(Owner::Each) if is_alone => self.noted.entry(key, entry),
                // Another parent may have a row under this key, or a row is not where it belongs.
                Some(Owner::Hash(_) | Owner::Each) | None => self.noted.look_up(key),
                Some(Owner::Unfinished) => {
                    self.unfinished.insert(Bytes::copy_from_slice(&key));
                }
            }
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.slow_down(0);
        for parent in &self.parents {
            parent.partition.hold.let_go(Holder::Reshape);
        }
        // Their files are closed before they are cleared away.
        self.children.clear();
        self.partitions.end_change(self.is_done);
    }
}
