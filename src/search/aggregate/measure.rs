//! What is known of the values of a group.
//!
//! Owns: how values add up. Promises: what differs is counted exactly, and percents are of all values. Must not: know
//! where a value comes from.

use std::collections::HashSet;

use tideline_model::Value;
use tideline_model::search::{MeasureKind, Measured as Result};

use super::part::Number;
use crate::collect::{Share, Short};

/// See the top.
pub(super) enum Measured {
    Avg { count: u64, sum: f64 },
    Max(Option<f64>),
    Min(Option<f64>),
    Sum(f64),
    Count(u64),
    Distinct(HashSet<u64>),
    Percentiles(Vec<f64>),
}

/// Bytes of a value that is kept: a list or a set may have twice the room that it needs.
const DISTINCT_BYTES: usize = 32;
const VALUE_BYTES: usize = 16;

impl Measured {
    pub(super) fn new(kind: &MeasureKind) -> Measured {
        match kind {
            MeasureKind::Avg => Measured::Avg { count: 0, sum: 0.0 },
            MeasureKind::Max => Measured::Max(None),
            MeasureKind::Min => Measured::Min(None),
            MeasureKind::Sum => Measured::Sum(0.0),
            MeasureKind::Count => Measured::Count(0),
            MeasureKind::DistinctCount => Measured::Distinct(HashSet::new()),
            MeasureKind::Percentiles(_) => Measured::Percentiles(Vec::new()),
        }
    }

    /// One more value.
    pub(super) fn add(&mut self, value: Number, share: &Share) -> std::result::Result<(), Short> {
        let number = value.number;
        match self {
            Measured::Avg { count, sum } => {
                *count += 1;
                *sum += number;
            }
            Measured::Max(max) => *max = Some(max.map_or(number, |max| max.max(number))),
            Measured::Min(min) => *min = Some(min.map_or(number, |min| min.min(number))),
            Measured::Sum(sum) => *sum += number,
            Measured::Count(count) => *count += 1,
            Measured::Distinct(values) => {
                if values.insert(value.key) {
                    share.take(DISTINCT_BYTES)?;
                }
            }
            Measured::Percentiles(values) => {
                values.push(number);
                share.take(VALUE_BYTES)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)] // means are doubles
    pub(super) fn result(&self, kind: &MeasureKind, is_whole: bool) -> Result {
        let or_nothing = |number: Option<f64>| number.map_or(Result::Nothing, Result::Number);
        match (self, kind) {
            (Measured::Avg { count, sum }, _) => {
                or_nothing((*count > 0).then(|| sum / *count as f64))
            }
            (Measured::Max(number) | Measured::Min(number), _) => or_nothing(*number),
            (Measured::Sum(sum), _) => Result::Number(*sum),
            (Measured::Count(count), _) => Result::Count(*count),
            (Measured::Distinct(values), _) => Result::Count(values.len() as u64),
            (Measured::Percentiles(values), MeasureKind::Percentiles(asked)) => {
                Result::Percentiles(percentiles(values, asked, is_whole))
            }
            (Measured::Percentiles(_), _) => Result::Nothing,
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
