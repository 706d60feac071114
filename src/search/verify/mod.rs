//! Search indexes against their tables, for `tideline verify`.
//!
//! Owns: what has to agree. Promises: each row, and each message, is in the index once, with the values and words that
//! its fields have, and nothing else is; rows that were changed behind the index's place are left out, and so is an
//! index that is not whole yet: the next start fills it. What is wrong comes with its last change in the logs, and the
//! segment that has it. Of rows of a table that expire it is only asked whether they are
//! there, and of messages not what `where` asks for: which names that are is said nowhere in the directory. Changes
//! nothing. Must not: hold the places of words against each other.

mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tideline_base::ids::{HistoryId, PartitionId, Position, TableId};
use tideline_model::search::{SearchIndex, message_index, timeline_index};
use tideline_model::{FoundRow, KeyColumn, KeyValue};
use tideline_table::{Batch, Table, Touched, View, key_of};

use crate::follow::since;
use crate::index::document::newest;
use crate::index::layout::{Layout, Of};
use crate::index::place::Place;
use crate::index::{Broken, Index};
use crate::searches::{FOLDER, folder_of};
use sums::{OfSegment, Sums, sum_of_document};

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

/// What an index has under a key.
#[derive(Default)]
struct Found {
    sum: u64,
    documents: u32,
    /// The last segment that has one.
    segment: usize,
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
        let mut has: BTreeMap<Vec<u8>, Found> = BTreeMap::new();
        let searcher = index.searcher();
        for (at, segment) in searcher.segment_readers().iter().enumerate() {
            let of_segment = OfSegment {
                layout,
                segment,
                since_ms,
                now_ms: self.now_ms,
            };
            let sums = of_segment.sums(&mut |key, sum| {
                let found = has.entry(key).or_default();
                (found.sum, found.segment) = (sum, at);
                found.documents += 1;
            });
            sums.map_err(|error| error.to_string())?;
        }
        let documents = has.values().map(|found| u64::from(found.documents)).sum();
        let (mut wrong, name) = (BTreeMap::new(), &self.index.name);
        for (key, sum) in &due {
            if has.get(key).map(|found| found.sum) != Some(*sum) && !since.has(key) {
                let what = format!("the search index {name} does not have it so");
                wrong.insert(&key[..], format!("row {}: {what}", key.escape_ascii()));
            }
        }
        for (key, found) in &has {
            let what = match found.documents {
                1 if due.contains_key(key) || since.has(key) => continue,
                1 => "is of no row".to_owned(),
                documents => format!("is there {documents} times"),
            };
            let key_text = key.escape_ascii();
            let text = format!("document {key_text} of the search index {name} {what}");
            wrong.insert(key, text);
        }
        if !wrong.is_empty() {
            let changes = self.last_changes(|key| wrong.contains_key(key))?;
            for (key, text) in wrong {
                let segment = has.get(key).map(|found| found.segment);
                let segment = segment.map(|at| searcher.segment_readers()[at].segment_id());
                let segment = segment.map(|id| format!("segment {}; ", id.short_uuid_string()));
                let change = match changes.get(key) {
                    None => "no change of it is in the logs".to_owned(),
                    Some((id, at)) => format!(
                        "last changed at {at} of partition {id}, of which the index has all up to {}",
                        place.position(*id)
                    ),
                };
                problem(format!("{text} ({}{change})", segment.unwrap_or_default()));
            }
        }
        Ok(Some((due.len() as u64, documents)))
    }

    /// Where rows were changed last, as far back as the logs are kept.
    fn last_changes(
        &self,
        is_asked: impl Fn(&[u8]) -> bool,
    ) -> Result<BTreeMap<Vec<u8>, (PartitionId, Position)>, String> {
        let mut last = BTreeMap::new();
        for source in self.partitions {
            (source.log)(&mut |batch| {
                for change in self.table.changes(batch).unwrap_or_default() {
                    let Touched::Row(key) = change else { continue };
                    let key = self.key(&key);
                    if is_asked(&key) {
                        last.insert(key, (source.id, batch.position));
                    }
                }
            })?;
        }
        Ok(last)
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
    (columns, key): (&[KeyColumn], &[u8]),
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
