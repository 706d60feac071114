//! Tables in a directory, and statements on them.
//!
//! Owns: how they are opened. Must not: decide what a statement answers.

use std::path::Path;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use tideline_base::bounds::{Bounds, Costs};
use tideline_base::clock::Clock;
use tideline_base::ids::TableId;
use tideline_base::metrics::Metrics;
use tideline_model::{
    ColumnType, DefinedColumn, Error, KeyColumn, KeyType, NewTable, TableOptions, Throughput,
};
use tideline_search::{Options, Searches};
use tideline_store::partition::{DropContext, Entry, Options as StoreOptions, Partitions};
use tideline_table::{BuiltInTables, Catalog, TableRules, Tables};

use crate::{Answer, Door, Open, Refusal, Sql};

pub(super) struct Bed {
    partitions: Partitions,
    pub(super) tables: Tables,
    searches: Searches,
    tasks: TaskTracker,
    pub(super) sql: Sql,
}

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

impl Bed {
    pub(super) fn open(folder: &Path) -> Bed {
        let catalog = Catalog::default();
        let rules = Arc::new(TableRules::new(Arc::new(NoTables), catalog.clone()));
        let metrics = Arc::<Metrics>::default();
        let clock = Arc::new(Clock::system());
        let options = StoreOptions {
            bounds: Arc::new(Bounds::new(|_| usize::MAX, 100, Costs::UNBOUNDED, &metrics)),
            metrics,
            partitions: 2,
            holds_log: true,
            ..StoreOptions::default()
        };
        let partitions = Partitions::open(folder, options, rules, Arc::clone(&clock)).unwrap();
        let tables = Tables::open(partitions.clone(), catalog, Vec::new(), clock).unwrap();
        let tasks = TaskTracker::new();
        let searches = Searches::start(folder, &tables, Options::default(), &tasks);
        let sql = Sql::new(tables.clone(), Some(searches.clone()));
        Bed {
            partitions,
            tables,
            searches,
            tasks,
            sql,
        }
    }

    pub(super) async fn close(self) {
        self.searches.stop();
        self.tasks.close();
        self.tasks.wait().await;
        self.partitions.close().await;
    }

    /// Makes a table with these columns, the first of which are its key.
    pub(super) async fn create(&self, name: &str, key: usize, columns: &[(&str, ColumnType)]) {
        self.made(name, key, columns).await.unwrap();
    }

    /// Tries to make a table.
    pub(super) async fn try_create(&self, name: &str) -> Result<(), Error> {
        self.made(name, 1, &[("k", ColumnType::Integer)]).await
    }

    async fn made(
        &self,
        name: &str,
        key: usize,
        columns: &[(&str, ColumnType)],
    ) -> Result<(), Error> {
        let of_key = |(name, kind): &(&str, ColumnType)| KeyColumn {
            name: (*name).to_owned(),
            kind: match kind {
                ColumnType::Integer => KeyType::Integer,
                ColumnType::Binary => KeyType::Binary,
                _ => KeyType::String,
            },
            auto_increment: false,
        };
        let defined = |(name, kind): &(&str, ColumnType)| DefinedColumn {
            name: (*name).to_owned(),
            kind: *kind,
        };
        let table = NewTable {
            name: name.to_owned(),
            primary_key: columns[..key].iter().map(of_key).collect(),
            defined_columns: columns[key..].iter().map(defined).collect(),
            indexes: Vec::new(),
            options: TableOptions::default(),
            reserved: Throughput::default(),
            stream: None,
            local_transactions: false,
        };
        self.tables.create(table).await
    }

    pub(super) async fn run(&self, statement: &str) -> Result<Answer, Refusal> {
        self.run_as(Open, statement).await
    }

    pub(super) async fn run_as(&self, door: impl Door, text: &str) -> Result<Answer, Refusal> {
        self.sql.run(Arc::new(door), text, None).await
    }

    /// What a statement answers, as text: values by `,`, rows by `;`.
    pub(super) async fn shown(&self, statement: &str) -> String {
        let answer = self.run(statement).await;
        let answer = answer.unwrap_or_else(|refusal| panic!("{statement}: {refusal:?}"));
        for row in &answer.rows {
            for (value, column) in row.iter().zip(&answer.columns) {
                assert!(
                    value.kind().is_none_or(|kind| kind == column.kind),
                    "{statement}: {value:?}"
                );
            }
        }
        let row = |row: &Vec<crate::Datum>| {
            let values = row
                .iter()
                .map(|value| value.text().unwrap_or_else(|| "NULL".to_owned()));
            values.collect::<Vec<_>>().join(",")
        };
        answer.rows.iter().map(row).collect::<Vec<_>>().join(";")
    }

    /// Why a statement is refused.
    pub(super) async fn refused(&self, statement: &str) -> Refusal {
        match self.run(statement).await {
            Err(refusal) => refusal,
            Ok(answer) => panic!("{statement}: {answer:?}"),
        }
    }
}
