//! Mappings, and what is told of tables: CREATE, ALTER, DROP; SHOW, DESCRIBE.
//!
//! Owns: what each does and the rows that it tells. Promises: a mapping that is made fits its table. Must not: store
//! one; tables do.

use tideline_model::{ColumnType, MappedColumn, Mapping};
use tideline_table::MappingChange;

use crate::answer::{Answer, Column, ColumnKind, Datum, StatementKind};
use crate::context::Run;
use crate::door::Need;
use crate::expr::Pattern;
use crate::parse::{Definition, NewColumn, engine};
use crate::plan::{Mapped, find};
use crate::refusal::Refusal;

/// Performs a statement.
pub(crate) fn perform(run: &Run, definition: Definition) -> Result<Answer, Refusal> {
    match definition {
        Definition::Create {
            table,
            if_not_exists,
            columns,
            key,
            engine: name,
            attributes,
        } => {
            let (of, options) = engine(&table, name.as_deref(), attributes.as_deref())?;
            let mapped = find(run, &of, Need::Manage)?;
            if !run.door.allows(&table, Need::Manage) {
                return Err(Refusal::Denied(table));
            }
            check_key(&mapped, &columns, key)?;
            let known = run.wait(run.tables.mapped(&table))?;
            if known.is_some() && if_not_exists {
                return Ok(Answer::done(StatementKind::CreateTable));
            }
            let mapping = Mapping {
                name: table,
                columns: columns.into_iter().map(mapped_column).collect(),
                options,
            };
            run.write(run.tables.create_mapping(&mapped.table.name, mapping))?;
            Ok(Answer::done(StatementKind::CreateTable))
        }
        Definition::Drop { table, if_exists } => {
            let done = Ok(Answer::done(StatementKind::DropTable));
            let mapped = match find(run, &table, Need::Manage) {
                Err(Refusal::NoTable(_)) if if_exists => return done,
                found => found?,
            };
            // Of a table that is there, having no mapping is what was asked for.
            if mapped.mapping.is_some() {
                run.write(run.tables.drop_mapping(&mapped.table.name, &table))?;
            }
            done
        }
        Definition::Add { table, column } => {
            change(run, &table, MappingChange::Add(mapped_column(column)))
        }
        Definition::Remove { table, column } => change(run, &table, MappingChange::Remove(column)),
        Definition::ShowTables { like } => show_tables(run, like.as_deref()),
        Definition::ShowIndex { table } => show_index(&find(run, &table, Need::Any)?),
        Definition::Describe {
            table,
            like,
            is_full,
        } => describe(&find(run, &table, Need::Any)?, like.as_deref(), is_full),
    }
}

fn mapped_column(column: NewColumn) -> MappedColumn {
    MappedColumn {
        name: column.name,
        kind: column.kind,
        is_not_null: column.is_not_null || column.is_key,
    }
}

/// The key that a mapping names is the table's.
fn check_key(
    mapped: &Mapped,
    columns: &[NewColumn],
    key: Option<Vec<String>>,
) -> Result<(), Refusal> {
    let marked = columns.iter().filter(|column| column.is_key);
    let marked: Vec<String> = marked.map(|column| column.name.clone()).collect();
    let named = match key {
        Some(_) if !marked.is_empty() => {
            return Refusal::invalid("a mapping has one PRIMARY KEY");
        }
        Some(key) => key,
        None => marked,
    };
    let of_table = mapped.table.primary_key.iter().map(|column| &column.name);
    match named.is_empty() || named.iter().eq(of_table.clone()) {
        true => Ok(()),
        false => {
            let names: Vec<&str> = of_table.map(String::as_str).collect();
            Refusal::invalid(format!(
                "the primary key of the table is ({})",
                names.join(", ")
            ))
        }
    }
}

fn change(run: &Run, name: &str, change: MappingChange) -> Result<Answer, Refusal> {
    let mapped = find(run, name, Need::Manage)?;
    run.write(run.tables.change_mapping(&mapped.table.name, name, change))?;
    Ok(Answer::done(StatementKind::AlterTable))
}

/// An answer of texts.
fn told(kind: StatementKind, names: &[&str], rows: Vec<Vec<Datum>>) -> Answer {
    let column = |name: &&str| Column {
        name: (*name).to_owned(),
        kind: ColumnKind::String,
    };
    Answer {
        columns: names.iter().map(column).collect(),
        rows,
        ..Answer::done(kind)
    }
}

fn text(text: impl Into<String>) -> Datum {
    Datum::String(text.into())
}

fn pattern(like: Option<&str>) -> Result<Option<Pattern>, Refusal> {
    like.map(|like| Pattern::new(like, Some('\\'))).transpose()
}

