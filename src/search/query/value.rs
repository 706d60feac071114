//! Values of queries against fields.
//!
//! Owns: which value can be compared with which field. Promises: a text is read as the field's type where that is a
//! number or a date. Must not: look into an index.

use tantivy::Term;

use tideline_model::search::{FieldType, InvalidSearch};
use tideline_model::{Value, ValueRef};

use crate::index::layout::{Layout, Placed};

/// The term of a row's key.
pub(crate) fn term_of_key(layout: &Layout, key: &[u8]) -> Term {
    Term::from_field_bytes(layout.key, key)
}

impl Placed {
    /// The term of a value.
    pub(super) fn term(&self, value: &Value, what: &'static str) -> Result<Term, InvalidSearch> {
        let at = self.searched(what)?;
        let bad = || InvalidSearch::Value(self.field.name.clone());
        Ok(match self.field.kind {
            FieldType::Long => Term::from_field_i64(at, self.integer(value).ok_or_else(bad)?),
            FieldType::Date => Term::from_field_i64(at, self.date(value).ok_or_else(bad)?),
            FieldType::Double => Term::from_field_f64(at, double(value).ok_or_else(bad)?),
            FieldType::Boolean => match value {
                Value::Boolean(flag) => Term::from_field_bool(at, *flag),
                Value::String(text) if text == "true" => Term::from_field_bool(at, true),
                Value::String(text) if text == "false" => Term::from_field_bool(at, false),
                _ => return Err(bad()),
            },
            FieldType::Keyword | FieldType::FuzzyKeyword | FieldType::Text => match value {
                Value::String(text) => Term::from_field_text(at, text),
                Value::Integer(number) => Term::from_field_text(at, &number.to_string()),
                _ => return Err(bad()),
            },
            FieldType::GeoPoint | FieldType::Nested | FieldType::Vector => {
                return Err(self.no(what));
            }
        })
    }

    /// A date as a number, ms since 1970.
    #[allow(clippy::cast_precision_loss)] // it is computed with
    pub(super) fn ms(&self, value: &Value) -> Result<f64, InvalidSearch> {
        let bad = || InvalidSearch::Value(self.field.name.clone());
        self.date(value).map(|ms| ms as f64).ok_or_else(bad)
    }

    #[allow(clippy::cast_possible_truncation)] // only what is whole and in range
    pub(crate) fn integer(&self, value: &Value) -> Option<i64> {
        match value {
            Value::Integer(number) => Some(*number),
            Value::String(text) => text.trim().parse().ok(),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e18 => {
                Some(*number as i64)
            }
            _ => None,
        }
    }

    fn date(&self, value: &Value) -> Option<i64> {
        match value.into() {
            ValueRef::Integer(number) => self.formats.of_integer(number),
            ValueRef::String(text) => self.formats.read(text),
            _ => None,
        }
    }
}

#[allow(clippy::cast_precision_loss)] // as comparing an integer with a double does
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        Value::String(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| !number.is_nan()),
        _ => None,
    }
}
