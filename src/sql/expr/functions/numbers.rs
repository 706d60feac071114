//! Functions of numbers.
//!
//! Owns: each of them. Must not: give what is no number.

use super::{Function, MANY, TO_DECIMAL, TO_UNSIGNED, function, integer, of_any, of_numbers};
use crate::answer::ColumnKind::{Double, Long};
use crate::answer::Datum;
use crate::expr::{overflow, whole_of};
use crate::refusal::Refusal;

pub(super) const ALL: &[Function] = &[
    of_numbers("abs", 1..=1, |values| match &values[0] {
        Datum::Long(number) => number.checked_abs().map(Datum::Long).ok_or_else(overflow),
        other => Ok(of(other, f64::abs)),
    }),
    of_numbers("round", 1..=2, |values| rounded(values, round_away)),
    of_numbers("truncate", 2..=2, |values| rounded(values, f64::trunc)),
    function("ceil", 1..=1, Long, |values| whole(&values[0], f64::ceil)),
    function("floor", 1..=1, Long, |values| whole(&values[0], f64::floor)),
    function("sign", 1..=1, Long, |values| {
        let number = values[0].number().unwrap_or(0.0);
        Ok(Datum::Long(
            i64::from(number > 0.0) - i64::from(number < 0.0),
        ))
    }),
    function("power", 2..=2, Double, |values| {
        let (base, exponent) = (values[0].number(), values[1].number());
        let powers = base
            .zip(exponent)
            .map(|(base, exponent)| base.powf(exponent));
        Ok(powers.map_or(Datum::Null, Datum::double))
    }),
    function("sqrt", 1..=1, Double, |values| {
        Ok(of(&values[0], f64::sqrt))
    }),
    function("exp", 1..=1, Double, |values| Ok(of(&values[0], f64::exp))),
    function("ln", 1..=1, Double, |values| Ok(of(&values[0], f64::ln))),
    function("log10", 1..=1, Double, |values| {
        Ok(of(&values[0], f64::log10))
    }),
    function(TO_DECIMAL, 3..=3, Double, decimal),
    function(TO_UNSIGNED, 1..=1, Long, unsigned),
    of_any("greatest", 2..=MANY, |values| {
        Ok(values
            .iter()
            .max_by(|one, other| one.order(other))
            .cloned()
            .unwrap_or(Datum::Null))
    }),
    of_any("least", 2..=MANY, |values| {
        Ok(values
            .iter()
            .min_by(|one, other| one.order(other))
            .cloned()
            .unwrap_or(Datum::Null))
    }),
];

fn of(value: &Datum, compute: fn(f64) -> f64) -> Datum {
    let number = value.number().map(compute);
    number.map_or(Datum::Null, Datum::double)
}

fn whole(value: &Datum, compute: fn(f64) -> f64) -> Result<Datum, Refusal> {
    match value {
        Datum::Long(_) => Ok(value.clone()),
        Datum::Boolean(is) => Ok(Datum::Long(i64::from(*is))),
        other => other
            .number()
            .map_or(Ok(Datum::Null), |number| whole_of(compute(number))),
    }
}

/// Half away from zero.
fn round_away(number: f64) -> f64 {
    number.round()
}

fn rounded(values: &[Datum], compute: fn(f64) -> f64) -> Result<Datum, Refusal> {
    let places = integer(values, 1).unwrap_or(0).clamp(-30, 30);
    let places = i32::try_from(places).unwrap_or(0);
    let is_whole = matches!(values[0], Datum::Long(_) | Datum::Boolean(_));
    if is_whole && places >= 0 {
        return Ok(Datum::Long(values[0].integer().unwrap_or(0)));
    }
    let Some(number) = values[0].number() else {
        return Ok(Datum::Null);
    };
    let factor = 10_f64.powi(places.abs());
    let made = match places >= 0 {
        // A number without such places stays as it is.
        true if number.abs() * factor >= 9e15 => number,
        true => compute(number * factor) / factor,
        false => compute(number / factor) * factor,
    };
    match is_whole {
        true => whole_of(made),
        false => Ok(Datum::double(made)),
    }
}

/// The nearest number of so many digits, of which so many are behind its point.
fn decimal(values: &[Datum]) -> Result<Datum, Refusal> {
    let number = values[0].number().map_or(Datum::Null, Datum::double);
    let rounded = rounded(&[number, values[2].clone()], round_away)?;
    let count = |at| i32::try_from(integer(values, at).unwrap_or(0)).unwrap_or(0);
    let most = (10_f64.powi(count(1)) - 1.0) / 10_f64.powi(count(2));
    // Adding 0 makes both zeros one.
    let number = rounded.number();
    let number = number.map(|number| number.clamp(-most, most) + 0.0);
    Ok(number.map_or(Datum::Null, Datum::double))
}

fn unsigned(values: &[Datum]) -> Result<Datum, Refusal> {
    let is_long = matches!(values[0], Datum::Long(_));
    match values[0].integer() {
        None => Ok(Datum::Null),
        // The highest integer stands for all numbers above it.
        Some(number) if number < 0 || (number == i64::MAX && !is_long) => Refusal::unsupported(
            "CAST AS UNSIGNED of a number below 0 or above 9223372036854775807",
        ),
        Some(number) => Ok(Datum::Long(number)),
    }
}
