//! The sql family: a statement, and what it answers.
//!
//! Owns: parameters and results of this method. Promises: a statement has text, and no more than is ever read. Must
//! not: know SQL.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::{Limits, STATEMENT_BYTES_MAX};
use super::super::messages::entry::OneValue;

/// Does one statement of SQL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "sql.query.params")]
pub struct Query {
    /// The statement, in MySQL's dialect; a `;` may end it.
    #[schemars(length(min = 1, max = STATEMENT_BYTES_MAX))]
    pub statement: String,
}

impl Check for Query {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::bytes_between("statement", &self.statement, STATEMENT_BYTES_MAX)
    }
}

/// What a statement answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "sql.query.result")]
pub struct Answer {
    /// In the order of the statement; two may have one name. None = the statement has no rows by its kind.
    pub columns: Vec<AnswerColumn>,
    /// As many values in each as there are columns; `null` = NULL.
    pub rows: Vec<Vec<Option<OneValue<'static>>>>,
    /// How many rows of a table were written; absent = the statement writes none by its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affected: Option<u64>,
    /// The last rows did not fit into the answer: ask for fewer at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "sql_column")]
pub struct AnswerColumn {
    /// Its alias, or its text as it was written.
    pub name: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub kind: Kind,
}

/// The type of a column of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "sql_type")]
pub enum Kind {
    /// 64-bit integers.
    Integer,
    /// Doubles.
    Double,
    /// True or false.
    Boolean,
    /// Texts.
    String,
    /// Bytes.
    Binary,
    /// Moments in UTC, as texts: `2026-01-31 23:59:59.000001`.
    Datetime,
    /// Days, as texts: `2026-01-31`.
    Date,
    /// Times of a day and spans, as texts: `-01:30:00`.
    Time,
}
