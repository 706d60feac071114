//! What expired, is surplus or was deleted leaves the disk by itself: nothing is written, only time passes, or a table
//! is changed.
//!
//! Owns: the proof for every place where data may lie (memtable, several runs, one run at the bottom) and every reason,
//! also after a restart. Promises: counts are those of the image's own check; with the survey off what is proved needs
//! no look at rows. Must not: assert on time, or hold answers against a model (`commands` does).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::{Partitions, Table, Tables, USER_TABLES_FROM};
use super::bed;
use super::commands::START_MS;
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_base::metrics::Metrics;
use tideline_model::{
    CellChange, Condition, KeyValue, OptionsUpdate, PutCell, ReturnContent, RowChange, RowWrite,
    TableOptions, TableUpdate, Value,
};
use tideline_store::partition::{ImageOptions, Options, TableCounts};

const AT: PartitionId = PartitionId(0);
const ROWS: i64 = 300;
const AGE_MS: u64 = 60_000;

struct Bed {
    runtime: tokio::runtime::Runtime,
    partitions: Partitions,
    tables: Tables,
    clock: Arc<Clock>,
    metrics: Arc<Metrics>,
}

impl Bed {
    /// So small that all takes many turns; `survey_rows` = 0 turns the survey off.
    fn open(dir: &Path, now_ms: u64, survey_rows: u64) -> Bed {
        let metrics = Arc::new(Metrics::default());
        let image = ImageOptions {
            map_bytes: 4 << 30,
            part_bytes_max: 64 << 10,
            slice_bytes: 32 << 10,
            slice_rows: 50,
            survey_rows,
            survey_rest_ms: 0,
            ..ImageOptions::default()
        };
        let options = Options {
            image,
            memtable_age_ms: AGE_MS,
            metrics: Arc::clone(&metrics),
            ..Options::default()
        };
        let clock = Arc::new(Clock::fixed(now_ms));
        let (partitions, tables) = bed::open(dir, options, &clock);
        Bed {
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
            partitions,
            tables,
            clock,
            metrics,
        }
    }

    fn create(&self, name: &str, options: TableOptions) -> Arc<Table> {
        let table = bed::integers(name, &["k"], options);
        self.runtime.block_on(self.tables.create(table)).unwrap();
        let table = self.tables.describe(name);
        self.runtime.block_on(table).unwrap()
    }

    fn write(&self, table: &Arc<Table>, key: i64, change: RowChange) {
        let write = RowWrite {
            key: vec![("k".to_owned(), KeyValue::Integer(key))],
            change,
            condition: Condition::default(),
            content: ReturnContent::None,
        };
        self.runtime
            .block_on(self.tables.write(table, write))
            .unwrap();
    }

    /// Rows of some columns, one so wide that it is cut into pieces, and updates of the wide one.
    fn fill(&self, table: &Arc<Table>) {
        for key in 1..=ROWS {
            self.write(table, key, RowChange::Put(vec![put("a", 100), put("b", 9)]));
        }
        let wide = (0..600).map(|column| put(&format!("c{column:04}"), 60));
        self.write(table, 0, RowChange::Put(wide.collect()));
    }

    fn update(&self, table: &Arc<Table>) {
        for key in [0, 1, 2] {
            let change = CellChange::Put(put("c0300", 61));
            self.write(table, key, RowChange::Update(vec![change]));
        }
    }

    fn settle(&self) {
        self.partitions.settle(AT);
    }

    /// What the image has of users' tables, as its check counts it.
    fn left(&self) -> TableCounts {
        let tables = self.partitions.in_image(AT);
        let users = tables.iter().filter(|of| of.table >= USER_TABLES_FROM);
        users.fold(TableCounts::new(USER_TABLES_FROM), |mut sum, counts| {
            sum.add(counts);
            sum
        })
    }

