//! The table family: what tables there are, and what each is.
//!
//! Owns: parameters and results of these methods. Promises: names are checked when they leave here. Must not: know the
//! catalog, or change a table: Tablestore's API does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::schema::rules;
use tideline_model::limits::NAME_BYTES_MAX;
use tideline_model::{ColumnType, IndexKind, IndexState, KeyType};
use tideline_model::{check_column_name, check_table_name};

/// Asks for the tables and indexes that the caller has any right to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "table.list.params")]
pub struct List {}

impl Check for List {}

/// All of them, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "table.list.result")]
pub struct Listed {
    /// Tables, and indexes, which are read like tables.
    pub tables: Vec<Named>,
}

/// A table or an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "named_table")]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The table whose rows it shows; absent = it is no index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_of: Option<String>,
    /// It shows timelines or their messages, and can only be read.
    pub is_virtual: bool,
}

/// Asks for one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "table.get.params")]
pub struct Get {
    /// Its name, or an index's.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::TABLE))]
    pub table: String,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        table(&self.table)
    }
}

/// The name of a table.
pub(in super::super) fn table(name: &str) -> Result<(), Failure> {
    check::bytes_between("table", name, NAME_BYTES_MAX)?;
    let text = "letters, digits and underscores, no digit first";
    check_table_name(name).map_err(|_| Failure::invalid("table", text))
}

/// The name of a column.
pub(in super::super) fn column_name(field: &dyn Fn() -> String, name: &str) -> Result<(), Failure> {
    let text = "names have 1 to 255 bytes and don't begin with #";
    check_column_name(name).map_err(|_| Failure::invalid(field(), text))
}

/// What a table is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "table.get.result")]
pub struct Info {
    /// Its name.
    pub table: String,
    /// The columns of its primary key, in their order; the first decides in which partition a row is.
    pub key: Vec<KeyColumn>,
    /// Columns with a declared type, which indexes may hold. Rows may have others, and other types.
    pub columns: Vec<Column>,
    /// What decides which versions live.
    pub options: TableOptions,
    /// When it was made, ms since 1970; absent = it shows timelines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    /// The table whose rows it shows; absent = it is no index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_of: Option<String>,
    /// It shows timelines or their messages, and can only be read.
    pub is_virtual: bool,
    /// It takes local transactions.
    pub transactions: bool,
    /// Its stream; absent = it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Its secondary indexes, but for those that the caller has no right to.
    pub indexes: Vec<Index>,
}

/// A column of a primary key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "key_column")]
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: KeyType,
    /// The server numbers it.
    pub auto_increment: bool,
}

/// A defined column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "defined_column")]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its declared type.
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

/// What decides which versions of a table's columns live, and which may be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "table_options")]
pub struct TableOptions {
    /// Seconds that a version lives, from its own time on; absent = for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// How many versions of a column live.
    pub versions: u64,
    /// How far from now a version may be that is written, seconds.
    pub version_offset_s: u64,
    /// Rows can be updated, not only put and deleted.
    pub allow_update: bool,
}

/// A table's stream of changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "table_stream")]
pub struct Stream {
    /// Never used again, not by the same table either.
    pub id: String,
    /// For how many hours its changes are kept at least.
    pub hours: u32,
    /// When it was enabled, ms since 1970.
    pub created_at: u64,
    /// Each change tells what these columns held before it.
    pub columns: Vec<String>,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "table_index")]
pub struct Index {
    /// Its name: it is read like a table.
    pub name: String,
    /// What it may begin with.
    pub kind: IndexKind,
    /// Which rows it has.
    pub state: IndexState,
    /// The columns that order it.
    pub key: Vec<String>,
    /// The columns that its rows hold besides.
    pub columns: Vec<String>,
}
