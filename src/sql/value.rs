//! What values are to each other: comparisons, conversions, sizes.
//!
//! Owns: MySQL's rules of these, with texts compared by their bytes. Promises: pure; nothing here fails but an integer
//! that overflows. Must not: know expressions.

use std::cmp::Ordering;

use bytes::Bytes;
use tideline_model::{ColumnType, KeyType, KeyValue, MappedColumn, Value};

use crate::answer::{ColumnKind, Datum};
use crate::moment;
use crate::refusal::Refusal;

impl From<ColumnType> for ColumnKind {
    fn from(kind: ColumnType) -> ColumnKind {
        match kind {
            ColumnType::Integer => ColumnKind::Long,
            ColumnType::Double => ColumnKind::Double,
            ColumnType::Boolean => ColumnKind::Boolean,
            ColumnType::String => ColumnKind::String,
            ColumnType::Binary => ColumnKind::Binary,
        }
    }
}

/// The type of columns of a key.
pub(crate) fn kind_of_key(kind: KeyType) -> ColumnType {
    match kind {
        KeyType::Integer => ColumnType::Integer,
        KeyType::String => ColumnType::String,
        KeyType::Binary => ColumnType::Binary,
    }
}

impl Datum {
    /// A truth as a number.
    pub(crate) fn truth(is: bool) -> Datum {
        Datum::Long(i64::from(is))
    }

    /// A double, or NULL where it is no number.
    pub(crate) fn double(number: f64) -> Datum {
        match number.is_finite() {
            true => Datum::Double(number),
            false => Datum::Null,
        }
    }

    /// A cell of a column that is mapped as of a type: NULL if it is of another one.
    pub(crate) fn of_cell(value: Value, kind: ColumnType) -> Datum {
        match (value, kind) {
            (Value::Integer(number), ColumnType::Integer) => Datum::Long(number),
            (Value::Double(number), ColumnType::Double) => Datum::double(number),
            (Value::Boolean(is), ColumnType::Boolean) => Datum::Boolean(is),
            (Value::String(text) | Value::Json(text), ColumnType::String) => Datum::String(text),
            (Value::Binary(bytes), ColumnType::Binary) => Datum::Binary(bytes),
            _ => Datum::Null,
        }
    }

