//! A follower of a table's stream, which keeps a copy of the table by its changes alone.
//!
//! Owns: the copy, and what every record must keep: order, numbers, iterators that stand still where nothing comes.
//! Promises: it knows of the table only what the stream tells and its options. Must not: be in a build that is not a
//! test.

use std::collections::BTreeMap;

use super::super::{Shard, ShardIterator, ShardPage, Tables};
use super::model::ModelTable;
use tideline_model::{
    Cell, ChangeKind, ChangeRef, ChangeSink, ChangedCell, FoundCell, KeyValue, TableOptions, Value,
};

/// The column that the streams of these tests tell the former value of.
pub(super) const ORIGINAL: &str = "a";

/// A change, owned.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Changed {
    pub(super) kind: ChangeKind,
    pub(super) at: (u64, u32),
    pub(super) key: Vec<KeyValue>,
    pub(super) cells: Vec<(String, Option<i64>, Option<Value>)>,
    pub(super) original: Option<Vec<FoundCell>>,
}

/// A page of them.
#[derive(Debug, Default)]
pub(super) struct Page(pub(super) Vec<Changed>);

impl ChangeSink for Page {
    fn push(&mut self, change: ChangeRef<'_>) {
        let cell = |cell: &ChangedCell<'_>| match cell {
            ChangedCell::Put(cell) => {
                let value = Some(cell.value.to_value());
                (cell.name.to_owned(), Some(cell.version), value)
            }
            ChangedCell::DeleteOne { name, version } => ((*name).to_owned(), Some(*version), None),
            ChangedCell::DeleteAll { name } => ((*name).to_owned(), None, None),
        };
        let found = |cell: &Cell<'_>| FoundCell {
            name: cell.name.to_owned(),
            version: cell.version,
            value: cell.value.to_value(),
        };
        let original = change.original.map(|cells| cells.iter().map(found));
        self.0.push(Changed {
            kind: change.kind,
            at: (change.time_us, change.index),
            key: change.key.to_vec(),
            cells: change.cells.iter().map(cell).collect(),
            original: original.map(Iterator::collect),
        });
    }
}

/// A copy of a table, by its stream.
pub(super) struct Follower {
    pub(super) copy: ModelTable,
    stream: String,
    /// Of each shard: where to go on, and the last change.
    shards: Vec<(ShardIterator, (u64, u32))>,
    /// How many changes there were.
    pub(super) seen: usize,
}

impl Follower {
    /// Begins at the beginning of a table's stream.
    pub(super) async fn new(tables: &Tables, name: &str, options: TableOptions) -> Follower {
        let table = tables.describe(name).await.unwrap();
        let id = table.stream.as_ref().unwrap().id.clone();
        let listed = tables.streams(Some(name)).await.unwrap();
        assert_eq!(listed, [table]);
        let mut follower = Follower {
            copy: ModelTable {
                is_numbered: false,
                options,
                rows: BTreeMap::new(),
                last: BTreeMap::new(),
            },
            stream: id,
            shards: Vec::new(),
            seen: 0,
        };
        follower.go_over(tables).await;
        follower
    }

    /// Goes over to the shards that there are now. Those of before were read to their ends.
    pub(super) async fn go_over(&mut self, tables: &Tables) {
        let table = tables.stream(&self.stream).await.unwrap();
        let now: Vec<Shard> = tables.shards(&table);
        let stays = |at: &ShardIterator| now.iter().any(|shard| shard.id == at.shard);
        self.shards.retain(|(at, _)| stays(at));
        for Shard { id: shard, .. } in now {
            if self.shards.iter().all(|(at, _)| at.shard != shard) {
                let shard = shard.to_string();
                let begin = tables.shard_iterator(&self.stream, &shard, None).await;
                self.shards.push((begin.unwrap(), (0, 0)));
            }
        }
    }

    /// Takes everything in that is new, in pages of `limit`.
    pub(super) async fn follow(&mut self, tables: &Tables, limit: usize) {
        for at in 0..self.shards.len() {
            loop {
                let (iterator, last) = self.shards[at].clone();
                let tail = tables.partitions().tail(iterator.shard.partition);
                let before = tail.position();
                let page: ShardPage<Page> =
                    tables.shard_changes(iterator.clone(), limit).await.unwrap();
                let again: ShardPage<Page> =
                    tables.shard_changes(iterator.clone(), limit).await.unwrap();
                let (changes, again) =
                    ((page.changes.0, &page.next), (again.changes.0, &again.next));
                assert!(again.0.starts_with(&changes.0));
                if tail.position() == before {
                    assert_eq!(changes, again);
                }
                let changes = changes.0;
                assert!(changes.len() <= limit);
                let next = page.next.expect("no partition ends here");
                if next == iterator {
                    assert!(changes.is_empty() && !page.is_more);
                    break;
                }
                let mut last = last;
                for change in changes {
                    assert!(change.at > last, "{:?} after {last:?}", change.at);
                    last = change.at;
                    self.take(change);
                }
                self.shards[at] = (next, last);
            }
        }
    }

    fn take(&mut self, change: Changed) {
        self.seen += 1;
        let options = &self.copy.options;
        if options.time_to_live_s == -1 {
            assert_eq!(change.original, self.original(&change.key), "{change:?}");
        }
        let mut cells = match change.kind {
            ChangeKind::Update => self.copy.rows.remove(&change.key).unwrap_or_default(),
            ChangeKind::Put | ChangeKind::Delete => BTreeMap::new(),
        };
        if change.kind == ChangeKind::Delete {
            assert_eq!(change.cells, []);
            self.copy.rows.remove(&change.key);
            return;
        }
        for (name, version, value) in change.cells {
            let versions = cells.entry(name).or_default();
            match (version, value) {
                (Some(version), Some(value)) => drop(versions.insert(version, value)),
                (Some(version), None) => drop(versions.remove(&version)),
                (None, _) => versions.clear(),
            }
        }
        // As any table does: surplus versions do not come back.
        for versions in cells.values_mut() {
            while versions.len() as i64 > self.copy.options.max_versions {
                versions.pop_first();
            }
        }
        cells.retain(|_, versions| !versions.is_empty());
        self.copy.rows.insert(change.key.clone(), cells);
        let at_ms = (change.at.0 / 1_000).cast_signed();
        if change.kind == ChangeKind::Update && self.copy.row(&change.key, at_ms).is_none() {
            // The last of what lived was deleted: the row stays, without columns.
            self.copy.rows.insert(change.key, BTreeMap::new());
        }
    }

    /// What the next change of a row should call its original.
    fn original(&self, key: &[KeyValue]) -> Option<Vec<FoundCell>> {
        let row = self.copy.rows.get(key)?;
        let newest = row.get(ORIGINAL).and_then(BTreeMap::last_key_value);
        let cell = newest.map(|(version, value)| FoundCell {
            name: ORIGINAL.to_owned(),
            version: *version,
            value: value.clone(),
        });
        Some(cell.into_iter().collect())
    }

    /// The copy shows what the table does.
    pub(super) fn check(&self, model: &ModelTable, now: i64) {
        assert_eq!(self.copy.shown(now), model.shown(now));
    }
}
