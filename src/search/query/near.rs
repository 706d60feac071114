//! The nearest vectors.
//!
//! Owns: how near two vectors are, and the walk over those of a search. Promises: it is exact; of many rows it keeps
//! the nearest ones only, and where all are wanted none; it looks at the clock at each of them. Must not: decide how
//! rows are sorted.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::mem::size_of;
use std::sync::{Arc, Mutex};

use tantivy::index::SegmentId;
use tantivy::query::{
    AllQuery, BooleanQuery, EmptyScorer, EnableScoring, Explanation, Occur, Query, Scorer, Weight,
};
use tantivy::schema::Field;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, TantivyError, Term};

use tideline_model::search::{FieldType, InvalidSearch, Metric, Near};

use super::kept::{Judge, KeptRows};
use super::{Compiled, Scope, compiled, constant, living, of_term};
use crate::asked::Asked;
use crate::collect::lock;

/// Rows whose vectors are near to another one.
pub(super) fn near(scope: &Scope<'_>, asked: &Near) -> Result<Compiled, InvalidSearch> {
    let placed = scope.field(&asked.field)?;
    let (FieldType::Vector, Some(options)) = (placed.field.kind, placed.field.vector) else {
        return Err(placed.no("knn vector query"));
    };
    let at = placed.searched("knn vector query")?;
    if asked.vector.len() != options.dimension {
        let what = "the query vector has another dimension";
        return Err(InvalidSearch::Field(asked.field.clone(), what));
    }
    let filter = match &asked.filter {
        Some(filter) => compiled(scope, filter)?,
        None => Box::new(AllQuery),
    };
    let has = of_term(Term::from_field_text(scope.layout.has, &placed.number));
    let rows = vec![
        (Occur::Must, constant(has, 0.0)),
        (Occur::Must, constant(filter, 0.0)),
    ];
    let rows = living(scope.layout, scope.asked, Box::new(BooleanQuery::new(rows)));
    Ok(Box::new(Nearest {
        rows,
        // A page that wants more rows gets them all, and may go on.
        top: (asked.top >= scope.asked.limit).then_some(asked.top),
        ranked: Arc::default(),
        measure: Arc::new(Measure {
            at,
            metric: options.metric,
            norm: dot(&asked.vector, asked.vector.iter().copied()).sqrt(),
            vector: asked.vector.clone(),
            min_score: asked.min_score,
            weight: asked.weight,
        }),
        asked: Arc::clone(scope.asked),
    }))
}

/// The nearest rows by segment, each in their order.
type Ranked = HashMap<SegmentId, Arc<Vec<(DocId, Score)>>>;

#[derive(Debug)]
struct Nearest {
    rows: Compiled,
    /// `None` = all rows.
    top: Option<usize>,
    /// Found once: a search is of one state of its index.
    ranked: Arc<Mutex<Option<Arc<Ranked>>>>,
    measure: Arc<Measure>,
    asked: Arc<Asked>,
}

impl Clone for Nearest {
    fn clone(&self) -> Nearest {
        Nearest {
            rows: self.rows.box_clone(),
            top: self.top,
            ranked: Arc::clone(&self.ranked),
            measure: Arc::clone(&self.measure),
            asked: Arc::clone(&self.asked),
        }
    }
}

impl Query for Nearest {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let searcher = scoring.searcher().ok_or_else(|| {
            let what = "the nearest rows are of a whole index";
            TantivyError::InvalidArgument(what.to_owned())
        })?;
        let rows = EnableScoring::disabled_from_searcher(searcher);
        let weight = NearWeight {
            rows: self.rows.weight(rows)?,
            measure: Arc::clone(&self.measure),
            asked: Arc::clone(&self.asked),
            scores: scoring.is_scoring_enabled(),
        };
        let Some(top) = self.top else {
            return Ok(Box::new(weight));
        };
        let known = lock(&self.ranked).clone();
        let ranked = match known {
            Some(ranked) => ranked,
            None => Arc::new(weight.ranked(searcher.segment_readers(), top)?),
        };
        *lock(&self.ranked) = Some(Arc::clone(&ranked));
        Ok(Box::new(TopWeight(ranked)))
    }
}

/// How near a row is.
#[derive(Debug)]
struct Measure {
    at: Field,
    metric: Metric,
    vector: Vec<f32>,
    norm: f64,
    min_score: Option<f32>,
    weight: f32,
}

