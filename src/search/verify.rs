//! Search indexes against their tables, for `tideline verify`.
//!
//! Owns: what has to agree. Promises: each row is in the index with the values that its fields have, and nothing else
//! is; rows that were changed behind the index's place are left out, and so is an index that is not whole yet: the next
//! start fills it. Of rows that expire it is only asked whether they are there. Changes nothing. Must not: hold words
//! of texts against each other; they are kept nowhere as texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tantivy::SegmentReader;
use xxhash_rust::xxh3::xxh3_64;

use tideline_base::ids::{HistoryId, PartitionId};
use tideline_model::search::{FieldType, SearchIndex, StoredPoint};
use tideline_model::{FoundRow, KeyColumn};
use tideline_table::{Batch, Table, View, key_of};

use crate::follow::since;
use crate::index::document::{Item, newest};
use crate::index::layout::{KEY, Layout, Placed, VERSION};
use crate::index::stored::Stored;
use crate::index::{Broken, Index, key_in};
use crate::searches::folder_of;

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
}

/// Holds the search indexes of tables in a data directory against the tables, as these show at a time.
pub fn verify_search(
    (data, history): (&Path, HistoryId),
    tables: &[Arc<Table>],
    partitions: &[StoredSource<'_>],
    now_ms: i64,
    problem: &mut dyn FnMut(String),
) -> VerifiedSearch {
    let mut found = VerifiedSearch::default();
    for table in tables {
        for index in &table.search_indexes {
            let check = Check {
                table,
                index,
                partitions,
                now_ms,
            };
            match check.run((data, history), problem) {
                Ok(None) => {}
                Ok(Some(documents)) => {
                    found.indexes += 1;
                    found.documents += documents;
                }
                Err(why) => problem(format!("search index {}: {why}", index.name)),
            }
        }
    }
    found
}

struct Check<'c> {
    table: &'c Table,
    index: &'c SearchIndex,
    partitions: &'c [StoredSource<'c>],
    now_ms: i64,
}

/// By encoded key: a sum of what the fields have.
type Sums = BTreeMap<Vec<u8>, u64>;

impl Check<'_> {
    /// How many documents there are; `None` = the index is not whole yet.
    fn run(
        &self,
        (data, history): (&Path, HistoryId),
        problem: &mut dyn FnMut(String),
    ) -> Result<Option<u64>, String> {
        let folder = folder_of(data, self.index.id);
        if !folder.join("meta.json").exists() {
            return Ok(None);
        }
        let opened = Index::open(&folder, self.index, history);
        let (index, place) = opened.map_err(|broken| match broken {
            Broken::Later(why) | Broken::Damaged(why) => why,
        })?;
        let since_ms = since(self.table, self.index, self.now_ms.cast_unsigned());
        let Some(place) = place.filter(|place| place.is_whole(since_ms)) else {
            return Ok(None);
        };
        let mut since = BTreeSet::new();
        for source in self.partitions {
            let Some(reached) = place.partitions.get(&source.id.0) else {
                return Ok(None);
            };
            if reached.position > source.view.position().0 {
                return Err(format!("it is ahead of partition {}", source.id));
            }
            let mut unread = None;
            (source.log)(&mut |batch| {
                if batch.position.0 > reached.position {
                    match self.table.changed_keys(batch) {
                        Ok(keys) => since.extend(keys.iter().map(|key| self.key(key))),
                        Err(error) => unread = Some(error.0),
                    }
                }
            })?;
            if let Some(why) = unread {
                return Err(why);
            }
        }
        let (mut due, columns) = (Sums::new(), &self.table.primary_key);
        for source in self.partitions {
            let rows = self.table.each_row(source.view, self.now_ms, &mut |row| {
                let sum = match since_ms {
                    None => sum_of_row(&index.layout, columns, &row),
                    Some(since_ms) if newest(&row) < since_ms => return,
                    // Columns may have ended since the row was put in.
                    Some(_) => 0,
                };
                due.insert(self.key(&row.key), sum);
            });
            rows.map_err(|error| error.0)?;
        }
        let mut has = Sums::new();
        for segment in index.searcher().segment_readers() {
            let sums = sums_of(&index.layout, segment, since_ms, &mut has);
            sums.map_err(|error| error.to_string())?;
        }
        let documents = has.len() as u64;
        for (key, sum) in &due {
            if has.remove(key) != Some(*sum) && !since.contains(key) {
                let (key, name) = (key.escape_ascii(), &self.index.name);
                problem(format!(
                    "row {key}: the search index {name} does not have it so"
                ));
            }
        }
        for key in has.keys().filter(|key| !since.contains(*key)) {
            let (key, name) = (key.escape_ascii(), &self.index.name);
            problem(format!(
                "document {key} of the search index {name} is of no row"
            ));
        }
        Ok(Some(documents))
    }

    fn key(&self, key: &[tideline_model::KeyValue]) -> Vec<u8> {
        key_of(self.table.id, key).as_bytes().to_vec()
    }
}

