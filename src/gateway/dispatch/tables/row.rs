//! The row family: get, range, put, over the tables that Tablestore's API has.
//!
//! Owns: the calls behind these methods, and the way of keys, values and filters to the tables' and back. Promises: a
//! page ends before the answer is too large, and what is left out says so. Must not: decide what a filter means.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::shape::{missing, size};
use super::super::{Caller, Shared, Work};
use super::table::{may, readable, refusal};
use tideline_model::{
    Comparator, Condition, Direction, Error, Existence, Filter, FoundRow, GetRange, KeyColumn,
    KeyType, KeyUse, KeyValue, Predicate, PrimaryKey, PutCell, Relation, ReturnContent, RowChange,
    RowWrite, Selection, Value,
};
use tideline_table::{Got, RangePage, Table};
use tideline_wire::tables::changes::RowColumn;
use tideline_wire::tables::row::{self, Cells, Expect, Get, Page, Put, Range, Row, Stored};
use tideline_wire::tables::row_filter::{self, Op};
use tideline_wire::{Columns, Entry, Failure, Limits, Method, OneValue, Reply};

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, get: Get) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let table = readable(&shared, &caller, &get.table, Method::RowGet).await?;
        let key = whole_key(&table, get.key, KeyUse::Read)?;
        let meter = shared.tablestore.meter(&table, &key)?;
        let asked = Asked::new(&table, get.columns, get.versions, None)?;
        let got = shared
            .tablestore
            .tables
            .get(&table, key, asked.selection)
            .await;
        let got: Got<Vec<FoundRow>> = got.map_err(refusal)?;
        meter.spend(got.consumed);
        let mut shown = Shown::new(&shared.options.limits, asked.columns);
        let row = got.rows.into_iter().next();
        let row = row.and_then(|row| shown.row(&table, row).ok());
        Ok(Reply::RowGet(row::Got { row }))
    }))
}

pub(in super::super) fn range(shared: &Arc<Shared>, caller: &Caller, range: Range) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let table = readable(&shared, &caller, &range.table, Method::RowRange).await?;
        let (start, end) = bounds(&table, &range)?;
        let meter = shared.tablestore.meter(&table, &start)?;
        let asked = Asked::new(&table, range.columns, range.versions, range.filter)?;
        let range = GetRange {
            direction: direction(range.backward),
            start,
            end,
            limit: Some(size(range.limit)),
            selection: asked.selection,
        };
        let page = shared.tablestore.tables.get_range(&table, range).await;
        let page: RangePage<Vec<FoundRow>> = page.map_err(refusal)?;
        meter.spend(page.consumed);
        let mut shown = Shown::new(&shared.options.limits, asked.columns);
        let (mut rows, mut next) = (Vec::with_capacity(page.rows.len()), page.next);
        for row in page.rows {
            match shown.row(&table, row) {
                Ok(row) => rows.push(row),
                Err(first_left) => {
                    next = Some(first_left);
                    break;
                }
            }
        }
        let next = next.map(|key| cells(&table, key));
        Ok(Reply::RowRange(Page { rows, next }))
    }))
}

pub(in super::super) fn put(shared: &Arc<Shared>, caller: &Caller, put: Put) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    let place = caller.line.place();
    Work::Write(Box::pin(async move {
        let turn = place.await;
        may(&caller, &put.table, Method::RowPut.needs().rights())?;
        let tables = &shared.tablestore.tables;
        let table = tables.describe(&put.table).await.map_err(refusal)?;
        let key = whole_key(&table, put.key, KeyUse::Write)?;
        let meter = shared.tablestore.meter(&table, &key)?;
        let condition = Condition {
            existence: match put.expect {
                None => Existence::Ignore,
                Some(Expect::Exist) => Existence::Exist,
                Some(Expect::Absent) => Existence::NotExist,
            },
            columns: None,
        };
        let columns = put.columns.0.columns.into_owned().into_iter();
        let is_key = |name: &str| table.primary_key.iter().any(|column| column.name == name);
        let cell = |(name, value): (String, Value)| {
            if is_key(&name) {
                return Err(refusal(Error::DuplicateWithKey(name)));
            }
            let value = value.checked(&name).map_err(refusal)?;
            Ok(PutCell {
                name,
                version: None,
                value,
            })
        };
        let cells_put = columns.map(cell).collect::<Result<_, Failure>>()?;
        let write = RowWrite::new(key, RowChange::Put(cells_put), condition);
        let write = write.and_then(|write| write.returning(ReturnContent::Key));
        let written = turn.queue(tables.write(&table, write.map_err(refusal)?));
        let written = written.await.map_err(refusal)?;
        meter.spend(written.consumed);
        let row = written.row.ok_or_else(missing)?;
        let key = cells(&table, row.key);
        Ok(Reply::RowPut(Stored { key }))
    }))
}

fn direction(backward: bool) -> Direction {
    match backward {
        true => Direction::Backward,
        false => Direction::Forward,
    }
}

