//! What wide rows and many versions cost: a measurement, by hand.
//!
//! Owns: updates and reads of one column in rows of 10 and of 10,000 columns, and of a column with 500 versions, in the
//! memtable, in the image, and with updates in the memtable above a row in the image. Promises: prints, asserts nothing
//! about time: `cargo test --release --test store table_wide -- --ignored --nocapture` (`UPDATES` = how many, 200
//! without it). Must not: run with the other tests.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tideline::clock::Clock;
use tideline::ids::PartitionId;
use tideline::metrics::Metrics;
use tideline::model::{
    CellChange, Condition, FoundRow, KeyColumn, KeyType, KeyValue, NewTable, PutCell,
    ReturnContent, RowChange, RowWrite, Selection, TableOptions, Throughput, Value,
};
use tideline::partition::{Options, Partitions};
use tideline::table::{Catalog, Got, Table, Tables};
use tideline::timeline::{Limits, Timelines};

const COLUMN_BYTES: usize = 20;
const VERSIONS: i64 = 500;
/// The key of the row with many versions.
const DEEP: &str = "versions";

struct Bed {
    partitions: Partitions,
    tables: Tables,
    wide: Arc<Table>,
    deep: Arc<Table>,
    updates: usize,
    metrics: Arc<Metrics>,
}

impl Bed {
    async fn new(dir: &Path) -> Bed {
        let clock = Arc::new(Clock::system());
        let limits = Limits {
            message_id_window_ms: 1_000,
            message_id_window_count: 10,
            heads_max: 1_000,
        };
        let catalog = Catalog::default();
        let rules = Timelines::rules_with(&limits, catalog.clone());
        let options = Options::default();
        let metrics = Arc::clone(&options.metrics);
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let tables = Tables::open(partitions.clone(), catalog, Vec::new(), clock).unwrap();
        let table = |name: &str, max_versions| NewTable {
            name: name.to_owned(),
            primary_key: vec![KeyColumn {
                name: "k".to_owned(),
                kind: KeyType::String,
                auto_increment: false,
            }],
            defined_columns: Vec::new(),
            options: TableOptions {
                max_versions,
                ..TableOptions::default()
            },
            indexes: Vec::new(),
            reserved: Throughput::default(),
            stream: None,
            local_transactions: true,
        };
        tables.create(table("wide", 1)).await.unwrap();
        tables.create(table("deep", VERSIONS)).await.unwrap();
        let updates = std::env::var("UPDATES").map_or(200, |text| text.parse().unwrap());
        Bed {
            partitions,
            wide: tables.describe("wide").await.unwrap(),
            deep: tables.describe("deep").await.unwrap(),
            tables,
            updates,
            metrics,
        }
    }

    /// Fills a row in requests of 1,000 columns, which is what a client may send at once.
    async fn fill(&self, key: &str, columns: usize) {
        let names: Vec<String> = (0..columns).map(column).collect();
        for some in names.chunks(1_000) {
            let puts = some.iter().map(|name| CellChange::Put(cell(name)));
            self.write(key, puts.collect()).await;
        }
    }

    async fn write(&self, key: &str, changes: Vec<CellChange>) {
        let write = RowWrite {
            key: vec![("k".to_owned(), KeyValue::String(key.to_owned()))],
            change: RowChange::Update(changes),
            condition: Condition::default(),
            content: ReturnContent::None,
        };
        self.tables.write(self.table(key), write).await.unwrap();
    }

    async fn read(&self, key: &str, columns: Vec<String>, versions: i64) -> usize {
        let selection = Selection::newest(Some(versions)).unwrap();
        let selection = selection.of(columns).unwrap();
        let table = self.table(key);
        let key = vec![("k".to_owned(), KeyValue::String(key.to_owned()))];
        let got: Got<Vec<FoundRow>> = self.tables.get(table, key, selection).await.unwrap();
        got.rows.first().map_or(0, |row| row.cells.len())
    }

    fn table(&self, key: &str) -> &Arc<Table> {
        match key {
            DEEP => &self.deep,
            _ => &self.wide,
        }
    }

