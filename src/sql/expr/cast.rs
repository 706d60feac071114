//! CAST.
//!
//! Owns: which types there are, and what their sizes mean. Promises: a size is kept to, or refused by its name. Must
//! not: know where a value comes from.

use sqlparser::ast::{CharacterLength, DataType, ExactNumberInfo};

use super::typed::{Compiled, constant};
use super::{Typed, functions};
use crate::answer::{ColumnKind, Datum};
use crate::refusal::Refusal;

/// Digits of a DECIMAL: if nothing is said, at most, and at most behind its point.
const DIGITS: u64 = 10;
const DIGITS_MAX: i64 = 65;
const SCALE_MAX: i64 = 30;

/// CAST of a value.
pub(super) fn cast_as(value: Typed, data_type: &DataType) -> Compiled {
    let text = data_type.to_string().to_uppercase();
    let name = text.split(['(', ' ']).next().unwrap_or_default();
    let kind = match name {
        "SIGNED" | "UNSIGNED" | "BIGINT" | "INT" | "INTEGER" => ColumnKind::Long,
        "DOUBLE" | "FLOAT" | "DECIMAL" | "REAL" => ColumnKind::Double,
        "CHAR" | "VARCHAR" | "NCHAR" | "TEXT" | "MEDIUMTEXT" => ColumnKind::String,
        "BINARY" | "VARBINARY" | "MEDIUMBLOB" => ColumnKind::Binary,
        "DATETIME" | "TIMESTAMP" => ColumnKind::DateTime,
        "DATE" => ColumnKind::Date,
        "TIME" => ColumnKind::Time,
        "BOOL" | "BOOLEAN" => ColumnKind::Boolean,
        _ => return Refusal::unsupported(format!("the type {text}")),
    };
    let whole = |number: i64| constant(Datum::Long(number));
    match data_type {
        DataType::Char(Some(length)) | DataType::Varchar(Some(length)) => match length {
            CharacterLength::IntegerLength { length, unit: None } => {
                let length = whole(i64::try_from(*length).unwrap_or(i64::MAX));
                functions::compiled("left", vec![value, length])?.folded()
            }
            _ => Refusal::unsupported(format!("CAST AS {text}")),
        },
        DataType::Decimal(info) => {
            let (digits, scale) = match info {
                ExactNumberInfo::None => (DIGITS, 0),
                ExactNumberInfo::Precision(digits) => (*digits, 0),
                ExactNumberInfo::PrecisionAndScale(digits, scale) => (*digits, *scale),
            };
            let digits = i64::try_from(digits).unwrap_or(i64::MAX);
            if !(1..=DIGITS_MAX).contains(&digits) || !(0..=digits.min(SCALE_MAX)).contains(&scale)
            {
                let what = "DECIMAL(p, s) has 1 to 65 digits, 0 to 30 of them behind its point";
                return Refusal::invalid(what);
            }
            let arguments = vec![value, whole(digits), whole(scale)];
            functions::compiled(functions::TO_DECIMAL, arguments)?.folded()
        }
        DataType::Unsigned | DataType::UnsignedInteger => {
            functions::compiled(functions::TO_UNSIGNED, vec![value])?.folded()
        }
        // Moments and times have microseconds.
        DataType::Datetime(Some(6))
        | DataType::Time(Some(6), _)
        | DataType::Timestamp(Some(6), _) => value.cast(Some(kind)),
        // Neither a size nor what else is said of a type is passed over.
        _ if text.contains('(') || text.contains("UNSIGNED") || text.contains("ZEROFILL") => {
            Refusal::unsupported(format!("CAST AS {text}"))
        }
        _ => value.cast(Some(kind)),
    }
}