/// A whole primary key, in the table's order. A column that the server numbers is left out of what is new.
fn whole_key(table: &Table, given: Cells, used: KeyUse) -> Result<PrimaryKey, Failure> {
    let key = leading(table, "key", given)?;
    for (column, given) in table.primary_key.iter().zip(&key) {
        let may_lack = used == KeyUse::Write && column.auto_increment;
        if given.is_none() && !may_lack {
            let field = format!("key.{}", column.name);
            return Err(Failure::invalid(field, "the key lacks this column"));
        }
    }
    let named = table.primary_key.iter().zip(key);
    let value = |value: Option<KeyValue>| value.unwrap_or(KeyValue::AutoIncrement);
    Ok(named
        .map(|(column, given)| (column.name.clone(), value(given)))
        .collect())
}

/// The given columns of a key, each at its place in the table's order.
fn leading(table: &Table, field: &str, given: Cells) -> Result<Vec<Option<KeyValue>>, Failure> {
    let mut key: Vec<Option<KeyValue>> = vec![None; table.primary_key.len()];
    for (name, value) in given.0.columns.into_owned() {
        let field = format!("{field}.{name}");
        let mut columns = table.primary_key.iter();
        let Some(at) = columns.position(|column| column.name == name) else {
            return Err(Failure::invalid(
                field,
                "the table's key has no such column",
            ));
        };
        key[at] = Some(key_value(&table.primary_key[at], value, field)?);
    }
    Ok(key)
}

fn key_value(column: &KeyColumn, value: Value, field: String) -> Result<KeyValue, Failure> {
    let value = match (column.kind, value) {
        (KeyType::Integer, Value::Integer(number)) => KeyValue::Integer(number),
        (KeyType::String, Value::String(text)) => KeyValue::String(text),
        (KeyType::Binary, Value::Binary(bytes)) => KeyValue::Binary(bytes),
        (KeyType::Integer, _) => return Err(Failure::invalid(field, "must be an integer")),
        (KeyType::String, _) => return Err(Failure::invalid(field, "must be a text")),
        (KeyType::Binary, _) => return Err(Failure::invalid(field, "must be binary")),
    };
    value.check(&column.name, KeyUse::Bound).map_err(|error| {
        let mut failure = refusal(error);
        failure.field = Some(field);
        failure
    })?;
    Ok(value)
}

/// Where a range begins and ends, in its direction. What is left out at the end of a key is below all values on the way
/// up, and above all on the way down: so `from` has all rows that have the columns given, and `to` has none.
fn bounds(table: &Table, range: &Range) -> Result<(PrimaryKey, PrimaryKey), Failure> {
    let (low, high) = (KeyValue::InfMin, KeyValue::InfMax);
    let (first, last) = match range.backward {
        true => (high, low),
        false => (low, high),
    };
    let bound = |field, given: &Option<Cells>, rest: &KeyValue| match given {
        Some(given) => prefix(table, field, given.clone(), rest),
        None => match &range.within {
            Some(within) => prefix(table, "within", within.clone(), rest),
            None => prefix(table, field, Cells::default(), rest),
        },
    };
    let start = bound("from", &range.from, &first)?;
    let end = match &range.to {
        Some(to) => prefix(table, "to", to.clone(), &first)?,
        None => bound("to", &None, &last)?,
    };
    if let Some(within) = &range.within {
        let count = within.0.columns.len();
        if count == table.primary_key.len() {
            return Err(Failure::invalid("within", "leave the last columns out"));
        }
        let within = prefix(table, "within", within.clone(), &first)?;
        for (field, bound) in [("from", &start), ("to", &end)] {
            if bound[..count] != within[..count] {
                return Err(Failure::invalid(field, "is not within"));
            }
        }
    }
    Ok((start, end))
}

/// The first columns of a key, and `rest` in the place of the others.
fn prefix(
    table: &Table,
    field: &str,
    given: Cells,
    rest: &KeyValue,
) -> Result<PrimaryKey, Failure> {
    let key = leading(table, field, given)?;
    let given = key.iter().take_while(|value| value.is_some()).count();
    if let Some(at) = key.iter().skip(given).position(Option::is_some) {
        let field = format!("{field}.{}", table.primary_key[given].name);
        let behind = &table.primary_key[given + at].name;
        let text = format!("the key lacks this column before {behind}");
        return Err(Failure::invalid(field, text));
    }
    let named = table.primary_key.iter().zip(key);
    let value = |value: Option<KeyValue>| value.unwrap_or_else(|| rest.clone());
    Ok(named
        .map(|(column, given)| (column.name.clone(), value(given)))
        .collect())
}

/// What is read of rows, and what of that is shown.
struct Asked {
    selection: Selection,
    /// Empty = all.
    columns: BTreeSet<String>,
}

