//! The values of rows in one segment.
//!
//! Owns: how each kind of field is read. Promises: numbers of values mean the same in all segments. Must not: count.

use std::collections::HashMap;

use tantivy::columnar::{BytesColumn, Column};
use tantivy::query::Scorer;
use tantivy::{DocId, SegmentOrdinal, SegmentReader};
use tantivy::{f64_to_u64, i64_to_u64, u64_to_f64, u64_to_i64};

use tideline_model::Value;
use tideline_model::search::{Point, StoredPoint, distance_m};

use super::several::SeveralPart;
use super::{Dates, Key, Node, Of, Steps, Texts};
use crate::collect::{Rank, SegmentOrder, Share, Short};

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

/// A node in one segment.
pub(super) struct NodePart {
    key: Option<KeyPart>,
    pub(super) measures: Vec<MeasurePart>,
    pub(super) inner: Vec<NodePart>,
    /// The keys of the row that is looked at.
    pub(super) found: Vec<u64>,
}

/// A measure in one segment.
pub(super) enum MeasurePart {
    Values(Values),
    /// And the ranks of the row that is looked at.
    Rows(SegmentOrder, Vec<Rank>),
}

/// A key in one segment.
pub(super) enum KeyPart {
    Values(Values),
    Ranges(Values, Vec<(f64, f64)>),
    Distances(Values, Point, Vec<(f64, f64)>),
    Cells(Values, u32),
    Filters(Vec<Box<dyn Scorer>>),
    Steps(Values, Steps),
    Dates(Values, Dates),
    Several(SeveralPart),
}

impl KeyPart {
    pub(super) fn new(key: &Key, segment: &SegmentReader) -> tantivy::Result<KeyPart> {
        let of = |source: &Source| Values::new(source, segment);
        Ok(match key {
            Key::Values(source) => KeyPart::Values(of(source)?),
            Key::Ranges(source, ranges) => KeyPart::Ranges(of(source)?, ranges.clone()),
            Key::Distances(source, origin, ranges) => {
                KeyPart::Distances(of(source)?, *origin, ranges.clone())
            }
            Key::Cells(source, chars) => KeyPart::Cells(of(source)?, *chars),
            Key::Steps(source, steps) => KeyPart::Steps(of(source)?, *steps),
            Key::Dates(source, dates) => KeyPart::Dates(of(source)?, *dates),
            Key::Several(several) => KeyPart::Several(several.part(segment)?),
            Key::Filters(filters) => {
                let rows = filters.iter().map(|filter| filter.scorer(segment, 1.0));
                KeyPart::Filters(rows.collect::<tantivy::Result<_>>()?)
            }
        })
    }

    /// Finds the keys of a row, each once. Rows come in their order.
    pub(super) fn keys(
        &mut self,
        row: DocId,
        found: &mut Vec<u64>,
        texts: &mut Texts,
        share: &Share,
    ) -> Result<(), Short> {
        found.clear();
        let mut each = |values: &mut Values, key: &mut dyn FnMut(Number, &mut Vec<u64>)| {
            values.each(row, texts, share, |value| {
                key(value, found);
                Ok(())
            })
        };
        match self {
            KeyPart::Values(values) => each(values, &mut |value, found| found.push(value.key))?,
            KeyPart::Ranges(values, ranges) => each(values, &mut |value, found| {
                found.extend(inside(ranges, value.number));
            })?,
            KeyPart::Distances(values, origin, ranges) => each(values, &mut |value, found| {
                let distance = distance_m(*origin, StoredPoint(value.key).into());
                found.extend(inside(ranges, distance));
            })?,
            KeyPart::Cells(values, chars) => each(values, &mut |value, found| {
                found.push(StoredPoint(value.key).cell(*chars));
            })?,
            KeyPart::Steps(values, steps) => each(values, &mut |value, found| {
                let (number, range) = (value.number, steps.range);
                if range.is_none_or(|(from, to)| from <= number && number <= to) {
                    found.push(steps.of(number));
                }
            })?,
            KeyPart::Dates(values, dates) => each(values, &mut |value, found| {
                let (ms, range) = (u64_to_i64(value.key), dates.range);
                if range.is_none_or(|(from, to)| from <= ms && ms <= to) {
                    found.push(i64_to_u64(dates.steps.begin(ms)));
                }
            })?,
            KeyPart::Several(several) => several.keys(row, found, texts, share)?,
            KeyPart::Filters(filters) => {
                for (at, rows) in (0..).zip(filters) {
                    if rows.doc() < row {
                        rows.seek(row);
                    }
                    if rows.doc() == row {
                        found.push(at);
                    }
                }
            }
        }
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        Ok(())
    }
}

impl KeyPart {
    /// Whether a row without a key has a value all the same, outside of the range that is asked for.
    pub(super) fn is_outside(&self, row: DocId) -> bool {
        let (values, has_range) = match self {
            KeyPart::Steps(values, steps) => (values, steps.range.is_some()),
            KeyPart::Dates(values, dates) => (values, dates.range.is_some()),
            _ => return false,
        };
        has_range && values.has(row)
    }
}

/// Which of some ranges a number is in.
fn inside(ranges: &[(f64, f64)], number: f64) -> impl Iterator<Item = u64> {
    let all = (0..).zip(ranges.iter());
    let inside = all.filter(move |(_, (from, to))| *from <= number && number < *to);
    inside.map(|(at, _)| at)
}

impl NodePart {
    pub(super) fn new(
        node: &Node,
        (ordinal, segment): (SegmentOrdinal, &SegmentReader),
    ) -> tantivy::Result<NodePart> {
        let key = node.by.as_ref().map(|by| KeyPart::new(&by.key, segment));
        let measures = node.measures.iter().map(|measure| {
            Ok::<_, tantivy::TantivyError>(match &measure.of {
                Of::Values(source) => MeasurePart::Values(Values::new(source, segment)?),
                Of::Rows(order) => {
                    let order = SegmentOrder::new(order, ordinal, segment)?;
                    MeasurePart::Rows(order, Vec::new())
                }
            })
        });
        let inner = node.inner.iter();
        let inner = inner.map(|inner| NodePart::new(inner, (ordinal, segment)));
        Ok(NodePart {
            key: key.transpose()?,
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
        match &mut self.key {
            Some(key) => key.keys(row, &mut self.found, texts, share),
            None => Ok(()),
        }
    }
}

impl Steps {
    /// The number of the step that a value is in, as keys have it.
    #[allow(clippy::cast_possible_truncation)] // saturates; steps so far out are one
    pub(super) fn of(&self, number: f64) -> u64 {
        i64_to_u64(((number - self.offset) / self.interval).floor() as i64)
    }

    /// Where a step begins.
    #[allow(clippy::cast_precision_loss)] // keys of doubles
    pub(super) fn begin(&self, step: u64) -> f64 {
        u64_to_i64(step) as f64 * self.interval + self.offset
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
    fn has(&self, row: DocId) -> bool {
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
