//! Why a statement was refused.
//!
//! Owns: the reasons and their texts. Promises: each means that nothing was written, but for [`Refusal::Table`] where
//! its error says otherwise. Must not: know codes or statuses; the wire does.

use std::fmt;

use tideline_model::{Error, InvalidMapping};

/// As the service says it.
const SCANNED: &str = "The sql scanned rows of kv exceeds the quota! Search quota is 100000 rows, table quota is 100000 rows";
/// Of the text of a refusal: it may have parts of the statement.
const TEXT_CHARACTERS_MAX: usize = 500;

/// See the top.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// It can't be read: `OTSParameterInvalid`.
    Syntax {
        /// What was expected.
        what: String,
        /// The line, from 1.
        line: u64,
        /// The character of that line, from 1.
        column: u64,
    },
    /// It means nothing here, as where a column is not there: `OTSParameterInvalid`.
    Invalid(String),
    /// It is known, but can't be done: `OTSUnsupportOperation`.
    Unsupported(String),
    /// The caller may not do this with the table: `OTSNoPermissionAccess`.
    Denied(String),
    /// There is no such table and no such mapping: `OTSParameterInvalid`.
    NoTable(String),
    /// It scans more rows than it may: `OTSQuotaExhausted`.
    Scanned,
    /// It holds more MiB in memory, or in its answer, than it may: `OTSQuotaExhausted`.
    Memory(usize),
    /// It took more seconds than it may: `OTSTimeout`.
    Timeout(u64),
    /// Too many others: `OTSServerBusy`.
    Busy,
    /// A row with the primary key is there: `OTSConditionCheckFail`.
    RowExists,
    /// The tables refused it.
    Table(Error),
}

impl Refusal {
    pub(crate) fn invalid<T>(what: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::Invalid(what.into()))
    }

    pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::Unsupported(what.into()))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error {
            Error::Busy => Refusal::Busy,
            Error::Mapping(why) => Refusal::Invalid(text_of(&why)),
            error => Refusal::Table(error),
        }
    }
}

/// As answers tell it; of [`Refusal::Table`] whatever calls on tables tell is better.
impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let end = text.char_indices().nth(TEXT_CHARACTERS_MAX);
        match end {
            None => out.write_str(&text),
            Some((end, _)) => write!(out, "{}…", &text[..end]),
        }
    }
}

impl Refusal {
    fn text(&self) -> String {
        match self {
            Refusal::Syntax { what, line, column } => {
                let what: String = what.chars().take(TEXT_CHARACTERS_MAX - 100).collect();
                format!("{what} at line {line} column {column}")
            }
            Refusal::Invalid(what) => what.clone(),
            Refusal::Unsupported(what) => format!("Operation not supported: {what}"),
            Refusal::Denied(table) => format!("no permission on table [{table}]"),
            Refusal::NoTable(table) => format!("table [{table}] does not exist"),
            Refusal::Scanned => SCANNED.to_owned(),
            Refusal::Memory(most) => {
                format!("the rows that the sql holds or answers take more than {most} MiB")
            }
            Refusal::Timeout(seconds) => format!("the sql took more than {seconds} s"),
            Refusal::Busy => "Server is busy.".to_owned(),
            Refusal::RowExists => "a row with this primary key exists".to_owned(),
            Refusal::Table(error) => format!("{error:?}"),
        }
    }
}

fn text_of(why: &InvalidMapping) -> String {
    match why {
        InvalidMapping::Exists(name) => format!("Table '{name}' already exists"),
        InvalidMapping::Missing(name) => format!("mapping table [{name}] does not exist"),
        InvalidMapping::Quota(most) => format!("a table has at most {most} mapping tables"),
        InvalidMapping::ColumnCount(most) => format!("a mapping table has 1 to {most} columns"),
        InvalidMapping::DuplicateColumn(name) => format!("Duplicate column name '{name}'"),
        InvalidMapping::NoColumn(name) => format!("Unknown column '{name}'"),
        InvalidMapping::KeyColumn(name) => {
            format!("column '{name}' of the primary key is missing, or is of another type")
        }
        InvalidMapping::KeyColumnStays(name) => {
            format!("column '{name}' of the primary key stays")
        }
        InvalidMapping::NoIndex(name) => format!("search index [{name}] does not exist"),
    }
}
