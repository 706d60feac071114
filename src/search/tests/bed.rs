//! A table in a directory, its rows in memory beside it, and its search index.
//!
//! Owns: how they are opened and written. Must not: decide what is found (`plain.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;

use tideline_base::bounds::{Bounds, Costs, Resource};
use tideline_base::clock::Clock;
use tideline_base::ids::TableId;
use tideline_base::metrics::Metrics;
use tideline_model::search::{
    Aggregates, Analyzer, Columns, Field, FieldType, Highlight, Metric, Query, Search,
    SearchSchema, Sort, Sorter, Total, VectorOptions,
};
use tideline_model::{
    Condition, FoundRow, KeyColumn, KeyType, KeyValue, NewTable, PutCell, ReturnContent, RowChange,
    RowWrite, TableOptions, Throughput, Value,
};
use tideline_store::partition::{DropContext, Entry, Options as StoreOptions, Partitions};
use tideline_table::{BuiltInTables, Catalog, Table, TableRules, Tables};

use crate::searches::folder_of;
use crate::{Hits, Options, Searches};

/// The columns of a row, by name.
pub(super) type Cells = BTreeMap<&'static str, Value>;

pub(super) struct Bed {
    pub(super) partitions: Partitions,
    pub(super) tables: Tables,
    pub(super) searches: Searches,
    tasks: TaskTracker,
    folder: PathBuf,
    /// What the table holds.
    pub(super) rows: BTreeMap<(String, i64), Cells>,
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

/// What the searches of most tests may hold together.
pub(super) const MEMORY: usize = 256 << 20;
pub(super) const TABLE: &str = "ships";
pub(super) const INDEX: &str = "by_all";

impl Bed {
    pub(super) fn open(folder: &Path) -> Bed {
        Bed::with_memory(folder, MEMORY)
    }

    /// One whose searches may hold so much together.
    pub(super) fn with_memory(folder: &Path, memory_bytes_max: usize) -> Bed {
        Bed::with(folder, memory_bytes_max, Arc::new(Clock::system()))
    }

    /// One of so many partitions.
    pub(super) fn of(folder: &Path, partitions: u16) -> Bed {
        Bed::made(folder, partitions, MEMORY, Arc::new(Clock::system()))
    }

    pub(super) fn with(folder: &Path, memory_bytes_max: usize, clock: Arc<Clock>) -> Bed {
        Bed::made(folder, 2, memory_bytes_max, clock)
    }

    fn made(folder: &Path, partitions: u16, memory_bytes_max: usize, clock: Arc<Clock>) -> Bed {
        let catalog = Catalog::default();
        let rules = Arc::new(TableRules::new(Arc::new(NoTables), catalog.clone()));
        let max = |resource| match resource {
            Resource::SearchBytes => memory_bytes_max,
            _ => usize::MAX,
        };
        let metrics = Arc::<Metrics>::default();
        let options = StoreOptions {
            bounds: Arc::new(Bounds::new(max, 100, Costs::UNBOUNDED, &metrics)),
            metrics,
            partitions,
            holds_log: true,
            ..StoreOptions::default()
        };
        let partitions = Partitions::open(folder, options, rules, Arc::clone(&clock)).unwrap();
        let tables = Tables::open(partitions.clone(), catalog, Vec::new(), clock).unwrap();
        let tasks = TaskTracker::new();
        let options = Options {
            build_rows_per_second: 0,
            ..Options::default()
        };
        let searches = Searches::start(folder, &tables, options, &tasks);
        Bed {
            partitions,
            tables,
            searches,
            tasks,
            folder: folder.to_owned(),
            rows: BTreeMap::new(),
        }
    }

    /// Closes everything, and opens it again.
    pub(super) async fn reopen(self, folder: &Path) -> Bed {
        let rows = self.rows.clone();
        self.close().await;
        let mut bed = Bed::open(folder);
        bed.rows = rows;
        bed
    }

    pub(super) async fn close(self) {
        self.searches.stop();
        self.tasks.close();
        self.tasks.wait().await;
        self.partitions.close().await;
    }

    pub(super) async fn create(&self) {
        let column = |name: &str, kind| KeyColumn {
            name: name.to_owned(),
            kind,
            auto_increment: false,
        };
        let table = NewTable {
            name: TABLE.to_owned(),
            primary_key: vec![column("p", KeyType::String), column("n", KeyType::Integer)],
            defined_columns: Vec::new(),
            indexes: Vec::new(),
            options: TableOptions::default(),
            reserved: Throughput::default(),
            stream: None,
            local_transactions: false,
        };
        self.tables.create(table).await.unwrap();
    }

    pub(super) async fn index(&self) {
        let made = self
            .tables
            .create_search_index(TABLE, INDEX.to_owned(), schema(), -1);
        made.await.unwrap();
    }

    pub(super) async fn table(&self) -> Arc<Table> {
        self.tables.describe(TABLE).await.unwrap()
    }

