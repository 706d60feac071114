//! Pages of a search: the first rows in some order behind some place, and how many match.
//!
//! Owns: the walk over what matches. Promises: memory for the rows of one page and what lies before it, and for no
//! others, within a bound; past the deadline it says that it has not seen all. Must not: read a row's columns.

mod alike;
mod first;
mod memory;
mod order;
mod part;
mod token;

use std::collections::HashSet;
use std::mem::{size_of, size_of_val, take};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader};

use tideline_model::search::Aggregated;

use alike::Alike;
use first::{Candidate, bytes_of};
pub(crate) use first::{First, SegmentOrder};
pub(crate) use memory::{OF_ONE_MAX, Share, Short};
pub(crate) use order::{Order, OrderPart, SortValue};
pub(crate) use part::Rank;
use part::SegmentPart;
pub(crate) use token::{Page, PageToken};

use crate::aggregate::{SegmentTree, Tree};
use crate::deadline::Deadline;
use crate::index::key_in;

/// What is collected.
pub(crate) struct Top {
    pub(crate) order: Arc<Order>,
    /// Of rows that have this field alike, only the first.
    pub(crate) alike: Option<OrderPart>,
    /// So many rows.
    pub(crate) limit: usize,
    /// Only what comes behind this.
    pub(crate) after: Option<Vec<SortValue>>,
    /// When it has to be done.
    pub(crate) deadline: Arc<Deadline>,
    /// What it may hold.
    pub(crate) share: Arc<Share>,
    /// What is computed of all that match.
    pub(crate) tree: Option<Arc<Mutex<Tree>>>,
    /// The first rows of the segments that are through.
    pub(crate) best: Arc<Mutex<Vec<Hit>>>,
}

/// A row that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) key: Vec<u8>,
    /// By the order's parts.
    pub(crate) values: Vec<SortValue>,
    pub(crate) score: Option<f32>,
    /// What it has alike with others.
    pub(crate) alike: Option<SortValue>,
}

impl Hit {
    /// What it takes.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.values.iter().filter_map(|value| value.text.as_ref());
        let texts: usize = texts.map(Vec::len).sum();
        size_of::<Hit>() + size_of_val(&self.values[..]) + self.key.len() + texts
    }
}

/// The rows that were found, in order.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) hits: Vec<Hit>,
    /// How many match, those before the page too.
    pub(crate) count: u64,
    pub(crate) is_all: bool,
    /// Whether more rows match behind them.
    pub(crate) is_more: bool,
    /// What was computed of all that match.
    pub(crate) aggregated: Aggregated,
    /// Why it ended early; `None` = it did not, but for its deadline.
    pub(crate) short: Option<Short>,
}

