//! Secondary indexes: what they are of, and the rules that need only their table's definition.
//!
//! Owns: how an index is asked for and kept (its JSON is a format on disk), and its key: the columns it names, then the
//! table's key columns that are not among them. Promises: an index that passed the checks here can hold each row of its
//! table. Must not: know how its rows are stored; `table/index/` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::limits::{DEFINED_COLUMNS_MAX, KEY_COLUMNS_MAX};
use super::super::{ColumnType, DefinedColumn, Error, KeyColumn, KeyType};
use tideline_base::ids::TableId;

/// What an index may begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "index_kind")]
pub enum IndexKind {
    /// Any column.
    #[default]
    Global,
    /// The first key column of its table.
    Local,
}

/// An index as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMeta {
    /// Its name; it shares names with tables.
    pub name: String,
    /// What it may begin with.
    pub kind: IndexKind,
    /// The columns that order it: of its table's primary key, or defined ones.
    pub key: Vec<String>,
    /// The defined columns that its rows hold beside.
    pub columns: Vec<String>,
}

/// Which rows an index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "index_state")]
pub enum IndexState {
    /// Not all yet: rows from before it are being brought in, and it can't be read.
    Building,
    /// Those of all rows of its table.
    Complete,
    /// Those of rows that were written since it was made.
    Since,
}

/// An index as the catalog keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// Of its rows; never used again.
    pub id: TableId,
    /// As it was asked for.
    #[serde(flatten)]
    pub meta: IndexMeta,
    /// What rows it has.
    pub state: IndexState,
}

impl IndexMeta {
    /// Checks what needs no table.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=KEY_COLUMNS_MAX).contains(&self.key.len()) {
            return Err(Error::IndexKeyCount);
        }
        if self.columns.len() > DEFINED_COLUMNS_MAX {
            return Err(Error::IndexColumnCount);
        }
        for (at, name) in self.key.iter().enumerate() {
            if self.key[..at].contains(name) {
                return Err(Error::DuplicateKeyColumn(name.clone()));
            }
        }
        for (at, name) in self.columns.iter().enumerate() {
            if self.key.contains(name) {
                return Err(Error::DuplicateWithKey(name.clone()));
            }
            if self.columns[..at].contains(name) {
                return Err(Error::DuplicateDefinedColumn(name.clone()));
            }
        }
        Ok(())
    }

    /// The whole primary key of the index of a table with this key and these defined columns.
    pub fn whole_key(
        &self,
        key: &[KeyColumn],
        defined: &[DefinedColumn],
    ) -> Result<Vec<KeyColumn>, Error> {
        let column = |name: &String, kind| KeyColumn {
            name: name.clone(),
            kind,
            auto_increment: false,
        };
        let mut whole = Vec::with_capacity(self.key.len() + key.len());
        for name in &self.key {
            let kind = match key.iter().find(|column| column.name == *name) {
                Some(column) => column.kind,
                None => key_type(find(defined, name)?)?,
            };
            whole.push(column(name, kind));
        }
        for name in &self.columns {
            find(defined, name)?;
        }
        if self.kind == IndexKind::Local && self.key.first() != Some(&key[0].name) {
            return Err(Error::IndexNotLocal);
        }
        let others = key.iter().filter(|column| !self.key.contains(&column.name));
        whole.extend(others.map(|other| column(&other.name, other.kind)));
        Ok(whole)
    }

    /// Whether it holds or is ordered by this column.
    #[must_use]
    pub fn names(&self, column: &str) -> bool {
        self.key
            .iter()
            .chain(&self.columns)
            .any(|name| name == column)
    }
}

fn find<'d>(defined: &'d [DefinedColumn], name: &str) -> Result<&'d DefinedColumn, Error> {
    let found = defined.iter().find(|column| column.name == name);
    found.ok_or_else(|| Error::NoDefinedColumn(name.to_owned()))
}

/// The type of a defined column in a key.
fn key_type(column: &DefinedColumn) -> Result<KeyType, Error> {
    match column.kind {
        ColumnType::Integer => Ok(KeyType::Integer),
        ColumnType::String => Ok(KeyType::String),
        ColumnType::Binary => Ok(KeyType::Binary),
        ColumnType::Double | ColumnType::Boolean => Err(Error::IndexKeyType(column.name.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(kind: IndexKind, key: &[&str], columns: &[&str]) -> IndexMeta {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        IndexMeta {
            name: "by".to_owned(),
            kind,
            key: owned(key),
            columns: owned(columns),
        }
    }

    fn whole(kind: IndexKind, key: &[&str], columns: &[&str]) -> Result<String, Error> {
        let table = [("p", KeyType::String, false), ("n", KeyType::Integer, true)];
        let table = table.map(|(name, kind, auto_increment)| KeyColumn {
            name: name.to_owned(),
            kind,
            auto_increment,
        });
        let defined = [
            ("i", ColumnType::Integer),
            ("b", ColumnType::Binary),
            ("f", ColumnType::Boolean),
        ];
        let defined = defined.map(|(name, kind)| DefinedColumn {
            name: name.to_owned(),
            kind,
        });
        let meta = meta(kind, key, columns);
        meta.check()?;
        let whole = meta.whole_key(&table, &defined)?;
        let shown = |column: &KeyColumn| {
            assert!(!column.auto_increment);
            format!("{}:{:?}", column.name, column.kind)
        };
        Ok(whole.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_key_is_what_is_named_and_then_the_rest_of_the_tables() {
        use IndexKind::{Global, Local};
        for (kind, key, expected) in [
            (Global, &["i"][..], "i:Integer p:String n:Integer"),
            (Global, &["n"], "n:Integer p:String"),
            (
                Global,
                &["b", "n", "i"],
                "b:Binary n:Integer i:Integer p:String",
            ),
            (Local, &["p", "i"], "p:String i:Integer n:Integer"),
        ] {
            assert_eq!(whole(kind, key, &["f"]).as_deref(), Ok(expected));
        }
        let name = |name: &str| name.to_owned();
        for (kind, key, columns, error) in [
            (Global, &[][..], &[][..], Error::IndexKeyCount),
            (
                Global,
                &["a", "b", "c", "d", "e"],
                &[],
                Error::IndexKeyCount,
            ),
            (Global, &["i"], &["x"; 33], Error::IndexColumnCount),
            (
                Global,
                &["i", "i"],
                &[],
                Error::DuplicateKeyColumn(name("i")),
            ),
            (Global, &["i"], &["i"], Error::DuplicateWithKey(name("i"))),
            (
                Global,
                &["i"],
                &["f", "f"],
                Error::DuplicateDefinedColumn(name("f")),
            ),
            (Global, &["x"], &[], Error::NoDefinedColumn(name("x"))),
            (Global, &["i"], &["p"], Error::NoDefinedColumn(name("p"))),
            (Global, &["f"], &[], Error::IndexKeyType(name("f"))),
            (Local, &["i"], &[], Error::IndexNotLocal),
        ] {
            assert_eq!(whole(kind, key, columns), Err(error));
        }
    }
}
