//! Filters of reads and conditions of writes.
//!
//! Owns: the tree of a filter, and what comparisons mean: between types, of missing columns, across versions, after a
//! transfer; what expressions cost. Promises: pure; an expression is compiled here, with a bound on its size, and how
//! much it costs is known before it runs. Must not: bound the number of nodes; the wire does where it decodes them.

use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use regex::{Regex, RegexBuilder};

use super::limits::PATTERN_BYTES_MAX;
use super::{Cell, RowRef, Value, ValueRef};

/// Bytes that the compiled expressions of one filter may take together. So many take 5 ms to compile.
pub const EXPRESSIONS_BYTES_MAX: usize = EXPRESSION_BYTES[3];
/// The same of all filters of a batch.
pub const REQUEST_EXPRESSIONS_BYTES_MAX: usize = 64 * EXPRESSIONS_BYTES_MAX;
/// Sizes of compiled expressions, in steps; the last is the largest that there may be. The larger an expression, the
/// longer it takes for each byte of text: so its weight is its step, divided by the first one.
const EXPRESSION_BYTES: [usize; 4] = [1 << 12, 1 << 14, 1 << 16, 1 << 18];

/// Whether a row has to be there for a write to take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    /// Whatever.
    #[default]
    Ignore,
    /// It must be there.
    Exist,
    /// It must not be there.
    NotExist,
}

/// What the row must be like for a write to take effect.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Whether it has to be there.
    pub existence: Existence,
    /// What its columns must be like.
    pub columns: Option<Predicate>,
}

/// What a read does with the columns it has selected.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Keeps the rows that fulfil it.
    Rows(Predicate),
    /// Keeps some columns of each row, by their place in the order of names.
    Columns(ColumnPage),
}

/// Columns `offset` to `offset + limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPage {
    /// How many are skipped.
    pub offset: usize,
    /// How many are kept, at least one.
    pub limit: usize,
}

/// What is true or false of a row.
#[derive(Clone, Debug)]
pub enum Predicate {
    /// A column compares.
    Single(Relation),
    /// The inner one is false.
    Not(Box<Predicate>),
    /// All are true; two at least.
    And(Vec<Predicate>),
    /// One is true; two at least.
    Or(Vec<Predicate>),
}

/// How a column compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparator {
    /// Is it.
    Equal,
    /// Is not it.
    NotEqual,
    /// Is above.
    GreaterThan,
    /// Is it or above.
    GreaterEqual,
    /// Is below.
    LessThan,
    /// Is it or below.
    LessEqual,
    /// The transfer's expression finds something.
    Exist,
    /// The transfer's expression finds nothing.
    NotExist,
}

/// A column, and what it is compared with.
#[derive(Clone, Debug)]
pub struct Relation {
    /// An attribute's or key column's name.
    pub column: String,
    /// How.
    pub comparator: Comparator,
    /// With what; of no importance where something has to exist.
    pub value: Value,
    /// Whether a row without the column passes.
    pub pass_if_missing: bool,
    /// Only the newest of the versions counts, else any.
    pub latest_version_only: bool,
    /// What is made of the column's text first.
    pub transfer: Option<Transfer>,
}

/// Takes a part of a text and reads it as another type.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Its first group is the part.
    expression: Regex,
    /// How many times each byte of text counts.
    weight: u64,
    cast: Cast,
}

/// What a part of a text is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// A decimal integer.
    Integer,
    /// A decimal number.
    Double,
    /// Itself.
    String,
}

impl ColumnPage {
    /// Keeps the columns of the page, with all their versions.
    pub(super) fn retain(self, cells: &mut Vec<Cell<'_>>) {
        let (mut columns, mut last) = (0, None);
        cells.retain(|cell| {
            columns += usize::from(last.replace(cell.name) != Some(cell.name));
            columns > self.offset && columns - self.offset <= self.limit
        });
    }
}

impl Predicate {
    /// Whether it has an expression, which takes much longer on a text than a comparison does.
    #[must_use]
    pub fn is_costly(&self) -> bool {
        match self {
            Predicate::Single(relation) => relation.transfer.is_some(),
            Predicate::Not(inner) => inner.is_costly(),
            Predicate::And(inner) | Predicate::Or(inner) => inner.iter().any(Predicate::is_costly),
        }
    }

