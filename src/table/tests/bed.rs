//! What tests of tables begin with: tables over partitions in a directory, and a table whose key is integers.
//!
//! Owns: how they are opened. Must not: know what a test does with them, or be in a build that is not a test.

use std::path::Path;
use std::sync::Arc;

use super::super::{BuiltInTables, Catalog, DropContext, Entry, Partitions, TableRules, Tables};
use tideline_base::clock::Clock;
use tideline_base::ids::TableId;
use tideline_model::{KeyColumn, KeyType, NewTable, TableOptions, Throughput};
use tideline_store::partition::Options;

/// No tables of other layers.
struct NoTables;

impl BuiltInTables for NoTables {
    fn is_over(&self, _: TableId, _: &[u8], _: &Entry, _: &DropContext<'_>) -> bool {
        false
    }

    fn is_looked_up(&self, _: TableId) -> bool {
        false
    }
}

/// Opens tables without timelines beside them.
pub(super) fn open(dir: &Path, options: Options, clock: &Arc<Clock>) -> (Partitions, Tables) {
    let catalog = Catalog::default();
    let rules = Arc::new(TableRules::new(Arc::new(NoTables), catalog.clone()));
    let partitions = Partitions::open(dir, options, rules, Arc::clone(clock)).unwrap();
    let tables = Tables::open(partitions.clone(), catalog, Vec::new(), Arc::clone(clock)).unwrap();
    (partitions, tables)
}

/// A table whose key columns are integers of these names.
pub(super) fn integers(name: &str, columns: &[&str], options: TableOptions) -> NewTable {
    let column = |name: &&str| KeyColumn {
        name: (*name).to_owned(),
        kind: KeyType::Integer,
        auto_increment: false,
    };
    NewTable {
        name: name.to_owned(),
        primary_key: columns.iter().map(column).collect(),
        defined_columns: Vec::new(),
        indexes: Vec::new(),
        options,
        reserved: Throughput::default(),
        stream: None,
        local_transactions: true,
    }
}
