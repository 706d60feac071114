//! What expired gives its room back: a second load of rows fits where the first one was.
//!
//! Owns: the figures of a data directory, its log and its images apart, over two loads whose time runs out between
//! them. Promises: a small load in the test command, a million rows by hand: `cargo test --release --test store
//! table_space -- --ignored --nocapture` (`ROWS`, `ROUNDS` and `DIR` change it). Must not: assert on time.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tideline::clock::Clock;
use tideline::commands::verify::verify;
use tideline::metrics::Metrics;
use tideline::model::limits::BATCH_WRITE_ROWS_MAX;
use tideline::model::{
    Condition, Direction, FoundRow, GetRange, KeyColumn, KeyType, KeyValue, NewTable, PutCell,
    ReturnContent, RowChange, RowWrite, Selection, TableOptions, Throughput, Value,
};
use tideline::partition::{LogOptions, Options, Partitions};
use tideline::table::{Catalog, RangePage, Table, Tables};
use tideline::timeline::{Limits, Timelines};

const START_MS: u64 = 1_700_000_000_000;
const TTL_S: i64 = 60;
const LIMITS: Limits = Limits {
    message_id_window_ms: 1_000,
    message_id_window_count: 10,
    heads_max: 1_000,
};
/// Batches under way at once.
const TOGETHER: usize = 16;

struct Bed {
    partitions: Partitions,
    tables: Tables,
    table: Arc<Table>,
    clock: Arc<Clock>,
    now_ms: u64,
    metrics: Arc<Metrics>,
}

/// Bytes of a data directory's files.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    log: u64,
    image: u64,
}

impl Sizes {
    fn of(dir: &Path) -> Sizes {
        let mut sizes = Sizes::default();
        let mut folders = vec![dir.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                // A segment may have gone since.
                let Ok(found) = fs::metadata(&path) else {
                    continue;
                };
                if found.is_dir() {
                    folders.push(path);
                } else if path.parent().is_some_and(|folder| folder.ends_with("log")) {
                    sizes.log += found.len();
                } else {
                    sizes.image += found.len();
                }
            }
        }
        sizes
    }

    fn max(self, other: Sizes) -> Sizes {
        Sizes {
            log: self.log.max(other.log),
            image: self.image.max(other.image),
        }
    }

    fn all(self) -> u64 {
        self.log + self.image
    }
}

impl Bed {
    async fn new(dir: &Path, options: Options) -> Bed {
        let metrics = Arc::clone(&options.metrics);
        let clock = Arc::new(Clock::fixed(START_MS));
        let catalog = Catalog::default();
        let rules = Timelines::rules_with(&LIMITS, catalog.clone());
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let tables =
            Tables::open(partitions.clone(), catalog, Vec::new(), Arc::clone(&clock)).unwrap();
        let table = NewTable {
            name: "short".to_owned(),
            primary_key: vec![KeyColumn {
                name: "k".to_owned(),
                kind: KeyType::Integer,
                auto_increment: false,
            }],
            defined_columns: Vec::new(),
            options: TableOptions {
                time_to_live_s: TTL_S,
                ..TableOptions::default()
            },
            indexes: Vec::new(),
            reserved: Throughput::default(),
            stream: None,
            local_transactions: true,
        };
        tables.create(table).await.unwrap();
        let table = tables.describe("short").await.unwrap();
        Bed {
            partitions,
            tables,
            table,
            clock,
            now_ms: START_MS,
            metrics,
        }
    }

    /// Writes rows with keys of their own; gives the largest sizes on the way.
    async fn load(&self, dir: &Path, round: u64, rows: u64) -> Sizes {
        let keys: Vec<u64> = (0..rows).map(|row| round * rows + row).collect();
        let mut largest = Sizes::default();
        for some in keys.chunks(TOGETHER * BATCH_WRITE_ROWS_MAX) {
            let batches = some.chunks(BATCH_WRITE_ROWS_MAX).map(|keys| {
                let rows = keys.iter().map(|key| (Arc::clone(&self.table), row(*key)));
                self.write(rows.collect())
            });
            join_all(batches).await;
            largest = largest.max(Sizes::of(dir));
        }
        largest
    }

