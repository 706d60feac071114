//! Plans of SELECT.
//!
//! Owns: what a plan is made of. Promises: slots of a source follow those of the sources before it; a condition that
//! only an index can tell is asked of it. Must not: run one.

mod index;
mod keys;
mod place;
mod select;
mod shape;
mod sources;

use std::sync::Arc;

use tideline_model::search::Query;
use tideline_model::{KeyValue, MappedColumn};
use tideline_table::Table;

use crate::answer::Column;
use crate::expr::{Expr, Groups, Typed};
pub(crate) use keys::equals;
pub(crate) use select::plan;
pub(crate) use sources::{Mapped, find, last_name, table};

/// A SELECT.
pub(crate) struct Plan {
    pub(crate) sources: Vec<Source>,
    /// What holds of rows of all sources.
    pub(crate) filter: Vec<Expr>,
    pub(crate) groups: Option<Groups>,
    /// What holds of groups.
    pub(crate) having: Vec<Expr>,
    /// By what rows are sorted, and whether the highest comes first.
    pub(crate) order: Vec<(Expr, bool)>,
    /// Whether they come so by themselves, backward if this is so.
    pub(crate) is_sorted: bool,
    pub(crate) is_backward: bool,
    pub(crate) selected: Vec<Typed>,
    pub(crate) columns: Vec<Column>,
    pub(crate) is_distinct: bool,
    pub(crate) offset: usize,
    pub(crate) limit: Option<usize>,
}

/// A table that is read, or the answer of a SELECT in its place.
pub(crate) struct Source {
    /// `None` = it is the answer of a SELECT.
    pub(crate) table: Option<Arc<Table>>,
    /// Of an answer only their names count.
    pub(crate) columns: Vec<MappedColumn>,
    /// The slot of its first column.
    pub(crate) first: usize,
    /// Which of the columns the statement looks at.
    pub(crate) needed: Vec<bool>,
    pub(crate) access: Access,
    /// What holds of its own rows.
    pub(crate) filter: Vec<Expr>,
    /// How it is joined to those before it; `None` = it is the first.
    pub(crate) join: Option<Join>,
}

/// How rows of a source are found.
pub(crate) enum Access {
    /// In these ranges of keys, which rise.
    Keys(Vec<Reach>),
    /// By a search index.
    Index(ByIndex),
    /// They are the answer of this.
    Select(Box<Plan>),
}

/// Keys that are read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reach {
    /// One.
    Row(Vec<KeyValue>),
    /// From one (inclusive) to another (exclusive).
    Range(Vec<KeyValue>, Vec<KeyValue>),
}

/// A search index that leads to rows.
pub(crate) struct ByIndex {
    pub(crate) name: String,
    pub(crate) query: Query,
    /// Whether the query is all that is asked.
    pub(crate) is_exact: bool,
    /// Whether no other way will do.
    pub(crate) is_needed: bool,
    /// Whether it has all columns that are looked at.
    pub(crate) has_all: bool,
}

/// How a source is joined to those before it.
pub(crate) struct Join {
    /// Whether a row of the left side without a match stays.
    pub(crate) keeps_left: bool,
    /// What holds of both.
    pub(crate) on: Vec<Expr>,
    /// Slots that are equal.
    pub(crate) keys: Vec<JoinKey>,
}

/// Two slots that are equal.
pub(crate) struct JoinKey {
    pub(crate) left: usize,
    pub(crate) right: usize,
    /// Of two types of numbers.
    pub(crate) as_doubles: bool,
}

impl Reach {
    /// All keys of a table.
    pub(crate) fn all(table: &Table) -> Reach {
        let count = table.primary_key.len();
        Reach::Range(vec![KeyValue::InfMin; count], vec![KeyValue::InfMax; count])
    }
}

impl Source {
    /// The names of the columns that are looked at.
    pub(crate) fn needed_names(&self) -> Vec<&str> {
        let columns = self.columns.iter().zip(&self.needed);
        let needed = columns.filter(|(_, is_needed)| **is_needed);
        needed.map(|(column, _)| column.name.as_str()).collect()
    }
}
