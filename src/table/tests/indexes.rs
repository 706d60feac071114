//! Indexes and a stream against the table that they are of.
//!
//! Owns: random writes with flushes, compactions, restarts, changes of options and of indexes between them, and what an
//! index should show, made of what its table shows; a copy of the table that its stream alone makes is the table, until
//! the time to live changes. Promises: the short run is part of the test command; the long one
//! (`INDEX_MODEL_OPERATIONS`, `INDEX_MODEL_SEED`) is the same with more of it; a bug that is planted is found. Must
//! not: share code with what it judges beyond the types of requests and answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio_util::task::TaskTracker;

use super::super::{
    Backfill, Catalog, Indexed, Partitions, RangePage, Table, Tables, verify_indexes,
};
use super::commands::{START_MS, open};
use super::stream::{Follower, ORIGINAL};
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_base::metrics::Metrics;
use tideline_model::{
    CellChange, ColumnType, Condition, DefinedColumn, Direction, Error, FoundCell, FoundRow,
    GetRange, IndexKind, IndexMeta, KeyColumn, KeyType, KeyValue, NewTable, OptionsUpdate,
    PrimaryKey, PutCell, ReturnContent, RowChange, RowWrite, Selection, StreamSpec, TableOptions,
    TableUpdate, Throughput, Value,
};
use tideline_store::partition::{Purpose, Reshape, Txn};

/// The indexes of tables with this offset keep rows that should go.
pub(crate) const PLANTED_INDEX_OFFSET_S: i64 = 66_666;

/// Name, key, columns held.
type Spec = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);
/// The key of an index's row, and its cells.
type Shown = BTreeMap<Vec<KeyValue>, Vec<FoundCell>>;

const SPECS: [Spec; 5] = [
    ("by_a", &["a"], &["b"]),
    ("by_b_a", &["b", "a"], &["c", "w"]),
    ("by_n", &["n"], &["a"]),
    ("by_c", &["c"], &[]),
    ("within", &["p", "b"], &["d"]),
];
const TABLE: &str = "base";

#[derive(Clone, Debug)]
enum Command {
    Write((u8, u8), RowChange),
    Batch(Vec<((u8, u8), RowChange)>),
    Wait(u64),
    TimeToLive(i64),
    /// Which one, and whether it is of all rows.
    Index(usize, bool),
    Flush,
    Settle,
    Restart,
    /// The next start has so many partitions.
    Reshape(u16),
    /// From now on there are so many.
    Served(u16),
}

fn put() -> impl Strategy<Value = PutCell> {
    let cell = prop_oneof![
        6 => ("a", (0i64..4).prop_map(Value::Integer)),
        6 => ("b", "[xy]{0,2}".prop_map(Value::String)),
        4 => ("c", (0u8..3).prop_map(|byte| Value::Binary(vec![byte; 2].into()))),
        3 => ("d", any::<bool>().prop_map(Value::Boolean)),
        // Four of these make a row wide.
        3 => ("[uvw]", any::<u8>().prop_map(|byte| Value::Binary(vec![byte; 1_500].into()))),
        // Of another type, and too long for a key.
        2 => ("[abc]", Just(Value::Double(0.5))),
        1 => ("b", Just(Value::String("long".repeat(300)))),
    ];
    let version = proptest::option::weighted(0.3, -4_000i64..4_000);
    (cell, version).prop_map(|((name, value), version)| PutCell {
        name,
        version,
        value,
    })
}

