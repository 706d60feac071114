//! From conditions to ranges of keys.
//!
//! Owns: which keys rows can have that fulfil some conditions. Promises: no row that does is left out; the ranges rise
//! and do not overlap. Must not: decide what a row fulfils: its conditions are looked at again.

use tideline_model::{KeyColumn, KeyType, KeyValue, limits::KEY_VALUE_BYTES_MAX};

use super::Reach;
use crate::answer::Datum;
use crate::expr::{Comparison, Expr};

/// Ranges of one statement.
const REACHES_MAX: usize = 1_024;

/// A value, and whether it belongs to what it bounds itself.
type Bound = Option<(KeyValue, bool)>;

/// What is known of one column of a key.
#[derive(Default)]
struct Known {
    /// It has one of these.
    equals: Option<Vec<KeyValue>>,
    low: Bound,
    high: Bound,
}

/// The ranges that conditions leave of a table whose key's columns are in these slots; `None` = all.
pub(super) fn reaches(
    key: &[KeyColumn],
    slots: &[usize],
    conditions: &[Expr],
) -> Option<Vec<Reach>> {
    let known: Vec<Known> = key
        .iter()
        .zip(slots)
        .map(|(column, slot)| {
            let mut known = Known::default();
            conditions
                .iter()
                .for_each(|one| known.learn(one, *slot, column.kind));
            known
        })
        .collect();
    let (mut begins, range) = begins(&known);
    let (low, high) = range.unwrap_or((&None, &None));
    if begins.iter().all(Vec::is_empty) && !begins.is_empty() && low.is_none() && high.is_none() {
        return None;
    }
    begins.sort();
    begins.dedup();
    let reaches = begins.into_iter().filter_map(|begin| {
        if begin.len() == key.len() {
            return Some(Reach::Row(begin));
        }
        let is_last = begin.len() + 1 == key.len();
        let bound = |side: &Bound, is_low: bool| {
            let mut bound = begin.clone();
            // Behind all keys with a value, or before them.
            let mut rest = if is_low {
                KeyValue::InfMin
            } else {
                KeyValue::InfMax
            };
            if let Some((value, includes)) = side {
                let is_behind = *includes != is_low;
                bound.push(match is_last && is_behind {
                    true => behind(value)?,
                    false => value.clone(),
                });
                rest = if is_behind {
                    KeyValue::InfMax
                } else {
                    KeyValue::InfMin
                };
            }
            bound.resize(key.len(), rest);
            Some(bound)
        };
        // There is nothing behind the last value.
        let low = bound(low, true)?;
        let high = bound(high, false).unwrap_or_else(|| {
            let mut all = begin.clone();
            all.resize(key.len(), KeyValue::InfMax);
            all
        });
        (low < high).then_some(Reach::Range(low, high))
    });
    Some(reaches.collect())
}

/// With what keys begin, and what is known of the column behind that.
fn begins(known: &[Known]) -> (Vec<Vec<KeyValue>>, Option<(&Bound, &Bound)>) {
    let mut begins: Vec<Vec<KeyValue>> = vec![Vec::new()];
    let mut range = None;
    for known in known {
        match &known.equals {
            Some(values) if begins.len() * values.len() <= REACHES_MAX => {
                let mut longer = Vec::with_capacity(begins.len() * values.len());
                for begin in &begins {
                    for value in values {
                        let mut begin = begin.clone();
                        begin.push(value.clone());
                        longer.push(begin);
                    }
                }
                begins = longer;
            }
            Some(_) => break,
            None => {
                range = Some((&known.low, &known.high));
                break;
            }
        }
    }
    (begins, range)
}

/// The value of each column of a key that conditions give: each is equal to one constant.
pub(crate) fn equals(
    key: &[KeyColumn],
    slots: &[usize],
    conditions: &[Expr],
) -> Option<Vec<KeyValue>> {
    match &reaches(key, slots, conditions)?[..] {
        [Reach::Row(key)] => Some(key.clone()),
        _ => None,
    }
}