/// The tables that the caller may do something with, and mappings of other names.
fn show_tables(run: &Run, like: Option<&str>) -> Result<Answer, Refusal> {
    let like = pattern(like)?;
    let mut names = run.wait(run.tables.list())?;
    names.retain(|name| run.door.allows(name, Need::Any));
    for (name, table) in run.wait(run.tables.mappings())? {
        if name != table && run.door.allows(&table, Need::Any) {
            names.push(name);
        }
    }
    let mut shown = Vec::with_capacity(names.len());
    for name in names {
        let matches = like.as_ref().map(|like| like.matches(&name));
        if matches.transpose()?.unwrap_or(true) {
            shown.push(name);
        }
    }
    let mut names = shown;
    names.sort_unstable();
    let rows = names.into_iter().map(|name| vec![text(name)]).collect();
    Ok(told(StatementKind::ShowTables, &["Tables"], rows))
}

/// The type of a column as MySQL names it.
fn shown_kind(kind: ColumnType, is_key: bool) -> &'static str {
    match (kind, is_key) {
        (ColumnType::Integer, _) => "bigint(20)",
        (ColumnType::Double, _) => "double",
        (ColumnType::Boolean, _) => "tinyint(1)",
        (ColumnType::String, true) => "varchar(1024)",
        (ColumnType::String, false) => "mediumtext",
        (ColumnType::Binary, true) => "varbinary(1024)",
        (ColumnType::Binary, false) => "mediumblob",
    }
}

fn describe(mapped: &Mapped, like: Option<&str>, is_full: bool) -> Result<Answer, Refusal> {
    let like = pattern(like)?;
    let mut shown = Vec::with_capacity(mapped.columns.len());
    for column in &mapped.columns {
        let matches = like.as_ref().map(|like| like.matches(&column.name));
        if matches.transpose()?.unwrap_or(true) {
            shown.push(column);
        }
    }
    let rows = shown.into_iter().map(|column| {
        let is_key = mapped
            .table
            .primary_key
            .iter()
            .any(|key| key.name == column.name);
        let name = text(&column.name);
        let kind = text(shown_kind(column.kind, is_key));
        let null = text(if is_key || column.is_not_null {
            "NO"
        } else {
            "YES"
        });
        let key = text(if is_key { "PRI" } else { "" });
        match is_full {
            false => vec![name, kind, null, key, Datum::Null, text("")],
            true => vec![
                name,
                kind,
                Datum::Null,
                null,
                key,
                Datum::Null,
                text(""),
                text("select,insert,update"),
                text(""),
            ],
        }
    });
    let names = match is_full {
        false => &["Field", "Type", "Null", "Key", "Default", "Extra"][..],
        true => &[
            "Field",
            "Type",
            "Collation",
            "Null",
            "Key",
            "Default",
            "Extra",
            "Privileges",
            "Comment",
        ],
    };
    Ok(told(StatementKind::DescribeTable, names, rows.collect()))
}

fn show_index(mapped: &Mapped) -> Result<Answer, Refusal> {
    let names = [
        "Table",
        "Non_unique",
        "Key_name",
        "Seq_in_index",
        "Column_name",
        "Is_defined_column",
        "Search_type",
        "Collation",
        "Cardinality",
        "Sub_part",
        "Packed",
        "Null",
        "Index_type",
        "Comment",
        "Index_comment",
        "Visible",
        "Expression",
    ];
    let table = &mapped.table;
    let shows = |name: &str| mapped.columns.iter().any(|column| column.name == name);
    let row = |key: &str, at: usize, column: &str, search: &str, kind: &str| {
        let is_key = key == "PRIMARY";
        vec![
            text(&table.name),
            Datum::Long(i64::from(!is_key)),
            text(key),
            Datum::Long(i64::try_from(at + 1).unwrap_or(i64::MAX)),
            text(column),
            text(if shows(column) { "Y" } else { "N" }),
            text(search),
            text(if is_key { "A" } else { "" }),
            Datum::Long(0),
            Datum::Null,
            Datum::Null,
            text(if is_key { "" } else { "YES" }),
            text(kind),
            text(""),
            text(""),
            text("YES"),
            Datum::Null,
        ]
    };
    let key = table.primary_key.iter().enumerate();
    let mut rows: Vec<_> = key
        .map(|(at, column)| row("PRIMARY", at, &column.name, "", ""))
        .collect();
    let named = mapped
        .mapping
        .as_ref()
        .and_then(|mapping| mapping.options.index.as_deref());
    let indexes = table.search_indexes.iter();
    for index in indexes.filter(|index| named.is_none_or(|name| name == index.name)) {
        let fields = index.schema.fields.iter().enumerate();
        rows.extend(fields.map(|(at, field)| {
            let kind = field.kind.name().to_uppercase();
            row(&index.name, at, &field.name, &kind, "SearchIndex")
        }));
    }
    let mut answer = told(StatementKind::ShowIndex, &names, rows);
    for at in [1, 3, 8] {
        answer.columns[at].kind = ColumnKind::Long;
    }
    Ok(answer)
}
