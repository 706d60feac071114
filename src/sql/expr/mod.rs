//! Expressions over the values of a row.
//!
//! Owns: what each means. Promises: the same row gives the same value; a value has the type that was found when the
//! expression was compiled, or is NULL; trees are as deep as `compile.rs` lets them be. Must not: know names.

pub(crate) mod aggregate;
mod asked;
mod calls;
mod cast;
mod compile;
mod functions;
mod like;
mod names;
mod operators;
mod typed;

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::answer::{ColumnKind, Datum};
use crate::refusal::Refusal;
use crate::work;
pub(crate) use compile::{Compiler, Groups};
use functions::Function;
pub(crate) use like::Pattern;
pub(crate) use names::{NamedColumn, Names};
pub(crate) use typed::unified;

/// About what a part of an expression takes.
const PART_BYTES: usize = 160;

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `<=>`: NULL is equal to NULL.
    Same,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal | Comparison::Same => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// With its sides exchanged.
    pub(crate) fn turned(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

/// What is computed of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// DIV.
    Whole,
    /// MOD.
    Rest,
}

/// A condition that only a search index can tell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OfIndex {
    /// TEXT_MATCH: slot, text, whether all words have to be there, how many.
    Match(usize, String, bool, Option<i64>),
    /// TEXT_MATCH_PHRASE: slot, text.
    Phrase(usize, String),
    /// ARRAY_EXTRACT compared: slot, how, value.
    Element(usize, Comparison, Datum),
}