    /// Everything into the image.
    async fn flush(&self) {
        tokio::task::block_in_place(|| self.partitions.rotate(PartitionId(0)));
        while self.figure("tideline_memtable_rows") > 0.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn figure(&self, name: &str) -> f64 {
        self.partitions.observe(0);
        let text = self.metrics.render();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines
            .find_map(|rest| rest.strip_prefix("{partition=\"0\"} "))
            .unwrap();
        value.parse().unwrap()
    }

    /// Updates spread over the columns, reads of one column, reads of all.
    async fn measure(&self, what: &str, key: &str, columns: usize) {
        let log = || self.figure("tideline_commit_batch_bytes_sum");
        let (before, spent) = (log(), Spent::begin());
        for at in 0..self.updates {
            let name = column(at * 7_919 % columns);
            self.write(key, vec![CellChange::Put(cell(&name))]).await;
        }
        let written = (log() - before) / self.updates as f64;
        let update = spent.each(self.updates);
        let spent = Spent::begin();
        for at in 0..self.updates {
            let name = column(at * 7_919 % columns);
            assert_eq!(self.read(key, vec![name], 1).await, 1);
        }
        let one = spent.each(self.updates);
        let spent = Spent::begin();
        for _ in 0..20 {
            assert_eq!(self.read(key, Vec::new(), 1).await, columns);
        }
        let all = spent.each(20);
        say(&format!(
            "{what}: update of one column {written:.0} bytes of log, {update}; read of one column {one}; of all {all}"
        ));
    }
}

/// Time of all threads' processors and of the clock on the wall.
struct Spent {
    cpu_ns: u64,
    since: Instant,
}

impl Spent {
    fn begin() -> Spent {
        Spent {
            cpu_ns: cpu_ns(),
            since: Instant::now(),
        }
    }

    fn each(&self, count: usize) -> String {
        let count = count as f64;
        let cpu = (cpu_ns() - self.cpu_ns) as f64 / 1e3 / count;
        let wall = self.since.elapsed().as_secs_f64() * 1e6 / count;
        format!("{cpu:.0} µs of processor ({wall:.0} µs)")
    }
}

/// Threads that ended are not counted; the ones that work here live on.
fn cpu_ns() -> u64 {
    let mut sum = 0;
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let path = thread.unwrap().path().join("schedstat");
        let text = fs::read_to_string(path).unwrap_or_default();
        let first = text.split(' ').next().and_then(|ns| ns.parse().ok());
        sum += first.unwrap_or(0);
    }
    sum
}

fn column(number: usize) -> String {
    format!("column{number:05}")
}

fn cell(name: &str) -> PutCell {
    PutCell {
        name: name.to_owned(),
        version: None,
        value: Value::String("v".repeat(COLUMN_BYTES)),
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").unwrap();
}

#[test]
#[ignore = "a measurement"]
fn wide_rows_and_many_versions() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let bed = Bed::new(dir.path()).await;
        for columns in [10, 10_000] {
            let key = format!("row of {columns}");
            bed.fill(&key, columns).await;
            bed.measure(&format!("{key} columns, memtable"), &key, columns)
                .await;
            bed.flush().await;
            bed.measure(&format!("{key} columns, image"), &key, columns)
                .await;
            bed.flush().await;
            bed.measure(&format!("{key} columns, two runs"), &key, columns)
                .await;
        }
        for _ in 0..VERSIONS {
            bed.write(DEEP, vec![CellChange::Put(cell("a"))]).await;
        }
        bed.measure_versions("memtable").await;
        bed.flush().await;
        bed.measure_versions("image").await;
        bed.partitions.close().await;
    });
}

impl Bed {
    async fn measure_versions(&self, place: &str) {
        let log = || self.figure("tideline_commit_batch_bytes_sum");
        let (before, spent) = (log(), Spent::begin());
        for _ in 0..self.updates {
            self.write(DEEP, vec![CellChange::Put(cell("a"))]).await;
        }
        let written = (log() - before) / self.updates as f64;
        let update = spent.each(self.updates);
        let spent = Spent::begin();
        for _ in 0..self.updates {
            assert_eq!(self.read(DEEP, vec!["a".to_owned()], 1).await, 1);
        }
        let newest = spent.each(self.updates);
        let spent = Spent::begin();
        for _ in 0..20 {
            let all = self.read(DEEP, Vec::new(), VERSIONS).await;
            assert_eq!(all, usize::try_from(VERSIONS).unwrap());
        }
        let all = spent.each(20);
        say(&format!(
            "{VERSIONS} versions, {place}: update {written:.0} bytes of log, {update}; read of the newest {newest}; of \
             all {all}"
        ));
    }
}
