//! Scores that are the meaning of a query: what is computed of a row's values, and how several become one.
//!
//! Owns: the arithmetic, and limits. Must not: know queries, or which fields an index has.

use super::Point;
use crate::Value;

/// The most numbers of a vector.
pub const DIMENSIONS_MAX: usize = 4_096;
/// Rows that are near.
pub const NEAR_MAX: usize = 1_000;
/// How many parts of a query a vector counts as: each takes a walk over all rows behind its filter.
pub const NEAR_PARTS: usize = 64;

/// How a value falls with the distance from an origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Decay {
    /// The field.
    pub field: String,
    /// From where.
    pub origin: Origin,
    /// So far away, behind `offset`, it is `decay`.
    pub scale: f64,
    /// Up to here it is 1.
    pub offset: f64,
    /// Between 0 and 1.
    pub decay: f64,
    /// How it falls.
    pub curve: Curve,
    /// Of a row that has more than one value.
    pub of_many: Fold,
}

/// From where distances are counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A number.
    Number(f64),
    /// A date, as the field has them.
    Date(Value),
    /// A point; distances are metres.
    Point(Point),
}

/// How a value falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// As a bell.
    Gauss,
    /// By the same part for each step.
    Exponential,
    /// In a line, to 0.
    Linear,
}

/// What becomes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they are named as what they are
pub enum Modifier {
    None,
    Log,
    Log1p,
    Log2p,
    Ln,
    Ln1p,
    Ln2p,
    Square,
    Sqrt,
    Reciprocal,
}

impl Modifier {
    /// The number that comes out; 0 where there is none.
    #[must_use]
    pub fn of(self, number: f64) -> f64 {
        let of = match self {
            Modifier::None => number,
            Modifier::Log => number.log10(),
            Modifier::Log1p => (number + 1.0).log10(),
            Modifier::Log2p => (number + 2.0).log10(),
            Modifier::Ln => number.ln(),
            Modifier::Ln1p => (number + 1.0).ln(),
            Modifier::Ln2p => (number + 2.0).ln(),
            Modifier::Square => number * number,
            Modifier::Sqrt => number.sqrt(),
            Modifier::Reciprocal => number.recip(),
        };
        if of.is_finite() { of } else { 0.0 }
    }
}

/// How several numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they are named as what they are
pub enum Fold {
    Avg,
    Max,
    Sum,
    Min,
    Multiply,
    First,
}

impl Fold {
    /// Of numbers, each with its weight; `None` = there are none.
    #[must_use]
    pub fn of(self, numbers: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
        let mut weights = 0.0;
        let mut folded: Option<f64> = None;
        for (number, weight) in numbers {
            weights += weight;
            let number = number * weight;
            folded = Some(match (folded, self) {
                (None, _) => number,
                (Some(so_far), Fold::Avg | Fold::Sum) => so_far + number,
                (Some(so_far), Fold::Max) => so_far.max(number),
                (Some(so_far), Fold::Min) => so_far.min(number),
                (Some(so_far), Fold::Multiply) => so_far * number,
                (Some(so_far), Fold::First) => so_far,
            });
        }
        match self {
            Fold::Avg if weights > 0.0 => folded.map(|sum| sum / weights),
            _ => folded,
        }
    }
}

/// How the value of functions and the score of a query become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they are named as what they are
pub enum Combine {
    Multiply,
    Avg,
    Max,
    Sum,
    Min,
    Replace,
}

impl Combine {
    /// Of both.
    #[must_use]
    pub fn of(self, score: f64, value: f64) -> f64 {
        match self {
            Combine::Multiply => score * value,
            Combine::Avg => f64::midpoint(score, value),
            Combine::Max => score.max(value),
            Combine::Sum => score + value,
            Combine::Min => score.min(value),
            Combine::Replace => value,
        }
    }
}

impl Decay {
    /// The value at a distance.
    #[must_use]
    pub fn at(&self, distance: f64) -> f64 {
        let far = (distance - self.offset).max(0.0) / self.scale;
        match self.curve {
            Curve::Gauss => (self.decay.ln() * far * far).exp(),
            Curve::Exponential => (self.decay.ln() * far).exp(),
            Curve::Linear => (1.0 - (1.0 - self.decay) * far).max(0.0),
        }
    }
}

/// How the scores of objects become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they are named as what they are
pub enum ObjectScores {
    None,
    Avg,
    Max,
    Total,
    Min,
}

impl ObjectScores {
    /// Of the scores of those that match; `None` = none does.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // few objects
    pub fn of(self, scores: impl Iterator<Item = f32>) -> Option<f32> {
        let scores: Vec<f32> = scores.collect();
        let sum = || scores.iter().sum::<f32>();
        let one = match self {
            ObjectScores::None => 0.0,
            ObjectScores::Avg => sum() / scores.len() as f32,
            ObjectScores::Total => sum(),
            ObjectScores::Max => scores.iter().copied().fold(f32::MIN, f32::max),
            ObjectScores::Min => scores.iter().copied().fold(f32::MAX, f32::min),
        };
        (!scores.is_empty()).then_some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_to_the_decay_at_the_scale() {
        for curve in [Curve::Gauss, Curve::Exponential, Curve::Linear] {
            let decay = Decay {
                field: String::new(),
                origin: Origin::Number(0.0),
                scale: 4.0,
                offset: 1.0,
                decay: 0.25,
                curve,
                of_many: Fold::Min,
            };
            assert!((decay.at(0.5) - 1.0).abs() < 1e-9);
            assert!((decay.at(5.0) - 0.25).abs() < 1e-9, "{curve:?}");
            assert!((0.0..0.25).contains(&decay.at(9.0)));
        }
    }

    #[test]
    fn numbers_become_one() {
        let numbers = [(3.0, 1.0), (1.0, 2.0), (4.0, 1.0)];
        for (fold, expected) in [
            (Fold::Avg, 2.25),
            (Fold::Max, 4.0),
            (Fold::Sum, 9.0),
            (Fold::Min, 2.0),
            (Fold::Multiply, 24.0),
            (Fold::First, 3.0),
        ] {
            assert_eq!(fold.of(numbers), Some(expected), "{fold:?}");
            assert_eq!(fold.of([]), None);
        }
        assert_eq!(Modifier::Log.of(0.0), 0.0);
        assert_eq!(Modifier::Log1p.of(99.0), 2.0);
    }
}
