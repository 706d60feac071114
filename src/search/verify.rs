//! Search indexes against their tables, for `tideline verify`.
//!
//! Owns: what has to agree. Promises: each row, and each message, is in the index with the values and words that its
//! fields have, and nothing else is; rows that were changed behind the index's place are left out, and so is an index
//! that is not whole yet: the next start fills it. Of rows of a table that expire it is only asked whether they are
//! there, and of messages not what `where` asks for: which names that are is said nowhere in the directory. Changes
//! nothing. Must not: hold the places of words against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tantivy::postings::Postings;
use tantivy::schema::{IndexRecordOption, Value as _};
use tantivy::{DocSet, SegmentReader, TERMINATED, TantivyDocument};
use xxhash_rust::xxh3::xxh3_64;

use tideline_base::ids::{HistoryId, PartitionId, TableId};
use tideline_model::search::{FieldType, SearchIndex, fields, message_index, timeline_index};
use tideline_model::{FoundRow, KeyValue};
use tideline_table::{Batch, Table, Touched, View, key_of};

use crate::follow::since;
use crate::index::document::newest;
use crate::index::layout::{KEY, Layout, Of, Placed, VERSION};
use crate::index::place::Place;
use crate::index::stored::Stored;
use crate::index::{Broken, Index, key_in};
use crate::searches::{FOLDER, folder_of};

/// A partition as it lies on disk.
pub struct StoredSource<'p> {
    /// Which one.
    pub id: PartitionId,
    /// What shows of it.
    pub view: &'p View,
    /// Reads its log, as far back as it is kept.
    pub log: &'p dyn Fn(&mut dyn FnMut(&Batch)) -> Result<(), String>,
}

/// What was held against each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedSearch {
    /// Search indexes.
    pub indexes: u64,
    /// Their documents.
    pub documents: u64,
    /// Rows and messages that should be in them.
    pub rows: u64,
    /// Indexes that are not whole yet.
    pub unfinished: u64,
}

/// Holds the search indexes in a data directory against what they are of, as it shows at a time: the tables that users
/// made, and the messages and metas.
pub fn verify_search(
    (data, history): (&Path, HistoryId),
    (tables, [messages, metas]): (&[Arc<Table>], &[Table; 2]),
    partitions: &[StoredSource<'_>],
    now_ms: i64,
    problem: &mut dyn FnMut(String),
) -> VerifiedSearch {
    let mut found = VerifiedSearch::default();
    let of_users = tables.iter().flat_map(|table| {
        let indexes = table.search_indexes.iter();
        indexes.map(move |index| (&**table, index.clone()))
    });
    let own = own_indexes(data).into_iter();
    let own = own.map(|index| match index.id.0 % 2 {
        0 => (messages, index),
        _ => (metas, index),
    });
    for (table, index) in of_users.chain(own) {
        let check = Check {
            table,
            index: &index,
            partitions,
            now_ms,
        };
        match check.run((data, history), problem) {
            Ok(None) => found.unfinished += 1,
            Ok(Some((rows, documents))) => {
                found.indexes += 1;
                found.rows += rows;
                found.documents += documents;
            }
            Err(why) => problem(format!("search index {}: {why}", index.name)),
        }
    }
    found
}

/// The indexes of messages and of metas that there are.
fn own_indexes(data: &Path) -> Vec<SearchIndex> {
    let metas = timeline_index();
    let folders = fs::read_dir(data.join(FOLDER)).into_iter().flatten();
    let own = folders.flatten().filter_map(|folder| {
        let id: u32 = folder.file_name().to_str()?.parse().ok()?;
        if id < metas.id.0 - 1 {
            return None;
        }
        if id % 2 == 1 {
            return Some(metas.clone());
        }
        // The names that messages can be asked for by are not known, but how many there are.
        let meta = fs::read(folder.path().join("meta.json")).ok()?;
        let meta: serde_json::Value = serde_json::from_slice(&meta).ok()?;
        let there = meta.get("schema")?.as_array()?.len();
        let without = Layout::of(&message_index(&[])).engine.fields().count();
        let names = (without..there).map(|at| at.to_string());
        Some(SearchIndex {
            id: TableId(id),
            ..message_index(&names.collect::<Vec<_>>())
        })
    });
    own.collect()
}

struct Check<'c> {
    table: &'c Table,
    index: &'c SearchIndex,
    partitions: &'c [StoredSource<'c>],
    now_ms: i64,
}

/// By encoded key: a sum of what the fields have.
type Sums = BTreeMap<Vec<u8>, u64>;

