//! What a document has, as one number: of the document that a row makes, and of one that lies in an index.
//!
//! Owns: which fields and words are in it. Promises: both are equal if and only if, as good as surely, the fields have
//! the same values and words. Must not: know a table.

use std::collections::BTreeMap;

use tantivy::postings::Postings;
use tantivy::schema::{IndexRecordOption, Value as _};
use tantivy::{DocSet, SegmentReader, TERMINATED, TantivyDocument};
use xxhash_rust::xxh3::xxh3_64;

use tideline_model::search::{FieldType, fields};

use crate::index::key_in;
use crate::index::layout::{KEY, Layout, Of, Placed, VERSION};
use crate::index::stored::Stored;

/// By encoded key: a sum of what the fields have.
pub(super) type Sums = BTreeMap<Vec<u8>, u64>;

/// The values of a field, in one order whatever the index's.
type Values = Vec<String>;

fn sum(fields: Vec<(Values, u64)>) -> u64 {
    let sorted = fields.into_iter().map(|(mut values, words)| {
        values.sort_unstable();
        (values, words)
    });
    xxh3_64(format!("{:?}", sorted.collect::<Vec<_>>()).as_bytes())
}

/// The fields that are compared.
fn compared(layout: &Layout) -> impl Iterator<Item = &Placed> {
    let fields = layout.fields.iter().filter(|placed| placed.at.is_some());
    fields.filter(|placed| layout.of == Of::Rows || placed.field.name != fields::WHERE)
}

/// A word, as it adds to a sum that does not depend on the order of words.
fn word(text: &[u8]) -> u64 {
    xxh3_64(text)
}

pub(super) fn sum_of_document(layout: &Layout, document: &TantivyDocument) -> u64 {
    let fields = compared(layout).map(|placed| {
        let (mut values, mut words) = (Values::new(), 0_u64);
        let Some(at) = placed.at else {
            return (values, words);
        };
        for value in document.get_all(at) {
            match placed.field.kind {
                FieldType::Text => {
                    let tokens = value.as_pre_tokenized_text();
                    for token in tokens.iter().flat_map(|text| &text.tokens) {
                        words = words.wrapping_add(word(token.text.as_bytes()));
                    }
                }
                FieldType::Long | FieldType::Date => {
                    values.extend(value.as_i64().map(|number| number.to_string()));
                }
                FieldType::Double => {
                    values.extend(value.as_f64().map(|number| number.to_bits().to_string()));
                }
                FieldType::Boolean => values.extend(value.as_bool().map(|flag| flag.to_string())),
                FieldType::GeoPoint => {
                    values.extend(value.as_u64().map(|steps| steps.to_string()));
                }
                FieldType::Vector | FieldType::Nested => {
                    values.extend(value.as_bytes().map(sum_of_bytes));
                }
                FieldType::Keyword | FieldType::FuzzyKeyword => {
                    values.extend(value.as_str().map(ToOwned::to_owned));
                }
            }
        }
        (values, words)
    });
    sum(fields.collect())
}

/// Of what is kept as it was given.
fn sum_of_bytes(bytes: &[u8]) -> String {
    xxh3_64(bytes).to_string()
}

fn texts<T: ToString>(values: impl Iterator<Item = T>) -> Values {
    values.map(|value| value.to_string()).collect()
}

/// The documents of a segment.
pub(super) struct OfSegment<'s> {
    pub(super) layout: &'s Layout,
    pub(super) segment: &'s SegmentReader,
    /// Of rows that expire: only whether they are there is asked, of those from this time on.
    pub(super) since_ms: Option<i64>,
    pub(super) now_ms: i64,
}

impl OfSegment<'_> {
    /// Gives each of its documents, by its key.
    pub(super) fn sums(&self, each: &mut dyn FnMut(Vec<u8>, u64)) -> tantivy::Result<()> {
        let columns = self.segment.fast_fields();
        let versions = columns.i64(VERSION)?;
        let Some(keys) = columns.bytes(KEY)? else {
            return Ok(());
        };
        let expires = match self.layout.of {
            Of::Rows => None,
            Of::Texts => self.layout.field(fields::EXPIRES).ok(),
        };
        let expires = expires
            .map(|placed| columns.i64(&placed.name))
            .transpose()?;
        let words: Vec<Vec<u64>> = compared(self.layout)
            .map(|placed| self.words(placed))
            .collect::<tantivy::Result<_>>()?;
        let stored = Stored::new(self.segment)?;
        for row in self.segment.doc_ids_alive() {
            let key = key_in(&keys, row)?;
            if let Some(since_ms) = self.since_ms {
                if versions.first(row) >= Some(since_ms) {
                    each(key, 0);
                }
                continue;
            }
            let ends_ms = expires.as_ref().and_then(|expires| expires.first(row));
            if ends_ms.is_some_and(|ends_ms| ends_ms <= self.now_ms) {
                continue;
            }
            let fields = compared(self.layout).zip(&words).map(|(placed, words)| {
                let values = self.values(placed, &stored, row)?;
                let words = words.get(row as usize).copied().unwrap_or_default();
                Ok::<_, tantivy::TantivyError>((values, words))
            });
            each(key, sum(fields.collect::<Result<_, _>>()?));
        }
        Ok(())
    }

    /// Of each row the sum of its words in a field; of a field without words nothing.
    fn words(&self, placed: &Placed) -> tantivy::Result<Vec<u64>> {
        let Some(at) = placed.at.filter(|_| placed.field.kind == FieldType::Text) else {
            return Ok(Vec::new());
        };
        let mut sums = vec![0_u64; self.segment.max_doc() as usize];
        let inverted = self.segment.inverted_index(at)?;
        let mut terms = inverted.terms().stream()?;
        while let Some((term, info)) = terms.next() {
            let word = word(term);
            let mut rows =
                inverted.read_postings_from_terminfo(info, IndexRecordOption::WithFreqs)?;
            while rows.doc() != TERMINATED {
                let sum = &mut sums[rows.doc() as usize];
                *sum = sum.wrapping_add(word.wrapping_mul(rows.term_freq().into()));
                rows.advance();
            }
        }
        Ok(sums)
    }

    fn values(&self, placed: &Placed, stored: &Stored, row: u32) -> tantivy::Result<Values> {
        let (columns, name) = (self.segment.fast_fields(), &placed.name);
        Ok(match placed.field.kind {
            FieldType::Text => Values::new(),
            FieldType::Long | FieldType::Date => texts(columns.i64(name)?.values_for_doc(row)),
            FieldType::Double => texts(columns.f64(name)?.values_for_doc(row).map(f64::to_bits)),
            FieldType::Boolean => texts(columns.bool(name)?.values_for_doc(row)),
            FieldType::GeoPoint => texts(columns.u64(name)?.values_for_doc(row)),
            FieldType::Vector | FieldType::Nested => match placed.at {
                Some(at) => stored.with(row, at, sum_of_bytes)?.into_iter().collect(),
                None => Values::new(),
            },
            FieldType::Keyword | FieldType::FuzzyKeyword => match columns.str(name)? {
                None => Values::new(),
                Some(column) => {
                    let mut all = Values::new();
                    for ordinal in column.term_ords(row) {
                        let mut text = String::new();
                        column.ord_to_str(ordinal, &mut text)?;
                        all.push(text);
                    }
                    all
                }
            },
        })
    }
}
