//! What tables should do, on plain maps, made from the documented semantics.
//!
//! Owns: the model that random commands are held against. Promises: it shares no code with what it judges beyond the
//! types of requests and answers. Must not: be in a build that is not a test.
//!
//! Where compaction may or may not have reclaimed what did not show, a change of options may or may not show it again:
//! [`ModelTable::settle_with`] takes what is seen, if it can be so. There and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use tideline_model::{
    CellChange, Error, Existence, FoundCell, FoundRow, KeyValue, PutCell, RowChange, Selection,
    TableOptions, Value,
};

/// Column -> version -> value, with all that may still be stored.
type Cells = BTreeMap<String, BTreeMap<i64, Value>>;
/// The values of a primary key.
pub(super) type ModelKey = Vec<KeyValue>;

/// One table.
#[derive(Clone, Debug)]
pub(super) struct ModelTable {
    pub(super) is_numbered: bool,
    pub(super) options: TableOptions,
    pub(super) rows: BTreeMap<ModelKey, Cells>,
    pub(super) last: BTreeMap<KeyValue, i64>,
}

/// What a write did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Did {
    pub(super) key: ModelKey,
    pub(super) incremented: Vec<FoundCell>,
}

pub(super) struct Asked<'a> {
    pub(super) key: ModelKey,
    pub(super) change: &'a RowChange,
    pub(super) existence: Existence,
    pub(super) test: Option<fn(&FoundRow) -> bool>,
}

impl ModelTable {
    fn expired(&self, version: i64, now: i64) -> bool {
        self.options.time_to_live_s != -1 && version + self.options.time_to_live_s * 1_000 <= now
    }

    fn may_write(&self, version: i64, now: i64) -> bool {
        let offset = self.options.max_version_offset_s;
        let apart = version / 1_000 - now / 1_000;
        (-offset..offset).contains(&apart) && !self.expired(version, now)
    }

    /// The versions of a column that live, newest first.
    fn living(&self, versions: &BTreeMap<i64, Value>, now: i64) -> Vec<i64> {
        let newest = versions.keys().rev().copied();
        newest
            .take(usize::try_from(self.options.max_versions).unwrap())
            .filter(|version| !self.expired(*version, now))
            .collect()
    }

    /// The row, if it is there, with all that lives.
    pub(super) fn row(&self, key: &[KeyValue], now: i64) -> Option<FoundRow> {
        let stored = self.rows.get(key)?;
        let mut cells = Vec::new();
        for (name, versions) in stored {
            for version in self.living(versions, now) {
                cells.push(FoundCell {
                    name: name.clone(),
                    version,
                    value: versions[&version].clone(),
                });
            }
        }
        (stored.is_empty() || !cells.is_empty()).then(|| FoundRow {
            key: key.to_vec(),
            cells,
        })
    }

    /// All rows that are there, with all that lives.
    pub(super) fn shown(&self, now: i64) -> BTreeMap<ModelKey, Vec<FoundCell>> {
        let rows = self.rows.keys().filter_map(|key| self.row(key, now));
        rows.map(|row| (row.key, row.cells)).collect()
    }

    /// What a read gives of a row.
    pub(super) fn select(
        &self,
        key_columns: &[String],
        row: FoundRow,
        asked: &Selection,
        filter: Option<fn(&FoundRow) -> bool>,
    ) -> Option<FoundRow> {
        let is_bare = row.cells.is_empty();
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        let mut found = FoundRow {
            key: row.key,
            cells: Vec::new(),
        };
        for cell in row.cells {
            let in_time = asked
                .times
                .as_ref()
                .is_none_or(|times| times.contains(&cell.version));
            let named = asked.columns.is_empty() || asked.columns.contains(&cell.name);
            let after = asked.start.as_ref().is_none_or(|start| cell.name >= *start);
            let before = asked.end.as_ref().is_none_or(|end| cell.name < *end);
            if !(in_time && named && after && before) {
                continue;
            }
            let count = counts.entry(cell.name.clone()).or_default();
            *count += 1;
            if asked.max_versions.is_none_or(|max| *count <= max) {
                found.cells.push(cell);
            }
        }
        let asks_key = asked.columns.iter().any(|name| key_columns.contains(name));
        let qualifies =
            !found.cells.is_empty() || asks_key || (is_bare && asked.columns.is_empty());
        (qualifies && filter.is_none_or(|filter| filter(&found))).then_some(found)
    }

