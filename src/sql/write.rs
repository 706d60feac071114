//! INSERT, UPDATE and DELETE.
//!
//! Owns: from their trees to writes of rows. Promises: each names whole primary keys; all rows of an INSERT are written
//! or none; what a mapping's types do not take is refused before anything is written. Must not: read rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlparser::ast::{self, AssignmentTarget, FromTable, SetExpr, TableFactor, TableObject};

use tideline_model::{
    CellChange, Condition, Consumed, Error, Existence, KeyValue, MappedColumn, PutCell, RowChange,
    RowWrite, Value,
};
use tideline_table::Table;

use crate::answer::{Answer, StatementKind};
use crate::context::Run;
use crate::door::Need;
use crate::plan::{Mapped, find, last_name, table};
use crate::refusal::Refusal;
use crate::value::stored;
use crate::written::{column, constant, increment, whole_key};

/// Rows of one INSERT: as many as a batch may have.
const ROWS_MAX: usize = 200;

/// INSERT .. VALUES: a row whose key exists is refused.
pub(crate) fn insert(run: &Run, insert: &ast::Insert) -> Result<Answer, Refusal> {
    let odd = [
        (insert.ignore || insert.or.is_some(), "INSERT IGNORE"),
        (insert.replace_into, "REPLACE"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (insert.on.is_some(), "ON DUPLICATE KEY UPDATE"),
        (insert.returning.is_some(), "RETURNING"),
        (insert.partitioned.is_some(), "PARTITION"),
        (!insert.assignments.is_empty(), "INSERT .. SET"),
        (
            insert.insert_alias.is_some() || insert.table_alias.is_some(),
            "INSERT .. AS",
        ),
        (!insert.optimizer_hints.is_empty(), "hints"),
        (
            insert.priority.is_some(),
            "INSERT with HIGH_PRIORITY, LOW_PRIORITY or DELAYED",
        ),
        (
            insert.output.is_some()
                || insert.overriding.is_some()
                || insert.settings.is_some()
                || insert.format_clause.is_some()
                || insert.by_name
                || !insert.after_columns.is_empty(),
            "INSERT with anything but VALUES",
        ),
    ];
    if let Some((_, name)) = odd.iter().find(|(is, _)| *is) {
        return Refusal::unsupported(*name);
    }
    let TableObject::TableName(name) = &insert.table else {
        return Refusal::unsupported("INSERT into anything but a table");
    };
    let mapped = find(run, &last_name(name)?, Need::Write)?;
    let Some(source) = &insert.source else {
        return Refusal::unsupported("INSERT without VALUES");
    };
    let SetExpr::Values(values) = &*source.body else {
        return Refusal::unsupported("INSERT without VALUES");
    };
    if source.with.is_some()
        || source.order_by.is_some()
        || source.limit_clause.is_some()
        || source.fetch.is_some()
        || !source.locks.is_empty()
    {
        return Refusal::unsupported("INSERT with anything behind VALUES");
    }
    if !(1..=ROWS_MAX).contains(&values.rows.len()) {
        return Refusal::invalid(format!("an INSERT has 1 to {ROWS_MAX} rows"));
    }
    let columns: Vec<&MappedColumn> = match insert.columns.is_empty() {
        true => mapped.columns.iter().collect(),
        false => {
            let columns = insert.columns.iter();
            columns
                .map(|name| column(&mapped, &last_name(name)?))
                .collect::<Result<_, _>>()?
        }
    };
    let mut writes = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        let row = &row.content;
        if row.len() != columns.len() {
            return Refusal::invalid("Column count doesn't match value count");
        }
        let mut given = BTreeMap::new();
        for (column, tree) in columns.iter().zip(row) {
            let value = stored(column, constant(run, tree)?)?;
            if given.insert(column.name.as_str(), value).is_some() {
                return Refusal::invalid(format!("Column '{}' specified twice", column.name));
            }
        }
        writes.push(new_row(&mapped, given)?);
    }
    let count = writes.len() as u64;
    written(run, &mapped.table, writes, Refusal::RowExists)?;
    Ok(Answer {
        affected: count,
        ..Answer::done(StatementKind::Insert)
    })
}

/// The write of a new row.
fn new_row(mapped: &Mapped, mut given: BTreeMap<&str, Option<Value>>) -> Result<RowWrite, Refusal> {
    let mut existence = Existence::NotExist;
    let mut key = Vec::with_capacity(mapped.table.primary_key.len());
    for column in &mapped.table.primary_key {
        let value = match given.remove(column.name.as_str()).flatten() {
            Some(Value::Integer(number)) => KeyValue::Integer(number),
            Some(Value::String(text)) => KeyValue::String(text),
            Some(Value::Binary(bytes)) => KeyValue::Binary(bytes),
            Some(_) => return Refusal::invalid(format!("Incorrect value for '{}'", column.name)),
            None if column.auto_increment => {
                existence = Existence::Ignore;
                KeyValue::AutoIncrement
            }
            None => {
                return Refusal::invalid(format!("Column '{}' cannot be null", column.name));
            }
        };
        key.push((column.name.clone(), value));
    }
    for column in mapped.columns.iter().filter(|column| column.is_not_null) {
        let is_key = mapped
            .table
            .primary_key
            .iter()
            .any(|key| key.name == column.name);
        if !is_key && given.get(column.name.as_str()).is_none_or(Option::is_none) {
            return Refusal::invalid(format!("Column '{}' cannot be null", column.name));
        }
    }
    let cells = given.into_iter().filter_map(|(name, value)| {
        value.map(|value| PutCell {
            name: name.to_owned(),
            version: None,
            value,
        })
    });
    let change = RowChange::Put(cells.collect());
    Ok(RowWrite::new(key, change, condition(existence))?)
}