/// How many times as much a row takes that has a value alike.
const ALIKE: usize = 4;

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector for Top {
    type Fruit = Found;
    type Child = TopOfSegment;

    fn for_segment(
        &self,
        ordinal: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<TopOfSegment> {
        let order = SegmentOrder::new(&self.order, ordinal, segment)?;
        let after = self.after.as_ref().map(|after| order.ranks_of(after));
        let alike = self.alike.as_ref();
        let alike = alike.map(|part| SegmentPart::new(part, ordinal, segment));
        let tree = self.tree.as_ref().map(|tree| {
            let part = lock(tree).segment(ordinal, segment)?;
            Ok::<_, tantivy::TantivyError>((Arc::clone(tree), part))
        });
        Ok(TopOfSegment {
            after: after.transpose()?,
            limit: self.limit,
            deadline: Arc::clone(&self.deadline),
            first: First::default(),
            alike: alike.transpose()?.map(Alike::new),
            ranks: Vec::new(),
            of_segment: order,
            count: 0,
            order: Arc::clone(&self.order),
            share: Arc::clone(&self.share),
            best: Arc::clone(&self.best),
            tree: tree.transpose()?,
            held: 0,
            short: None,
        })
    }

    fn requires_scoring(&self) -> bool {
        let of_tree = |tree: &Arc<Mutex<Tree>>| lock(tree).has_score();
        self.order.has_score() || self.tree.as_ref().is_some_and(of_tree)
    }

    fn merge_fruits(&self, segments: Vec<tantivy::Result<Found>>) -> tantivy::Result<Found> {
        let mut found = Found {
            is_all: !self.deadline.was_over(),
            ..Found::default()
        };
        for segment in segments {
            let segment = segment?;
            found.count += segment.count;
            found.short = found.short.or(segment.short);
        }
        found.hits = take(&mut *lock(&self.best));
        Ok(found)
    }
}

/// The same of one segment.
pub(crate) struct TopOfSegment {
    of_segment: SegmentOrder,
    after: Option<Vec<Rank>>,
    limit: usize,
    deadline: Arc<Deadline>,
    first: First,
    /// In its place, if rows are alike.
    alike: Option<Alike>,
    /// Of the row that is looked at.
    ranks: Vec<Rank>,
    count: u64,
    order: Arc<Order>,
    share: Arc<Share>,
    best: Arc<Mutex<Vec<Hit>>>,
    tree: Option<(Arc<Mutex<Tree>>, SegmentTree)>,
    /// Bytes of rows that are alike.
    held: usize,
    short: Option<Short>,
}

impl SegmentCollector for TopOfSegment {
    type Fruit = tantivy::Result<Found>;

    fn collect(&mut self, row: DocId, score: Score) {
        if self.short.is_some() || self.deadline.is_over() {
            return;
        }
        self.count += 1;
        if let Some((tree, part)) = &mut self.tree
            && let Err(short) = lock(tree).row(part, (row, score), &self.share)
        {
            self.short = Some(short);
            return;
        }
        if self.limit == 0 {
            return;
        }
        self.of_segment.ranks(row, score, &mut self.ranks);
        if self
            .after
            .as_ref()
            .is_some_and(|after| self.ranks <= *after)
        {
            return;
        }
        if let Some(alike) = &mut self.alike {
            if alike.add(&self.ranks, (row, score), self.limit) {
                let bytes = bytes_of(&self.ranks);
                self.held += ALIKE * bytes;
                self.short = self.share.take(ALIKE * bytes).err();
            }
            return;
        }
        let added = self
            .first
            .add(&self.ranks, (row, score), self.limit, &self.share);
        self.short = added.err();
    }

    fn harvest(mut self) -> tantivy::Result<Found> {
        if let Some((tree, part)) = &mut self.tree
            && self.short.is_none()
        {
            self.short = lock(tree).leave(part, &self.share)?.err();
        }
        let rows = self.first.take(&self.share).into_iter();
        let mut rows: Vec<(Candidate, Option<SortValue>)> = rows.map(|row| (row, None)).collect();
        if let Some(alike) = self.alike.take() {
            let (part, found) = alike.into_rows();
            for ((ranks, row), (value, score)) in found {
                let value = part.value_of(value)?;
                rows.push((Candidate { ranks, row, score }, Some(value)));
            }
        }
        let shared = Arc::clone(&self.best);
        let mut best = lock(&shared);
        for (row, alike) in rows {
            if self.short.is_some() {
                break;
            }
            let hit = Hit {
                alike,
                ..self.of_segment.hit(&row)?
            };
            self.short = self.share.take(hit.bytes()).err();
            best.push(hit);
        }
        self.share.give(self.held);
        best.sort_by(|one, other| self.order.compare(&one.values, &other.values));
        let mut seen = HashSet::new();
        best.retain(|hit| {
            let is_first = hit
                .alike
                .as_ref()
                .is_none_or(|value| seen.insert(value.clone()));
            if !is_first {
                self.share.give(hit.bytes());
            }
            is_first
        });
        let end = self.limit.min(best.len());
        for gone in best.drain(end..) {
            self.share.give(gone.bytes());
        }
        Ok(Found {
            count: self.count,
            short: self.short,
            ..Found::default()
        })
    }
}
