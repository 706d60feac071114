//! A table: its definition, and where its rows come from.
//!
//! Owns: [`Table`]. Must not: check definitions (`model/definition.rs`) or store them (`catalog.rs`).

use std::ops::Deref;
use std::sync::Arc;

use super::virtual_table::VirtualRows;
use crate::model::Definition;

/// A table as it is now; reads as its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it is.
    pub definition: Definition,
    /// What makes its rows, if it is a virtual table.
    pub virtual_rows: Option<Arc<dyn VirtualRows>>,
}

impl Deref for Table {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        &self.definition
    }
}

impl Table {
    /// Whether it takes no writes.
    pub(super) fn is_read_only(&self) -> bool {
        self.virtual_rows.is_some()
    }

    /// Whether the server numbers a primary key column.
    pub(super) fn is_numbered(&self) -> bool {
        self.primary_key.iter().any(|column| column.auto_increment)
    }
}