/// The values of a field, in one order whatever the index's.
type Values = Vec<String>;

fn sum(fields: Vec<Values>) -> u64 {
    let sorted = fields.into_iter().map(|mut values| {
        values.sort_unstable();
        values
    });
    xxh3_64(format!("{:?}", sorted.collect::<Vec<_>>()).as_bytes())
}

fn is_compared(placed: &&Placed) -> bool {
    placed.at.is_some() && placed.field.kind != FieldType::Text
}

fn sum_of_row(layout: &Layout, columns: &[KeyColumn], row: &FoundRow) -> u64 {
    let all = layout.fields.iter().zip(layout.items(columns, row));
    let compared = all.filter(|(placed, _)| is_compared(placed));
    let values = compared.map(|(_, items)| {
        let items = items.unwrap_or_default().into_iter();
        items.map(|item| text_of(&item)).collect()
    });
    sum(values.collect())
}

fn text_of(item: &Item) -> String {
    match item {
        Item::Integer(number) => number.to_string(),
        Item::Double(number) => number.to_bits().to_string(),
        Item::Boolean(flag) => flag.to_string(),
        Item::Point(StoredPoint(steps)) => steps.to_string(),
        Item::Text(text) => text.clone(),
        Item::Kept(bytes) => sum_of_bytes(bytes),
    }
}

/// Of what is kept as it was given.
fn sum_of_bytes(bytes: &[u8]) -> String {
    xxh3_64(bytes).to_string()
}

fn texts<T: ToString>(values: impl Iterator<Item = T>) -> Values {
    values.map(|value| value.to_string()).collect()
}

fn sums_of(
    layout: &Layout,
    segment: &SegmentReader,
    since_ms: Option<i64>,
    sums: &mut Sums,
) -> tantivy::Result<()> {
    let (columns, stored) = (segment.fast_fields(), Stored::new(segment)?);
    let versions = columns.i64(VERSION)?;
    let Some(keys) = columns.bytes(KEY)? else {
        return Ok(());
    };
    for row in segment.doc_ids_alive() {
        let key = key_in(&keys, row)?;
        if let Some(since_ms) = since_ms {
            if versions.first(row) >= Some(since_ms) {
                sums.insert(key, 0);
            }
            continue;
        }
        let mut fields = Vec::new();
        for placed in layout.fields.iter().filter(is_compared) {
            let name = &placed.name;
            let values: Values = match placed.field.kind {
                FieldType::Long | FieldType::Date => texts(columns.i64(name)?.values_for_doc(row)),
                FieldType::Double => {
                    texts(columns.f64(name)?.values_for_doc(row).map(f64::to_bits))
                }
                FieldType::Boolean => texts(columns.bool(name)?.values_for_doc(row)),
                FieldType::Vector | FieldType::Nested => match placed.at {
                    Some(at) => stored.with(row, at, sum_of_bytes)?.into_iter().collect(),
                    None => Vec::new(),
                },
                FieldType::GeoPoint => texts(columns.u64(name)?.values_for_doc(row)),
                _ => match columns.str(name)? {
                    None => Vec::new(),
                    Some(column) => {
                        let mut texts = Vec::new();
                        for ordinal in column.term_ords(row) {
                            let mut text = String::new();
                            column.ord_to_str(ordinal, &mut text)?;
                            texts.push(text);
                        }
                        texts
                    }
                },
            };
            fields.push(values);
        }
        sums.insert(key, sum(fields));
    }
    Ok(())
}
