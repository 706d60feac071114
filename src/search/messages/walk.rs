//! The walk over what matches, and what of it a caller is told.
//!
//! Owns: the collector. Promises: a message counts only if its timeline's door is open to the caller and its number is
//! not below what they may see, decided when the timeline is first met in a segment; the walk ends when its time or
//! its candidates are used up, and says so. Must not: count hits: it would tell about others' messages.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem::take;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tantivy::collector::{Collector, SegmentCollector};
use tantivy::columnar::{Column, StrColumn};
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader};

use tideline_model::search::fields;

use crate::deadline::Deadline;
use crate::index::layout::{Layout, VERSION};

/// Says from which number on a caller may see a timeline's messages; `None` = not at all. It may block.
pub type Door = Box<dyn FnMut(&str) -> Result<Option<u64>, String> + Send>;

/// In which order hits come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The newest first, then by timeline, then the highest number first.
    Time,
    /// The highest score first, then as by time.
    Score,
    /// By timeline.
    Name,
}

/// The place of a hit in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct At {
    /// The bits of the score: scores are not below 0, so they compare as it does.
    pub(super) score: u32,
    pub(super) time: i64,
    pub(super) timeline: String,
    pub(super) sequence: i64,
}

impl At {
    fn rank(&self) -> (Reverse<u32>, Reverse<i64>, &str, Reverse<i64>) {
        let (score, time) = (Reverse(self.score), Reverse(self.time));
        (score, time, &self.timeline, Reverse(self.sequence))
    }
}

/// The doors that were opened, by timeline.
pub(super) struct Doors {
    door: Door,
    known: HashMap<String, Option<u64>>,
    pub(super) failed: Option<String>,
}

impl Doors {
    pub(super) fn new(door: Door) -> Doors {
        Doors {
            door,
            known: HashMap::new(),
            failed: None,
        }
    }

    /// The lowest number that the caller may see, as sequences are indexed; above all = none.
    fn lowest(&mut self, timeline: &str) -> i64 {
        let lowest = match self.known.get(timeline) {
            Some(lowest) => *lowest,
            None => {
                let lowest = (self.door)(timeline).unwrap_or_else(|why| {
                    self.failed.get_or_insert(why);
                    None
                });
                self.known.insert(timeline.to_owned(), lowest);
                lowest
            }
        };
        lowest.map_or(i64::MAX, u64::cast_signed)
    }
}

/// See the top.
pub(super) struct Walk {
    pub(super) by: By,
    /// Only what is behind it.
    pub(super) after: Option<At>,
    pub(super) limit: usize,
    pub(super) doors: Arc<Mutex<Doors>>,
    /// What has expired by then is left out, ms since 1970.
    pub(super) now_ms: i64,
    pub(super) deadline: Arc<Deadline>,
    pub(super) columns: Columns,
    pub(super) shared: Arc<Shared>,
}

/// The engine's names of columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    timeline: String,
    sequence: String,
    expires: String,
}

impl Columns {
    pub(super) fn of(layout: &Layout) -> Columns {
        let name = |field| layout.field(field).map(|placed| placed.name.clone());
        Columns {
            timeline: name(fields::TIMELINE).unwrap_or_default(),
            sequence: name(fields::SEQUENCE).unwrap_or_default(),
            expires: name(fields::EXPIRES).unwrap_or_default(),
        }
    }
}

/// What the segments of a walk share.
pub(super) struct Shared {
    /// Candidates that may still be looked at.
    pub(super) left: AtomicU32,
    is_short: AtomicBool,
    best: Mutex<Vec<At>>,
    /// Some of the candidates: their times and timelines.
    samples: Mutex<Vec<(i64, String)>>,
}

/// One of so many candidates is a sample.
const SAMPLED: u32 = 64;
/// Samples of a walk.
const SAMPLES_MAX: usize = 16_384;

impl Shared {
    pub(super) fn new(candidates: u32) -> Shared {
        Shared {
            left: AtomicU32::new(candidates),
            is_short: AtomicBool::new(false),
            best: Mutex::default(),
            samples: Mutex::default(),
        }
    }