/// What was changed behind the place of an index.
#[derive(Default)]
struct Since {
    rows: BTreeSet<Vec<u8>>,
    /// Rows with the same first value that are lower than another one.
    below: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Since {
    fn has(&self, key: &[u8]) -> bool {
        let is_below = |(begin, end): &(Vec<u8>, Vec<u8>)| key.starts_with(begin) && *key < end[..];
        self.rows.contains(key) || self.below.iter().any(is_below)
    }
}

impl Check<'_> {
    /// How many rows and documents there are; `None` = the index is not whole yet.
    fn run(
        &self,
        (data, history): (&Path, HistoryId),
        problem: &mut dyn FnMut(String),
    ) -> Result<Option<(u64, u64)>, String> {
        let folder = folder_of(data, self.index.id);
        if !folder.join("meta.json").exists() {
            return Ok(None);
        }
        let opened = Index::open(&folder, self.index, history);
        let (index, place) = opened.map_err(|broken| match broken {
            Broken::Later(why) | Broken::Damaged(why) => why,
        })?;
        let layout = &*index.layout;
        let since_ms = match layout.of {
            Of::Rows => since(self.table, self.index, self.now_ms.cast_unsigned()),
            Of::Texts => None,
        };
        let Some(place) = place.filter(|place| place.is_whole(since_ms)) else {
            return Ok(None);
        };
        let Some(since) = self.since(&place)? else {
            return Ok(None);
        };
        let (mut due, columns) = (Sums::new(), &self.table.primary_key);
        for source in self.partitions {
            let rows = self.table.each_row(source.view, self.now_ms, &mut |row| {
                let key = self.key(&row.key);
                let Some(sum) = due_of((layout, since_ms), (columns, &key), &row) else {
                    return;
                };
                due.insert(key, sum);
            });
            rows.map_err(|error| error.0)?;
        }
        let mut has = Sums::new();
        for segment in index.searcher().segment_readers() {
            let of_segment = OfSegment {
                layout,
                segment,
                since_ms,
                now_ms: self.now_ms,
            };
            let sums = of_segment.sums(&mut has);
            sums.map_err(|error| error.to_string())?;
        }
        let (rows, documents) = (due.len() as u64, has.len() as u64);
        for (key, sum) in &due {
            if has.remove(key) != Some(*sum) && !since.has(key) {
                let (key, name) = (key.escape_ascii(), &self.index.name);
                problem(format!(
                    "row {key}: the search index {name} does not have it so"
                ));
            }
        }
        for key in has.keys().filter(|key| !since.has(key)) {
            let (key, name) = (key.escape_ascii(), &self.index.name);
            problem(format!(
                "document {key} of the search index {name} is of no row"
            ));
        }
        Ok(Some((rows, documents)))
    }

    /// What was changed behind a place; `None` = there is a partition that the index does not know yet.
    fn since(&self, place: &Place) -> Result<Option<Since>, String> {
        let mut since = Since::default();
        for source in self.partitions {
            let Some(reached) = place.partitions.get(&source.id.0) else {
                return Ok(None);
            };
            if reached.position > source.view.position().0 {
                return Err(format!("it is ahead of partition {}", source.id));
            }
            let mut unread = None;
            (source.log)(&mut |batch| {
                if batch.position.0 <= reached.position {
                    return;
                }
                match self.table.changes(batch) {
                    Ok(changes) => changes
                        .into_iter()
                        .for_each(|one| self.note(one, &mut since)),
                    Err(error) => unread = Some(error.0),
                }
            })?;
            if let Some(why) = unread {
                return Err(why);
            }
        }
        Ok(Some(since))
    }

    fn note(&self, change: Touched, since: &mut Since) {
        match change {
            Touched::Row(key) => drop(since.rows.insert(self.key(&key))),
            Touched::Below(key) => {
                let begin = self.key(&key[..1]);
                since.below.push((begin, self.key(&key)));
            }
        }
    }

    fn key(&self, key: &[KeyValue]) -> Vec<u8> {
        key_of(self.table.id, key).as_bytes().to_vec()
    }
}

/// What of a row has to be in its index; `None` = nothing.
fn due_of(
    (layout, since_ms): (&Layout, Option<i64>),
    (columns, key): (&[tideline_model::KeyColumn], &[u8]),
    row: &FoundRow,
) -> Option<u64> {
    match since_ms {
        Some(since_ms) if newest(row) < since_ms => return None,
        // Columns may have ended since the row was put in.
        Some(_) => return Some(0),
        None => {}
    }
    let (document, _) = layout.document(columns, key, row)?;
    Some(sum_of_document(layout, &document))
}

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

fn sum_of_document(layout: &Layout, document: &TantivyDocument) -> u64 {
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

struct OfSegment<'s> {
    layout: &'s Layout,
    segment: &'s SegmentReader,
    since_ms: Option<i64>,
    now_ms: i64,
}

impl OfSegment<'_> {
    fn sums(&self, sums: &mut Sums) -> tantivy::Result<()> {
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
                    sums.insert(key, 0);
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
            sums.insert(key, sum(fields.collect::<Result<_, _>>()?));
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
