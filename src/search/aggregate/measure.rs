//! What is known of the values of a group.
//!
//! Owns: how values add up. Promises: what differs is counted exactly, and percents are of all values. Must not: know
//! where a value comes from.

use std::collections::HashSet;

use tideline_model::Value;
use tideline_model::search::{MeasureKind, Measured};

use tantivy::{DocId, Score};

use super::values::Number;
use crate::collect::{First, Hit, Order, Rank, SegmentOrder, Share, Short};

/// What the values of a group have come to.
pub(super) enum Tally {
    Avg {
        count: u64,
        sum: f64,
    },
    Max(Option<f64>),
    Min(Option<f64>),
    Sum(f64),
    Count(u64),
    Distinct(HashSet<u64>),
    Percentiles(Vec<f64>),
    /// Of the segments that are through, and of the one that is not; so many rows.
    Rows {
        best: Vec<Hit>,
        here: First,
        limit: usize,
    },
}

/// Bytes of a value that is kept: a list or a set may have twice the room that it needs.
const DISTINCT_BYTES: usize = 32;
const VALUE_BYTES: usize = 16;

impl Tally {
    pub(super) fn new(kind: &MeasureKind) -> Tally {
        match kind {
            MeasureKind::Avg => Tally::Avg { count: 0, sum: 0.0 },
            MeasureKind::Max => Tally::Max(None),
            MeasureKind::Min => Tally::Min(None),
            MeasureKind::Sum => Tally::Sum(0.0),
            MeasureKind::Count => Tally::Count(0),
            MeasureKind::DistinctCount => Tally::Distinct(HashSet::new()),
            MeasureKind::Percentiles(_) => Tally::Percentiles(Vec::new()),
            MeasureKind::TopRows { limit, .. } => Tally::Rows {
                best: Vec::new(),
                here: First::default(),
                limit: *limit,
            },
        }
    }

    /// One more value.
    pub(super) fn add(&mut self, value: Number, share: &Share) -> Result<(), Short> {
        let number = value.number;
        match self {
            Tally::Avg { count, sum } => {
                *count += 1;
                *sum += number;
            }
            Tally::Max(max) => *max = Some(max.map_or(number, |max| max.max(number))),
            Tally::Min(min) => *min = Some(min.map_or(number, |min| min.min(number))),
            Tally::Sum(sum) => *sum += number,
            Tally::Count(count) => *count += 1,
            Tally::Distinct(values) => {
                if values.insert(value.key) {
                    share.take(DISTINCT_BYTES)?;
                }
            }
            Tally::Percentiles(values) => {
                values.push(number);
                share.take(VALUE_BYTES)?;
            }
            Tally::Rows { .. } => {}
        }
        Ok(())
    }

    /// One more row.
    pub(super) fn add_row(
        &mut self,
        ranks: &[Rank],
        hit: (DocId, Score),
        share: &Share,
    ) -> Result<(), Short> {
        match self {
            Tally::Rows { here, limit, .. } => here.add(ranks, hit, *limit, share),
            _ => Ok(()),
        }
    }

    /// A segment is through.
    pub(super) fn leave(
        &mut self,
        order: &Order,
        segment: &SegmentOrder,
        share: &Share,
    ) -> tantivy::Result<Result<(), Short>> {
        let Tally::Rows { best, here, limit } = self else {
            return Ok(Ok(()));
        };
        for found in here.take(share) {
            let hit = segment.hit(&found)?;
            if let Err(short) = share.take(hit.bytes()) {
                return Ok(Err(short));
            }
            best.push(hit);
        }
        best.sort_by(|one, other| order.compare(&one.values, &other.values));
        for gone in best.drain((*limit).min(best.len())..) {
            share.give(gone.bytes());
        }
        Ok(Ok(()))
    }

    #[allow(clippy::cast_precision_loss)] // means are doubles
    pub(super) fn result(&self, kind: &MeasureKind, is_whole: bool) -> Measured {
        let or_nothing = |number: Option<f64>| number.map_or(Measured::Nothing, Measured::Number);
        match (self, kind) {
            (Tally::Avg { count, sum }, _) => or_nothing((*count > 0).then(|| sum / *count as f64)),
            (Tally::Max(number) | Tally::Min(number), _) => or_nothing(*number),
            (Tally::Sum(sum), _) => Measured::Number(*sum),
            (Tally::Count(count), _) => Measured::Count(*count),
            (Tally::Distinct(values), _) => Measured::Count(values.len() as u64),
            (Tally::Percentiles(values), MeasureKind::Percentiles(asked)) => {
                Measured::Percentiles(percentiles(values, asked, is_whole))
            }
            (Tally::Percentiles(_), _) => Measured::Nothing,
            (Tally::Rows { best, .. }, _) => {
                Measured::Rows(best.iter().map(|hit| hit.key.clone()).collect())
            }
        }
    }
}

/// Between the two values that are nearest, each in the middle of its part of all; ascending, whatever was asked. Of
/// integers the integer below.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn percentiles(values: &[f64], asked: &[f64], is_whole: bool) -> Vec<(f64, Value)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut asked = asked.to_vec();
    asked.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return Vec::new();
    };
    let at = |percent: &f64| {
        let place = (percent / 100.0 * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
        let below = place.floor() as usize;
        let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
        let value = match low == high {
            true => low,
            false => low + (high - low) * (place - below as f64),
        };
        let value = match is_whole {
            true => Value::Integer(value as i64),
            false => Value::Double(value),
        };
        (*percent, value)
    };
    asked.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_the_values_and_come_ascending() {
        let values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        let doubles = percentiles(&values, &[99.0, 50.0, 0.0, 100.0], false);
        let expected = [(0.0, 0.0), (50.0, 49.5), (99.0, 98.5), (100.0, 99.0)];
        assert_eq!(
            doubles,
            expected.map(|(at, value)| (at, Value::Double(value)))
        );
        let whole = percentiles(&values, &[50.0], true);
        assert_eq!(whole, [(50.0, Value::Integer(49))]);
        assert_eq!(percentiles(&[], &[50.0], true), []);
        assert_eq!(
            percentiles(&[7.0], &[50.0], false),
            [(50.0, Value::Double(7.0))]
        );
    }
}