/// The slots that conditions bind to one value each.
pub(super) fn bound_slots(key: &[KeyColumn], slots: &[usize], conditions: &[Expr]) -> Vec<bool> {
    let of = key.iter().zip(slots).map(|(column, slot)| {
        let mut known = Known::default();
        conditions
            .iter()
            .for_each(|one| known.learn(one, *slot, column.kind));
        known.equals.is_some_and(|values| values.len() == 1)
    });
    of.collect()
}

impl Known {
    fn learn(&mut self, condition: &Expr, slot: usize, kind: KeyType) {
        let is_it = |expr: &Expr| *expr == Expr::Column(slot);
        match condition {
            Expr::And(parts) => parts.iter().for_each(|part| self.learn(part, slot, kind)),
            Expr::Compare(how, left, right) => {
                let (value, how) = match (&**left, &**right) {
                    (column, Expr::Constant(value)) if is_it(column) => (value, *how),
                    (Expr::Constant(value), column) if is_it(column) => (value, how.turned()),
                    _ => return,
                };
                let Some(value) = key_value(value, kind) else {
                    return;
                };
                match how {
                    Comparison::Equal | Comparison::Same => self.one_of(vec![value]),
                    // Behind the longest value is one that is too long to be a bound.
                    _ if value.size() == KEY_VALUE_BYTES_MAX => {}
                    Comparison::Less => self.below(value, false),
                    Comparison::LessOrEqual => self.below(value, true),
                    Comparison::Greater => self.above(value, false),
                    Comparison::GreaterOrEqual => self.above(value, true),
                    Comparison::NotEqual => {}
                }
            }
            Expr::In(column, values) if is_it(column) => {
                let values = values.iter().map(|value| match value {
                    Expr::Constant(value) => key_value(value, kind),
                    _ => None,
                });
                if let Some(values) = values.collect::<Option<Vec<_>>>() {
                    self.one_of(values);
                }
            }
            Expr::Like(column, pattern) if is_it(column) && kind == KeyType::String => {
                let (prefix, _) = pattern.prefix();
                if prefix.is_empty() || prefix.len() >= KEY_VALUE_BYTES_MAX {
                    return;
                }
                if pattern.is_plain() {
                    return self.one_of(vec![KeyValue::String(prefix)]);
                }
                if let Some(end) = end_of(&prefix) {
                    self.below(KeyValue::String(end), false);
                }
                self.above(KeyValue::String(prefix), true);
            }
            _ => {}
        }
    }

    fn one_of(&mut self, mut values: Vec<KeyValue>) {
        if let Some(known) = &self.equals {
            values.retain(|value| known.contains(value));
        }
        self.equals = Some(values);
    }

    fn above(&mut self, value: KeyValue, includes: bool) {
        let is_higher = self.low.as_ref().is_none_or(|(known, _)| *known < value);
        let is_same = self.low.as_ref().is_some_and(|(known, _)| *known == value);
        if is_higher || (is_same && !includes) {
            self.low = Some((value, includes));
        }
    }

    fn below(&mut self, value: KeyValue, includes: bool) {
        let is_lower = self.high.as_ref().is_none_or(|(known, _)| *known > value);
        let is_same = self.high.as_ref().is_some_and(|(known, _)| *known == value);
        if is_lower || (is_same && !includes) {
            self.high = Some((value, includes));
        }
    }
}

/// A constant as a value of a key, if both compare alike with every value of that type.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the number is a small whole one"
)]
fn key_value(value: &Datum, kind: KeyType) -> Option<KeyValue> {
    const EXACT: f64 = 9e15;
    match (value, kind) {
        (Datum::Long(number), KeyType::Integer) => Some(KeyValue::Integer(*number)),
        (Datum::Boolean(is), KeyType::Integer) => Some(KeyValue::Integer(i64::from(*is))),
        (Datum::Double(number), KeyType::Integer)
            if number.fract() == 0.0 && number.abs() < EXACT =>
        {
            Some(KeyValue::Integer(*number as i64))
        }
        (Datum::String(text), KeyType::String) if text.len() <= KEY_VALUE_BYTES_MAX => {
            Some(KeyValue::String(text.clone()))
        }
        (Datum::Binary(bytes), KeyType::Binary) if bytes.len() <= KEY_VALUE_BYTES_MAX => {
            Some(KeyValue::Binary(bytes.clone()))
        }
        (Datum::String(text), KeyType::Binary) if text.len() <= KEY_VALUE_BYTES_MAX => {
            Some(KeyValue::Binary(text.clone().into()))
        }
        _ => None,
    }
}