    /// A write.
    pub(super) fn write(&mut self, asked: Asked<'_>, now: i64) -> Result<Did, Error> {
        let mut key = asked.key;
        let is_new = key.contains(&KeyValue::AutoIncrement);
        let number = self.last.get(&key[0]).copied().unwrap_or_default() + 1;
        for value in &mut key {
            if *value == KeyValue::AutoIncrement {
                *value = KeyValue::Integer(number);
            }
        }
        let row = self.row(&key, now);
        let holds = match asked.existence {
            Existence::Ignore => true,
            Existence::Exist => row.is_some(),
            Existence::NotExist => row.is_none(),
        };
        let as_is = row.clone().unwrap_or(FoundRow {
            key: key.clone(),
            cells: Vec::new(),
        });
        let must_exist = self.is_numbered && !is_new && *asked.change != RowChange::Delete;
        if !holds || asked.test.is_some_and(|test| !test(&as_is)) || (must_exist && row.is_none()) {
            return Err(Error::ConditionFailed);
        }
        let mut incremented = Vec::new();
        match asked.change {
            RowChange::Delete => {
                self.rows.remove(&key);
            }
            RowChange::Put(puts) => {
                let mut cells = Cells::new();
                for put in puts {
                    self.put(&mut cells, put, put.version.unwrap_or(now), now)?;
                }
                self.rows.insert(key.clone(), cells);
            }
            RowChange::Update(changes) => {
                incremented = self.update(&key, row.is_some(), changes, now)?;
            }
        }
        if is_new {
            self.last.insert(key[0].clone(), number);
        }
        Ok(Did { key, incremented })
    }

    fn put(&self, cells: &mut Cells, put: &PutCell, version: i64, now: i64) -> Result<(), Error> {
        if put.version.is_some() && !self.may_write(version, now) {
            return Err(Error::InvalidVersion {
                column: put.name.clone(),
            });
        }
        let versions = cells.entry(put.name.clone()).or_default();
        versions.insert(version, put.value.clone());
        Ok(())
    }

