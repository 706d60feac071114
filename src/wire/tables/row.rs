//! The row family: reading and putting rows of tables.
//!
//! Owns: parameters and results of these methods. Promises: names, counts and sizes are checked when they leave here.
//! Must not: know a table's schema: which columns a key has is decided with the table.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::{Entry, OneValue};
use super::super::params::page_default;
use super::super::schema::rules;
use super::changes::RowColumn;
use super::row_filter::Filter;
use super::table::{column_name, table};
use tideline_model::Value;
use tideline_model::limits::{
    COLUMNS_MAX, INDEX_KEY_COLUMNS_MAX, KEY_COLUMNS_MAX, WRITE_BYTES_MAX,
};

/// Names and values of a row's columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cells(pub Entry<'static>);

impl JsonSchema for Cells {
    fn schema_name() -> Cow<'static, str> {
        "cells".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let value = generator.subschema_for::<OneValue<'_>>();
        schemars::json_schema!({
            "description": "Name to value, none nested. Names: 1 to 255 bytes, not starting with `#`.",
            "type": "object",
            "maxProperties": COLUMNS_MAX,
            "propertyNames": { "minLength": 1, "maxLength": 255, "pattern": rules::COLUMN },
            "additionalProperties": value,
        })
    }
}

impl Cells {
    fn check(&self, field: &str, count_max: usize) -> Result<(), Failure> {
        let columns = &self.0.columns;
        if columns.len() > count_max {
            let failure = Failure::invalid(field, format!("more than {count_max} columns"));
            return Err(failure.over(count_max as u64, columns.len() as u64));
        }
        let mut before: Option<&str> = None;
        for (name, value) in &**columns {
            let path = || format!("{field}.{name}");
            column_name(&path, name)?;
            if before == Some(name) {
                return Err(Failure::invalid(path(), "the name stands twice"));
            }
            if matches!(value, Value::Json(_)) {
                return Err(Failure::invalid(path(), "a table holds no nested values"));
            }
            before = Some(name);
        }
        Ok(())
    }
}

/// Which columns are asked for.
fn columns(names: &[String]) -> Result<(), Failure> {
    if names.len() > COLUMNS_MAX {
        let failure = Failure::invalid("columns", format!("more than {COLUMNS_MAX} columns"));
        return Err(failure.over(COLUMNS_MAX as u64, names.len() as u64));
    }
    let mut numbered = names.iter().enumerate();
    numbered.try_for_each(|(at, name)| column_name(&|| format!("columns[{at}]"), name))
}

fn versions(versions: u64) -> Result<(), Failure> {
    match versions {
        0 => Err(Failure::invalid("versions", "must be at least 1")),
        _ => Ok(()),
    }
}

fn one() -> u64 {
    1
}

/// Asks for one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "row.get.params")]
pub struct Get {
    /// The table, or an index.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::TABLE))]
    pub table: String,
    /// The whole primary key.
    pub key: Cells,
    /// Only these columns; none = all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 255), regex(pattern = rules::COLUMN)))]
    pub columns: Vec<String>,
    /// So many of the newest versions of each column; 1 if it is left out.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub versions: u64,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        table(&self.table)?;
        self.key.check("key", INDEX_KEY_COLUMNS_MAX)?;
        columns(&self.columns)?;
        versions(self.versions)
    }
}

/// The row, if it is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "row.get.result")]
pub struct Got {
    /// Absent = there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<Row>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "row")]
pub struct Row {
    /// Its primary key, in the order of the table's.
    pub key: Cells,
    /// Its columns in the order of their names, versions newest first.
    pub columns: Vec<RowColumn<'static>>,
    /// The last columns did not fit into the answer: ask for them by name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Asks for rows between two keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "row.range.params")]
pub struct Range {
    /// The table, or an index.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::TABLE))]
    pub table: String,
    /// Only rows whose key begins with these values of its first columns; not of all of them.
    pub within: Option<Cells>,
    /// From this key on, in the direction that is asked for: `next` of the page before. Columns at its end may be left
    /// out.
    pub from: Option<Cells>,
    /// Up to this key, without it. Columns at its end may be left out: then without all rows that have the others.
    pub to: Option<Cells>,
    /// From the highest key to the lowest.
    #[serde(default)]
    pub backward: bool,
    /// Rows at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Only these columns; none = all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 255), regex(pattern = rules::COLUMN)))]
    pub columns: Vec<String>,
    /// So many of the newest versions of each column; 1 if it is left out.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub versions: u64,
    /// Only rows that it is true of.
    pub filter: Option<Box<Filter>>,
}

impl Check for Range {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        table(&self.table)?;
        let keys = [
            ("within", &self.within),
            ("from", &self.from),
            ("to", &self.to),
        ];
        for (field, key) in keys {
            if let Some(key) = key {
                key.check(field, INDEX_KEY_COLUMNS_MAX)?;
            }
        }
        check::page_limit(&mut self.limit, limits)?;
        columns(&self.columns)?;
        versions(self.versions)?;
        match &self.filter {
            Some(filter) => filter.check("filter", &mut 0),
            None => Ok(()),
        }
    }
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "row.range.result")]
pub struct Page {
    /// In the direction that was asked for. May be none although there are more.
    pub rows: Vec<Row>,
    /// What to pass as `from` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Cells>,
}

/// Puts a row: it becomes these columns and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "row.put.params")]
pub struct Put {
    /// The table; not an index.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::TABLE))]
    pub table: String,
    /// The whole primary key. A column that the server numbers is left out, and the row is new.
    pub key: Cells,
    /// Its columns, 1,024 at most.
    pub columns: Cells,
    /// Refuse unless the row is there, or is not.
    pub expect: Option<Expect>,
}

impl Check for Put {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        table(&self.table)?;
        self.key.check("key", KEY_COLUMNS_MAX)?;
        self.columns.check("columns", COLUMNS_MAX)?;
        let size = |(name, value): &(String, Value)| name.len() + value.json_bytes();
        let bytes: usize = self.columns.0.columns.iter().map(size).sum();
        match bytes > WRITE_BYTES_MAX {
            true => {
                let (name, limit) = ("row_bytes_max", WRITE_BYTES_MAX as u64);
                Err(Failure::too_large("columns", name, limit, bytes as u64))
            }
            false => Ok(()),
        }
    }
}

/// What has to be so of a row that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "row_expect")]
pub enum Expect {
    /// It is there.
    Exist,
    /// It is not there.
    Absent,
}

/// The row was put.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "row.put.result")]
pub struct Stored {
    /// Its primary key, with what the server has numbered.
    pub key: Cells,
}