impl Asked {
    fn new(
        table: &Table,
        columns: Vec<String>,
        versions: u64,
        filter: Option<Box<row_filter::Filter>>,
    ) -> Result<Asked, Failure> {
        let filter = filter.map(|filter| predicate(*filter));
        let shown: BTreeSet<String> = columns.into_iter().collect();
        let mut read = shown.clone();
        if !shown.is_empty() {
            // Rows count that have none of these columns; and a filter sees what is read only.
            read.insert(table.primary_key[0].name.clone());
            filter.iter().for_each(|filter| named(filter, &mut read));
        }
        let versions = i64::try_from(versions).unwrap_or(i64::MAX);
        let selection = Selection::newest(Some(versions))
            .and_then(|selection| selection.of(read.into_iter().collect()))
            .map_err(refusal)?;
        Ok(Asked {
            selection: Selection {
                filter: filter.map(Filter::Rows),
                ..selection
            },
            columns: shown,
        })
    }
}

/// A filter that was checked.
fn predicate(filter: row_filter::Filter) -> Predicate {
    let all = |inner: Vec<row_filter::Filter>| inner.into_iter().map(predicate).collect();
    match filter {
        row_filter::Filter { not: Some(not), .. } => Predicate::Not(Box::new(predicate(*not))),
        row_filter::Filter { all: inner, .. } if !inner.is_empty() => Predicate::And(all(inner)),
        row_filter::Filter { any: inner, .. } if !inner.is_empty() => Predicate::Or(all(inner)),
        row_filter::Filter {
            column,
            op,
            value,
            if_missing,
            ..
        } => Predicate::Single(Relation {
            column: column.unwrap_or_default(),
            comparator: match op {
                None | Some(Op::Equal) => Comparator::Equal,
                Some(Op::NotEqual) => Comparator::NotEqual,
                Some(Op::Above) => Comparator::GreaterThan,
                Some(Op::AtLeast) => Comparator::GreaterEqual,
                Some(Op::Below) => Comparator::LessThan,
                Some(Op::AtMost) => Comparator::LessEqual,
            },
            value: value.map_or(Value::Boolean(false), |value| value.value.into_owned()),
            pass_if_missing: if_missing,
            latest_version_only: false,
            transfer: None,
        }),
    }
}

/// The columns that a filter names.
fn named(filter: &Predicate, names: &mut BTreeSet<String>) {
    match filter {
        Predicate::Single(relation) => {
            names.insert(relation.column.clone());
        }
        Predicate::Not(inner) => named(inner, names),
        Predicate::And(inner) | Predicate::Or(inner) => {
            inner.iter().for_each(|one| named(one, names));
        }
    }
}

/// Rows on their way into an answer.
struct Shown {
    room: usize,
    is_first: bool,
    /// Empty = all.
    columns: BTreeSet<String>,
}

impl Shown {
    fn new(limits: &Limits, columns: BTreeSet<String>) -> Shown {
        Shown {
            room: size(limits.outbound_frame_bytes_max).saturating_sub(ENVELOPE_BYTES),
            is_first: true,
            columns,
        }
    }

    /// A row in the answer's form; its key, if there is no room for it. Of the first one what has room is given, and at
    /// least one column.
    fn row(&mut self, table: &Table, row: FoundRow) -> Result<Row, Vec<KeyValue>> {
        let key = cells(table, row.key.clone());
        let mut room = self
            .room
            .saturating_sub(key.0.encoded_bytes_max() + ROW_BYTES);
        let mut columns = Vec::with_capacity(row.cells.len());
        let asked = |name: &str| self.columns.is_empty() || self.columns.contains(name);
        let mut cut = false;
        for cell in row.cells.into_iter().filter(|cell| asked(&cell.name)) {
            let column = [(cell.name, cell.value)];
            let entry = Entry {
                columns: Cow::Borrowed(&column),
            };
            let bytes = entry.encoded_bytes_max() + CELL_BYTES;
            if bytes > room && (!self.is_first || !columns.is_empty()) {
                if !self.is_first {
                    return Err(row.key);
                }
                cut = true;
                break;
            }
            room = room.saturating_sub(bytes);
            let [(name, value)] = column;
            columns.push(RowColumn {
                name: name.into(),
                version: Some(cell.version),
                value: Some(OneValue {
                    value: Cow::Owned(value),
                }),
            });
        }
        if room == 0 && !self.is_first {
            return Err(row.key);
        }
        (self.room, self.is_first) = (room, false);
        Ok(Row { key, columns, cut })
    }
}

/// A key as names and values.
fn cells(table: &Table, key: Vec<KeyValue>) -> Cells {
    let value = |value| match value {
        KeyValue::Integer(number) => Some(Value::Integer(number)),
        KeyValue::String(text) => Some(Value::String(text)),
        KeyValue::Binary(bytes) => Some(Value::Binary(bytes)),
        KeyValue::InfMin | KeyValue::InfMax | KeyValue::AutoIncrement => None,
    };
    let named = table.primary_key.iter().zip(key);
    let columns = named.filter_map(|(column, held)| Some((column.name.clone(), value(held)?)));
    Cells(columns.collect::<Columns>().into())
}

/// Around the rows of an answer.
const ENVELOPE_BYTES: usize = 2_048;
/// Names and marks of a row and of a cell.
const ROW_BYTES: usize = 64;
const CELL_BYTES: usize = 64;
