//! Mappings of tables for SQL: making, changing, ending and finding them.
//!
//! Owns: their names among those of all tables. Promises: a mapping that was answered is seen by every later call; it
//! goes with its table. Must not: know SQL.

use std::sync::Arc;

use tideline_model::{Definition, Error, InvalidMapping, MAPPINGS_MAX, MappedColumn, Mapping};

use super::catalog;
use super::schema::Table;
use super::tables::Tables;

/// What changes of a mapping.
#[derive(Clone, Debug)]
pub enum MappingChange {
    /// One more column.
    Add(MappedColumn),
    /// One less.
    Remove(String),
}

impl Tables {
    /// Makes a mapping of a table.
    pub async fn create_mapping(&self, table: &str, mapping: Mapping) -> Result<(), Error> {
        if mapping.name != table {
            match self.describe(&mapping.name).await {
                Err(Error::TableNotFound) => {}
                Ok(_) => return Err(Error::Mapping(InvalidMapping::Exists(mapping.name))),
                Err(error) => return Err(error),
            }
        }
        self.redefine_in(table, move |table, txn| {
            let mut others = catalog::all(txn)?;
            others.retain(|other| other.name != table.name);
            let all = others.iter().chain([&*table]);
            let is_taken = all
                .clone()
                .flat_map(|of| &of.mappings)
                .any(|other| other.name == mapping.name);
            let is_name = |other: &String| *other == mapping.name;
            // A table's own mapping has its name.
            let is_named = all.flat_map(Definition::names).any(is_name);
            let is_other = is_named && mapping.name != table.name;
            if is_taken || is_other {
                return Err(Error::Mapping(InvalidMapping::Exists(mapping.name)));
            }
            mapping.check(table).map_err(Error::Mapping)?;
            table.mappings.push(mapping);
            match table.mappings.len() > MAPPINGS_MAX {
                true => Err(Error::Mapping(InvalidMapping::Quota(MAPPINGS_MAX))),
                false => Ok(()),
            }
        })
        .await?;
        Ok(())
    }

    /// Changes the columns of a mapping.
    pub async fn change_mapping(
        &self,
        table: &str,
        name: &str,
        change: MappingChange,
    ) -> Result<(), Error> {
        let name = name.to_owned();
        self.redefine(table, move |table, _| {
            let refused = |why| Err(Error::Mapping(why));
            let Some(at) = table.mappings.iter().position(|one| one.name == name) else {
                return refused(InvalidMapping::Missing(name));
            };
            let columns = &mut table.mappings[at].columns;
            match change {
                MappingChange::Add(column) => columns.push(column),
                MappingChange::Remove(column) => {
                    if table.primary_key.iter().any(|key| key.name == column) {
                        return refused(InvalidMapping::KeyColumnStays(column));
                    }
                    let Some(at) = columns.iter().position(|one| one.name == column) else {
                        return refused(InvalidMapping::NoColumn(column));
                    };
                    columns.remove(at);
                }
            }
            let mapping = &table.mappings[at];
            mapping.check(table).map_err(Error::Mapping)
        })
        .await?;
        Ok(())
    }

    /// Ends a mapping; its table stays.
    pub async fn drop_mapping(&self, table: &str, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        self.redefine(table, move |table, _| {
            let before = table.mappings.len();
            table.mappings.retain(|mapping| mapping.name != name);
            match table.mappings.len() < before {
                true => Ok(()),
                false => Err(Error::Mapping(InvalidMapping::Missing(name))),
            }
        })
        .await?;
        Ok(())
    }

    /// The table of which a mapping has this name.
    pub async fn mapped(&self, name: &str) -> Result<Option<Arc<Table>>, Error> {
        let known = self.snapshot().await?;
        let has = |table: &&Arc<Table>| table.mappings.iter().any(|one| one.name == name);
        Ok(known.tables().find(has).cloned())
    }

    /// The names of all mappings, each with its table's.
    pub async fn mappings(&self) -> Result<Vec<(String, String)>, Error> {
        let known = self.snapshot().await?;
        let named = known.tables().flat_map(|table| {
            let mappings = table.mappings.iter();
            mappings.map(|mapping| (mapping.name.clone(), table.name.clone()))
        });
        Ok(named.collect())
    }
}
