//! Functions of values.
//!
//! Owns: which there are, how many arguments each has, and the type of what it gives. Promises: pure; a function of
//! NULL gives NULL unless it says otherwise; what one makes longer is bounded. Must not: read rows or the clock.

mod json;
mod moments;
mod numbers;
mod texts;

use std::ops::RangeInclusive;

use crate::answer::{ColumnKind, Datum};
use crate::expr::{Expr, Typed, unified};
use crate::refusal::Refusal;

/// A function.
pub(crate) struct Function {
    name: &'static str,
    arguments: RangeInclusive<usize>,
    gives: Gives,
    run: fn(&[Datum]) -> Result<Datum, Refusal>,
    /// Whether it is run on NULL too.
    takes_null: bool,
}

/// The type of what a function gives.
enum Gives {
    Kind(ColumnKind),
    /// An integer of an integer, which comes first, else a double.
    Number,
    /// What all arguments have in common.
    Common,
}

/// As many as a call may have.
const MANY: usize = 256;
/// Bytes of a text that a function makes.
const TEXT_BYTES_MAX: usize = 4 << 20;

impl Function {
    pub(crate) fn call(&self, values: &[Datum]) -> Result<Datum, Refusal> {
        match !self.takes_null && values.iter().any(Datum::is_null) {
            true => Ok(Datum::Null),
            false => (self.run)(values),
        }
    }
}

impl PartialEq for &'static Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name)
    }
}

const fn function(
    name: &'static str,
    arguments: RangeInclusive<usize>,
    kind: ColumnKind,
    run: fn(&[Datum]) -> Result<Datum, Refusal>,
) -> Function {
    Function {
        name,
        arguments,
        gives: Gives::Kind(kind),
        run,
        takes_null: false,
    }
}

const fn of_numbers(
    name: &'static str,
    arguments: RangeInclusive<usize>,
    run: fn(&[Datum]) -> Result<Datum, Refusal>,
) -> Function {
    Function {
        gives: Gives::Number,
        ..function(name, arguments, ColumnKind::Double, run)
    }
}

const fn of_any(
    name: &'static str,
    arguments: RangeInclusive<usize>,
    run: fn(&[Datum]) -> Result<Datum, Refusal>,
) -> Function {
    Function {
        gives: Gives::Common,
        ..function(name, arguments, ColumnKind::Double, run)
    }
}

/// What CAST needs, by names that no call has.
pub(crate) const TO_DECIMAL: &str = "cast as decimal";
pub(crate) const TO_UNSIGNED: &str = "cast as unsigned";

/// Other names of functions.
const ALIASES: &[(&str, &str)] = &[
    ("ceiling", "ceil"),
    ("char_length", "character_length"),
    ("dayofmonth", "day"),
    ("lcase", "lower"),
    ("mid", "substring"),
    ("octet_length", "length"),
    ("pow", "power"),
    ("substr", "substring"),
    ("ucase", "upper"),
];

/// A call of a function.
pub(crate) fn compiled(name: &str, arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, name)| name);
    let mut all = [texts::ALL, numbers::ALL, moments::ALL, json::ALL]
        .into_iter()
        .flatten();
    let Some(function) = all.find(|function| function.name == name) else {
        return Refusal::unsupported(format!("the function {name}"));
    };
    if !function.arguments.contains(&arguments.len()) {
        return Refusal::invalid(format!(
            "Incorrect parameter count in the call to native function '{name}'"
        ));
    }
    let common = unified(arguments.iter().map(|one| one.kind));
    let (kind, arguments) = match function.gives {
        Gives::Kind(kind) => (Some(kind), arguments),
        Gives::Number => {
            let mut arguments = arguments.into_iter();
            let number = arguments.next().map_or_else(
                || Refusal::invalid(format!("{name} has a number")),
                |number| match number.kind {
                    Some(ColumnKind::Long | ColumnKind::Boolean) => {
                        number.cast(Some(ColumnKind::Long))
                    }
                    _ => number.cast(Some(ColumnKind::Double)),
                },
            )?;
            (
                number.kind,
                std::iter::once(number).chain(arguments).collect(),
            )
        }
        Gives::Common => {
            let cast = arguments.into_iter().map(|one| one.cast(common));
            (common, cast.collect::<Result<_, Refusal>>()?)
        }
    };
    Ok(Typed {
        expr: Expr::Call(
            function,
            arguments.into_iter().map(|one| one.expr).collect(),
        ),
        kind,
    })
}

/// An argument as a text.
fn text(values: &[Datum], at: usize) -> String {
    values.get(at).and_then(Datum::text).unwrap_or_default()
}

/// An argument as an integer.
fn integer(values: &[Datum], at: usize) -> Option<i64> {
    values.get(at).and_then(Datum::integer)
}

/// A text that a function made.
fn made(text: String) -> Result<Datum, Refusal> {
    match text.len() > TEXT_BYTES_MAX {
        true => Refusal::invalid(format!(
            "a function makes texts of at most {TEXT_BYTES_MAX} bytes"
        )),
        false => Ok(Datum::String(text)),
    }
}