impl Judge for Measure {
    /// Of a vector; `None` = it is too far away.
    #[allow(clippy::cast_possible_truncation)] // scores are no more exact
    fn score(&self, kept: &[u8]) -> Option<Score> {
        let numbers = || {
            let (numbers, _) = kept.as_chunks::<4>();
            numbers.iter().map(|bytes| f32::from_be_bytes(*bytes))
        };
        let score = match self.metric {
            Metric::Euclidean => 1.0 / (1.0 + square_distance(&self.vector, numbers())),
            Metric::DotProduct => f64::midpoint(1.0, dot(&self.vector, numbers())),
            Metric::Cosine => {
                let (mut both, mut own) = (0.0, 0.0);
                for (one, other) in self.vector.iter().zip(numbers()) {
                    both += f64::from(*one) * f64::from(other);
                    own += f64::from(other) * f64::from(other);
                }
                let norms = own.sqrt() * self.norm;
                // One without a direction is at a right angle to all others.
                let cosine = if norms > 0.0 { both / norms } else { 0.0 };
                f64::midpoint(1.0, cosine)
            }
        };
        let score = score.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
        let is_near = self.min_score.is_none_or(|least| score >= least);
        is_near.then_some((score * self.weight).clamp(f32::MIN, f32::MAX))
    }
}

fn dot(one: &[f32], other: impl Iterator<Item = f32>) -> f64 {
    let products = one.iter().zip(other);
    let products = products.map(|(one, other)| f64::from(*one) * f64::from(other));
    products.sum()
}

fn square_distance(one: &[f32], other: impl Iterator<Item = f32>) -> f64 {
    let distances = one.iter().zip(other);
    let distances = distances.map(|(one, other)| f64::from(*one) - f64::from(other));
    distances.map(|distance| distance * distance).sum()
}

struct NearWeight {
    rows: Box<dyn Weight>,
    measure: Arc<Measure>,
    asked: Arc<Asked>,
    /// Whether scores are asked for.
    scores: bool,
}

impl NearWeight {
    /// The nearest rows of all segments.
    fn ranked(&self, segments: &[SegmentReader], top: usize) -> tantivy::Result<Ranked> {
        let mut best = BinaryHeap::new();
        if self
            .asked
            .share
            .take(2 * top * size_of::<Candidate>())
            .is_err()
        {
            return Ok(Ranked::new());
        }
        for (ordinal, segment) in segments.iter().enumerate() {
            let mut rows = self.near_rows(segment, true, 1.0)?;
            let alive = segment.alive_bitset();
            while rows.doc() != TERMINATED {
                let (row, score) = (rows.doc(), rows.score);
                rows.advance();
                if alive.is_some_and(|alive| !alive.is_alive(row)) {
                    continue;
                }
                best.push(Candidate {
                    score,
                    place: (ordinal, row),
                });
                if best.len() > top {
                    best.pop();
                }
            }
        }
        let mut of_segments = vec![Vec::new(); segments.len()];
        for Candidate { score, place } in best {
            let (segment, row) = place;
            of_segments[segment].push((row, score));
        }
        let ranked = segments.iter().zip(of_segments).map(|(segment, mut rows)| {
            rows.sort_unstable_by_key(|(row, _)| *row);
            (segment.segment_id(), Arc::new(rows))
        });
        Ok(ranked.collect())
    }

    fn near_rows(
        &self,
        segment: &SegmentReader,
        scores: bool,
        boost: Score,
    ) -> tantivy::Result<KeptRows<Measure>> {
        let looks = scores || self.measure.min_score.is_some();
        let judged = (self.measure.at, &self.measure);
        KeptRows::of(&*self.rows, segment, judged, (looks, boost), &self.asked)
    }
}

impl Weight for NearWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(self.near_rows(segment, self.scores, boost)?))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Err(unexplained())
    }
}

fn unexplained() -> TantivyError {
    TantivyError::InvalidArgument("a vector is not explained".to_owned())
}

/// A row that may be one of the nearest; the farthest is the greatest.
struct Candidate {
    score: Score,
    place: (usize, DocId),
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        let scores = other.score.total_cmp(&self.score);
        scores.then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The nearest rows, which are known.
struct TopWeight(Arc<Ranked>);

impl Weight for TopWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(match self.0.get(&segment.segment_id()) {
            Some(rows) => Box::new(TopRows {
                rows: Arc::clone(rows),
                at: 0,
                boost,
            }),
            None => Box::new(EmptyScorer),
        })
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Err(unexplained())
    }
}

struct TopRows {
    rows: Arc<Vec<(DocId, Score)>>,
    at: usize,
    boost: Score,
}

impl DocSet for TopRows {
    fn advance(&mut self) -> DocId {
        self.at += 1;
        self.doc()
    }

    fn doc(&self) -> DocId {
        self.rows.get(self.at).map_or(TERMINATED, |(row, _)| *row)
    }

    fn size_hint(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }
}

impl Scorer for TopRows {
    fn score(&mut self) -> Score {
        let found = self.rows.get(self.at);
        found.map_or(0.0, |(_, score)| score * self.boost)
    }
}
