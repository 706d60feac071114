//! What the caller of a statement may do.
//!
//! Owns: the questions that a statement asks before it touches a table. Must not: answer one; the gateway does.

use std::sync::Arc;

use tideline_table::Table;

/// What a statement wants to do with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// SELECT, and whatever else tells what rows hold.
    Read,
    /// INSERT, UPDATE, DELETE.
    Write,
    /// CREATE, ALTER and DROP of mappings.
    Manage,
    /// SHOW and DESCRIBE: anything of these.
    Any,
}

/// The rights of one caller.
pub trait Door: Send + Sync + 'static {
    /// Whether the caller may do this with a table of this name, which may not exist.
    fn allows(&self, table: &str, need: Need) -> bool;

    /// A table that is to be read, with the rows that the caller may see; `None` = the caller may see none.
    fn seen(&self, table: Arc<Table>) -> Option<Arc<Table>>;
}

/// A caller that may do everything.
#[derive(Clone, Copy, Debug)]
pub struct Open;

impl Door for Open {
    fn allows(&self, _table: &str, _need: Need) -> bool {
        true
    }

    fn seen(&self, table: Arc<Table>) -> Option<Arc<Table>> {
        Some(table)
    }
}
