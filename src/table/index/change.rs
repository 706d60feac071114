//! CreateIndex and DropIndex.
//!
//! Owns: changes of a table's list of indexes. Promises: a write that comes after the answer of either goes by it. Must
//! not: bring rows into an index (`backfill.rs`) or take them out: what belongs to no table is dropped by compaction.

use tideline_base::ids::TableId;
use tideline_model::{Error, IndexDefinition, IndexMeta, IndexState};

use crate::catalog;
use crate::catalog::check_names;
use crate::tables::Tables;

impl Tables {
    /// Makes an index of a table; with `of_all` also of the rows that are there, which are brought in from then on.
    pub async fn create_index(
        &self,
        table: &str,
        meta: IndexMeta,
        of_all: bool,
    ) -> Result<(), Error> {
        self.changeable(table).await?;
        self.check_free(&meta.name).await?;
        self.redefine_in(table, move |table, txn| {
            table.indexes.push(IndexDefinition {
                id: catalog::take_id(txn)?,
                meta,
                state: match of_all {
                    true => IndexState::Building,
                    false => IndexState::Since,
                },
            });
            table.check_indexes()?;
            check_names(txn, table)
        })
        .await?;
        self.wake_backfill();
        Ok(())
    }

    /// Ends an index, also one that is being built.
    pub async fn drop_index(&self, table: &str, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        self.redefine_in(table, move |table, _| {
            let before = table.indexes.len();
            table.indexes.retain(|index| index.meta.name != name);
            match table.indexes.len() < before {
                true => Ok(()),
                false => Err(Error::IndexNotFound),
            }
        })
        .await?;
        Ok(())
    }

    /// An index has all rows of its table, if they are still there.
    pub(super) async fn complete_index(&self, table: &str, id: TableId) -> Result<(), Error> {
        let done = self
            .redefine_in(table, move |table, _| {
                let mut indexes = table.indexes.iter_mut();
                if let Some(index) = indexes.find(|index| index.id == id) {
                    index.state = IndexState::Complete;
                }
                Ok(())
            })
            .await;
        match done {
            Err(Error::TableNotFound | Error::IndexChange) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
