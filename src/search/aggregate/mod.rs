//! What a search computes of all rows that match: numbers, and groups of rows with numbers of their own.
//!
//! Owns: the tree of groups, over all segments. Promises: each row counts once for each group that it is in; groups and
//! what they hold are within the bounds of a search. Must not: decide which rows match.
//!
//! Each grouping is a node, its groups are numbered over the whole search; the rows themselves are group 0 of the root.
//! In a segment a row has numbers (`part.rs`), which mean the same in all segments: texts are numbered by their node.

mod compile;
mod key;
mod measure;
mod part;
mod result;
mod values;

use std::collections::HashMap;
use std::mem::size_of;

use tantivy::query::Weight;
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader};

use tideline_model::search::{DateSteps, GROUPS_ALL_MAX, GroupBy, Measure, Point};

use crate::collect::{Order, Share, Short};
use key::Several;
use measure::Tally;
use part::{MeasurePart, NodePart};
use values::Source;

/// What a search computes.
pub(crate) struct Tree {
    root: Node,
    groups: usize,
}

/// The groups of a grouping; the root has one.
struct Node {
    /// `None` = of the root.
    by: Option<By>,
    /// The group around it and the number of the key, and the group.
    found: HashMap<(u32, u64), u32>,
    /// The groups in each group around them.
    inside: HashMap<u32, Vec<u32>>,
    groups: Vec<Counted>,
    measures: Vec<Measuring>,
    inner: Vec<Node>,
    texts: Texts,
}

/// A group.
struct Counted {
    key: u64,
    rows: u64,
}

/// A grouping, resolved.
struct By {
    asked: GroupBy,
    key: Key,
}

enum Key {
    Values(Source),
    /// In the order of the answer.
    Ranges(Source, Vec<(f64, f64)>),
    Distances(Source, Point, Vec<(f64, f64)>),
    Cells(Source, u32),
    Filters(Vec<Box<dyn Weight>>),
    Steps(Source, Steps),
    Dates(Source, Dates),
    Several(Several),
}

/// The steps of a histogram.
#[derive(Clone, Copy)]
struct Steps {
    interval: f64,
    offset: f64,
    range: Option<(f64, f64)>,
}

/// Steps of the calendar.
#[derive(Clone, Copy)]
struct Dates {
    steps: DateSteps,
    /// From the one to the other, ms since 1970.
    range: Option<(i64, i64)>,
}

/// A measure, of each group of its node.
struct Measuring {
    asked: Measure,
    of: Of,
    of_groups: Vec<Tally>,
    texts: Texts,
}

/// What is measured.
enum Of {
    Values(Source),
    /// Rows, in an order.
    Rows(Order),
}

/// Texts by number, over all segments.
#[derive(Default)]
struct Texts {
    by_text: HashMap<Vec<u8>, u64>,
    all: Vec<Vec<u8>>,
}

impl Texts {
    fn number(&mut self, text: &[u8], share: &Share) -> Result<u64, Short> {
        if let Some(number) = self.by_text.get(text) {
            return Ok(*number);
        }
        share.take(2 * (text.len() + TEXT_BYTES))?;
        let number = self.all.len() as u64;
        self.by_text.insert(text.to_vec(), number);
        self.all.push(text.to_vec());
        Ok(number)
    }
}

/// What a text takes beside its bytes, and a group with its place in the map.
const TEXT_BYTES: usize = 40;
const GROUP_BYTES: usize = 80 + 2 * size_of::<Counted>() + 2 * size_of::<((u32, u64), u32)>();

impl Node {
    /// The number of a group; made if it is not there.
    fn group(&mut self, parent: u32, key: u64, budget: &mut Budget<'_>) -> Result<u32, Short> {
        if let Some(group) = self.found.get(&(parent, key)) {
            return Ok(*group);
        }
        *budget.groups += 1;
        if *budget.groups > GROUPS_ALL_MAX {
            return Err(Short::Groups(GROUPS_ALL_MAX));
        }
        let bytes = GROUP_BYTES + self.measures.len() * 2 * size_of::<Tally>();
        budget.share.take(bytes)?;
        let group = u32::try_from(self.groups.len()).map_err(|_| Short::Groups(GROUPS_ALL_MAX))?;
        self.add(key);
        self.inside.entry(parent).or_default().push(group);
        self.found.insert((parent, key), group);
        Ok(group)
    }