    /// About how many bytes its expressions take, compiled.
    #[must_use]
    pub fn expression_bytes(&self) -> usize {
        match self {
            Predicate::Single(relation) => relation.transfer.as_ref().map_or(0, Transfer::bytes),
            Predicate::Not(inner) => inner.expression_bytes(),
            Predicate::And(inner) | Predicate::Or(inner) => {
                inner.iter().map(Predicate::expression_bytes).sum()
            }
        }
    }

    /// What its expressions look at in a row, at most: bytes, for each expression times its weight.
    #[must_use]
    pub fn effort(&self, row: &RowRef<'_>) -> u64 {
        match self {
            Predicate::Single(relation) => relation.effort(row),
            Predicate::Not(inner) => inner.effort(row),
            Predicate::And(inner) | Predicate::Or(inner) => {
                inner.iter().map(|one| one.effort(row)).sum()
            }
        }
    }

    /// Whether the row fulfils it. Of a missing row every column is missing.
    #[must_use]
    pub fn passes(&self, row: &RowRef<'_>) -> bool {
        self.passes_while(row, &|| true)
    }

    /// The same, but skips expressions once nobody waits for the answer any more: what is returned then says nothing
    /// of the row.
    #[must_use]
    pub fn passes_while(&self, row: &RowRef<'_>, is_asked: &dyn Fn() -> bool) -> bool {
        let passes = |one: &Predicate| one.passes_while(row, is_asked);
        match self {
            Predicate::Single(relation) => {
                (relation.transfer.is_none() || is_asked()) && relation.passes(row)
            }
            Predicate::Not(inner) => !passes(inner),
            Predicate::And(inner) => inner.iter().all(passes),
            Predicate::Or(inner) => inner.iter().any(passes),
        }
    }
}

/// What the expressions of one request may still look at, shared by all threads that read for it.
#[derive(Clone, Debug)]
pub struct Effort {
    max: u64,
    spent: Arc<AtomicU64>,
}

/// Expressions would look at more than they may.
#[derive(Clone, Copy, Debug)]
pub struct TooCostly {
    /// The most.
    pub limit: u64,
    /// What they would come to.
    pub size: u64,
}

impl Effort {
    /// At most `max` in all.
    #[must_use]
    pub fn new(max: u64) -> Effort {
        Effort {
            max,
            spent: Arc::default(),
        }
    }

    /// Takes this much of it, or nothing if less is left.
    ///
    /// # Errors
    /// If less is left.
    pub fn take(&self, effort: u64) -> Result<(), TooCostly> {
        let fits = |spent: u64| Some(spent.saturating_add(effort)).filter(|all| *all <= self.max);
        let taken = self.spent.fetch_update(Relaxed, Relaxed, fits);
        taken.map(drop).map_err(|spent| TooCostly {
            limit: self.max,
            size: spent.saturating_add(effort),
        })
    }
}

impl Relation {
    fn effort(&self, row: &RowRef<'_>) -> u64 {
        let Some(transfer) = &self.transfer else {
            return 0;
        };
        let texts = self.seen(row).map(|value| match value {
            ValueRef::String(text) | ValueRef::Json(text) => text.len() as u64,
            _ => 0,
        });
        texts.sum::<u64>().saturating_mul(transfer.weight)
    }

    /// The versions that count.
    fn seen<'r>(&self, row: &'r RowRef<'_>) -> impl Iterator<Item = ValueRef<'r>> {
        let seen = match self.latest_version_only {
            true => 1,
            false => usize::MAX,
        };
        row.versions(&self.column).take(seen)
    }

    fn passes(&self, row: &RowRef<'_>) -> bool {
        let mut versions = self.seen(row).peekable();
        if versions.peek().is_none() {
            return self.pass_if_missing;
        }
        versions.any(|value| self.holds(value))
    }