    fn wait(&self, what: &str, is_so: impl Fn(&TableCounts) -> bool) {
        for _ in 0..3_000 {
            let is_flushed = self.partitions.covered(AT) == self.partitions.tail(AT).position();
            if is_flushed && is_so(&self.left()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what}: {:?}", self.left());
    }

    fn close(self) {
        self.runtime.block_on(self.partitions.close());
    }
}

fn put(name: &str, bytes: usize) -> PutCell {
    PutCell {
        name: name.to_owned(),
        version: None,
        value: Value::Binary(Bytes::from(vec![7; bytes])),
    }
}

fn living_for(seconds: i64) -> TableOptions {
    TableOptions {
        time_to_live_s: seconds,
        max_versions: 3,
        ..TableOptions::default()
    }
}

/// Where the data lies when it expires.
#[derive(Clone, Copy, Debug)]
enum StoredIn {
    Memtable,
    OneRun,
    /// The newest one changes wide rows of older ones.
    SomeRuns,
    Restarted,
}

#[test]
fn what_expires_goes_wherever_it_lies_without_a_write_and_without_a_look() {
    for stored_in in [
        StoredIn::Memtable,
        StoredIn::OneRun,
        StoredIn::SomeRuns,
        StoredIn::Restarted,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut bed = Bed::open(dir.path(), START_MS, 0);
        let table = bed.create("short", living_for(1));
        bed.fill(&table);
        if !matches!(stored_in, StoredIn::Memtable) {
            bed.settle();
            assert_eq!(bed.left().rows, ROWS.unsigned_abs() + 1);
        }
        if matches!(stored_in, StoredIn::SomeRuns | StoredIn::Restarted) {
            bed.update(&table);
            bed.settle();
            assert!(bed.left().deltas > 0);
        }
        if matches!(stored_in, StoredIn::Restarted) {
            bed.close();
            bed = Bed::open(dir.path(), START_MS, 0);
        }
        bed.clock.set(START_MS + 1_000 + AGE_MS);
        bed.wait(&format!("{stored_in:?}"), |left| left.rows == 0);
        bed.close();
    }
}

#[test]
fn what_has_not_expired_stays_and_its_neighbours_are_rewritten_once() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path(), START_MS, 0);
    let (short, long) = (
        bed.create("short", living_for(1)),
        bed.create("long", living_for(-1)),
    );
    bed.fill(&short);
    bed.settle();
    bed.clock.set(START_MS + 900);
    bed.fill(&long);
    bed.write(&short, 1_000, RowChange::Put(vec![put("a", 100)]));
    bed.settle();
    bed.clock.set(START_MS + 1_000);
    let kept = ROWS.unsigned_abs() + 2;
    bed.wait("the young rows are left", |left| left.rows == kept);
    // Would a rewrite ask for the next one, this would not end.
    bed.settle();
    assert_eq!(bed.left().rows, kept);
    let told = bed.metrics.render();
    for what in ["rows", "bytes"] {
        let name = format!("tideline_reclaimed_{what}_total{{reason=\"expired\"}}");
        assert!(told.contains(&name) && !told.contains(&format!("{name} 0\n")));
    }
    bed.close();
}

#[test]
fn a_deleted_tables_rows_and_an_older_tables_options_take_effect_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path(), START_MS, 0);
    let (gone, kept) = (
        bed.create("gone", living_for(-1)),
        bed.create("kept", living_for(-1)),
    );
    for table in [&gone, &kept] {
        bed.fill(table);
        bed.settle();
        bed.update(table);
        bed.settle();
    }
    bed.runtime.block_on(bed.tables.delete("gone")).unwrap();
    let one = ROWS.unsigned_abs() + 1;
    bed.clock.set(START_MS + AGE_MS);
    // Changes of a few rows of the deleted table lie in a run with changes of the other one: too little to be rewritten
    // for.
    bed.wait("one table's rows", |left| left.rows <= one + 6);
    let update = TableUpdate {
        options: OptionsUpdate {
            time_to_live_s: Some(1),
            ..OptionsUpdate::default()
        },
        ..TableUpdate::default()
    };
    bed.runtime
        .block_on(bed.tables.update("kept", update))
        .unwrap();
    bed.clock.set(START_MS + 2 * AGE_MS);
    bed.wait("nothing", |left| left.rows == 0);
    bed.close();
}

#[test]
fn surplus_versions_go_when_fewer_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path(), START_MS, 50);
    let table = bed.create("versions", living_for(-1));
    for _ in 0..3 {
        for key in 0..ROWS {
            let change = CellChange::Put(put("a", 100));
            bed.write(&table, key, RowChange::Update(vec![change]));
        }
    }
    bed.settle();
    let before = bed.left();
    let update = TableUpdate {
        options: OptionsUpdate {
            max_versions: Some(1),
            ..OptionsUpdate::default()
        },
        ..TableUpdate::default()
    };
    bed.runtime
        .block_on(bed.tables.update("versions", update))
        .unwrap();
    bed.clock.set(START_MS + AGE_MS);
    bed.wait("a third of the bytes", |left| {
        left.rows == before.rows && left.bytes < before.bytes * 2 / 5
    });
    bed.close();
}
