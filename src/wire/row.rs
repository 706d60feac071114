//! The row family: reading and putting rows of tables.
//!
//! Owns: parameters and results of these methods. Promises: names, counts and sizes are checked when they leave here,
//! and a filter has at most 32 parts. Must not: know a table's schema: which columns a key has is decided with the table.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::changes::RowColumn;
use super::check::{self, Check};
use super::entry::{Entry, OneValue};
use super::failure::Failure;
use super::limits::Limits;
use super::methods::Claim;
use super::params::{Object, objects, one_of, or_default, page_default, page_limit};
use super::table::table;
use crate::model::limits::{COLUMNS_MAX, FILTER_NODES_MAX, KEY_COLUMNS_MAX, WRITE_BYTES_MAX};
use crate::model::{Value, check_column_name};

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
            column(&path, name)?;
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

fn column(field: &dyn Fn() -> String, name: &str) -> Result<(), Failure> {
    let text = "names have 1 to 255 bytes and don't begin with #";
    check_column_name(name).map_err(|_| Failure::invalid(field(), text))
}

/// Which columns are asked for.
fn columns(names: &[String]) -> Result<(), Failure> {
    if names.len() > COLUMNS_MAX {
        let failure = Failure::invalid("columns", format!("more than {COLUMNS_MAX} columns"));
        return Err(failure.over(COLUMNS_MAX as u64, names.len() as u64));
    }
    let mut numbered = names.iter().enumerate();
    numbered.try_for_each(|(at, name)| column(&|| format!("columns[{at}]"), name))
}

fn versions(versions: u64) -> Result<(), Failure> {
    match versions {
        0 => Err(Failure::invalid("versions", "must be at least 1")),
        _ => check::number("versions", versions),
    }
}

fn one() -> u64 {
    1
}

fn one_or<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(1))
}

/// Asks for one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "row.get.params")]
pub struct Get {
    /// The table, or an index.
    #[schemars(length(min = 1, max = 255))]
    pub table: String,
    /// The whole primary key.
    pub key: Cells,
    /// Only these columns; none = all.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "or_default"
    )]
    #[schemars(length(max = 1024))]
    pub columns: Vec<String>,
    /// So many of the newest versions of each column; 1 if it is left out.
    #[serde(default = "one", deserialize_with = "one_or")]
    #[schemars(range(min = 1))]
    pub versions: u64,
}

impl Check for Get {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        table(&self.table)?;
        self.key.check("key", KEY_COLUMNS_MAX)?;
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
    #[schemars(length(min = 1, max = 255))]
    pub table: String,
    /// Only rows whose key begins with these values of its first columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Cells>,
    /// From this key on, in the direction that is asked for: `next` of the page before. Columns at its end may be left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Cells>,
    /// Up to this key, without it. Columns at its end may be left out: then without all rows that have the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Cells>,
    /// From the highest key to the lowest.
    #[serde(default, deserialize_with = "or_default")]
    pub backward: bool,
    /// Rows at most; clamped to the page limit.
    #[serde(default = "page_default", deserialize_with = "page_limit")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Only these columns; none = all.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "or_default"
    )]
    #[schemars(length(max = 1024))]
    pub columns: Vec<String>,
    /// So many of the newest versions of each column; 1 if it is left out.
    #[serde(default = "one", deserialize_with = "one_or")]
    #[schemars(range(min = 1))]
    pub versions: u64,
    /// Only rows that it is true of.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "filter"
    )]
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
                key.check(field, KEY_COLUMNS_MAX)?;
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

/// What has to hold of a row: a comparison, or one of `all`, `any` and `not`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "row_filter")]
pub struct Filter {
    /// The column that is compared, also one of the key. Any of the versions that are asked for may fulfil it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub column: Option<String>,
    /// How it is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
    /// With what. Values of two types are not equal, and neither is above the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<OneValue<'static>>,
    /// Whether it holds of rows that have no such column.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "or_default"
    )]
    pub if_missing: bool,
    /// All of these hold; two at least.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "objects"
    )]
    pub all: Vec<Filter>,
    /// One of these holds; two at least.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "objects"
    )]
    pub any: Vec<Filter>,
    /// This does not hold.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "filter"
    )]
    pub not: Option<Box<Filter>>,
}

fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<Filter>>, D::Error> {
    let read = Option::<Object<Filter>>::deserialize(from)?;
    Ok(read.map(|read| Box::new(read.0)))
}

impl Filter {
    /// `nodes` counts the whole tree.
    fn check(&self, field: &str, nodes: &mut usize) -> Result<(), Failure> {
        *nodes += 1;
        if *nodes > FILTER_NODES_MAX {
            let failure = Failure::invalid("filter", format!("more than {FILTER_NODES_MAX} parts"));
            return Err(failure.over(FILTER_NODES_MAX as u64, *nodes as u64));
        }
        let compares = self.column.is_some() || self.op.is_some() || self.value.is_some();
        let kinds = [
            compares || self.if_missing,
            !self.all.is_empty(),
            !self.any.is_empty(),
            self.not.is_some(),
        ];
        if kinds.iter().filter(|is_it| **is_it).count() != 1 {
            return Err(Failure::invalid(field, "one of column, all, any and not"));
        }
        if let Some(not) = &self.not {
            return not.check(&format!("{field}.not"), nodes);
        }
        for (name, inner) in [("all", &self.all), ("any", &self.any)] {
            if inner.len() == 1 {
                return Err(Failure::invalid(format!("{field}.{name}"), "two at least"));
            }
            for (at, one) in inner.iter().enumerate() {
                one.check(&format!("{field}.{name}[{at}]"), nodes)?;
            }
        }
        match (compares, &self.column, self.op, &self.value) {
            (true, Some(name), Some(_), Some(value)) => {
                if matches!(*value.value, Value::Json(_)) {
                    let field = format!("{field}.value");
                    return Err(Failure::invalid(field, "a table holds no nested values"));
                }
                column(&|| format!("{field}.column"), name)
            }
            (true, None, _, _) => Err(missing(field, "column")),
            (true, _, None, _) => Err(missing(field, "op")),
            (true, _, _, None) => Err(missing(field, "value")),
            (false, ..) => Ok(()),
        }
    }
}

fn missing(field: &str, name: &str) -> Failure {
    Failure::invalid(format!("{field}.{name}"), "a comparison needs it")
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "filter_op")]
pub enum Op {
    /// Is it.
    #[serde(rename = "=")]
    Equal,
    /// Is not it.
    #[serde(rename = "!=")]
    NotEqual,
    /// Is above.
    #[serde(rename = ">")]
    Above,
    /// Is it or above.
    #[serde(rename = ">=")]
    AtLeast,
    /// Is below.
    #[serde(rename = "<")]
    Below,
    /// Is it or below.
    #[serde(rename = "<=")]
    AtMost,
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Op, D::Error> {
        let all = [
            ("=", Op::Equal),
            ("!=", Op::NotEqual),
            (">", Op::Above),
            (">=", Op::AtLeast),
            ("<", Op::Below),
            ("<=", Op::AtMost),
        ];
        one_of(from, &all)
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
    #[schemars(length(min = 1, max = 255))]
    pub table: String,
    /// The whole primary key. A column that the server numbers is left out, and the row is new.
    pub key: Cells,
    /// Its columns, 1,024 at most.
    pub columns: Cells,
    /// Refuse unless the row is there, or is not.
    #[serde(skip_serializing_if = "Option::is_none")]
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
                let (limit, actual) = (WRITE_BYTES_MAX as u64, bytes as u64);
                Err(Failure::too_large(
                    "columns",
                    "row_bytes_max",
                    limit,
                    actual,
                ))
            }
            false => Ok(()),
        }
    }
}

/// What has to be so of a row that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "row_expect")]
pub enum Expect {
    /// It is there.
    Exist,
    /// It is not there.
    Absent,
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Expect, D::Error> {
        one_of(
            from,
            &[("exist", Expect::Exist), ("absent", Expect::Absent)],
        )
    }
}

/// The row was put.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "row.put.result")]
pub struct Stored {
    /// Its primary key, with what the server has numbered.
    pub key: Cells,
}

impl Claim for Put {
    /// The key, and a number in it.
    fn claim(&self) -> usize {
        self.key.0.encoded_bytes_max() + 64
    }
}
