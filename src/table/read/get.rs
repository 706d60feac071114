//! GetRow and GetRange as calls on tables.
//!
//! Owns: the partitions whose views a read takes. Promises: a range over several partitions is read at one moment of
//! each. Must not: know how a row or a range is read; `mod.rs` and `range.rs` do.

use std::sync::Arc;

use tideline_model::{Asking, Error, GetRange, PrimaryKey, RowSink, Selection};
use tideline_store::partition::View;

use super::super::format::primary_key::check;
use super::super::schema::Table;
use super::super::tables::Tables;
use super::Got;
use super::range::{RangePage, Span, others};
use crate::read::get;

impl Tables {
    /// Reads a row of a table as [`Tables::describe`] gives it.
    pub async fn get<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        key: PrimaryKey,
        selection: Selection,
    ) -> Result<Got<Rows>, Error> {
        table.check_readable()?;
        let key = check(&table.primary_key, key)?;
        let (partition, now) = (self.place(table, &key), self.now_ms());
        let table = Arc::clone(table);
        let read = move |view: &View, asking: &Asking<'_>| {
            get(&table, &key, &selection, now, asking, |columns| {
                table.row(view, &key, columns)
            })
        };
        self.read_rows(partition, &self.effort(), read).await
    }

    /// Reads a page of a range of a table as [`Tables::describe`] gives it.
    pub async fn get_range<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        range: GetRange,
    ) -> Result<RangePage<Rows>, Error> {
        table.check_readable()?;
        let span = Arc::new(Span::new(table, range)?);
        let (effort, now) = (self.effort(), self.now_ms());
        loop {
            let (table, span) = (Arc::clone(table), Arc::clone(&span));
            let partitions = self.partitions().clone();
            let first = match &span.partition {
                Some(key) => table.place(&partitions, key),
                None => partitions.home(),
            };
            let read = move |view: &View, asking: &Asking<'_>| {
                let Some(others) = others(&partitions, first, span.partition.is_none())? else {
                    return Ok(None);
                };
                let views: Vec<&View> = std::iter::once(view).chain(&others).collect();
                span.read(&table, &views, now, asking).map(Some)
            };
            // Without one the partitions became others before the read had its turn.
            if let Some(page) = self.read_rows(first, &effort, read).await? {
                return Ok(page);
            }
        }
    }
}
