//! Indexes against their tables, for `tideline verify`.
//!
//! Owns: what has to agree. Promises: what shows of an index is what shows of the rows that it is of, both ways; one
//! that is not of all rows has nothing beside. Must not: change anything.

use tideline_model::{Cell, Direction, IndexState, KeyValue};
use tideline_store::partition::{ReadError, Rows, View};

use super::super::format::primary_key::{decode, key_of};
use super::projection::Index;
use crate::Malformed;
use crate::access::{damaged, scan};
use crate::catalog::Catalog;
use crate::schema::{Kind, Table};

/// What was held against each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Rows of tables with indexes.
    pub rows: u64,
    /// Rows of indexes.
    pub index_rows: u64,
}

/// Holds a partition's indexes against its tables, as they show at a time.
pub fn verify_indexes(
    catalog: &Catalog,
    view: &View,
    now_ms: i64,
    problem: &mut dyn FnMut(String),
) -> Result<Indexed, ReadError> {
    let mut found = Indexed::default();
    for table in catalog.indexed() {
        let check = Check {
            catalog,
            view,
            now_ms,
            table: &table,
        };
        found.rows += check.rows(problem)?;
        for index in table.indexes() {
            found.index_rows += check.index_rows(index, problem)?;
        }
    }
    Ok(found)
}

struct Check<'c> {
    catalog: &'c Catalog,
    view: &'c View,
    now_ms: i64,
    table: &'c Table,
}

impl Check<'_> {
    /// Each row is in each index.
    fn rows(&self, problem: &mut dyn FnMut(String)) -> Result<u64, ReadError> {
        let mut count = 0;
        for row in self.walk(self.table) {
            let (key, value) = row?;
            let bad = |_: Malformed| damaged(&key, "not a row");
            let values = decode(&key).map_err(bad)?;
            count += 1;
            for index in self.table.indexes() {
                let Some(of) = self.catalog.known(index.id) else {
                    continue;
                };
                let due = index.row(&values, &value).map_err(bad)?.ok().flatten();
                let is_whole =
                    matches!(&of.kind, Kind::Index(of) if of.state == IndexState::Complete);
                let Some(due) = due.filter(|_| is_whole) else {
                    continue;
                };
                let stored = self.view.get(due.key.as_bytes())?;
                if !self.is_same(&of, Some(&due.value), stored.as_deref(), &key)? {
                    let (row, index) = (key.escape_ascii(), &of.name);
                    problem(format!("row {row}: the index {index} does not have it so"));
                }
            }
        }
        Ok(count)
    }

    /// Each row of an index is of a row.
    fn index_rows(&self, index: &Index, problem: &mut dyn FnMut(String)) -> Result<u64, ReadError> {
        let mut count = 0;
        let Some(of) = self.catalog.known(index.id) else {
            return Ok(count);
        };
        for row in self.walk(&of) {
            let (key, value) = row?;
            let bad = |_: Malformed| damaged(&key, "not a row of an index");
            count += 1;
            let values = index.table_key(&decode(&key).map_err(bad)?);
            let row = self.view.get(key_of(self.table.id, &values).as_bytes())?;
            let due = match &row {
                Some(row) => index.row(&values, row).map_err(bad)?.ok().flatten(),
                None => None,
            };
            let due = due.filter(|due| due.key.as_bytes() == &key[..]);
            let due = due.as_ref().map(|due| &due.value[..]);
            if !self.is_same(&of, due, Some(&value), &key)? {
                let (row, name) = (key.escape_ascii(), &of.name);
                problem(format!("row {row} of the index {name} is not of a row"));
            }
        }
        Ok(count)
    }

    fn walk(&self, table: &Table) -> Rows<'_> {
        let (low, high) = ([KeyValue::InfMin], [KeyValue::InfMax]);
        let (low, high) = (key_of(table.id, &low), key_of(table.id, &high));
        scan(self.view, &low, &high, Direction::Forward)
    }

    /// Whether two values of an index's row show the same.
    fn is_same(
        &self,
        index: &Table,
        due: Option<&[u8]>,
        stored: Option<&[u8]>,
        key: &[u8],
    ) -> Result<bool, ReadError> {
        let bad = |_: Malformed| damaged(key, "not a row of an index");
        let (due, stored) = (self.shown(index, due), self.shown(index, stored));
        Ok(due.map_err(bad)? == stored.map_err(bad)?)
    }

    fn shown<'v>(
        &self,
        index: &Table,
        value: Option<&'v [u8]>,
    ) -> Result<Option<Vec<Cell<'v>>>, Malformed> {
        let judged = value.map(|value| index.judge(value, self.now_ms));
        Ok(judged.transpose()?.flatten().map(|judged| judged.living))
    }
}
