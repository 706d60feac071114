//! Reads: rows, ranges, exports, and what costly ones may take; in this file rows by their primary keys.
//!
//! Owns: reading one row as a request asks for it. Promises: what a row counts is returned also where the row is not.
//! Must not: walk ranges; `range.rs` does.

pub(super) mod costly;
pub(super) mod export;
pub(super) mod get;
pub(super) mod pace;
pub(super) mod range;

use bytes::Bytes;

use tideline_model::{Asking, Consumed, Error, KeyValue, RowSink, Selection, units};
use tideline_store::partition::ReadError;

use super::access::damaged;
use super::format::primary_key::key_of;
use super::schema::Table;

/// A row that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Got<Rows> {
    /// Holds the row, if it is there and passes.
    pub rows: Rows,
    /// What looking used.
    pub consumed: Consumed,
}

/// Reads one row. `load` gives its value, of a wide one perhaps little else than the columns that it is given.
pub(super) fn get<Rows: RowSink>(
    table: &Table,
    key: &[KeyValue],
    selection: &Selection,
    now_ms: i64,
    asking: &Asking<'_>,
    load: impl FnOnce(Option<&[&str]>) -> Result<Option<Bytes>, ReadError>,
) -> Result<Got<Rows>, Error> {
    let mut got = Got {
        rows: Rows::default(),
        consumed: Consumed { read: 1, write: 0 },
    };
    // Where columns are named, nothing depends on the others.
    let columns = selection.named_columns(&table.primary_key);
    let Some(value) = load(columns.as_deref())? else {
        return Ok(got);
    };
    let judged = table
        .judge(&value, now_ms)
        .map_err(|_| damaged(key_of(table.id, key).as_bytes(), "not a row"))?;
    if let Some(judged) = judged {
        let size = selection.give(table, key, judged.living, asking, &mut got.rows)?;
        got.consumed.read = units(size);
    }
    Ok(got)
}
