//! A table: its definition, and where its rows come from.
//!
//! Owns: [`Table`], and what may be done with which kind of it. Must not: check definitions (`model/definition/`) or
//! store them (`catalog.rs`).

use std::ops::Deref;
use std::sync::Arc;

use super::index::Index;
use super::virtual_table::VirtualRows;
use tideline_base::ids::TableId;
use tideline_model::search::SearchIndex;
use tideline_model::{Definition, Error, IndexState, KeyColumn};

/// A table as it is now; reads as its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it is.
    pub definition: Definition,
    pub(super) kind: Kind,
}

/// Where a table's rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// They are written, and these indexes follow.
    Stored(Vec<Index>),
    /// They follow another table's.
    Index(IndexOf),
    /// They are made when they are read.
    Virtual(Arc<dyn VirtualRows>),
}

/// An index as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexOf {
    /// Its table.
    pub(super) table: TableId,
    /// The table's name.
    pub(super) table_name: String,
    /// Where the table's partition key is in the index's key.
    pub(super) partition_key: usize,
    pub(super) state: IndexState,
}

impl Deref for Table {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        &self.definition
    }
}

impl Table {
    /// A table whose rows a layer above makes.
    #[must_use]
    pub fn with_virtual_rows(definition: Definition, rows: Arc<dyn VirtualRows>) -> Table {
        Table {
            definition,
            kind: Kind::Virtual(rows),
        }
    }

    /// The same, with a search index of the server's own.
    #[must_use]
    pub fn with_own_index(mut self, index: SearchIndex) -> Table {
        self.definition.search_indexes = vec![index];
        self
    }

    /// Whether a layer above makes its rows.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        matches!(self.kind, Kind::Virtual(_))
    }

    /// The name of the table whose rows it shows, if it is an index.
    #[must_use]
    pub fn indexed_table(&self) -> Option<&str> {
        match &self.kind {
            Kind::Index(of) => Some(&of.table_name),
            Kind::Stored(_) | Kind::Virtual(_) => None,
        }
    }

    /// A table of the catalog, and its indexes, each a table to its readers.
    pub(super) fn of_catalog(definition: Definition) -> Result<(Table, Vec<Table>), Error> {
        let mut tables = Vec::with_capacity(definition.indexes.len());
        let mut indexes = Vec::with_capacity(definition.indexes.len());
        for index in &definition.indexes {
            let (parts, key) = Index::new(&definition, index)?;
            indexes.push(parts);
            let is_partition_key =
                |column: &KeyColumn| column.name == definition.primary_key[0].name;
            let of = IndexOf {
                table: definition.id,
                table_name: definition.name.clone(),
                partition_key: key.iter().position(is_partition_key).unwrap_or(0),
                state: index.state,
            };
            let holds = |name: &str| index.meta.columns.iter().any(|column| column == name);
            let defined = definition.defined_columns.iter();
            tables.push(Table {
                definition: Definition {
                    id: index.id,
                    name: index.meta.name.clone(),
                    primary_key: key,
                    defined_columns: defined
                        .filter(|column| holds(&column.name))
                        .cloned()
                        .collect(),
                    indexes: Vec::new(),
                    search_indexes: Vec::new(),
                    mappings: Vec::new(),
                    series: None,
                    local_transactions: false,
                    stream: None,
                    ..definition.clone()
                },
                kind: Kind::Index(of),
            });
        }
        let kind = Kind::Stored(indexes);
        Ok((Table { definition, kind }, tables))
    }

    /// The indexes that follow its rows.
    pub(super) fn indexes(&self) -> &[Index] {
        match &self.kind {
            Kind::Stored(indexes) => indexes,
            Kind::Index(_) | Kind::Virtual(_) => &[],
        }
    }

    /// Refuses writes of rows that are not written by themselves.
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Stored(_) => Ok(()),
            Kind::Index(_) => Err(Error::IndexWrite),
            Kind::Virtual(_) => Err(Error::ReadOnlyTable),
        }
    }

    /// Refuses changes of a definition that is not the table's own.
    pub(super) fn check_changeable(&self) -> Result<(), Error> {
        match self.check_writable() {
            Err(Error::IndexWrite) => Err(Error::IndexChange),
            checked => checked,
        }
    }

    /// Refuses reads of an index that has not all its rows yet.
    pub(super) fn check_readable(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Index(of) if of.state == IndexState::Building => Err(Error::IndexBuilding),
            _ => Ok(()),
        }
    }

    /// Whether the server numbers a primary key column.
    pub(super) fn is_numbered(&self) -> bool {
        self.primary_key.iter().any(|column| column.auto_increment)
    }
}
