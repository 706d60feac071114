//! The values of rows in one segment.
//!
//! Owns: how each kind of field is read. Promises: numbers of values mean the same in all segments. Must not: count.

use std::collections::HashMap;

use tantivy::columnar::{BytesColumn, Column};
use tantivy::{DocId, SegmentReader};
use tantivy::{f64_to_u64, i64_to_u64, u64_to_f64, u64_to_i64};

use tideline_model::Value;

use super::Texts;
use crate::collect::{Share, Short};

/// A field of an index, and what rows without a value count as.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) column: String,
    pub(super) kind: SourceKind,
    pub(super) missing: Option<Value>,
}

/// What its numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    Integer,
    Double,
    Boolean,
    Text,
    /// A stored point.
    Point,
}

/// A value: the key that equal values share, and the number that is computed with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) key: u64,
    pub(super) number: f64,
}

impl SourceKind {
    #[allow(clippy::cast_precision_loss)] // results are doubles
    pub(super) fn number(self, key: u64) -> f64 {
        match self {
            SourceKind::Integer => u64_to_i64(key) as f64,
            SourceKind::Double => u64_to_f64(key),
            SourceKind::Boolean | SourceKind::Text | SourceKind::Point => key as f64,
        }
    }
}

/// The values of a field in one segment.
pub(super) struct Values {
    kind: SourceKind,
    column: Option<Column<u64>>,
    texts: Option<BytesColumn>,
    /// Of the segment's texts, their numbers.
    known: HashMap<u64, u64>,
    missing: Option<Value>,
    text: Vec<u8>,
}

impl Values {
    pub(super) fn new(source: &Source, segment: &SegmentReader) -> tantivy::Result<Values> {
        let columns = segment.fast_fields();
        let (mut column, mut texts) = (None, None);
        match source.kind {
            SourceKind::Text => texts = columns.str(&source.column)?.map(Into::into),
            _ => {
                column = columns
                    .u64_lenient(&source.column)?
                    .map(|(column, _)| column)
            }
        }
        Ok(Values {
            kind: source.kind,
            column,
            texts,
            known: HashMap::new(),
            missing: source.missing.clone(),
            text: Vec::new(),
        })
    }

    /// Whether a row has a number, or one in its place.
    pub(super) fn has(&self, row: DocId) -> bool {
        let column = self.column.as_ref();
        self.missing.is_some() || column.is_some_and(|column| column.first(row).is_some())
    }

    /// Calls `each` with every value of a row.
    pub(super) fn each(
        &mut self,
        row: DocId,
        numbers: &mut Texts,
        share: &Share,
        mut each: impl FnMut(Number) -> Result<(), Short>,
    ) -> Result<(), Short> {
        let mut is_there = false;
        let kind = self.kind;
        let of = |key| Number {
            key,
            number: kind.number(key),
        };
        if let Some(column) = &self.column {
            for key in column.values_for_doc(row) {
                is_there = true;
                each(of(key))?;
            }
        }
        if let Some(texts) = &self.texts {
            for ordinal in texts.term_ords(row) {
                is_there = true;
                let key = match self.known.get(&ordinal) {
                    Some(number) => *number,
                    None => {
                        self.text.clear();
                        let read = texts.ord_to_bytes(ordinal, &mut self.text);
                        read.map_err(|_| Short::Damaged)?;
                        let number = numbers.number(&self.text, share)?;
                        share.take(KNOWN_BYTES)?;
                        self.known.insert(ordinal, number);
                        number
                    }
                };
                each(of(key))?;
            }
        }
        if let (false, Some(missing)) = (is_there, &self.missing) {
            let key = match missing {
                Value::Integer(number) => i64_to_u64(*number),
                Value::Double(number) => f64_to_u64(*number),
                Value::Boolean(flag) => u64::from(*flag),
                Value::String(text) => numbers.number(text.as_bytes(), share)?,
                _ => return Ok(()),
            };
            each(of(key))?;
        }
        Ok(())
    }
}

/// What the number of a text takes in a segment.
const KNOWN_BYTES: usize = 32;