/// See the top.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Constant(Datum),
    /// The value in this slot of the row.
    Column(usize),
    Negative(Box<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Xor(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// IS TRUE, IS FALSE.
    Is(Box<Expr>, bool),
    In(Box<Expr>, Vec<Expr>),
    Like(Box<Expr>, Pattern),
    /// Conditions with their values, and the value without one.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// The first that is not NULL.
    First(Vec<Expr>),
    Cast(Box<Expr>, ColumnKind),
    Call(&'static Function, Vec<Expr>),
    OfIndex(OfIndex),
}

/// An expression and the type of its values; `None` = always NULL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) kind: Option<ColumnKind>,
}

impl Expr {
    /// Its value in a row.
    pub(crate) fn value<'a>(&'a self, row: &'a [Datum]) -> Result<Cow<'a, Datum>, Refusal> {
        let value = match self {
            Expr::Constant(value) => return Ok(Cow::Borrowed(value)),
            Expr::Column(slot) => {
                const NULL: &Datum = &Datum::Null;
                return Ok(Cow::Borrowed(row.get(*slot).unwrap_or(NULL)));
            }
            Expr::Negative(inner) => negative(&*inner.taken(row)?)?,
            Expr::Arithmetic(what, left, right) => {
                arithmetic(*what, &*left.taken(row)?, &*right.taken(row)?)?
            }
            Expr::Compare(how, left, right) => {
                compare(*how, &*left.taken(row)?, &*right.taken(row)?)
            }
            Expr::And(parts) => all(parts, row, false)?,
            Expr::Or(parts) => all(parts, row, true)?,
            Expr::Xor(left, right) => {
                let both = (left.holds(row)?, right.holds(row)?);
                truth(both.0.zip(both.1).map(|(one, other)| one != other))
            }
            Expr::Not(inner) => truth(inner.holds(row)?.map(|holds| !holds)),
            Expr::IsNull(inner) => Datum::truth(inner.value(row)?.is_null()),
            Expr::Is(inner, wanted) => Datum::truth(inner.holds(row)? == Some(*wanted)),
            Expr::In(inner, values) => is_in(&*inner.taken(row)?, values, row)?,
            Expr::Like(inner, pattern) => match inner.taken(row)?.as_ref() {
                Datum::String(text) => Datum::truth(pattern.matches(text)?),
                other => {
                    let text = other.text();
                    truth(text.map(|text| pattern.matches(&text)).transpose()?)
                }
            },
            Expr::Case(parts, otherwise) => {
                for (condition, value) in parts {
                    if condition.holds(row)? == Some(true) {
                        return value.value(row);
                    }
                }
                return otherwise.value(row);
            }
            Expr::First(parts) => {
                for part in parts {
                    let value = part.taken(row)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            Expr::Cast(inner, kind) => {
                let value = inner.taken(row)?;
                work::made(value.size())?;
                value.into_owned().cast(*kind)
            }
            Expr::Call(function, arguments) => {
                let (mut values, mut size) = (Vec::with_capacity(arguments.len()), 0);
                for argument in arguments {
                    let value = argument.taken(row)?;
                    work::made(value.size())?;
                    size += value.size();
                    values.push(value.into_owned());
                }
                let given = function.call(&values)?;
                work::dropped(size);
                work::made(given.size())?;
                given
            }
            Expr::OfIndex(_) => return Refusal::unsupported(ONLY_OF_INDEX),
        };
        Ok(Cow::Owned(value))
    }

    /// Whether it holds of a row; `None` = NULL.
    pub(crate) fn holds(&self, row: &[Datum]) -> Result<Option<bool>, Refusal> {
        Ok(self.taken(row)?.holds())
    }

    /// Its value, counted as work: as much as to look at all of it.
    pub(crate) fn taken<'a>(&'a self, row: &'a [Datum]) -> Result<Cow<'a, Datum>, Refusal> {
        let value = self.value(row)?;
        work::spend(value.size())?;
        Ok(value)
    }

    /// A copy, counted with what the statement's plan holds.
    pub(crate) fn copied(&self) -> Result<Expr, Refusal> {
        let mut bytes = 0;
        self.walk(&mut |part| {
            bytes += PART_BYTES;
            match part {
                Expr::Constant(value) => bytes += value.size(),
                Expr::Like(..) | Expr::OfIndex(_) => bytes += like::BYTES_MAX * 8,
                _ => {}
            }
        });
        work::planned(bytes)?;
        Ok(self.clone())
    }

    /// Gives each part of it to `each`, itself first.
    pub(crate) fn walk(&self, each: &mut dyn FnMut(&Expr)) {
        each(self);
        match self {
            Expr::Constant(_) | Expr::Column(_) | Expr::OfIndex(_) => {}
            Expr::Negative(inner)
            | Expr::Not(inner)
            | Expr::IsNull(inner)
            | Expr::Is(inner, _)
            | Expr::Like(inner, _)
            | Expr::Cast(inner, _) => inner.walk(each),
            Expr::Arithmetic(_, left, right)
            | Expr::Compare(_, left, right)
            | Expr::Xor(left, right) => {
                left.walk(each);
                right.walk(each);
            }
            Expr::And(parts) | Expr::Or(parts) | Expr::First(parts) | Expr::Call(_, parts) => {
                parts.iter().for_each(|part| part.walk(each));
            }
            Expr::In(inner, values) => {
                inner.walk(each);
                values.iter().for_each(|value| value.walk(each));
            }
            Expr::Case(parts, otherwise) => {
                for (condition, value) in parts {
                    condition.walk(each);
                    value.walk(each);
                }
                otherwise.walk(each);
            }
        }
    }

    /// The slots that it looks at.
    pub(crate) fn slots(&self, slots: &mut std::collections::BTreeSet<usize>) {
        self.walk(&mut |part| match part {
            Expr::Column(slot) => {
                slots.insert(*slot);
            }
            Expr::OfIndex(
                OfIndex::Match(slot, ..) | OfIndex::Phrase(slot, _) | OfIndex::Element(slot, ..),
            ) => {
                slots.insert(*slot);
            }
            _ => {}
        });
    }

    /// Whether only a search index can tell it.
    pub(crate) fn is_of_index(&self) -> bool {
        let mut is = false;
        self.walk(&mut |part| is |= matches!(part, Expr::OfIndex(_)));
        is
    }
}

/// What the service says of such a condition in any other place.
pub(crate) const ONLY_OF_INDEX: &str =
    "text_match is only supported for TEXT field in filter conditions in search index";

fn truth(holds: Option<bool>) -> Datum {
    holds.map_or(Datum::Null, Datum::truth)
}

/// AND, or with `ends` = true OR: ends at the first part that is so.
fn all(parts: &[Expr], row: &[Datum], ends: bool) -> Result<Datum, Refusal> {
    let mut holds = Some(!ends);
    for part in parts {
        match part.holds(row)? {
            Some(is) if is == ends => return Ok(Datum::truth(ends)),
            Some(_) => {}
            None => holds = None,
        }
    }
    Ok(truth(holds))
}

fn compare(how: Comparison, left: &Datum, right: &Datum) -> Datum {
    if how == Comparison::Same && (left.is_null() || right.is_null()) {
        return Datum::truth(left.is_null() && right.is_null());
    }
    truth(left.compare(right).map(|order| how.holds(order)))
}

fn is_in(value: &Datum, values: &[Expr], row: &[Datum]) -> Result<Datum, Refusal> {
    let mut found = Some(false);
    for other in values {
        work::spend(value.size())?;
        match value.compare(&*other.taken(row)?) {
            Some(Ordering::Equal) => return Ok(Datum::truth(true)),
            Some(_) => {}
            None => found = None,
        }
    }
    Ok(truth(found))
}

fn negative(value: &Datum) -> Result<Datum, Refusal> {
    match value {
        Datum::Null => Ok(Datum::Null),
        Datum::Long(number) => number.checked_neg().map(Datum::Long).ok_or_else(overflow),
        Datum::Boolean(is) => Ok(Datum::Long(-i64::from(*is))),
        other => Ok(other
            .number()
            .map_or(Datum::Null, |number| Datum::double(-number))),
    }
}

fn arithmetic(what: Arithmetic, left: &Datum, right: &Datum) -> Result<Datum, Refusal> {
    let whole = |value: &Datum| match value {
        Datum::Long(number) => Some(*number),
        Datum::Boolean(is) => Some(i64::from(*is)),
        _ => None,
    };
    if left.is_null() || right.is_null() {
        return Ok(Datum::Null);
    }
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let computed = match what {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            Arithmetic::Divide => return Ok(divided(left_as_double(left), left_as_double(right))),
            Arithmetic::Whole | Arithmetic::Rest if right == 0 => return Ok(Datum::Null),
            Arithmetic::Whole => left.checked_div(right),
            Arithmetic::Rest => Some(left.checked_rem(right).unwrap_or(0)),
        };
        return computed.map(Datum::Long).ok_or_else(overflow);
    }
    let (Some(left), Some(right)) = (left.number(), right.number()) else {
        return Ok(Datum::Null);
    };
    Ok(match what {
        Arithmetic::Add => Datum::double(left + right),
        Arithmetic::Subtract => Datum::double(left - right),
        Arithmetic::Multiply => Datum::double(left * right),
        Arithmetic::Divide => divided(left, right),
        Arithmetic::Rest if right == 0.0 => Datum::Null,
        Arithmetic::Rest => Datum::double(left % right),
        Arithmetic::Whole if right == 0.0 => Datum::Null,
        Arithmetic::Whole => whole_of((left / right).trunc())?,
    })
}

#[allow(clippy::cast_precision_loss, reason = "so does MySQL")]
fn left_as_double(number: i64) -> f64 {
    number as f64
}

fn divided(left: f64, right: f64) -> Datum {
    match right == 0.0 {
        true => Datum::Null,
        false => Datum::double(left / right),
    }
}

/// A whole number as an integer.
#[allow(clippy::cast_possible_truncation, reason = "the bounds are checked")]
pub(crate) fn whole_of(number: f64) -> Result<Datum, Refusal> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    match (-BOUND..BOUND).contains(&number) {
        true => Ok(Datum::Long(number as i64)),
        false => Err(overflow()),
    }
}

pub(crate) fn overflow() -> Refusal {
    Refusal::Invalid("BIGINT value is out of range".to_owned())
}
