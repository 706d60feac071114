//! Definitions of search indexes: making, changing, ending and listing them.
//!
//! Owns: which tables may have one. Must not: fill one.

use std::sync::Arc;

use tideline_model::search::{InvalidSearch, SearchIndex, SearchIndexUpdate, SearchSchema};
use tideline_model::{Definition, Error};

use crate::catalog;
use crate::schema::Table;
use crate::tables::Tables;

impl Tables {
    /// Makes a search index; it is filled from then on, with the rows that are there too.
    pub async fn create_search_index(
        &self,
        table: &str,
        name: String,
        schema: SearchSchema,
        time_to_live_s: i64,
    ) -> Result<(), Error> {
        self.redefine_in(table, move |table, txn| {
            if table.search_indexes.iter().any(|index| index.name == name) {
                return Err(Error::Search(InvalidSearch::IndexExists(name)));
            }
            let created_us = txn.now_ms() * 1_000;
            table.search_indexes.push(SearchIndex {
                id: catalog::take_id(txn)?,
                name,
                schema,
                time_to_live_s,
                created_us,
            });
            Definition::check_search_indexes(table)
        })
        .await?;
        self.search_needs().changed();
        Ok(())
    }

    /// Changes a search index.
    pub async fn update_search_index(
        &self,
        table: &str,
        name: &str,
        update: SearchIndexUpdate,
    ) -> Result<(), Error> {
        let name = name.to_owned();
        self.redefine(table, move |table, _| {
            let mut indexes = table.search_indexes.iter_mut();
            let index = indexes.find(|index| index.name == name);
            let index = index.ok_or(Error::Search(InvalidSearch::NoIndex(name)))?;
            if let Some(seconds) = update.time_to_live_s {
                index.time_to_live_s = seconds;
            }
            table.check_search_indexes()
        })
        .await?;
        Ok(())
    }

    /// Ends a search index; its files go in the background.
    pub async fn delete_search_index(&self, table: &str, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        self.redefine(table, move |table, _| {
            let before = table.search_indexes.len();
            table.search_indexes.retain(|index| index.name != name);
            match table.search_indexes.len() < before {
                true => Ok(()),
                false => Err(Error::IndexNotFound),
            }
        })
        .await?;
        self.search_needs().changed();
        Ok(())
    }

    /// The tables that have search indexes, those that layers above show here too.
    pub async fn searched(&self) -> Result<Vec<Arc<Table>>, Error> {
        let known = self.snapshot().await?;
        let searched = known
            .tables()
            .chain(self.virtual_tables())
            .filter(|table| !table.search_indexes.is_empty());
        Ok(searched.cloned().collect())
    }

    /// Waits until search indexes may have been made or ended.
    pub async fn search_indexes_change(&self) {
        self.search_needs().wait().await;
    }
}