/// The value right behind another one; `None` = there is none.
fn behind(value: &KeyValue) -> Option<KeyValue> {
    Some(match value {
        KeyValue::Integer(number) => KeyValue::Integer(number.checked_add(1)?),
        KeyValue::String(text) => KeyValue::String(format!("{text}\0")),
        KeyValue::Binary(bytes) => {
            let mut bytes = bytes.to_vec();
            bytes.push(0);
            KeyValue::Binary(bytes.into())
        }
        other => other.clone(),
    })
}

/// The lowest text above all with a prefix.
fn end_of(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: KeyType) -> KeyColumn {
        KeyColumn {
            name: "k".to_owned(),
            kind,
            auto_increment: false,
        }
    }

    fn compare(how: Comparison, slot: usize, value: Datum) -> Expr {
        let (left, right) = (Expr::Column(slot), Expr::Constant(value));
        Expr::Compare(how, Box::new(left), Box::new(right))
    }

    #[test]
    fn conditions_become_ranges() {
        let key = [column(KeyType::String), column(KeyType::Integer)];
        let (text, int) = (
            |text: &str| KeyValue::String(text.to_owned()),
            KeyValue::Integer,
        );
        let of = |conditions: &[Expr]| reaches(&key, &[0, 1], conditions);
        let a = compare(Comparison::Equal, 0, Datum::String("a".to_owned()));
        let above = compare(Comparison::Greater, 1, Datum::Long(5));
        let below = compare(Comparison::LessOrEqual, 1, Datum::Long(9));
        let five = compare(Comparison::Equal, 1, Datum::Long(5));
        assert_eq!(of(&[]), None);
        assert_eq!(of(std::slice::from_ref(&five)), None);
        assert_eq!(
            of(&[a.clone(), five]),
            Some(vec![Reach::Row(vec![text("a"), int(5)])])
        );
        assert_eq!(
            of(&[a.clone(), above.clone(), below]),
            Some(vec![Reach::Range(
                vec![text("a"), int(6)],
                vec![text("a"), int(10)]
            )])
        );
        assert_eq!(
            of(&[a, above, compare(Comparison::Less, 1, Datum::Long(6))]),
            Some(Vec::new())
        );
        assert_eq!(
            of(&[compare(
                Comparison::Greater,
                0,
                Datum::String("a".to_owned())
            )]),
            Some(vec![Reach::Range(
                vec![text("a"), KeyValue::InfMax],
                vec![KeyValue::InfMax, KeyValue::InfMax]
            )])
        );
        // A number in quotes compares as a number: no range.
        let odd = compare(Comparison::Equal, 0, Datum::Long(1));
        assert_eq!(of(&[odd]), None);
        let last = compare(Comparison::Greater, 0, Datum::Long(i64::MAX));
        assert_eq!(reaches(&key[1..], &[0], &[last]), Some(Vec::new()));
    }

    #[test]
    fn the_longest_value_is_found_by_itself_and_bounds_nothing() {
        let key = [column(KeyType::String)];
        let of = |how, bytes: usize| {
            let one = compare(how, 0, Datum::String("a".repeat(bytes)));
            reaches(&key, &[0], &[one])
        };
        let row = Reach::Row(vec![KeyValue::String("a".repeat(1_024))]);
        assert_eq!(of(Comparison::Equal, 1_024), Some(vec![row]));
        assert_eq!(of(Comparison::Equal, 1_025), None);
        assert_eq!(of(Comparison::Greater, 1_024), None);
    }
}
