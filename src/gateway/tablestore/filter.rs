//! Filters of reads and conditions of writes, on rows as the tables give them.
//!
//! Owns: how a predicate sees a row: key columns and cells alike. Promises: it sees what was read and nothing else.
//! Must not: know what a comparison means.

use std::sync::Arc;

use crate::model::Value;
use crate::table::{FoundCell, FoundRow, KeyValue, RowFilter, RowTest, Table};
use crate::wire::tablestore::filter::{ColumnPage, Columns, Filter, Predicate};

/// The filter of a read.
pub(super) fn of_rows(filter: Filter) -> RowFilter {
    Arc::new(move |table, row| match &filter {
        Filter::Rows(predicate) => predicate.passes(&Seen::new(table, row)),
        Filter::Columns(page) => {
            keep(page, &mut row.cells);
            !row.cells.is_empty()
        }
    })
}

/// The column condition of a write.
pub(super) fn of_writes(predicate: Predicate) -> RowTest {
    Arc::new(move |table, row| predicate.passes(&Seen::new(table, row)))
}

/// A row as a predicate sees it.
struct Seen<'r> {
    key: Vec<(&'r str, Value)>,
    cells: &'r [FoundCell],
}

impl<'r> Seen<'r> {
    fn new(table: &'r Table, row: &'r FoundRow) -> Seen<'r> {
        let names = table.primary_key.iter().map(|column| column.name.as_str());
        let values = row.key.iter().filter_map(|value| match value {
            KeyValue::Integer(number) => Some(Value::Integer(*number)),
            KeyValue::String(text) => Some(Value::String(text.clone())),
            KeyValue::Binary(bytes) => Some(Value::Binary(bytes.clone())),
            // No row has these.
            KeyValue::InfMin | KeyValue::InfMax | KeyValue::AutoIncrement => None,
        });
        Seen {
            key: names.zip(values).collect(),
            cells: &row.cells,
        }
    }
}

impl Columns for Seen<'_> {
    fn versions(&self, column: &str) -> impl Iterator<Item = &Value> {
        let start = self
            .cells
            .partition_point(|cell| cell.name.as_str() < column);
        let of_column = move |cell: &&FoundCell| cell.name == column;
        let found: Vec<&Value> = self.cells[start..]
            .iter()
            .take_while(of_column)
            .map(|cell| &cell.value)
            .collect();
        let key = self.key.iter().find(|(name, _)| *name == column);
        key.map(|(_, value)| value).into_iter().chain(found)
    }
}

/// Keeps the columns of a page, with all their versions.
fn keep(page: &ColumnPage, cells: &mut Vec<FoundCell>) {
    let mut place: Option<usize> = None;
    let mut last = String::new();
    cells.retain(|cell| {
        if place.is_none() || cell.name != last {
            place = Some(place.map_or(0, |place| place + 1));
            last.clone_from(&cell.name);
        }
        place.is_some_and(|place| place >= page.offset && place - page.offset < page.limit)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(names: &[&str]) -> Vec<FoundCell> {
        let cell = |(at, name): (usize, &&str)| FoundCell {
            name: (*name).to_owned(),
            version: 100 - i64::try_from(at).unwrap(),
            value: Value::Integer(i64::try_from(at).unwrap()),
        };
        names.iter().enumerate().map(cell).collect()
    }

    #[test]
    fn a_page_counts_columns_and_keeps_their_versions() {
        for (offset, limit, expected) in [
            (0, 1, vec!["a", "a"]),
            (1, 2, vec!["b", "c", "c"]),
            (2, usize::MAX, vec!["c", "c"]),
            (3, 5, vec![]),
        ] {
            let mut kept = cells(&["a", "a", "b", "c", "c"]);
            keep(&ColumnPage { offset, limit }, &mut kept);
            let names: Vec<_> = kept.iter().map(|cell| cell.name.as_str()).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn a_predicate_sees_versions_newest_first_and_key_columns() {
        let cells = cells(&["a", "b", "b", "c"]);
        let seen = Seen {
            key: vec![("pk", Value::Boolean(true))],
            cells: &cells,
        };
        let of = |name| seen.versions(name).cloned().collect::<Vec<_>>();
        assert_eq!(of("b"), [Value::Integer(1), Value::Integer(2)]);
        assert_eq!(of("pk"), [Value::Boolean(true)]);
        assert!(of("bb").is_empty() && of("").is_empty() && of("d").is_empty());
    }
}