    /// One more group, without rows.
    fn add(&mut self, key: u64) {
        self.groups.push(Counted { key, rows: 0 });
        for measure in &mut self.measures {
            measure.of_groups.push(Tally::new(&measure.asked.kind));
        }
    }

    /// A row is in one of its groups.
    fn row(
        &mut self,
        part: &mut NodePart,
        (hit, group): ((DocId, Score), u32),
        budget: &mut Budget<'_>,
    ) -> Result<(), Short> {
        let (row, score) = hit;
        self.groups[group as usize].rows += 1;
        for (measure, part) in self.measures.iter_mut().zip(&mut part.measures) {
            let of_group = &mut measure.of_groups[group as usize];
            match part {
                MeasurePart::Values(values) => {
                    values.each(row, &mut measure.texts, budget.share, |value| {
                        of_group.add(value, budget.share)
                    })?;
                }
                MeasurePart::Rows(order, ranks) => {
                    order.ranks(row, score, ranks);
                    of_group.add_row(ranks, hit, budget.share)?;
                }
            }
        }
        for (node, part) in self.inner.iter_mut().zip(&mut part.inner) {
            part.keys(row, &mut node.texts, budget.share)?;
            for at in 0..part.found.len() {
                let inner = node.group(group, part.found[at], budget)?;
                node.row(part, (hit, inner), budget)?;
            }
        }
        Ok(())
    }

    /// A segment is through.
    fn leave(&mut self, part: &mut NodePart, share: &Share) -> tantivy::Result<Result<(), Short>> {
        for (measure, part) in self.measures.iter_mut().zip(&mut part.measures) {
            let (Of::Rows(order), MeasurePart::Rows(of_segment, _)) = (&measure.of, part) else {
                continue;
            };
            for of_group in &mut measure.of_groups {
                if let Err(short) = of_group.leave(order, of_segment, share)? {
                    return Ok(Err(short));
                }
            }
        }
        for (node, part) in self.inner.iter_mut().zip(&mut part.inner) {
            if let Err(short) = node.leave(part, share)? {
                return Ok(Err(short));
            }
        }
        Ok(Ok(()))
    }

    fn has_score(&self) -> bool {
        let mut measures = self.measures.iter();
        measures.any(|one| matches!(&one.of, Of::Rows(order) if order.has_score()))
            || self.inner.iter().any(Node::has_score)
    }
}

/// What a search may still make.
struct Budget<'s> {
    groups: &'s mut usize,
    share: &'s Share,
}

/// The tree in one segment.
pub(crate) struct SegmentTree(NodePart);

impl Tree {
    /// For a segment.
    pub(crate) fn segment(
        &self,
        ordinal: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<SegmentTree> {
        let part = NodePart::new(&self.root, (ordinal, segment))?;
        Ok(SegmentTree(part))
    }

    /// Whether it needs the scores of rows.
    pub(crate) fn has_score(&self) -> bool {
        self.root.has_score()
    }

    /// A row of a segment matches.
    pub(crate) fn row(
        &mut self,
        segment: &mut SegmentTree,
        row: (DocId, Score),
        share: &Share,
    ) -> Result<(), Short> {
        let groups = &mut self.groups;
        self.root
            .row(&mut segment.0, (row, 0), &mut Budget { groups, share })
    }

    /// A segment is through; the inner error is of the search.
    pub(crate) fn leave(
        &mut self,
        segment: &mut SegmentTree,
        share: &Share,
    ) -> tantivy::Result<Result<(), Short>> {
        self.root.leave(&mut segment.0, share)
    }
}