    async fn write(&self, rows: Vec<(Arc<Table>, RowWrite)>) {
        loop {
            let done = self.tables.write_batch(rows.clone(), false).await.unwrap();
            if done.iter().all(Result::is_ok) {
                return;
            }
            // `busy`: flush and compaction have to catch up.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn visible(&self) -> usize {
        let range = GetRange {
            direction: Direction::Forward,
            start: vec![("k".to_owned(), KeyValue::InfMin)],
            end: vec![("k".to_owned(), KeyValue::InfMax)],
            limit: Some(10),
            selection: Selection {
                max_versions: Some(1),
                ..Selection::default()
            },
        };
        let page = self.tables.get_range(&self.table, range).await;
        let page: RangePage<Vec<FoundRow>> = page.unwrap();
        page.rows.len()
    }

    /// Lets the time of all rows run out, and waits until the image holds next to nothing. Gives the seconds that took.
    async fn expire(&mut self) -> f64 {
        // Also past the age at which a memtable is flushed.
        self.now_ms += 700_000;
        self.clock.set(self.now_ms);
        let started = Instant::now();
        while self.figure("tideline_memtable_rows") > 0.0
            || self.figure("tideline_image_used_bytes") > 100_000.0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(started.elapsed() < Duration::from_secs(300), "nothing goes");
        }
        started.elapsed().as_secs_f64()
    }

    /// A gauge, as an operator would see it.
    fn figure(&self, name: &str) -> f64 {
        self.partitions.observe(self.now_ms);
        let text = self.metrics.render();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines
            .find_map(|rest| rest.strip_prefix("{partition=\"0\"} "))
            .unwrap();
        value.parse().unwrap()
    }
}

fn row(key: u64) -> RowWrite {
    // Spread, and hard to press together, as keys and values of users are.
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let cell = |name: &str, value| PutCell {
        name: name.to_owned(),
        version: None,
        value,
    };
    RowWrite {
        key: vec![("k".to_owned(), KeyValue::Integer(spread.cast_signed()))],
        change: RowChange::Put(vec![
            cell("name", Value::String(format!("row {key}"))),
            cell("number", Value::Integer(key.cast_signed())),
            cell("text", Value::String(text(spread))),
        ]),
        condition: Condition::default(),
        content: ReturnContent::None,
    }
}

/// 180 characters in which a block finds nothing to squeeze.
fn text(seed: u64) -> String {
    let mut state = seed | 1;
    let characters = (0..180).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'!' + u8::try_from((state >> 33) % 94).unwrap())
    });
    characters.collect()
}

/// Loads, lets expire, and so on. Gives the largest sizes of each round.
async fn rounds(dir: &Path, options: Options, rows: u64, count: u64) -> Vec<Sizes> {
    let mut out = std::io::stdout();
    let mut bed = Bed::new(dir, options).await;
    let mut largest = Vec::new();
    for round in 0..count {
        let peak = bed.load(dir, round, rows).await;
        assert_eq!(bed.visible().await, 10);
        let seconds = bed.expire().await;
        assert_eq!(bed.visible().await, 0);
        let left = Sizes::of(dir);
        let sizes = peak.max(left);
        writeln!(
            out,
            "{rows} rows, round {round}: log {} bytes, image's file {} bytes, {} of them in use {seconds:.1} s after \
             the rows expired",
            sizes.log,
            sizes.image,
            bed.figure("tideline_image_used_bytes")
        )
        .unwrap();
        largest.push(sizes);
    }
    bed.partitions.close().await;
    largest
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn a_second_load_fits_where_the_first_one_was() {
    let options = Options {
        memtable_bytes: 1 << 20,
        log: LogOptions {
            segment_bytes: 1 << 20,
            retention_bytes: 2 << 20,
            ..LogOptions::default()
        },
        ..Options::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sizes = runtime.block_on(rounds(dir.path(), options, 30_000, 3));
    // Merges that come late because the machine is busy take room too; without any reclaiming the third load would end
    // at three times the first one.
    let (first, last) = (sizes[0], sizes[2]);
    assert!(last.all() < 2 * first.all(), "{sizes:?}");
    // The log still has rows that the image has given up; the check knows why.
    let mut report = Vec::new();
    let is_whole = verify(dir.path(), false, &LIMITS, &mut report).unwrap();
    assert!(is_whole, "{}", String::from_utf8_lossy(&report));
}

#[test]
#[ignore = "a million rows"]
fn a_second_million_fits_where_the_first_one_was() {
    let options = Options::default();
    let base = std::env::var_os("DIR").unwrap_or_else(|| std::env::temp_dir().into());
    let dir = tempfile::tempdir_in(base).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (rows, count) = (number("ROWS", 1_000_000), number("ROUNDS", 2));
    let sizes = runtime.block_on(rounds(dir.path(), options, rows, count));
    let (first, second) = (sizes[0], sizes[1]);
    assert!(second.all() * 5 <= first.all() * 6, "{sizes:?}");
}
