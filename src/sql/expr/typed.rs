//! Types of expressions, and values as they are written.
//!
//! Owns: which type values have in common, and from a literal to its value. Promises: what depends on nothing is
//! computed once. Must not: know names.

use sqlparser::ast;

use super::{Arithmetic, Expr, Typed};
use crate::answer::{ColumnKind, Datum};
use crate::refusal::Refusal;
use crate::work;

pub(super) type Compiled = Result<Typed, Refusal>;

pub(super) fn long(expr: Expr) -> Typed {
    let kind = Some(ColumnKind::Long);
    Typed { expr, kind }
}

pub(super) fn constant(value: Datum) -> Typed {
    let kind = value.kind();
    Typed {
        expr: Expr::Constant(value),
        kind,
    }
}

/// The type that values of these types have in common.
pub(crate) fn unified(kinds: impl IntoIterator<Item = Option<ColumnKind>>) -> Option<ColumnKind> {
    use ColumnKind::{Binary, Boolean, Date, DateTime, Double, Long, String};
    kinds.into_iter().flatten().fold(None, |one, other| {
        Some(match (one, other) {
            (None, other) => other,
            (Some(one), other) if one == other => one,
            (Some(Long | Boolean), Long | Boolean) => Long,
            (Some(Long | Boolean | Double), Long | Boolean | Double) => Double,
            (Some(Date | DateTime), Date | DateTime) => DateTime,
            (Some(Binary), _) | (_, Binary) => Binary,
            _ => String,
        })
    })
}

impl Typed {
    /// As a value of this type.
    pub(crate) fn cast(self, kind: Option<ColumnKind>) -> Compiled {
        match kind {
            Some(kind) if self.kind.is_some_and(|own| own != kind) => Typed {
                expr: Expr::Cast(Box::new(self.expr), kind),
                kind: Some(kind),
            }
            .folded(),
            _ => Ok(self),
        }
    }

    /// Computes it if it depends on nothing.
    pub(super) fn folded(self) -> Compiled {
        let mut is_constant = true;
        let mut parts = 0;
        self.expr.walk(&mut |part| {
            parts += 1;
            is_constant &= !matches!(part, Expr::Column(_) | Expr::OfIndex(_));
        });
        if !is_constant || parts == 1 {
            return Ok(self);
        }
        work::spend(parts)?;
        let value = self.expr.value(&[])?.into_owned();
        work::planned(value.size())?;
        Ok(Typed {
            expr: Expr::Constant(value),
            kind: self.kind,
        })
    }
}

pub(super) fn negated_if(negated: bool, expr: Expr) -> Typed {
    long(match negated {
        true => Expr::Not(Box::new(expr)),
        false => expr,
    })
}

/// The value of the first condition that holds; there is one more value than conditions.
pub(super) fn chosen(conditions: Vec<Expr>, values: Vec<Typed>) -> Compiled {
    let kind = unified(values.iter().map(|value| value.kind));
    let values = values.into_iter().map(|value| Ok(value.cast(kind)?.expr));
    let mut values = values.collect::<Result<Vec<_>, Refusal>>()?;
    let otherwise = values.pop().unwrap_or(Expr::Constant(Datum::Null));
    Ok(Typed {
        expr: Expr::Case(
            conditions.into_iter().zip(values).collect(),
            Box::new(otherwise),
        ),
        kind,
    })
}

pub(super) fn computed(what: Arithmetic, left: Typed, right: Typed) -> Typed {
    let is_whole =
        |kind: Option<ColumnKind>| matches!(kind, Some(ColumnKind::Long | ColumnKind::Boolean));
    let kind = match (left.kind, right.kind) {
        (None, _) | (_, None) => None,
        _ if what == Arithmetic::Whole => Some(ColumnKind::Long),
        _ if what == Arithmetic::Divide => Some(ColumnKind::Double),
        (left, right) if is_whole(left) && is_whole(right) => Some(ColumnKind::Long),
        _ => Some(ColumnKind::Double),
    };
    Typed {
        expr: Expr::Arithmetic(what, Box::new(left.expr), Box::new(right.expr)),
        kind,
    }
}

/// A value as it is written.
pub(super) fn literal(value: &ast::Value) -> Compiled {
    use ast::Value;
    Ok(constant(match value {
        Value::Number(digits, _) => match digits.parse() {
            Ok(number) => Datum::Long(number),
            Err(_) => match digits.parse::<f64>() {
                Ok(number) if number.is_finite() => Datum::Double(number),
                _ => return Refusal::invalid(format!("{digits} is not a number")),
            },
        },
        Value::SingleQuotedString(text)
        | Value::DoubleQuotedString(text)
        | Value::NationalStringLiteral(text) => Datum::String(text.clone()),
        Value::HexStringLiteral(digits) => Datum::Binary(from_hex(digits)?),
        Value::Boolean(is) => Datum::Boolean(*is),
        Value::Null => Datum::Null,
        Value::Placeholder(name) => return Refusal::unsupported(format!("the parameter {name}")),
        other => return Refusal::unsupported(format!("the value {other}")),
    }))
}

fn from_hex(digits: &str) -> Result<bytes::Bytes, Refusal> {
    let digits = match digits.len() % 2 {
        0 => digits.to_owned(),
        _ => format!("0{digits}"),
    };
    let pairs = digits.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| {
        let pair = std::str::from_utf8(pair).ok();
        pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    let bad = || Refusal::Invalid(format!("X'{digits}' is not hexadecimal"));
    bytes.map(bytes::Bytes::from).ok_or_else(bad)
}