fn condition(existence: Existence) -> Condition {
    Condition {
        existence,
        columns: None,
    }
}

/// UPDATE of one row by its whole key.
pub(crate) fn update(run: &Run, update: &ast::Update) -> Result<Answer, Refusal> {
    let odd = update.from.is_some()
        || update.returning.is_some()
        || update.or.is_some()
        || !update.order_by.is_empty()
        || update.limit.is_some()
        || update.output.is_some()
        || update.on_cluster.is_some()
        || update.settings.is_some()
        || !update.optimizer_hints.is_empty()
        || !update.table.joins.is_empty();
    if odd {
        return Refusal::unsupported("UPDATE with anything but SET and WHERE");
    }
    let mapped = find(run, &table_name(&update.table.relation)?, Need::Write)?;
    let key = whole_key(run, &mapped, update.selection.as_ref())?;
    let mut changes: Vec<CellChange> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Refusal::unsupported("SET of more than one column at once");
        };
        let column = column(&mapped, &last_name(name)?)?;
        if mapped
            .table
            .primary_key
            .iter()
            .any(|key| key.name == column.name)
        {
            return Refusal::invalid(format!("Column '{}' of the primary key stays", column.name));
        }
        if changes.iter().any(|change| change.name() == column.name) {
            return Refusal::invalid(format!("Column '{}' specified twice", column.name));
        }
        let name = column.name.clone();
        if let Some(by) = increment(run, column, &assignment.value)? {
            changes.push(CellChange::Increment { name, by });
            continue;
        }
        let value = stored(column, constant(run, &assignment.value)?)?;
        changes.push(match value {
            Some(value) => CellChange::Put(PutCell {
                name,
                version: None,
                value,
            }),
            None if column.is_not_null => {
                return Refusal::invalid(format!("Column '{name}' cannot be null"));
            }
            None => CellChange::DeleteAll { name },
        });
    }
    let change = RowChange::update(changes)?;
    let write = RowWrite::new(key, change, condition(Existence::Exist))?;
    one(run, &mapped.table, write, StatementKind::Update)
}

/// DELETE of one row by its whole key.
pub(crate) fn delete(run: &Run, delete: &ast::Delete) -> Result<Answer, Refusal> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let odd = !delete.tables.is_empty()
        || delete.using.is_some()
        || delete.returning.is_some()
        || !delete.order_by.is_empty()
        || delete.limit.is_some()
        || delete.output.is_some()
        || delete.on_cluster.is_some()
        || delete.settings.is_some()
        || !delete.optimizer_hints.is_empty();
    let [from] = &from[..] else {
        return Refusal::unsupported("DELETE from more than one table");
    };
    if odd || !from.joins.is_empty() {
        return Refusal::unsupported("DELETE with anything but FROM and WHERE");
    }
    let mapped = find(run, &table_name(&from.relation)?, Need::Write)?;
    let key = whole_key(run, &mapped, delete.selection.as_ref())?;
    let write = RowWrite::new(key, RowChange::Delete, condition(Existence::Exist))?;
    one(run, &mapped.table, write, StatementKind::Delete)
}

/// Writes one row that has to be there; none is written if it is not.
fn one(
    run: &Run,
    table: &Arc<Table>,
    write: RowWrite,
    kind: StatementKind,
) -> Result<Answer, Refusal> {
    let affected = match written(run, table, vec![write], Refusal::RowExists) {
        Err(Refusal::RowExists) => 0,
        done => {
            done?;
            1
        }
    };
    Ok(Answer {
        affected,
        ..Answer::done(kind)
    })
}

/// Writes rows, all or none; `failed` if a condition did not hold.
fn written(
    run: &Run,
    table: &Arc<Table>,
    mut writes: Vec<RowWrite>,
    failed: Refusal,
) -> Result<(), Refusal> {
    let refused = |error: Error| match error {
        Error::ConditionFailed => failed.clone(),
        error => error.into(),
    };
    let mut consumed = Consumed::default();
    match writes.len() {
        1 => {
            let write = writes.remove(0);
            let written = run.write(async {
                let written = run.tables.write(table, write).await;
                written.map_err(refused)
            })?;
            consumed = written.consumed;
        }
        _ => {
            let rows = writes
                .into_iter()
                .map(|write| (Arc::clone(table), write))
                .collect();
            let answers = run.write(run.tables.write_batch(rows, true))?;
            for answer in answers {
                let written = answer.map_err(refused)?;
                consumed.write = consumed.write.saturating_add(written.consumed.write);
                consumed.read = consumed.read.saturating_add(written.consumed.read);
            }
        }
    }
    run.count((&table.name, None), (0, 0), consumed)
}

fn table_name(relation: &TableFactor) -> Result<String, Refusal> {
    match table(relation)? {
        (name, None) => last_name(name),
        (_, Some(_)) => Refusal::unsupported("an alias of a table that is written"),
    }
}