    #[allow(clippy::too_many_lines)] // one change after the other, as the documents tell it
    fn update(
        &mut self,
        key: &[KeyValue],
        is_there: bool,
        changes: &[CellChange],
        now: i64,
    ) -> Result<Vec<FoundCell>, Error> {
        let before = self.rows.get(key).cloned().unwrap_or_default();
        let mut cells = before.clone();
        let mut makes_row = false;
        let mut incremented = Vec::new();
        // What does not show is not shown by a delete.
        for change in changes {
            if let CellChange::DeleteOne { name, .. } = change
                && is_there
                && let Some(versions) = cells.get_mut(name)
            {
                let living = self.living(versions, now);
                versions.retain(|version, _| living.contains(version));
            }
        }
        let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
        for (name, versions) in &before {
            newest.extend(
                self.living(versions, now)
                    .first()
                    .map(|at| (&name[..], *at)),
            );
        }
        let automatic = |newest: &BTreeMap<&str, i64>, name: &str| {
            newest.get(name).map_or(now, |version| now.max(version + 1))
        };
        for change in changes {
            let name = change.name();
            let written = match change {
                CellChange::DeleteOne { version, .. } => {
                    cells.get_mut(name).map(|versions| versions.remove(version));
                    continue;
                }
                CellChange::DeleteAll { .. } => {
                    cells.remove(name);
                    continue;
                }
                CellChange::Put(put) => {
                    let version = put.version.unwrap_or_else(|| automatic(&newest, name));
                    self.put(&mut cells, put, version, now)?;
                    version
                }
                CellChange::Increment { by, .. } => {
                    let living = before.get(name).map(|all| (all, self.living(all, now)));
                    let value = living.and_then(|(all, live)| Some(all[live.first()?].clone()));
                    let column = || name.to_owned();
                    let sum = match value {
                        None => Some(*by),
                        Some(Value::Integer(number)) => number.checked_add(*by),
                        Some(_) => return Err(Error::IncrementType { column: column() }),
                    };
                    let sum = sum.ok_or_else(|| Error::IncrementOverflow { column: column() })?;
                    let version = automatic(&newest, name);
                    let value = Value::Integer(sum);
                    let versions = cells.entry(column()).or_default();
                    versions.insert(version, value.clone());
                    incremented.push(FoundCell {
                        name: column(),
                        version,
                        value,
                    });
                    version
                }
            };
            makes_row = true;
            let at = newest.entry(name).or_insert(written);
            *at = written.max(*at);
        }
        if !makes_row && !is_there {
            return Ok(incremented);
        }
        if self.options.update_full_row && makes_row && is_there {
            let named: BTreeSet<&str> = changes.iter().map(CellChange::name).collect();
            for (name, versions) in &before {
                if let Some(at) = self.living(versions, now).first()
                    && !named.contains(&name[..])
                {
                    let value = versions[at].clone();
                    let all = cells.entry(name.clone()).or_default();
                    all.insert(now.max(at + 1), value);
                }
            }
        }
        cells.retain(|_, versions| !versions.is_empty());
        self.rows.insert(key.to_vec(), cells);
        if self.row(key, now).is_none() {
            // The last of what lived was deleted: the row stays, without columns.
            self.rows.insert(key.to_vec(), Cells::new());
        }
        Ok(incremented)
    }

    /// Takes new options, and what is seen of the table then.
    pub(super) fn settle_with(&mut self, options: TableOptions, seen: &[FoundRow], now: i64) {
        let lived: BTreeMap<ModelKey, FoundRow> = self
            .rows
            .keys()
            .filter_map(|key| Some((key.clone(), self.row(key, now)?)))
            .collect();
        self.options = options;
        let mut seen: BTreeMap<&ModelKey, &FoundRow> =
            seen.iter().map(|row| (&row.key, row)).collect();
        for (key, stored) in std::mem::take(&mut self.rows) {
            let lived = lived.get(&key);
            let seen = seen.remove(&key);
            let bare = lived.is_some_and(|row| row.cells.is_empty());
            // What surely was there, and what is seen, is there now.
            let mut cells = Cells::new();
            let rows = [lived, seen].into_iter().flatten();
            for cell in rows.flat_map(|row| &row.cells) {
                assert_eq!(stored[&cell.name][&cell.version], cell.value, "{key:?}");
                let versions = cells.entry(cell.name.clone()).or_default();
                versions.insert(cell.version, cell.value.clone());
            }
            if bare || !cells.is_empty() {
                self.rows.insert(key.clone(), cells.clone());
            }
            assert_eq!(
                self.row(&key, now).as_ref(),
                seen,
                "{key:?} after a change of options"
            );
            // What else there may be shows only after another change.
            for (name, versions) in stored {
                for (version, value) in versions {
                    let certain = cells.get(&name).cloned().unwrap_or_default();
                    let mut with = certain.clone();
                    with.insert(version, value);
                    if !self.living(&with, now).contains(&version) && !bare {
                        cells.insert(name.clone(), with);
                    }
                }
            }
            if !cells.is_empty() {
                self.rows.insert(key, cells);
            }
        }
        assert!(seen.is_empty(), "rows from nowhere: {seen:?}");
    }
}
