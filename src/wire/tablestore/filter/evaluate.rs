//! Whether a row fulfils a predicate.
//!
//! Owns: what comparisons mean: between types, of missing columns, over versions, after a transfer. Promises: pure; the
//! row is seen only through [`Columns`], so that what a read did not select is missing. Must not: select columns.

use std::cmp::Ordering;
use std::str::FromStr;

use super::{Cast, Comparator, Predicate, Relation, Transfer};
use crate::model::Value;

/// The columns of a row that a predicate may see.
pub trait Columns {
    /// The versions of a column, newest first; one for a key column, none if the row has no such column.
    fn versions(&self, column: &str) -> impl Iterator<Item = &Value>;
}

/// Columns by name, each with its versions, newest first.
impl<Name: AsRef<str>> Columns for [(Name, Vec<Value>)] {
    fn versions(&self, column: &str) -> impl Iterator<Item = &Value> {
        let found = self.iter().find(|(name, _)| name.as_ref() == column);
        found.into_iter().flat_map(|(_, versions)| versions)
    }
}

impl Predicate {
    /// Whether the row fulfils it. Of a missing row every column is missing.
    #[must_use]
    pub fn passes<Row: Columns + ?Sized>(&self, row: &Row) -> bool {
        match self {
            Predicate::Single(relation) => relation.passes(row),
            Predicate::Not(inner) => !inner.passes(row),
            Predicate::And(inner) => inner.iter().all(|one| one.passes(row)),
            Predicate::Or(inner) => inner.iter().any(|one| one.passes(row)),
        }
    }
}

impl Relation {
    fn passes<Row: Columns + ?Sized>(&self, row: &Row) -> bool {
        let mut versions = row.versions(&self.column).peekable();
        if versions.peek().is_none() {
            return self.pass_if_missing;
        }
        let seen = if self.latest_version_only {
            1
        } else {
            usize::MAX
        };
        versions.take(seen).any(|value| self.holds(value))
    }

    fn holds(&self, value: &Value) -> bool {
        let Some(transfer) = &self.transfer else {
            return self.compares(value);
        };
        match (self.comparator, transfer.apply(value)) {
            (Comparator::Exist, found) => found.is_some(),
            (Comparator::NotExist, found) => found.is_none(),
            (_, Some(found)) => self.compares(&found),
            (_, None) => false,
        }
    }

    fn compares(&self, value: &Value) -> bool {
        let order = compare(value, &self.value);
        match self.comparator {
            Comparator::Equal => order == Some(Ordering::Equal),
            // Values of two types are not equal, and neither is above the other.
            Comparator::NotEqual => order != Some(Ordering::Equal),
            Comparator::GreaterThan => order == Some(Ordering::Greater),
            Comparator::GreaterEqual => order.is_some_and(Ordering::is_ge),
            Comparator::LessThan => order == Some(Ordering::Less),
            Comparator::LessEqual => order.is_some_and(Ordering::is_le),
            // Without a transfer there is nothing to look for; decoding lets none through.
            Comparator::Exist | Comparator::NotExist => false,
        }
    }
}

/// The order of two values of one type.
fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => Some(one.cmp(other)),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Boolean(one), Value::Boolean(other)) => Some(one.cmp(other)),
        (Value::Binary(one), Value::Binary(other)) => Some(one.cmp(other)),
        (Value::String(one) | Value::Json(one), Value::String(other) | Value::Json(other)) => {
            Some(one.cmp(other))
        }
        _ => None,
    }
}

impl Transfer {
    /// The part of a text as the asked type; None if it is no text, has no such part, or the part is not of the type.
    fn apply(&self, value: &Value) -> Option<Value> {
        let (Value::String(text) | Value::Json(text)) = value else {
            return None;
        };
        let part = self.expression.captures(text)?.get(1)?.as_str();
        match self.cast {
            Cast::Integer => i64::from_str(part).ok().map(Value::Integer),
            Cast::Double => {
                let number = f64::from_str(part).ok()?;
                number.is_finite().then_some(Value::Double(number))
            }
            Cast::String => Some(Value::String(part.to_owned())),
        }
    }
}
