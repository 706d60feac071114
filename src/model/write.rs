//! Writes of one row as they are asked for.
//!
//! Owns: changes, what a write returns, and their rules. Promises: what the constructors give keeps every
//! documented rule that needs neither a table nor a stored row. Must not: write.

use super::limits::VERSION_BYTES;
use super::{Condition, Error, Existence, KeyValue, PrimaryKey, Value, ValueRef};

/// A cell of a put.
#[derive(Clone, Debug, PartialEq)]
pub struct PutCell {
    /// Its column.
    pub name: String,
    /// Its version; `None` = now.
    pub version: Option<i64>,
    /// Its value.
    pub value: Value,
}

/// A change of an update.
#[derive(Clone, Debug, PartialEq)]
pub enum CellChange {
    /// A version is written; without a version of its own above all that the column has.
    Put(PutCell),
    /// One version goes.
    DeleteOne {
        /// The column.
        name: String,
        /// The version.
        version: i64,
    },
    /// All versions go.
    DeleteAll {
        /// The column.
        name: String,
    },
    /// The newest value and `by` make a new version.
    Increment {
        /// The column.
        name: String,
        /// How much is added.
        by: i64,
    },
}

/// What is done to a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowChange {
    /// It becomes these cells and nothing else.
    Put(Vec<PutCell>),
    /// Some cells change.
    Update(Vec<CellChange>),
    /// It goes.
    Delete,
}

/// What a write answers with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReturnContent {
    /// Nothing.
    #[default]
    None,
    /// The primary key, also if the server numbered it.
    Key,
    /// These columns, which were incremented, as they became.
    Incremented(Vec<String>),
}

/// A write of one row.
#[derive(Clone, Debug)]
pub struct RowWrite {
    /// Its primary key.
    pub key: PrimaryKey,
    /// What is done.
    pub change: RowChange,
    /// When.
    pub condition: Condition,
    /// What is answered.
    pub content: ReturnContent,
}

impl CellChange {
    /// The column.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            CellChange::Put(PutCell { name, .. })
            | CellChange::DeleteOne { name, .. }
            | CellChange::DeleteAll { name }
            | CellChange::Increment { name, .. } => name,
        }
    }

    fn is_increment(&self) -> bool {
        matches!(self, CellChange::Increment { .. })
    }
}

impl PutCell {
    /// A version counts, made by the client or by the server, as it does when it is read.
    fn size(&self, version_bytes: usize) -> usize {
        self.name.len() + version_bytes + ValueRef::from(&self.value).size()
    }
}

impl RowChange {
    /// An update with these changes. An incremented column is changed in no other way: what would be added to is not
    /// clear.
    pub fn update(changes: Vec<CellChange>) -> Result<RowChange, Error> {
        let mut names: Vec<&str> = changes.iter().map(CellChange::name).collect();
        names.sort_unstable();
        for change in changes.iter().filter(|change| change.is_increment()) {
            let name = change.name();
            let first = names.partition_point(|other| *other < name);
            if names.get(first + 1) == Some(&name) {
                let column = name.to_owned();
                return Err(Error::IncrementMixed { column });
            }
        }
        Ok(RowChange::Update(changes))
    }

    /// Whether it makes the row if there is none; deletes alone do not.
    fn makes_row(&self) -> bool {
        let is_delete = |change: &CellChange| {
            matches!(
                change,
                CellChange::DeleteOne { .. } | CellChange::DeleteAll { .. }
            )
        };
        match self {
            RowChange::Put(_) => true,
            RowChange::Update(changes) => !changes.iter().all(is_delete),
            RowChange::Delete => false,
        }
    }

    fn size(&self, version_bytes: usize) -> usize {
        match self {
            RowChange::Put(cells) => cells.iter().map(|cell| cell.size(version_bytes)).sum(),
            RowChange::Update(changes) => {
                let size = |change: &CellChange| match change {
                    CellChange::Put(cell) => cell.size(version_bytes),
                    other => other.name().len() + version_bytes,
                };
                changes.iter().map(size).sum()
            }
            RowChange::Delete => 0,
        }
    }
}

impl RowWrite {
    /// A write that answers with nothing. A row that the server numbers is new: nothing of it can be deleted
    /// alone, and there is nothing to make conditions on.
    pub fn new(
        key: PrimaryKey,
        change: RowChange,
        condition: Condition,
    ) -> Result<RowWrite, Error> {
        let values = key.iter().map(|(_, value)| value);
        match values
            .filter(|value| **value == KeyValue::AutoIncrement)
            .count()
        {
            0 => {}
            1 if !change.makes_row() => return Err(Error::AutoIncrementInDelete),
            1 if condition.columns.is_some() => return Err(Error::AutoIncrementCondition),
            1 if condition.existence == Existence::Ignore => {}
            1 => return Err(Error::AutoIncrementExpect(condition.existence)),
            more => return Err(Error::AutoIncrementTwice(more)),
        }
        Ok(RowWrite {
            key,
            change,
            condition,
            content: ReturnContent::None,
        })
    }

    /// The same, answering with `content`. Only columns that are incremented can be returned.
    pub fn returning(mut self, content: ReturnContent) -> Result<RowWrite, Error> {
        if let ReturnContent::Incremented(names) = &content {
            let incremented: Vec<&str> = self.incremented().collect();
            if let Some(name) = names
                .iter()
                .find(|name| !incremented.contains(&name.as_str()))
            {
                return Err(Error::ReturnColumn(name.clone()));
            }
        }
        self.content = content;
        Ok(self)
    }

    /// The columns that are incremented.
    pub fn incremented(&self) -> impl Iterator<Item = &str> {
        let changes = match &self.change {
            RowChange::Update(changes) => changes.as_slice(),
            RowChange::Put(_) | RowChange::Delete => &[],
        };
        let increments = changes.iter().filter(|change| change.is_increment());
        increments.map(CellChange::name)
    }

    /// How many bytes its data has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.counted(VERSION_BYTES)
    }

    /// How many bytes it counts in a table whose versions count so many.
    #[must_use]
    pub fn counted(&self, version_bytes: usize) -> usize {
        let key = self
            .key
            .iter()
            .map(|(name, value)| name.len() + value.size());
        key.sum::<usize>() + self.change.size(version_bytes)
    }
}