    /// A value of a key.
    pub(crate) fn of_key(value: KeyValue) -> Datum {
        match value {
            KeyValue::Integer(number) => Datum::Long(number),
            KeyValue::String(text) => Datum::String(text),
            KeyValue::Binary(bytes) => Datum::Binary(bytes),
            KeyValue::InfMin | KeyValue::InfMax | KeyValue::AutoIncrement => Datum::Null,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// Its type; NULL has none.
    pub(crate) fn kind(&self) -> Option<ColumnKind> {
        Some(match self {
            Datum::Null => return None,
            Datum::Long(_) => ColumnKind::Long,
            Datum::Double(_) => ColumnKind::Double,
            Datum::Boolean(_) => ColumnKind::Boolean,
            Datum::String(_) => ColumnKind::String,
            Datum::Binary(_) => ColumnKind::Binary,
            Datum::DateTime(_) => ColumnKind::DateTime,
            Datum::Date(_) => ColumnKind::Date,
            Datum::Time(_) => ColumnKind::Time,
        })
    }

    /// About how many bytes it takes in memory.
    pub(crate) fn size(&self) -> usize {
        let heap = match self {
            Datum::String(text) => text.len(),
            Datum::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        size_of::<Datum>() + heap
    }

    /// Whether a condition holds; `None` = NULL.
    pub(crate) fn holds(&self) -> Option<bool> {
        match self {
            Datum::Null => None,
            Datum::Long(number) => Some(*number != 0),
            Datum::Boolean(is) => Some(*is),
            other => other.number().map(|number| number != 0.0),
        }
    }

    /// As a double; a text is what its beginning says, or 0.
    #[allow(clippy::cast_precision_loss, reason = "so does MySQL")]
    pub(crate) fn number(&self) -> Option<f64> {
        Some(match self {
            Datum::Null => return None,
            Datum::Long(number) => *number as f64,
            Datum::Double(number) => *number,
            Datum::Boolean(is) => f64::from(u8::from(*is)),
            Datum::String(text) => leading_number(text),
            Datum::Binary(bytes) => leading_number(&String::from_utf8_lossy(bytes)),
            Datum::DateTime(us) => moment::digits_of_moment(*us),
            Datum::Date(seconds) => {
                (moment::digits_of_moment(seconds.saturating_mul(1_000_000)) / 1e6).trunc()
            }
            Datum::Time(ns) => moment::digits_of_time(*ns),
        })
    }

    /// As an integer, doubles rounded; out of its range the nearest one.
    #[allow(clippy::cast_possible_truncation, reason = "`as` gives the nearest")]
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Datum::Long(number) => Some(*number),
            Datum::Boolean(is) => Some(i64::from(*is)),
            Datum::String(text) => {
                let digits = text.trim();
                let whole = digits.parse().ok();
                whole.or_else(|| self.number().map(|number| number.trunc() as i64))
            }
            other => other.number().map(|number| number.round() as i64),
        }
    }

    /// As a text, as MySQL shows it; NULL is none.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        Some(match self {
            Datum::Null => return None,
            Datum::Long(number) => number.to_string(),
            Datum::Double(number) => text_of_double(*number),
            Datum::Boolean(is) => u8::from(*is).to_string(),
            Datum::String(text) => text.clone(),
            Datum::Binary(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Datum::DateTime(us) => moment::text_of_moment(*us),
            Datum::Date(seconds) => moment::text_of_day(*seconds),
            Datum::Time(ns) => moment::text_of_time(*ns),
        })
    }

    /// As a moment, µs since 1970; `None` = it is none.
    pub(crate) fn moment(&self) -> Option<i64> {
        match self {
            Datum::DateTime(us) => Some(*us),
            Datum::Date(seconds) => seconds.checked_mul(1_000_000),
            Datum::String(text) => moment::parse_moment(text),
            Datum::Long(number) => moment::moment_of_digits(*number),
            _ => None,
        }
    }

    /// As a value of a type; NULL where there is none.
    pub(crate) fn cast(self, kind: ColumnKind) -> Datum {
        if self.kind().is_none_or(|own| own == kind) {
            return self;
        }
        let cast = match kind {
            ColumnKind::Long => self.integer().map(Datum::Long),
            ColumnKind::Double => self.number().map(Datum::double),
            ColumnKind::Boolean => self.holds().map(Datum::Boolean),
            ColumnKind::String => self.text().map(Datum::String),
            ColumnKind::Binary => self.text().map(|text| Datum::Binary(Bytes::from(text))),
            ColumnKind::DateTime => self.moment().map(Datum::DateTime),
            ColumnKind::Date => self.moment().map(|us| Datum::Date(moment::midnight(us))),
            ColumnKind::Time => match &self {
                Datum::DateTime(us) => Some(us.rem_euclid(moment::DAY_US) * 1_000),
                Datum::Date(_) => Some(0),
                other => other.text().and_then(|text| moment::parse_time(&text)),
            }
            .map(Datum::Time),
        };
        cast.unwrap_or(Datum::Null)
    }

    /// How it compares; `None` = one of them is NULL, or can't be what the other is.
    pub(crate) fn compare(&self, other: &Datum) -> Option<Ordering> {
        use Datum::{Binary, Boolean, Date, DateTime, Double, Long, Null, String, Time};
        match (self, other) {
            (Null, _) | (_, Null) => None,
            (Long(one), Long(other)) => Some(one.cmp(other)),
            (Double(one), Double(other)) => one.partial_cmp(other),
            (Boolean(one), Boolean(other)) => Some(one.cmp(other)),
            (String(one), String(other)) => Some(one.as_bytes().cmp(other.as_bytes())),
            (Binary(one), Binary(other)) => Some(one.cmp(other)),
            (Binary(one), String(other)) => Some((**one).cmp(other.as_bytes())),
            (String(one), Binary(other)) => Some(one.as_bytes().cmp(other)),
            (Date(one), Date(other)) => Some(one.cmp(other)),
            (Time(one), Time(other)) => Some(one.cmp(other)),
            (Long(one), Double(other)) => compare_mixed(*one, *other),
            (Double(one), Long(other)) => compare_mixed(*other, *one).map(Ordering::reverse),
            (Time(one), String(other)) => Some(one.cmp(&moment::parse_time(other)?)),
            (String(one), Time(other)) => Some(moment::parse_time(one)?.cmp(other)),
            (DateTime(_) | Date(_), DateTime(_) | Date(_) | String(_))
            | (String(_), DateTime(_) | Date(_)) => Some(self.moment()?.cmp(&other.moment()?)),
            _ => self.number()?.partial_cmp(&other.number()?),
        }
    }

    /// The order of rows: NULL first. Of values of one type, or of numbers, it is a total one.
    pub(crate) fn order(&self, other: &Datum) -> Ordering {
        match (self.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.compare(other).unwrap_or(Ordering::Equal),
        }
    }

    /// Appends bytes that are equal where values of one type are.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (tag, number) = match self {
            Datum::Null => (0, None),
            Datum::Long(number) => (1, Some(*number)),
            // Both zeros are one.
            Datum::Double(number) => (2, Some((number + 0.0).to_bits().cast_signed())),
            Datum::Boolean(is) => (3, Some(i64::from(*is))),
            Datum::String(_) => (4, None),
            Datum::Binary(_) => (5, None),
            Datum::DateTime(us) => (6, Some(*us)),
            Datum::Date(seconds) => (7, Some(*seconds)),
            Datum::Time(ns) => (8, Some(*ns)),
        };
        out.push(tag);
        if let Some(number) = number {
            out.extend_from_slice(&number.to_be_bytes());
        }
        let bytes = match self {
            Datum::String(text) => text.as_bytes(),
            Datum::Binary(bytes) => bytes,
            _ => return,
        };
        out.extend_from_slice(&bytes.len().to_be_bytes());
        out.extend_from_slice(bytes);
    }
}

