//! Rows of a table, by their keys.
//!
//! Owns: reading pages of ranges one after the other. Promises: a page is read only when its rows are asked for; the
//! first ones are small where few rows may do. Must not: choose the ranges; `plan/keys.rs` does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;

use tideline_model::{
    Consumed, Direction, FoundRow, GetRange, KeyValue, PrimaryKey, Selection, ValueRef, key_size,
    limits::COLUMNS_MAX, units,
};
use tideline_table::Table;

use super::Rows;
use crate::answer::Datum;
use crate::context::Run;
use crate::plan::{Reach, Source};
use crate::refusal::Refusal;

/// Rows of the first page, where a statement may end early.
const FIRST_PAGE: usize = 64;

/// The rows of a source, in the order of its keys, each with so many empty slots before its own.
pub(super) fn rows<'r>(
    run: &'r Run,
    (source, table): (&'r Source, &'r Arc<Table>),
    reaches: &[Reach],
    is_backward: bool,
    ends_early: bool,
) -> Result<Rows<'r>, Refusal> {
    let mut reaches: VecDeque<Reach> = reaches.iter().cloned().collect();
    if is_backward {
        reaches.make_contiguous().reverse();
    }
    let mut scan = Scan {
        run,
        source,
        table,
        selection: selection(source, table)?,
        reaches,
        from: None,
        is_backward,
        page: Vec::new().into_iter(),
        limit: ends_early.then_some(FIRST_PAGE),
    };
    Ok(Box::new(std::iter::from_fn(move || {
        scan.next().transpose()
    })))
}

struct Scan<'r> {
    run: &'r Run,
    source: &'r Source,
    table: &'r Arc<Table>,
    selection: Selection,
    reaches: VecDeque<Reach>,
    /// Where the next page of the first range begins.
    from: Option<Vec<KeyValue>>,
    is_backward: bool,
    page: vec::IntoIter<FoundRow>,
    limit: Option<usize>,
}

impl Scan<'_> {
    fn next(&mut self) -> Result<Option<Vec<Datum>>, Refusal> {
        loop {
            self.run.step()?;
            if let Some(row) = self.page.next() {
                return Ok(Some(row_of(self.source, self.table, row)));
            }
            let Some(reach) = self.reaches.front() else {
                return Ok(None);
            };
            let table = self.table;
            let named = |key: &[KeyValue]| -> PrimaryKey {
                let names = table.primary_key.iter().map(|column| column.name.clone());
                names.zip(key.iter().cloned()).collect()
            };
            let (rows, next, consumed) = match reach {
                Reach::Row(key) => {
                    let get = self.run.tables.get::<Vec<FoundRow>>(
                        table,
                        named(key),
                        self.selection.clone(),
                    );
                    let got = self.run.wait(get)?;
                    (got.rows, None, got.consumed)
                }
                Reach::Range(low, high) => {
                    // Backward a range begins at its high end, which conditions leave out, and ends above its low one.
                    let (direction, start, end) = match self.is_backward {
                        false => (Direction::Forward, low, high),
                        true => (Direction::Backward, high, low),
                    };
                    let range = GetRange {
                        direction,
                        start: named(self.from.as_deref().unwrap_or(start)),
                        end: named(end),
                        limit: self.limit,
                        selection: self.selection.clone(),
                    };
                    let get = self.run.tables.get_range::<Vec<FoundRow>>(table, range);
                    let page = self.run.wait(get)?;
                    (page.rows, page.next, page.consumed)
                }
            };
            self.limit = self.limit.map(|limit| limit.saturating_mul(4));
            self.from = next;
            if self.from.is_none() {
                let through = self.reaches.pop_front();
                // The low end is one of the range.
                if self.is_backward
                    && let Some(Reach::Range(low, _)) = through
                    && !low.iter().any(KeyValue::is_infinite)
                {
                    self.reaches.push_front(Reach::Row(low));
                }
            }
            let bytes = rows.iter().map(|row| bytes_of(self.table, row)).sum();
            let of = (self.table.name.as_str(), None);
            self.run.count(of, (rows.len() as u64, bytes), consumed)?;
            self.page = rows.into_iter();
        }
    }
}

/// The columns of a source that a statement looks at.
fn selection(source: &Source, table: &Table) -> Result<Selection, Refusal> {
    let newest = Selection::newest(Some(1))?;
    let names = source.needed_names();
    // Some column of the key makes every row qualify.
    match names.len() >= COLUMNS_MAX {
        true => Ok(newest),
        false => {
            let mut names: Vec<String> = names.into_iter().map(ToOwned::to_owned).collect();
            names.push(table.primary_key[0].name.clone());
            Ok(newest.of(names)?)
        }
    }
}

/// A row as a statement sees it.
pub(super) fn row_of(source: &Source, table: &Table, found: FoundRow) -> Vec<Datum> {
    let mut row = vec![Datum::Null; source.first + source.columns.len()];
    let (mut key, mut cells) = (found.key, found.cells);
    for (at, column) in source.columns.iter().enumerate() {
        if !source.needed[at] {
            continue;
        }
        let mut of_key = table.primary_key.iter();
        let value = match of_key.position(|key| key.name == column.name) {
            Some(place) => {
                let value = key
                    .get_mut(place)
                    .map(|value| std::mem::replace(value, KeyValue::InfMin));
                value.map_or(Datum::Null, Datum::of_key)
            }
            None => match cells.binary_search_by(|cell| cell.name.as_str().cmp(&column.name)) {
                Ok(place) => {
                    let cell = cells.remove(place);
                    Datum::of_cell(cell.value, column.kind)
                }
                Err(_) => Datum::Null,
            },
        };
        row[source.first + at] = value;
    }
    row
}

pub(super) fn bytes_of(table: &Table, row: &FoundRow) -> u64 {
    let version = table.options.version_bytes();
    let cells = row.cells.iter();
    let cells = cells.map(|cell| cell.name.len() + version + ValueRef::from(&cell.value).size());
    (key_size(&table.primary_key, &row.key) + cells.sum::<usize>()) as u64
}

/// The units of a page that an index led to.
pub(super) fn consumed_of(bytes: u64) -> Consumed {
    Consumed {
        read: units(usize::try_from(bytes).unwrap_or(usize::MAX)),
        write: 0,
    }
}
