//! GetRow and BatchGetRow: rows by their primary keys.
//!
//! Owns: reading one row as a request asks for it. Promises: what a row counts is told also where nothing is returned.
//! Must not: walk ranges; `range.rs` does.

use crate::partition::{ReadError, View};

use super::access::damaged;
use super::found::{Consumed, FoundRow, Selection, units};
use super::key_value::KeyValue;
use super::primary_key::key_of;
use super::schema::Table;
use super::versions::judge;

/// A row that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Got {
    /// It, if it is there and passes.
    pub row: Option<FoundRow>,
    /// What looking used.
    pub consumed: Consumed,
}

/// Reads one row.
pub(super) fn get(
    view: &View,
    table: &Table,
    key: Vec<KeyValue>,
    selection: &Selection,
    now_ms: i64,
) -> Result<Got, ReadError> {
    let mut got = Got {
        row: None,
        consumed: Consumed { read: 1, write: 0 },
    };
    // Where columns are named, nothing depends on the others.
    let columns = selection.named_columns(table);
    let Some(value) = table.row(view, &key, columns.as_deref())? else {
        return Ok(got);
    };
    let judged = judge(&value, &table.options, now_ms)
        .map_err(|_| damaged(key_of(table.id, &key).as_bytes(), "not a row"))?;
    if judged.is_there() {
        let (row, size) = selection.apply(table, key, &judged);
        got.row = row;
        got.consumed.read = units(size);
    }
    Ok(got)
}