    /// Puts a row, or deletes it.
    pub(super) async fn write(&mut self, key: (String, i64), columns: Option<Cells>) {
        let put = |(name, value): (&&'static str, &Value)| PutCell {
            name: (*name).to_owned(),
            version: None,
            value: value.clone(),
        };
        let change = match &columns {
            Some(columns) => RowChange::Put(columns.iter().map(put).collect()),
            None => RowChange::Delete,
        };
        self.change(key.clone(), change).await;
        match columns {
            Some(columns) => self.rows.insert(key, columns),
            None => self.rows.remove(&key),
        };
    }

    /// Puts a row of which nobody asks what it holds.
    pub(super) async fn put(&self, key: (String, i64), cells: Vec<PutCell>) {
        self.change(key, RowChange::Put(cells)).await;
    }

    async fn change(&self, key: (String, i64), change: RowChange) {
        let write = RowWrite {
            key: vec![
                ("p".to_owned(), KeyValue::String(key.0)),
                ("n".to_owned(), KeyValue::Integer(key.1)),
            ],
            change,
            condition: Condition::default(),
            content: ReturnContent::None,
        };
        let table = self.table().await;
        self.tables.write(&table, write).await.unwrap();
    }

    /// The folder of its index.
    pub(super) async fn files(&self) -> PathBuf {
        let index = self.table().await.search_indexes[0].id;
        folder_of(&self.folder, index)
    }

    pub(super) async fn search(&self, search: Search) -> Hits<Vec<FoundRow>> {
        let table = self.table().await;
        let found = self.searches.search(&table, INDEX, search).await;
        found.unwrap()
    }

    /// The keys that a search finds, page by page.
    pub(super) async fn keys(
        &self,
        query: &Query,
        sort: Option<Sort>,
        limit: usize,
    ) -> Vec<(String, i64)> {
        let mut asked = search(query.clone(), sort, limit);
        let mut keys = Vec::new();
        loop {
            let page = self.search(asked.clone()).await;
            assert!(page.is_all, "{query:?}");
            assert!(page.rows.len() <= limit);
            keys.extend(page.rows.iter().map(|(rows, _)| key_of(&rows[0])));
            let Some(token) = page.next else { return keys };
            assert_eq!(page.rows.len(), limit);
            asked.token = Some(token);
            asked.sort = None;
        }
    }

    /// Waits until all rows that were there are in.
    pub(super) async fn built(&self) {
        let began = Instant::now();
        let index = self.table().await.search_indexes[0].id;
        while self.searches.standing(index).await.is_building {
            assert!(began.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(super) fn search(query: Query, sort: Option<Sort>, limit: usize) -> Search {
    Search {
        query,
        sort,
        offset: 0,
        limit,
        token: None,
        total: Total::All,
        filter: None,
        collapse: None,
        aggregates: Aggregates::default(),
        highlight: Highlight::default(),
        columns: Columns::None,
        timeout_ms: Some(30_000),
    }
}

pub(super) fn key_of(row: &FoundRow) -> (String, i64) {
    match &row.key[..] {
        [KeyValue::String(text), KeyValue::Integer(number)] => (text.clone(), *number),
        other => panic!("{other:?} is no key of the table"),
    }
}

pub(crate) fn field(name: &str, kind: FieldType) -> Field {
    Field {
        analyzer: (kind == FieldType::Text).then(Analyzer::default),
        ..Field::new(name, kind)
    }
}

pub(super) fn schema() -> SearchSchema {
    let schema = SearchSchema {
        fields: vec![
            field("long", FieldType::Long),
            field("double", FieldType::Double),
            field("flag", FieldType::Boolean),
            field("word", FieldType::Keyword),
            Field {
                highlights: Some(true),
                ..field("text", FieldType::Text)
            },
            Field {
                is_array: true,
                ..field("words", FieldType::Keyword)
            },
            Field {
                date_formats: vec!["yyyy-MM-dd".to_owned(), "epoch_second".to_owned()],
                ..field("day", FieldType::Date)
            },
            field("point", FieldType::GeoPoint),
            Field {
                source: Some("text".to_owned()),
                ..field("whole_text", FieldType::Keyword)
            },
            field("n", FieldType::Long),
            Field {
                fields: vec![
                    field("long", FieldType::Long),
                    field("double", FieldType::Double),
                    field("flag", FieldType::Boolean),
                    field("word", FieldType::Keyword),
                    Field {
                        highlights: Some(true),
                        ..field("text", FieldType::Text)
                    },
                    Field {
                        fields: vec![field("word", FieldType::Keyword)],
                        ..field("more", FieldType::Nested)
                    },
                ],
                ..field("tags", FieldType::Nested)
            },
            Field {
                vector: Some(VectorOptions {
                    dimension: 3,
                    metric: Metric::Euclidean,
                }),
                ..field("place", FieldType::Vector)
            },
            Field {
                source: Some("place".to_owned()),
                vector: Some(VectorOptions {
                    dimension: 3,
                    metric: Metric::Cosine,
                }),
                ..field("way", FieldType::Vector)
            },
        ],
        ..SearchSchema::default()
    };
    let mut schema = schema.checked().unwrap();
    // By key, though there are objects.
    schema.order.push(Sorter::Key { is_desc: false });
    schema
}
