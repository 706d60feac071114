//! Search indexes and searches: CreateSearchIndex, UpdateSearchIndex, DeleteSearchIndex, ListSearchIndex,
//! DescribeSearchIndex, Search, ComputeSplits and ParallelScan.
//!
//! Owns: the steps of one call. Promises: of a table that is not there each answers as the service does. Must not: know
//! how a row is found.

use std::sync::Arc;

use super::rights::{Caller, shows};
use crate::Shared;
use tideline_model::Error;
use tideline_model::search::InvalidSearch;
use tideline_search::Hits;
use tideline_table::{Table, Tables};
use tideline_wire::tablestore::plainbuffer::RowBuffer;
use tideline_wire::tablestore::{
    CreateSearchIndex, DescribedIndex, FoundPage, NamedIndex, Reply, ScanIn, ScannedPage, SearchIn,
    UpdateSearchIndex,
};

pub(super) async fn create(tables: &Tables, new: CreateSearchIndex) -> Result<Reply, Error> {
    let NamedIndex { table, index } = new.of;
    let made = tables.create_search_index(&table, index, new.schema, new.time_to_live_s);
    made.await.map(|()| Reply::Done)
}

pub(super) async fn update(tables: &Tables, change: UpdateSearchIndex) -> Result<Reply, Error> {
    let NamedIndex { table, index } = &change.of;
    let changed = tables.update_search_index(table, index, change.update);
    changed.await.map(|()| Reply::Done)
}

pub(super) async fn delete(tables: &Tables, of: NamedIndex) -> Result<Reply, Error> {
    let deleted = tables.delete_search_index(&of.table, &of.index);
    deleted.await.map(|()| Reply::Done)
}

pub(super) async fn list(
    tables: &Tables,
    caller: &Caller,
    of: Option<&str>,
) -> Result<Reply, Error> {
    let tables = match of {
        Some(name) => vec![searched(tables, name).await?],
        None => tables.searched().await?,
    };
    // Those of virtual tables and of time series are the server's own.
    let is_own = |table: &&Arc<Table>| table.is_virtual() || table.series.is_some();
    let tables = tables.iter().filter(|table| !is_own(table));
    let shown = tables.filter(|table| shows(caller, &table.name));
    let named = shown.flat_map(|table| {
        let indexes = table.search_indexes.iter();
        indexes.map(|index| NamedIndex {
            table: table.name.clone(),
            index: index.name.clone(),
        })
    });
    Ok(Reply::SearchIndexes(named.collect()))
}

pub(super) async fn describe(
    (shared, tables): (&Shared, &Tables),
    of: &NamedIndex,
) -> Result<Reply, Error> {
    let table = searched(tables, &of.table).await?;
    let searches = &shared.tablestore.searches;
    let index = searches.definition(&table, &of.index)?.clone();
    let standing = searches.standing(index.id).await;
    Ok(Reply::SearchIndex(Box::new(DescribedIndex {
        index,
        is_building: standing.is_building,
        current_ms: standing.current_ms,
        rows: standing.rows,
        bytes: standing.bytes,
    })))
}

pub(super) async fn search(
    (shared, tables): (&Shared, &Tables),
    asked: SearchIn,
) -> Result<Reply, Error> {
    let table = searched(tables, &asked.of.table).await?;
    let searches = shared.tablestore.searches.of_caller(tables.holder());
    let found = searches.search::<RowBuffer>(&table, &asked.of.index, asked.search);
    let Hits {
        rows,
        shown,
        named,
        total,
        aggregated,
        is_all,
        next,
    } = found.await?;
    let rows = rows.into_iter();
    let named = named.into_iter();
    Ok(Reply::Found(FoundPage {
        rows: rows.map(|(row, score)| (row.into_bytes(), score)).collect(),
        shown,
        named: named.map(|(key, row)| (key, row.into_bytes())).collect(),
        total,
        aggregated,
        is_all,
        next,
    }))
}

pub(super) async fn splits(
    (shared, tables): (&Shared, &Tables),
    of: &NamedIndex,
) -> Result<Reply, Error> {
    let table = searched(tables, &of.table).await?;
    let searches = shared.tablestore.searches.of_caller(tables.holder());
    let session = searches.begin_scan(&table, &of.index)?;
    Ok(Reply::Splits(session))
}

pub(super) async fn scan(
    (shared, tables): (&Shared, &Tables),
    asked: ScanIn,
) -> Result<Reply, Error> {
    let table = searched(tables, &asked.of.table).await?;
    let searches = shared.tablestore.searches.of_caller(tables.holder());
    let step = searches.scan::<RowBuffer>(&table, &asked.of.index, asked.scan);
    let Hits { rows, next, .. } = step.await?;
    let rows = rows.into_iter().map(|(row, _)| row.into_bytes());
    Ok(Reply::Scanned(ScannedPage {
        rows: rows.collect(),
        next,
    }))
}

/// A table that is searched, as it is now.
async fn searched(tables: &Tables, name: &str) -> Result<Arc<Table>, Error> {
    match tables.describe(name).await {
        Err(Error::TableNotFound) => Err(Error::Search(InvalidSearch::NoTable(name.to_owned()))),
        found => found,
    }
}
