//! Statements of SQL, on two small tables.
//!
//! Owns: the directory with them. Promises: an answer has a value of its column's type or NULL in each place; a refusal
//! is short and names a place inside of the statement. Must not: need a server.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tempfile::TempDir;
use tideline_base::clock::Clock;
use tideline_base::faults::Decoder;
use tideline_base::ids::TableId;
use tideline_model::{
    ColumnType, DefinedColumn, KeyColumn, KeyType, NewTable, TableOptions, Throughput,
};
use tideline_sql::{ColumnKind, Datum, Open, Refusal, Sql};
use tideline_store::partition::{DropContext, Entry, Options, Partitions};
use tideline_table::{BuiltInTables, Catalog, TableRules, Tables};
use tokio::runtime::Runtime;

pub(crate) const TARGETS: &[Decoder] = &[("sql_statement", statement)];

/// No tables of other layers.
struct NoTables;

impl BuiltInTables for NoTables {
    fn is_over(&self, _: TableId, _: &[u8], _: &Entry, _: &DropContext<'_>) -> bool {
        false
    }

    fn is_looked_up(&self, _: TableId) -> bool {
        false
    }
}

struct Bed {
    sql: Sql,
    runtime: Runtime,
    _folder: TempDir,
}

static BED: LazyLock<Bed> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = Catalog::default();
    let rules = Arc::new(TableRules::new(Arc::new(NoTables), catalog.clone()));
    let clock = Arc::new(Clock::system());
    let opened = Partitions::open(folder.path(), Options::default(), rules, Arc::clone(&clock));
    let partitions = opened.expect("a new directory");
    let tables = Tables::open(partitions, catalog, Vec::new(), clock).expect("no tables");
    let runtime = Runtime::new().expect("threads");
    let sql = Sql::new(tables.clone(), None);
    runtime.block_on(async {
        for name in ["people", "buys"] {
            tables.create(table(name)).await.expect("room");
        }
        for statement in [
            "insert into people (k, n, s, d, t) values ('a', 1, 'Ann', 1.5, true), ('a', 2, '{\"a\": [1]}', null, false)",
            "insert into buys (k, n, s, b) values ('b', -1, '2026-01-31', x'00ff')",
        ] {
            let done = sql.run(Arc::new(Open), statement, None).await;
            done.expect("a row");
        }
    });
    Bed {
        sql,
        runtime,
        _folder: folder,
    }
});

/// With a key of two columns, and a column of each type.
fn table(name: &str) -> NewTable {
    let key = |name: &str, kind| KeyColumn {
        name: name.to_owned(),
        kind,
        auto_increment: false,
    };
    let defined = [
        ("i", ColumnType::Integer),
        ("d", ColumnType::Double),
        ("t", ColumnType::Boolean),
        ("s", ColumnType::String),
        ("b", ColumnType::Binary),
    ];
    let defined = defined.map(|(name, kind)| DefinedColumn {
        name: name.to_owned(),
        kind,
    });
    NewTable {
        name: name.to_owned(),
        primary_key: vec![key("k", KeyType::String), key("n", KeyType::Integer)],
        defined_columns: defined.into(),
        indexes: Vec::new(),
        options: TableOptions::default(),
        reserved: Throughput::default(),
        stream: None,
        local_transactions: false,
    }
}

/// How long one may take.
const TIME: Duration = Duration::from_secs(2);

/// The text of a statement, which is done.
fn statement(input: &[u8]) {
    let bed = &*BED;
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match bed
        .runtime
        .block_on(bed.sql.run(Arc::new(Open), text, Some(TIME)))
    {
        Ok(answer) => {
            for row in &answer.rows {
                assert_eq!(row.len(), answer.columns.len());
                for (value, column) in row.iter().zip(&answer.columns) {
                    assert!(is_of(value, column.kind), "{value:?} in {column:?}");
                }
            }
        }
        Err(refusal) => {
            assert!(refusal.to_string().chars().count() <= 600);
            if let Refusal::Syntax { line, column, .. } = refusal {
                let lines = text.split('\n').count() as u64;
                assert!(
                    (1..=lines).contains(&line) && column >= 1,
                    "{line}, {column}"
                );
            }
        }
    }
}

fn is_of(value: &Datum, kind: ColumnKind) -> bool {
    matches!(
        (value, kind),
        (Datum::Null, _)
            | (Datum::Long(_), ColumnKind::Long)
            | (Datum::Double(_), ColumnKind::Double)
            | (Datum::Boolean(_), ColumnKind::Boolean)
            | (Datum::String(_), ColumnKind::String)
            | (Datum::Binary(_), ColumnKind::Binary)
            | (Datum::DateTime(_), ColumnKind::DateTime)
            | (Datum::Date(_), ColumnKind::Date)
            | (Datum::Time(_), ColumnKind::Time)
    )
}