/// The size of a row.
pub(crate) fn size_of_row(row: &[Datum]) -> usize {
    size_of::<Vec<Datum>>() + row.iter().map(Datum::size).sum::<usize>()
}

/// An integer against a double, exactly.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the whole part is in range"
)]
fn compare_mixed(one: i64, other: f64) -> Option<Ordering> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if other.is_nan() {
        return None;
    }
    if other >= BOUND {
        return Some(Ordering::Less);
    }
    if other < -BOUND {
        return Some(Ordering::Greater);
    }
    let whole = one.cmp(&(other.trunc() as i64));
    Some(whole.then_with(|| {
        0.0_f64
            .partial_cmp(&other.fract())
            .unwrap_or(Ordering::Equal)
    }))
}

/// The number that a text begins with, or 0.
fn leading_number(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut end = digits(usize::from(matches!(bytes.first(), Some(b'+' | b'-'))));
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    let number = text[..end].parse::<f64>().ok();
    number.filter(|number| number.is_finite()).unwrap_or(0.0)
}

/// As MySQL shows a double.
fn text_of_double(number: f64) -> String {
    let size = number.abs();
    match size != 0.0 && !(1e-15..1e15).contains(&size) {
        true => format!("{number:e}"),
        false => number.to_string(),
    }
}

/// A value as a column keeps it; `None` = NULL.
pub(crate) fn stored(column: &MappedColumn, value: Datum) -> Result<Option<Value>, Refusal> {
    let bad = || Refusal::Invalid(format!("Incorrect value for column '{}'", column.name));
    Ok(Some(match (column.kind, value) {
        (_, Datum::Null) => return Ok(None),
        (ColumnType::Integer, Datum::Long(number)) => Value::Integer(number),
        (ColumnType::Integer, Datum::Boolean(is)) => Value::Integer(i64::from(is)),
        (ColumnType::Integer, Datum::String(text)) => {
            Value::Integer(text.trim().parse().map_err(|_| bad())?)
        }
        (ColumnType::Double, Datum::Double(number)) => Value::Double(number),
        (ColumnType::Double, value @ (Datum::Long(_) | Datum::Boolean(_))) => {
            Value::Double(value.number().ok_or_else(bad)?)
        }
        (ColumnType::Double, Datum::String(text)) => {
            let number = text.trim().parse::<f64>().map_err(|_| bad())?;
            Value::Double(
                Some(number)
                    .filter(|number| number.is_finite())
                    .ok_or_else(bad)?,
            )
        }
        (ColumnType::Boolean, Datum::Boolean(is)) => Value::Boolean(is),
        (ColumnType::Boolean, Datum::Long(number @ 0..=1)) => Value::Boolean(number == 1),
        (ColumnType::String, Datum::Binary(_)) => return Err(bad()),
        (ColumnType::String, value) => Value::String(value.text().ok_or_else(bad)?),
        (ColumnType::Binary, Datum::Binary(bytes)) => Value::Binary(bytes),
        (ColumnType::Binary, Datum::String(text)) => Value::Binary(text.into()),
        _ => return Err(bad()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_compare_exactly() {
        let of = |one: i64, other: f64| Datum::Long(one).compare(&Datum::Double(other));
        assert_eq!(
            of(9_007_199_254_740_993, 9_007_199_254_740_992.0),
            Some(Ordering::Greater)
        );
        assert_eq!(
            of(i64::MAX, 9_223_372_036_854_775_808.0),
            Some(Ordering::Less)
        );
        assert_eq!(
            of(i64::MIN, -9_223_372_036_854_775_808.0),
            Some(Ordering::Equal)
        );
        assert_eq!(of(1, 1.5), Some(Ordering::Less));
        assert_eq!(of(-1, -1.5), Some(Ordering::Greater));
    }

    #[test]
    fn texts_begin_with_numbers() {
        for (text, number) in [
            ("12abc", 12.0),
            (" -1.5e2x", -150.0),
            ("abc", 0.0),
            ("1e", 1.0),
            (".5", 0.5),
            ("-", 0.0),
            ("", 0.0),
            ("1e999", 0.0),
        ] {
            assert_eq!(leading_number(text), number, "{text}");
        }
    }
}