    /// Whether the walk has ended early.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// What was found, in order.
    pub(super) fn take(&self) -> Vec<At> {
        take(&mut *lock(&self.best))
    }

    pub(super) fn samples(&self) -> Vec<(i64, String)> {
        take(&mut *lock(&self.samples))
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector for Walk {
    type Fruit = ();
    type Child = WalkOfSegment;

    fn for_segment(
        &self,
        _: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<WalkOfSegment> {
        let columns = segment.fast_fields();
        let timelines = columns.str(&self.columns.timeline)?;
        let after = match (&self.after, &timelines) {
            (Some(at), Some(timelines)) => {
                let name = at.timeline.as_bytes();
                let dictionary = timelines.dictionary();
                let from = Bound::Excluded(name);
                let (from, _) = dictionary.term_bounds_to_ord(from, Bound::<&[u8]>::Unbounded)?;
                let behind = match from {
                    Bound::Included(first) => first,
                    Bound::Excluded(last) => last + 1,
                    Bound::Unbounded => 0,
                };
                Some((at.clone(), dictionary.term_ord(name)?, behind))
            }
            _ => None,
        };
        Ok(WalkOfSegment {
            by: self.by,
            after,
            limit: self.limit,
            now_ms: self.now_ms,
            times: columns.i64(VERSION)?,
            sequences: columns.column_opt(&self.columns.sequence)?,
            expires: columns.column_opt(&self.columns.expires)?,
            timelines,
            heap: BinaryHeap::new(),
            lowest: HashMap::new(),
            samples: Vec::new(),
            count: 0,
            doors: Arc::clone(&self.doors),
            deadline: Arc::clone(&self.deadline),
            shared: Arc::clone(&self.shared),
        })
    }

    fn requires_scoring(&self) -> bool {
        self.by == By::Score
    }

    fn merge_fruits(&self, segments: Vec<tantivy::Result<()>>) -> tantivy::Result<()> {
        segments.into_iter().collect()
    }
}

/// A place in the order of a segment, in which timelines are numbers.
type Rank = (Reverse<u32>, Reverse<i64>, u64, Reverse<i64>);

/// The same of one segment.
pub(super) struct WalkOfSegment {
    by: By,
    /// With the number of its timeline here, and that of the first timeline behind it.
    after: Option<(At, Option<u64>, u64)>,
    limit: usize,
    now_ms: i64,
    times: Column<i64>,
    sequences: Option<Column<i64>>,
    expires: Option<Column<i64>>,
    timelines: Option<StrColumn>,
    /// The worst on top.
    heap: BinaryHeap<Rank>,
    /// By timeline.
    lowest: HashMap<u64, i64>,
    samples: Vec<(i64, u64)>,
    count: u32,
    doors: Arc<Mutex<Doors>>,
    deadline: Arc<Deadline>,
    shared: Arc<Shared>,
}

impl SegmentCollector for WalkOfSegment {
    type Fruit = tantivy::Result<()>;

    fn collect(&mut self, row: DocId, score: Score) {
        if self.is_over() {
            return;
        }
        let Some(timelines) = &self.timelines else {
            return;
        };
        let Some(timeline) = timelines.term_ords(row).next() else {
            return;
        };
        let time = self.times.first(row).unwrap_or_default();
        let of = |column: &Option<Column<i64>>| column.as_ref()?.first(row);
        let sequence = of(&self.sequences);
        let expires = of(&self.expires);
        if self.count.is_multiple_of(SAMPLED) {
            self.samples.push((time, timeline));
        }
        self.count += 1;
        let rank = match self.by {
            By::Name => (Reverse(0), Reverse(0), timeline, Reverse(0)),
            By::Time => rank(0, time, timeline, sequence),
            By::Score => rank(score.max(0.0).to_bits(), time, timeline, sequence),
        };
        let is_full = self.heap.len() >= self.limit;
        if !self.is_behind(&rank)
            || (is_full && self.heap.peek().is_some_and(|worst| rank >= *worst))
        {
            return;
        }
        let has_expired = expires.is_some_and(|at| at <= self.now_ms);
        if has_expired || !self.is_seen(timeline, sequence) {
            return;
        }
        self.heap.push(rank);
        if is_full {
            self.heap.pop();
        }
    }

    fn harvest(mut self) -> tantivy::Result<()> {
        if self.deadline.was_over() {
            self.shared.is_short.store(true, Ordering::Relaxed);
        }
        let Some(timelines) = &self.timelines else {
            return Ok(());
        };
        let name = |ordinal| {
            let mut name = String::new();
            timelines.ord_to_str(ordinal, &mut name)?;
            Ok::<_, std::io::Error>(name)
        };
        let mut best = lock(&self.shared.best);
        for (score, time, timeline, sequence) in take(&mut self.heap) {
            best.push(At {
                score: score.0,
                time: time.0,
                timeline: name(timeline)?,
                sequence: sequence.0,
            });
        }
        best.sort_by(|one, other| one.rank().cmp(&other.rank()));
        best.truncate(self.limit);
        drop(best);
        let mut samples = lock(&self.shared.samples);
        for (time, timeline) in take(&mut self.samples) {
            if samples.len() < SAMPLES_MAX {
                let timeline = match self.by {
                    By::Name => name(timeline)?,
                    By::Time | By::Score => String::new(),
                };
                samples.push((time, timeline));
            }
        }
        Ok(())
    }
}

fn rank(score: u32, time: i64, timeline: u64, sequence: Option<i64>) -> Rank {
    let sequence = Reverse(sequence.unwrap_or_default());
    (Reverse(score), Reverse(time), timeline, sequence)
}

impl WalkOfSegment {
    /// Whether the walk has to end. Each candidate counts.
    fn is_over(&self) -> bool {
        if self.shared.is_short() || self.deadline.is_over_after(EFFORT) {
            self.shared.is_short.store(true, Ordering::Relaxed);
            return true;
        }
        let left = &self.shared.left;
        let is_over = left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err();
        if is_over {
            self.shared.is_short.store(true, Ordering::Relaxed);
        }
        is_over
    }

    /// Whether a candidate comes behind the page before.
    fn is_behind(&self, (score, time, timeline, sequence): &Rank) -> bool {
        let Some((after, same, behind)) = &self.after else {
            return true;
        };
        let of_after = (Reverse(after.score), Reverse(after.time));
        let by = match self.by {
            By::Name => std::cmp::Ordering::Equal,
            By::Time | By::Score => (*score, *time).cmp(&of_after),
        };
        by.then_with(|| match Some(*timeline) == *same {
            true if self.by == By::Name => std::cmp::Ordering::Equal,
            true => sequence.cmp(&Reverse(after.sequence)),
            false if *timeline >= *behind => std::cmp::Ordering::Greater,
            false => std::cmp::Ordering::Less,
        })
        .is_gt()
    }

    /// Whether the caller may see it.
    fn is_seen(&mut self, timeline: u64, sequence: Option<i64>) -> bool {
        let lowest = match self.lowest.get(&timeline) {
            Some(lowest) => *lowest,
            None => {
                let mut name = String::new();
                let named = self.timelines.as_ref();
                let is_named =
                    named.is_some_and(|of| of.ord_to_str(timeline, &mut name).unwrap_or(false));
                let lowest = match is_named {
                    true => lock(&self.doors).lowest(&name),
                    false => i64::MAX,
                };
                // A door costs as much as many candidates.
                let _ = self.deadline.is_over_after(DOOR_EFFORT);
                self.lowest.insert(timeline, lowest);
                lowest
            }
        };
        match sequence {
            Some(sequence) => sequence >= lowest,
            None => lowest < i64::MAX,
        }
    }
}

/// Steps of the deadline that a candidate counts for, and a door.
const EFFORT: u32 = 1;
const DOOR_EFFORT: u32 = 256;
