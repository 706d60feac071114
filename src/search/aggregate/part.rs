//! The values of rows in one segment.
//!
//! Owns: how each kind of field is read. Promises: numbers of values mean the same in all segments. Must not: count.

use std::collections::HashMap;

use tantivy::columnar::{BytesColumn, Column};
use tantivy::query::Scorer;
use tantivy::{DocId, SegmentReader};
use tantivy::{f64_to_u64, i64_to_u64, u64_to_f64, u64_to_i64};

use tideline_model::Value;

use super::{Key, Node, Steps, Texts};
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
    /// Only counted.
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

/// A node in one segment.
pub(super) struct NodePart {
    key: Option<KeyPart>,
    pub(super) measures: Vec<Values>,
    pub(super) inner: Vec<NodePart>,
    /// The keys of the row that is looked at.
    pub(super) found: Vec<u64>,
}

enum KeyPart {
    Values(Values),
    Ranges(Values, Vec<(f64, f64)>),
    Filters(Vec<Box<dyn Scorer>>),
    Steps(Values, f64, Option<(f64, f64)>),
}

impl NodePart {
    pub(super) fn new(node: &Node, segment: &SegmentReader) -> tantivy::Result<NodePart> {
        let of = |source: &Source| Values::new(source, segment);
        let key = match node.by.as_ref().map(|by| &by.key) {
            None => None,
            Some(Key::Values(source)) => Some(KeyPart::Values(of(source)?)),
            Some(Key::Ranges(source, ranges)) => Some(KeyPart::Ranges(of(source)?, ranges.clone())),
            Some(Key::Steps(source, Steps { interval, range })) => {
                Some(KeyPart::Steps(of(source)?, *interval, *range))
            }
            Some(Key::Filters(filters)) => {
                let rows = filters.iter().map(|filter| filter.scorer(segment, 1.0));
                Some(KeyPart::Filters(rows.collect::<tantivy::Result<_>>()?))
            }
        };
        let measures = node.measures.iter().map(|measure| of(&measure.source));
        let inner = node.inner.iter().map(|inner| NodePart::new(inner, segment));
        Ok(NodePart {
            key,
            measures: measures.collect::<tantivy::Result<_>>()?,
            inner: inner.collect::<tantivy::Result<_>>()?,
            found: Vec::new(),
        })
    }

    /// Finds the keys of a row, each once. Rows come in their order.
    pub(super) fn keys(
        &mut self,
        row: DocId,
        texts: &mut Texts,
        share: &Share,
    ) -> Result<(), Short> {
        let found = &mut self.found;
        found.clear();
        match &mut self.key {
            None => {}
            Some(KeyPart::Values(values)) => {
                values.each(row, texts, share, |value| {
                    found.push(value.key);
                    Ok(())
                })?;
            }
            Some(KeyPart::Ranges(values, ranges)) => {
                values.each(row, texts, share, |value| {
                    let number = value.number;
                    let all = (0..).zip(ranges.iter());
                    let inside = all.filter(|(_, (from, to))| *from <= number && number < *to);
                    found.extend(inside.map(|(at, _)| at));
                    Ok(())
                })?;
            }
            Some(KeyPart::Filters(filters)) => {
                for (at, rows) in (0..).zip(filters) {
                    if rows.doc() < row {
                        rows.seek(row);
                    }
                    if rows.doc() == row {
                        found.push(at);
                    }
                }
            }
            Some(KeyPart::Steps(values, interval, range)) => {
                values.each(row, texts, share, |value| {
                    let number = value.number;
                    if range.is_none_or(|(from, to)| from <= number && number <= to) {
                        found.push(step_of(number, *interval));
                    }
                    Ok(())
                })?;
            }
        }
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        Ok(())
    }
}

/// The number of the step that a value is in, as keys have it.
#[allow(clippy::cast_possible_truncation)] // saturates; steps so far out are one
pub(super) fn step_of(number: f64, interval: f64) -> u64 {
    i64_to_u64((number / interval).floor() as i64)
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
    fn new(source: &Source, segment: &SegmentReader) -> tantivy::Result<Values> {
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
