//! Aggregates: COUNT, SUM, AVG, MIN, MAX.
//!
//! Owns: what each makes of the values of a group. Promises: of no values COUNT is 0 and all others NULL. Must not:
//! know groups.

use std::collections::HashSet;

use super::Expr;
use crate::answer::{ColumnKind, Datum};
use crate::refusal::Refusal;
use crate::work::Memory;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Count,
    Sum,
    Avg,
    Min,
    Max,
}

impl Measure {
    pub(crate) fn named(name: &str) -> Option<Measure> {
        Some(match name {
            "count" => Measure::Count,
            "sum" => Measure::Sum,
            "avg" => Measure::Avg,
            "min" => Measure::Min,
            "max" => Measure::Max,
            _ => return None,
        })
    }

    pub(crate) fn kind(self, of: Option<ColumnKind>) -> Option<ColumnKind> {
        match self {
            Measure::Count => Some(ColumnKind::Long),
            Measure::Sum | Measure::Avg => Some(ColumnKind::Double),
            Measure::Min | Measure::Max => of,
        }
    }
}

/// One aggregate of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) measure: Measure,
    /// None: each row counts.
    pub(crate) of: Vec<Expr>,
    pub(crate) is_distinct: bool,
}

/// One aggregate of one group, while rows come.
#[derive(Debug)]
pub(crate) struct Part {
    count: i64,
    /// Sums of many numbers keep what their rounding loses.
    sum: f64,
    lost: f64,
    best: Datum,
    seen: HashSet<Vec<u8>>,
}

impl Default for Part {
    fn default() -> Part {
        Part {
            count: 0,
            sum: 0.0,
            lost: 0.0,
            best: Datum::Null,
            seen: HashSet::new(),
        }
    }
}

impl Part {
    /// Takes a row in.
    pub(crate) fn add(
        &mut self,
        aggregate: &Aggregate,
        row: &[Datum],
        memory: &Memory,
    ) -> Result<(), Refusal> {
        let mut values = Vec::with_capacity(aggregate.of.len());
        for of in &aggregate.of {
            let value = of.taken(row)?;
            if value.is_null() {
                return Ok(());
            }
            values.push(value);
        }
        if aggregate.is_distinct {
            let size = values.iter().map(|value| value.size()).sum::<usize>();
            memory.take(size + size_of::<Vec<u8>>())?;
            let mut bytes = Vec::new();
            values.iter().for_each(|value| value.encode(&mut bytes));
            if !self.seen.insert(bytes) {
                memory.give(size + size_of::<Vec<u8>>());
                return Ok(());
            }
        }
        self.count += 1;
        let Some(value) = values.first() else {
            return Ok(());
        };
        match aggregate.measure {
            Measure::Count => {}
            Measure::Sum | Measure::Avg => self.more(value.number().unwrap_or(0.0)),
            Measure::Min | Measure::Max => {
                let order = value.order(&self.best);
                let is_better = match aggregate.measure {
                    Measure::Min => order.is_lt(),
                    _ => order.is_gt(),
                };
                if self.best.is_null() || is_better {
                    memory.take(value.size())?;
                    memory.give(self.best.size());
                    self.best = value.clone().into_owned();
                }
            }
        }
        Ok(())
    }

    fn more(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += match self.sum.abs() >= number.abs() {
            true => (self.sum - sum) + number,
            false => (number - sum) + self.sum,
        };
        self.sum = sum;
    }

    /// What came out.
    pub(crate) fn value(&self, aggregate: &Aggregate) -> Datum {
        #[allow(clippy::cast_precision_loss, reason = "at most some 100,000 rows")]
        let count = self.count as f64;
        match aggregate.measure {
            Measure::Count => Datum::Long(self.count),
            _ if self.count == 0 => Datum::Null,
            Measure::Sum => Datum::double(self.sum + self.lost),
            Measure::Avg => Datum::double((self.sum + self.lost) / count),
            Measure::Min | Measure::Max => self.best.clone(),
        }
    }
}
