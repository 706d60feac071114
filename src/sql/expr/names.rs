//! Names of columns.
//!
//! Owns: from a name to the slot of its column. Promises: a name that means two columns is refused. Must not: know
//! types' rules.

use crate::answer::ColumnKind;
use crate::refusal::Refusal;

/// A column that can be named.
#[derive(Clone, Debug)]
pub(crate) struct NamedColumn {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
    /// Its place among the columns that `*` stands for.
    pub(crate) place: usize,
}

/// What can be named; a column's place is its slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(pub(crate) Vec<NamedColumn>);

impl Names {
    /// Puts the columns of the first table, so many, behind all others.
    pub(crate) fn turn(&mut self, first: usize) {
        let others = self.0.len().saturating_sub(first);
        for (slot, column) in self.0.iter_mut().enumerate() {
            column.place = match slot.checked_sub(first) {
                Some(place) => place,
                None => slot + others,
            };
        }
    }

    /// The slot of a column: its name as it is, else in other letters.
    pub(crate) fn find(&self, table: Option<&str>, name: &str) -> Result<Option<usize>, Refusal> {
        let of_table = |column: &NamedColumn| {
            table.is_none_or(|table| column.table.eq_ignore_ascii_case(table))
        };
        let places = |is: &dyn Fn(&NamedColumn) -> bool| -> Vec<usize> {
            let columns = self.0.iter().enumerate();
            let found = columns.filter(|(_, column)| of_table(column) && is(column));
            found.map(|(slot, _)| slot).collect()
        };
        let mut found = places(&|column| column.name == name);
        if found.is_empty() {
            found = places(&|column| column.name.eq_ignore_ascii_case(name));
        }
        match found[..] {
            [] => Ok(None),
            [slot] => Ok(Some(slot)),
            _ => Refusal::invalid(format!("Column '{name}' in field list is ambiguous")),
        }
    }
}