    fn holds(&self, value: ValueRef<'_>) -> bool {
        let Some(transfer) = &self.transfer else {
            return self.compares(value);
        };
        match (self.comparator, transfer.apply(value)) {
            (Comparator::Exist, found) => found.is_some(),
            (Comparator::NotExist, found) => found.is_none(),
            (_, Some(found)) => self.compares(found),
            (_, None) => false,
        }
    }

    fn compares(&self, value: ValueRef<'_>) -> bool {
        let order = compare(value, (&self.value).into());
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
fn compare(one: ValueRef<'_>, other: ValueRef<'_>) -> Option<Ordering> {
    use ValueRef::{Binary, Boolean, Double, Integer, Json, String};
    match (one, other) {
        (Integer(one), Integer(other)) => Some(one.cmp(&other)),
        (Double(one), Double(other)) => one.partial_cmp(&other),
        (Boolean(one), Boolean(other)) => Some(one.cmp(&other)),
        (Binary(one), Binary(other)) => Some(one.cmp(other)),
        (String(one) | Json(one), String(other) | Json(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

impl Transfer {
    /// The transfer by an expression; `None` = it is none, or too large.
    #[must_use]
    pub fn new(pattern: &str, cast: Cast) -> Option<Transfer> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return None;
        }
        let fitting = |bytes: &usize| {
            let mut builder = RegexBuilder::new(pattern);
            builder
                .size_limit(*bytes)
                .dfa_size_limit(EXPRESSION_BYTES[3]);
            let expression = builder.build().ok()?;
            let weight = (bytes / EXPRESSION_BYTES[0]) as u64;
            Some(Transfer {
                expression,
                weight,
                cast,
            })
        };
        EXPRESSION_BYTES.iter().find_map(fitting)
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.weight).map_or(usize::MAX, |weight| weight * EXPRESSION_BYTES[0])
    }

    /// The part of a text as the asked type; `None` = it is no text, has no such part, or the part is not of the type.
    fn apply<'v>(&self, value: ValueRef<'v>) -> Option<ValueRef<'v>> {
        let (ValueRef::String(text) | ValueRef::Json(text)) = value else {
            return None;
        };
        let part = self.expression.captures(text)?.get(1)?.as_str();
        match self.cast {
            Cast::Integer => i64::from_str(part).ok().map(ValueRef::Integer),
            Cast::Double => {
                let number = f64::from_str(part).ok()?;
                number.is_finite().then_some(ValueRef::Double(number))
            }
            Cast::String => Some(ValueRef::String(part)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KeyColumn, KeyType, KeyValue};
    use super::*;

    fn cells<'n>(names: &[&'n str]) -> Vec<Cell<'n>> {
        let cell = |(at, name): (usize, &&'n str)| Cell {
            name,
            version: 100 - i64::try_from(at).unwrap(),
            value: ValueRef::Integer(i64::try_from(at).unwrap()),
        };
        names.iter().enumerate().map(cell).collect()
    }

    #[test]
    fn a_page_counts_columns_and_keeps_their_versions() {
        for (offset, limit, expected) in [
            (0, 1, vec!["a", "a"]),
            (1, 2, vec!["b", "c", "c"]),
            (2, usize::MAX, vec!["c", "c"]),
            (3, 5, vec![]),
        ] {
            let mut kept = cells(&["a", "a", "b", "c", "c"]);
            ColumnPage { offset, limit }.retain(&mut kept);
            let names: Vec<_> = kept.iter().map(|cell| cell.name).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn a_predicate_sees_versions_newest_first_and_key_columns() {
        let row = RowRef {
            columns: &[KeyColumn {
                name: "pk".to_owned(),
                kind: KeyType::Integer,
                auto_increment: false,
            }],
            key: &[KeyValue::Integer(7)],
            cells: &cells(&["a", "b", "b", "c"]),
        };
        let of = |name| row.versions(name).collect::<Vec<_>>();
        assert_eq!(of("b"), [ValueRef::Integer(1), ValueRef::Integer(2)]);
        assert_eq!(of("pk"), [ValueRef::Integer(7)]);
        assert!(of("bb").is_empty() && of("").is_empty() && of("d").is_empty());
    }
}