fn change() -> impl Strategy<Value = RowChange> {
    let one = prop_oneof![
        6 => put().prop_map(CellChange::Put),
        1 => ("[abdw]", -9i64..1).prop_map(|(name, version)| CellChange::DeleteOne { name, version }),
        2 => "[abcdw]".prop_map(|name| CellChange::DeleteAll { name }),
        1 => Just(CellChange::Increment { name: "a".to_owned(), by: 1 }),
    ];
    prop_oneof![
        5 => proptest::collection::vec(put(), 0..6).prop_map(RowChange::Put),
        6 => proptest::collection::vec(one, 1..4).prop_map(RowChange::Update),
        2 => Just(RowChange::Delete),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let key = || (0u8..3, 0u8..5);
    prop_oneof![
        120 => (key(), change()).prop_map(|(key, change)| Command::Write(key, change)),
        20 => proptest::collection::vec((key(), change()), 1..5).prop_map(Command::Batch),
        20 => prop_oneof![2 => 0u64..3, 2 => 0u64..3_000].prop_map(Command::Wait),
        2 => prop_oneof![Just(-1i64), 1i64..6].prop_map(Command::TimeToLive),
        6 => (0..SPECS.len(), any::<bool>()).prop_map(|(at, of_all)| Command::Index(at, of_all)),
        5 => Just(Command::Flush),
        2 => Just(Command::Settle),
        2 => Just(Command::Restart),
        2 => (1u16..5).prop_map(Command::Reshape),
        2 => (1u16..5).prop_map(Command::Served),
    ]
}

fn meta((name, key, columns): Spec) -> IndexMeta {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    IndexMeta {
        name: name.to_owned(),
        kind: match name {
            "within" => IndexKind::Local,
            _ => IndexKind::Global,
        },
        key: owned(key),
        columns: owned(columns),
    }
}

fn new_table(options: TableOptions) -> NewTable {
    let key = [("p", KeyType::String), ("n", KeyType::Integer)];
    let defined = [
        ("a", ColumnType::Integer),
        ("b", ColumnType::String),
        ("c", ColumnType::Binary),
        ("d", ColumnType::Boolean),
        ("w", ColumnType::Binary),
    ];
    NewTable {
        name: TABLE.to_owned(),
        primary_key: key
            .map(|(name, kind)| KeyColumn {
                name: name.to_owned(),
                kind,
                auto_increment: false,
            })
            .to_vec(),
        defined_columns: defined
            .map(|(name, kind)| DefinedColumn {
                name: name.to_owned(),
                kind,
            })
            .to_vec(),
        options,
        reserved: Throughput::default(),
        local_transactions: true,
        stream: StreamSpec::new(168, vec![ORIGINAL.to_owned()]).ok(),
        indexes: SPECS[..3].iter().map(|spec| meta(*spec)).collect(),
    }
}

/// What an index should show of a row.
fn projected((_, key, columns): Spec, row: &FoundRow) -> Option<(Vec<KeyValue>, Vec<FoundCell>)> {
    let cell = |name: &str| row.cells.iter().find(|cell| cell.name == name);
    let mut values = Vec::new();
    for name in key {
        values.push(match (*name, cell(name).map(|cell| &cell.value)) {
            ("p", _) => row.key[0].clone(),
            ("n", _) => row.key[1].clone(),
            ("a", Some(Value::Integer(number))) => KeyValue::Integer(*number),
            ("b", Some(Value::String(text))) if text.len() <= 1_024 => {
                KeyValue::String(text.clone())
            }
            ("c", Some(Value::Binary(bytes))) => KeyValue::Binary(bytes.clone()),
            _ => return None,
        });
    }
    for (at, name) in ["p", "n"].iter().enumerate() {
        if !key.contains(name) {
            values.push(row.key[at].clone());
        }
    }
    let held = row
        .cells
        .iter()
        .filter(|cell| columns.contains(&&cell.name[..]));
    Some((values, held.cloned().collect()))
}

/// What a restart leaves.
struct Kept {
    now: u64,
    /// The indexes there are; whether each is of all rows.
    indexes: BTreeMap<usize, bool>,
    /// Of the table's stream, while its options stay.
    follower: Option<Follower>,
}

struct World {
    tables: Tables,
    partitions: Partitions,
    clock: Arc<Clock>,
    kept: Kept,
    backfill: Backfill,
    tasks: TaskTracker,
}

impl World {
    fn open(dir: &Path, partitions: u16, kept: Kept) -> World {
        let clock = Arc::new(Clock::fixed(kept.now));
        let metrics = Arc::new(Metrics::default());
        let (partitions, tables) = open(dir, partitions, &clock, &metrics);
        let tasks = TaskTracker::new();
        let backfill = Backfill::start(&tables, &metrics, &tasks);
        World {
            tables,
            partitions,
            clock,
            kept,
            backfill,
            tasks,
        }
    }

    /// One with a table that has the first indexes, and a stream.
    async fn new(dir: &Path, partitions: u16, new: NewTable) -> World {
        let kept = Kept {
            now: START_MS,
            indexes: (0..new.indexes.len()).map(|at| (at, true)).collect(),
            follower: None,
        };
        let mut world = World::open(dir, partitions, kept);
        let options = new.options.clone();
        world.tables.create(new).await.unwrap();
        let follower = Follower::new(&world.tables, TABLE, options).await;
        world.kept.follower = Some(follower);
        world
    }

    async fn close(self) -> Kept {
        self.stop_backfill().await;
        self.partitions.close().await;
        self.kept
    }

    /// Closes it, perhaps in the middle of a backfill; the next opening finds so many partitions.
    async fn reshape(mut self, count: u16) -> Kept {
        self.stop_backfill().await;
        if let Some(follower) = &mut self.kept.follower {
            follower.follow(&self.tables, 100).await;
        }
        let partitions = self.partitions.clone();
        let reshape = move || partitions.reshape(&Reshape::equal(count), false);
        let reshaped = tokio::task::spawn_blocking(reshape).await.unwrap();
        reshaped.unwrap();
        self.partitions.close().await;
        self.kept
    }

    /// The same while all goes on, a backfill too.
    async fn reshape_served(&mut self, count: u16) {
        if let Some(follower) = &mut self.kept.follower {
            follower.follow(&self.tables, 100).await;
        }
        let reshape = Reshape::equal(count);
        self.partitions.reshape_served(reshape, async || {}).await;
        if let Some(follower) = &mut self.kept.follower {
            follower.go_over(&self.tables).await;
        }
    }

    async fn stop_backfill(&self) {
        self.backfill.stop();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn write(&self, (p, n): (u8, u8), mut change: RowChange) -> RowWrite {
        let at = |version: i64| self.kept.now.cast_signed() + version;
        let cells: Vec<&mut PutCell> = match &mut change {
            RowChange::Put(cells) => cells.iter_mut().collect(),
            RowChange::Update(changes) => {
                let mut incremented = false;
                changes.retain(|change| match change {
                    CellChange::Increment { .. } => !std::mem::replace(&mut incremented, true),
                    change => !(incremented && change.name() == "a"),
                });
                changes
                    .iter_mut()
                    .filter_map(|change| match change {
                        CellChange::Put(cell) => Some(cell),
                        CellChange::DeleteOne { version, .. } => {
                            *version = at(*version);
                            None
                        }
                        CellChange::DeleteAll { .. } | CellChange::Increment { .. } => None,
                    })
                    .collect()
            }
            RowChange::Delete => Vec::new(),
        };
        for cell in cells {
            cell.version = cell.version.map(at);
        }
        RowWrite {
            key: named(
                &["p", "n"],
                vec![
                    KeyValue::String(["x", "y", ""][usize::from(p)].to_owned()),
                    KeyValue::Integer(i64::from(n) - 2),
                ],
            ),
            change,
            condition: Condition::default(),
            content: ReturnContent::None,
        }
    }

    async fn table(&self, name: &str) -> Arc<Table> {
        self.tables.describe(name).await.unwrap()
    }

    async fn run(&mut self, command: Command) {
        let table = self.table(TABLE).await;
        match command {
            Command::Write(key, change) => {
                let done = self.tables.write(&table, self.write(key, change)).await;
                self.is_fine(done.map(|_| ()));
            }
            Command::Batch(rows) => {
                let first = rows[0].0.0;
                let row = |((_, n), change)| (Arc::clone(&table), self.write((first, n), change));
                let rows = rows.into_iter().map(row).collect();
                let done = self.tables.write_batch(rows, true).await.unwrap();
                done.into_iter()
                    .for_each(|done| self.is_fine(done.map(|_| ())));
            }
            Command::Wait(ms) => self.wait(ms),
            Command::TimeToLive(seconds) => {
                let options = OptionsUpdate {
                    time_to_live_s: Some(seconds),
                    ..OptionsUpdate::default()
                };
                let update = TableUpdate {
                    options,
                    ..TableUpdate::default()
                };
                let done = self.tables.update(TABLE, update).await.map(|_| ());
                let is_refused = seconds > 0
                    && table.options.allow_update
                    && !table.options.update_full_row
                    && !self.kept.indexes.is_empty();
                match is_refused {
                    true => assert_eq!(done, Err(Error::IndexedTimeToLive)),
                    false => done.unwrap(),
                }
                if !is_refused && seconds != table.options.time_to_live_s {
                    self.kept.follower = None;
                }
            }
            Command::Index(at, of_all) => self.index(at, of_all).await,
            Command::Flush => self.each_partition(Partitions::rotate).await,
            Command::Settle => {
                // What it would write meanwhile would never be flushed.
                self.stop_backfill().await;
                self.each_partition(Partitions::settle).await;
                self.tasks = TaskTracker::new();
                let metrics = Metrics::default();
                self.backfill = Backfill::start(&self.tables, &metrics, &self.tasks);
            }
            Command::Served(count) => self.reshape_served(count).await,
            Command::Restart | Command::Reshape(_) => unreachable!("the player does it"),
        }
    }

    fn is_fine(&self, done: Result<(), Error>) {
        match done {
            Ok(())
            | Err(
                Error::KeyTooLong { .. }
                | Error::UpdateForbidden
                | Error::InvalidVersion { .. }
                | Error::IncrementType { .. },
            ) => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    fn wait(&mut self, ms: u64) {
        self.kept.now += ms;
        self.clock.set(self.kept.now);
    }

    /// Makes an index, or ends it if it is there.
    async fn index(&mut self, at: usize, of_all: bool) {
        let name = SPECS[at].0;
        if self.kept.indexes.remove(&at).is_some() {
            self.tables.drop_index(TABLE, name).await.unwrap();
            let again = self.tables.drop_index(TABLE, name).await;
            assert_eq!(again, Err(Error::IndexNotFound));
            return;
        }
        let made = self
            .tables
            .create_index(TABLE, meta(SPECS[at]), of_all)
            .await;
        let options = &self.table(TABLE).await.options;
        let has_end = options.time_to_live_s > 0;
        if has_end && options.allow_update && !options.update_full_row {
            assert_eq!(made, Err(Error::IndexedTimeToLive));
            return;
        }
        made.unwrap();
        self.kept.indexes.insert(at, of_all);
        self.wait(1);
    }

    async fn each_partition(&self, act: fn(&Partitions, PartitionId)) {
        let partitions = self.partitions.clone();
        let acting = move || partitions.ids().for_each(|id| act(&partitions, id));
        tokio::task::spawn_blocking(acting).await.unwrap();
    }

    /// All rows of a table, page by page.
    async fn scan(&self, name: &str, direction: Direction) -> Result<Vec<FoundRow>, Error> {
        let table = self.table(name).await;
        let columns: Vec<&str> = table.primary_key.iter().map(|key| &key.name[..]).collect();
        let (low, high) = (KeyValue::InfMin, KeyValue::InfMax);
        let bound = |value: &KeyValue| named(&columns, vec![value.clone(); columns.len()]);
        let (mut start, end) = match direction {
            Direction::Forward => (bound(&low), bound(&high)),
            Direction::Backward => (bound(&high), bound(&low)),
        };
        let mut rows = Vec::new();
        loop {
            let range = GetRange {
                direction,
                start,
                end: end.clone(),
                limit: Some(3),
                selection: Selection::newest(Some(1)).unwrap(),
            };
            let page: RangePage<Vec<FoundRow>> = self.tables.get_range(&table, range).await?;
            rows.extend(page.rows);
            match page.next {
                Some(next) => start = named(&columns, next),
                None => return Ok(rows),
            }
        }
    }

    /// The rows of an index, once it has all that it is to have.
    async fn shown(&self, name: &str) -> Vec<FoundRow> {
        for _ in 0..10_000 {
            match self.scan(name, Direction::Forward).await {
                Ok(rows) => return rows,
                Err(error) => assert_eq!(error, Error::IndexBuilding),
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        panic!("{name} is never complete");
    }

    /// Holds every index and the stream against the table.
    async fn check(&mut self) {
        let rows = self.scan(TABLE, Direction::Forward).await.unwrap();
        if let Some(follower) = &mut self.kept.follower {
            follower.follow(&self.tables, 1 + rows.len()).await;
            let shown = rows.iter().map(|row| (row.key.clone(), row.cells.clone()));
            let copied = follower.copy.shown(self.kept.now.cast_signed());
            assert_eq!(copied, shown.collect());
        }
        for (at, of_all) in &self.kept.indexes {
            let spec = SPECS[*at];
            let shown = self.shown(spec.0).await;
            let due: Shown = rows.iter().filter_map(|row| projected(spec, row)).collect();
            let found: Shown = shown
                .iter()
                .map(|row| (row.key.clone(), row.cells.clone()))
                .collect();
            assert_eq!(found.len(), shown.len(), "{spec:?}: a row comes twice");
            match of_all {
                true => assert_eq!(found, due, "{spec:?}"),
                false => found.iter().for_each(|(key, cells)| {
                    assert_eq!(due.get(key), Some(cells), "{spec:?} {key:?}");
                }),
            }
            let mut backward = self.scan(spec.0, Direction::Backward).await.unwrap();
            backward.reverse();
            assert_eq!(backward, shown);
            // Each by its key, as it is in the range.
            let table = self.table(spec.0).await;
            let columns: Vec<&str> = table.primary_key.iter().map(|key| &key.name[..]).collect();
            let keys = shown.iter().map(|row| named(&columns, row.key.clone()));
            let asked = (
                table.clone(),
                keys.collect(),
                Selection::newest(Some(1)).unwrap(),
            );
            let got = self.tables.get_batch::<Vec<FoundRow>>(vec![asked]).await;
            let got = got.unwrap().remove(0).into_iter();
            let got: Vec<_> = got.flat_map(|got| got.unwrap().rows).collect();
            assert_eq!(got, shown);
        }
        self.verify();
    }

    fn verify(&self) {
        let catalog = Catalog::default();
        let home = self.partitions.view(self.partitions.home()).unwrap();
        catalog.load(&home).unwrap();
        for id in self.partitions.ids() {
            let view = self.partitions.view(id).unwrap();
            let mut problem = |text: String| panic!("{text}");
            let now = self.kept.now.cast_signed();
            let _: Indexed = verify_indexes(&catalog, &view, now, &mut problem).unwrap();
        }
    }
}

fn named(columns: &[&str], values: Vec<KeyValue>) -> PrimaryKey {
    let names = columns.iter().map(|name| (*name).to_owned());
    names.zip(values).collect()
}

/// Gives how many changes the stream had.
fn play(seed: u8, operations: usize, partitions: u16, options: &TableOptions) -> usize {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = command();
    in_directory(async |dir| {
        let mut world = World::new(dir, partitions, new_table(options.clone())).await;
        for number in 1..=operations {
            match strategy.new_tree(&mut runner).unwrap().current() {
                Command::Restart => world = World::open(dir, 0, world.close().await),
                Command::Reshape(count) => {
                    let kept = world.reshape(count).await;
                    world = World::open(dir, 0, kept);
                    if let Some(follower) = &mut world.kept.follower {
                        follower.go_over(&world.tables).await;
                    }
                }
                command => world.run(command).await,
            }
            if number % 7 == 0 {
                world.check().await;
            }
        }
        world.check().await;
        let kept = world.close().await;
        kept.follower.map_or(0, |follower| follower.seen)
    })
}

fn in_directory<T>(run: impl AsyncFnOnce(&Path) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(run(dir.path()))
}

fn options(time_to_live_s: i64, allow_update: bool, update_full_row: bool) -> TableOptions {
    TableOptions {
        time_to_live_s,
        allow_update,
        update_full_row,
        ..TableOptions::default()
    }
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn an_index_and_a_stream_are_what_their_table_says() {
    let operations = number("INDEX_MODEL_OPERATIONS", 600);
    let seed = u8::try_from(number("INDEX_MODEL_SEED", 1)).unwrap();
    let told = play(seed, operations, 1, &options(-1, true, false))
        + play(seed + 1, operations, 3, &options(-1, true, false));
    assert!(told > operations / 2, "{told}");
    play(seed + 2, operations, 2, &options(4, false, false));
    play(seed + 3, operations, 1, &options(4, true, true));
}

#[test]
fn a_planted_bug_is_found() {
    let planted = TableOptions {
        max_version_offset_s: PLANTED_INDEX_OFFSET_S,
        ..TableOptions::default()
    };
    let played = std::panic::catch_unwind(|| play(1, 300, 1, &planted));
    assert!(
        played.is_err(),
        "rows that stayed in an index went unnoticed"
    );
}

#[test]
fn a_write_goes_by_the_indexes_of_its_turn() {
    in_directory(async |dir| {
        let mut new = new_table(options(-1, true, false));
        new.indexes.clear();
        let mut world = World::new(dir, 3, new).await;
        // The table as a slow client of it knows it: without an index.
        let known = world.table(TABLE).await;
        for at in [0, 1] {
            world.index(at, at == 0).await;
        }
        for n in 0..5 {
            let cells = ["a", "b"].map(|name| PutCell {
                name: name.to_owned(),
                version: None,
                value: match name {
                    "a" => Value::Integer(i64::from(n)),
                    _ => Value::String("t".to_owned()),
                },
            });
            let write = world.write((n % 3, n), RowChange::Put(cells.to_vec()));
            world.tables.write(&known, write).await.unwrap();
        }
        assert_eq!(world.shown("by_a").await.len(), 5);
        assert_eq!(world.shown("by_b_a").await.len(), 5);
        world.check().await;
        world.close().await;
    });
}

#[test]
fn partitions_become_others_while_the_catalog_changes() {
    in_directory(async |dir| {
        let mut world = World::new(dir, 1, new_table(options(-1, true, false))).await;
        let key = (0, 0);
        world
            .run(Command::Write(key, RowChange::Put(Vec::new())))
            .await;
        // A change that is on its way, and stays so.
        let catalog = world.tables.catalog().clone();
        let changes = move |txn: &mut Txn<'_>| {
            catalog.changes(txn);
            Ok::<_, Error>(())
        };
        let home = world.partitions.home();
        let submitted = world.partitions.submit(Purpose::Adds, home, 0, changes);
        submitted.await.unwrap();
        world.reshape_served(2).await;
        world.check().await;
        world.close().await;
    });
}
