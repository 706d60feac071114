//! Random commands on tables and on the model; every answer must be the same.
//!
//! Owns: the commands, with time that they move, changes of options, flushes, compactions and restarts between them.
//! Promises: the short run is part of the test command; the long one (`TABLE_MODEL_OPERATIONS`, `TABLE_MODEL_RESTARTS`)
//! is the same with more of it; a bug that is planted is found. Must not: be in a build that is not a test.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::super::{Got, Partitions, RangePage, Table, Tables, Written};
use super::bed;
use super::model::{Asked, Did, ModelKey, ModelTable};
use super::stream::{Follower, ORIGINAL};
use super::transactions::{OpenModel, Step, step};
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_base::metrics::Metrics;
use tideline_model::{
    CellChange, Comparator, Condition, Direction, Error, Existence, Filter, FoundRow, GetRange,
    KeyColumn, KeyType, KeyValue, NewTable, OptionsUpdate, Predicate, PrimaryKey, PutCell,
    Relation, ReturnContent, RowChange, RowWrite, Selection, StreamSpec, TableOptions, TableUpdate,
    Throughput, Value,
};
use tideline_store::partition::{ImageOptions, Options};

pub(super) const START_MS: u64 = 1_700_000_000_000;
/// Tables with this offset have a bug planted in `write/update.rs`: automatic versions look at nothing but the clock.
pub(crate) const PLANTED_OFFSET_S: i64 = 77_777;

/// Streams of this life have a bug planted in `stream/noted.rs`: what a batch replaces is forgotten.
pub(crate) const PLANTED_HOURS: u32 = 77;

/// A row's change, in small numbers that the world makes real.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) table: usize,
    pub(super) key: (u8, u8),
    numbered: bool,
    pub(super) change: RowChange,
    existence: Existence,
    is_tested: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Asks {
    columns: Vec<String>,
    start: Option<String>,
    end: Option<String>,
    max_versions: Option<i64>,
    versions: Option<(i64, i64)>,
    is_filtered: bool,
}

#[derive(Clone, Debug)]
enum Command {
    Write(Write),
    Batch(Vec<Write>, bool),
    Get(usize, (u8, u8), Asks),
    GetMany(usize, Vec<(u8, u8)>, Asks),
    Range(usize, [u8; 4], bool, Option<usize>, Asks),
    Wait(u64),
    Options(usize, Option<i64>, Option<i64>),
    Recreate(usize, TableOptions),
    Transaction(Step),
    Flush,
    Settle,
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("c"), 1 => Just("é"), 1 => "[d-k]".prop_map(|_| "d")]
        .prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (-3i64..4).prop_map(Value::Integer),
        1 => Just(Value::Integer(i64::MAX)),
        2 => "[xyz]{0,9}".prop_map(Value::String),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => Just(Value::Double(1.5)),
        // Four of these make a row wide.
        2 => any::<u8>().prop_map(|byte| Value::Binary(vec![byte; 1_500].into())),
    ]
}

/// Versions are given as ms from now; the world adds the time.
fn version() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -4i64..5, 2 => -8_000i64..8_000, 1 => -80_000_000i64..80_000_000]
}

fn put() -> impl Strategy<Value = PutCell> {
    let version = proptest::option::weighted(0.4, version());
    (name(), version, value()).prop_map(|(name, version, value)| PutCell {
        name,
        version,
        value,
    })
}

fn changes() -> impl Strategy<Value = Vec<CellChange>> {
    let change = prop_oneof![
        5 => put().prop_map(CellChange::Put),
        2 => (name(), version()).prop_map(|(name, version)| CellChange::DeleteOne { name, version }),
        2 => name().prop_map(|name| CellChange::DeleteAll { name }),
        2 => (name(), prop_oneof![4 => -2i64..3, 1 => Just(i64::MAX)])
            .prop_map(|(name, by)| CellChange::Increment { name, by }),
    ];
    proptest::collection::vec(change, 1..5).prop_map(|mut changes: Vec<CellChange>| {
        // An incremented column is changed in no other way.
        let mut incremented = Vec::new();
        for change in &changes {
            if let CellChange::Increment { name, .. } = change {
                incremented.push(name.clone());
            }
        }
        incremented.dedup();
        for name in incremented {
            let mut kept = false;
            changes.retain(|change| {
                change.name() != name
                    || (matches!(change, CellChange::Increment { .. })
                        && !std::mem::replace(&mut kept, true))
            });
        }
        changes
    })
}

pub(super) fn key() -> impl Strategy<Value = (u8, u8)> {
    prop_oneof![3 => (0u8..2, 0u8..3), 1 => (0u8..4, 0u8..8)]
}

pub(super) fn write() -> impl Strategy<Value = Write> {
    let change = prop_oneof![
        3 => proptest::collection::vec(put(), 0..5).prop_map(RowChange::Put),
        6 => changes().prop_map(RowChange::Update),
        1 => Just(RowChange::Delete),
    ];
    let existence = prop_oneof![
        6 => Just(Existence::Ignore),
        1 => Just(Existence::Exist),
        1 => Just(Existence::NotExist),
    ];
    let flags = (any::<bool>(), proptest::bool::weighted(0.2));
    (0..TABLES.len(), key(), change, existence, flags).prop_map(
        |(table, key, change, existence, (numbered, is_tested))| Write {
            table,
            key,
            numbered,
            change,
            existence,
            is_tested,
        },
    )
}

pub(super) fn asks() -> impl Strategy<Value = Asks> {
    use proptest::option::of;
    let columns = prop_oneof![
        2 => Just(Vec::new()),
        2 => proptest::collection::vec(name(), 1..3),
        1 => Just(vec!["a".to_owned(), "k2".to_owned()]),
    ];
    let bounds = (
        proptest::option::weighted(0.2, name()),
        proptest::option::weighted(0.2, name()),
    );
    let times = proptest::option::weighted(0.3, (version(), 0i64..9_000));
    (columns, bounds, of(1i64..4), times, any::<bool>()).prop_map(
        |(columns, (start, end), max, times, is_filtered)| Asks {
            columns,
            start,
            end,
            max_versions: if times.is_none() {
                max.or(Some(9))
            } else {
                max
            },
            versions: times,
            is_filtered,
        },
    )
}

fn options() -> impl Strategy<Value = TableOptions> {
    let seconds = prop_oneof![2 => Just(-1i64), 2 => 1i64..9, 1 => Just(86_400)];
    let offset = prop_oneof![2 => Just(86_400i64), 1 => 0i64..5];
    (seconds, 1i64..4, offset, proptest::bool::weighted(0.2)).prop_map(
        |(time_to_live_s, max_versions, max_version_offset_s, update_full_row)| TableOptions {
            time_to_live_s,
            max_versions,
            max_version_offset_s,
            allow_update: true,
            update_full_row,
            ..TableOptions::default()
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    use proptest::option::{of, weighted};
    let table = || 0..TABLES.len();
    prop_oneof![
        160 => write().prop_map(Command::Write),
        24 => (proptest::collection::vec(write(), 1..6), any::<bool>())
            .prop_map(|(rows, is_atomic)| Command::Batch(rows, is_atomic)),
        60 => (table(), key(), asks()).prop_map(|(a, b, c)| Command::Get(a, b, c)),
        12 => (table(), proptest::collection::vec(key(), 0..5), asks())
            .prop_map(|(a, b, c)| Command::GetMany(a, b, c)),
        60 => (table(), any::<[u8; 4]>(), any::<bool>(), weighted(0.6, 1usize..5), asks())
            .prop_map(|(a, b, c, d, e)| Command::Range(a, b, c, d, e)),
        32 => prop_oneof![3 => 0u64..3, 2 => 0u64..3_000, 1 => 0u64..90_000]
            .prop_map(Command::Wait),
        3 => (table(), of(prop_oneof![1 => Just(-1i64), 2 => 1i64..9]), of(1i64..4))
            .prop_map(|(a, b, c)| Command::Options(a, b, c)),
        3 => (table(), options()).prop_map(|(a, b)| Command::Recreate(a, b)),
        120 => step().prop_map(Command::Transaction),
        6 => Just(Command::Flush),
        2 => Just(Command::Settle),
    ]
}

/// Name, type of the first and second key column, whether the second one is numbered.
const TABLES: [(&str, KeyType, bool); 3] = [
    ("plain", KeyType::String, false),
    ("numbered", KeyType::Integer, true),
    ("bytes", KeyType::Binary, false),
];

/// The same as a predicate.
fn predicate() -> Predicate {
    let of = |column: &str| {
        Predicate::Single(Relation {
            column: column.to_owned(),
            comparator: Comparator::GreaterEqual,
            value: Value::Integer(0),
            pass_if_missing: false,
            latest_version_only: false,
            transfer: None,
        })
    };
    Predicate::Or(["a", "b", "c", "d", "é"].map(of).to_vec())
}

/// Whether one of its cells is an integer that is not negative.
fn passes(row: &FoundRow) -> bool {
    row.cells
        .iter()
        .any(|cell| matches!(cell.value, Value::Integer(number) if number >= 0))
}

fn new_table(table: usize, options: TableOptions, hours: u32) -> NewTable {
    let (name, kind, auto_increment) = TABLES[table];
    let column = |name: &str, kind, auto_increment| KeyColumn {
        name: name.to_owned(),
        kind,
        auto_increment,
    };
    NewTable {
        name: name.to_owned(),
        primary_key: vec![
            column("k1", kind, false),
            column("k2", KeyType::Integer, auto_increment),
        ],
        defined_columns: Vec::new(),
        options,
        indexes: Vec::new(),
        reserved: Throughput::default(),
        stream: StreamSpec::new(hours.into(), vec![ORIGINAL.to_owned()]).ok(),
        local_transactions: true,
    }
}

pub(super) struct World {
    pub(super) tables: Tables,
    partitions: Partitions,
    clock: Arc<Clock>,
    /// Copies by the tables' streams; `None` = its options changed, of which no stream tells.
    followers: Vec<Option<Follower>>,
    hours: u32,
    pub(super) now: u64,
    pub(super) models: Vec<ModelTable>,
    pub(super) open: Vec<OpenModel>,
    metrics: Arc<Metrics>,
}

pub(super) fn open(
    dir: &Path,
    partitions: u16,
    clock: &Arc<Clock>,
    metrics: &Arc<Metrics>,
) -> (Partitions, Tables) {
    let image = ImageOptions {
        map_bytes: 4 << 30,
        wide_row_bytes: 3_000,
        fan_in: 2,
        slice_rows: 20,
        survey_rows: 50,
        survey_rest_ms: 0,
        ..ImageOptions::default()
    };
    let options = Options {
        partitions,
        image,
        metrics: Arc::clone(metrics),
        ..Options::default()
    };
    bed::open(dir, options, clock)
}

impl World {
    async fn new(
        dir: &Path,
        (partitions, offset_s, hours): (u16, i64, u32),
        metrics: &Arc<Metrics>,
    ) -> World {
        let clock = Arc::new(Clock::fixed(START_MS));
        let (partitions, tables) = open(dir, partitions, &clock, metrics);
        let mut world = World {
            tables,
            partitions,
            clock,
            now: START_MS,
            models: Vec::new(),
            followers: Vec::new(),
            hours,
            open: Vec::new(),
            metrics: Arc::clone(metrics),
        };
        for (at, (_, _, is_numbered)) in TABLES.into_iter().enumerate() {
            let options = TableOptions {
                max_versions: 2,
                max_version_offset_s: offset_s,
                ..TableOptions::default()
            };
            world.models.push(ModelTable {
                is_numbered,
                options: options.clone(),
                rows: BTreeMap::new(),
                last: BTreeMap::new(),
            });
            let new = new_table(at, options.clone(), hours);
            world.tables.create(new).await.unwrap();
            let follower = Follower::new(&world.tables, TABLES[at].0, options).await;
            world.followers.push(Some(follower));
        }
        world
    }

    async fn restart(self, dir: &Path) -> World {
        let count = u16::try_from(self.partitions.ids().count()).unwrap();
        self.partitions.close().await;
        // The old handles hold the directory's lock.
        drop((self.partitions, self.tables));
        let (partitions, tables) = open(dir, count, &self.clock, &self.metrics);
        World {
            tables,
            partitions,
            clock: self.clock,
            now: self.now,
            models: self.models,
            followers: self.followers,
            hours: self.hours,
            open: self.open.into_iter().map(OpenModel::ended).collect(),
            metrics: self.metrics,
        }
    }

    fn now(&self) -> i64 {
        self.now.cast_signed()
    }

    pub(super) fn first(&self, table: usize, number: u8) -> KeyValue {
        match TABLES[table].1 {
            KeyType::String => {
                KeyValue::String(["a", "b", "a\0", ""][usize::from(number) % 4].into())
            }
            KeyType::Integer => KeyValue::Integer(i64::from(number) - 1),
            KeyType::Binary => KeyValue::Binary(vec![0xff; usize::from(number) * 300].into()),
        }
    }

    pub(super) fn values(&self, table: usize, key: (u8, u8)) -> ModelKey {
        let second = i64::from(key.1) - i64::from(!TABLES[table].2);
        vec![self.first(table, key.0), KeyValue::Integer(second)]
    }

    /// Times are meant from now on.
    fn at(&self, version: i64) -> i64 {
        self.now() + version
    }

    pub(super) fn real(&self, write: &Write) -> RowWrite {
        let mut values = self.values(write.table, write.key);
        let mut change = write.change.clone();
        let mut condition = Condition {
            existence: write.existence,
            columns: write.is_tested.then(predicate),
        };
        if TABLES[write.table].2 && change != RowChange::Delete {
            if write.numbered {
                values[1] = KeyValue::AutoIncrement;
                condition = Condition::default();
            } else if condition.existence == Existence::NotExist {
                condition.existence = Existence::Ignore;
            }
        }
        let mut names = Vec::new();
        match &mut change {
            RowChange::Put(cells) => cells.iter_mut().for_each(|cell| {
                cell.version = cell.version.map(|version| self.at(version));
            }),
            RowChange::Update(changes) => changes.iter_mut().for_each(|change| match change {
                CellChange::Put(cell) => cell.version = cell.version.map(|it| self.at(it)),
                CellChange::DeleteOne { version, .. } => *version = self.at(*version),
                CellChange::Increment { name, .. } => names.push(name.clone()),
                CellChange::DeleteAll { .. } => {}
            }),
            RowChange::Delete => {}
        }
        RowWrite {
            key: named(values),
            change,
            condition,
            content: if names.is_empty() {
                ReturnContent::Key
            } else {
                ReturnContent::Incremented(names)
            },
        }
    }

    pub(super) fn predict(&mut self, table: usize, write: &RowWrite) -> Result<Did, Error> {
        let now = self.now();
        let asked = Asked {
            key: write.key.iter().map(|(_, value)| value.clone()).collect(),
            change: &write.change,
            existence: write.condition.existence,
            test: write
                .condition
                .columns
                .as_ref()
                .map(|_| passes as fn(&FoundRow) -> bool),
        };
        if self.is_locked(table, &asked.key[0]) {
            return Err(Error::RowConflict);
        }
        self.models[table].write(asked, now)
    }

    pub(super) fn selection(&self, asks: Asks) -> Selection {
        Selection {
            columns: asks.columns.into_iter().collect(),
            start: asks.start,
            end: asks.end,
            max_versions: asks.max_versions,
            times: asks
                .versions
                .map(|(from, count)| self.at(from)..self.at(from + count)),
            filter: asks.is_filtered.then(|| Filter::Rows(predicate())),
        }
    }

    /// What a read of a row should give.
    pub(super) fn found(
        &self,
        table: usize,
        key: &[KeyValue],
        asked: &Selection,
    ) -> Option<FoundRow> {
        let model = &self.models[table];
        let row = model.row(key, self.now())?;
        let filter = asked
            .filter
            .as_ref()
            .map(|_| passes as fn(&FoundRow) -> bool);
        model.select(&["k1".to_owned(), "k2".to_owned()], row, asked, filter)
    }

    async fn run(&mut self, command: Command) {
        match command {
            Command::Write(write) => {
                let real = self.real(&write);
                let predicted = self.predict(write.table, &real);
                let table = self.table(write.table).await;
                let done = self.tables.write(&table, real).await;
                same(done, predicted);
            }
            Command::Batch(writes, is_atomic) => self.batch(writes, is_atomic).await,
            Command::Get(table, key, asks) => {
                let (key, asked) = (self.values(table, key), self.selection(asks));
                let predicted = self.found(table, &key, &asked);
                let table = self.table(table).await;
                let got = self.tables.get(&table, named(key), asked).await.unwrap();
                assert_eq!(row(got), predicted);
            }
            Command::GetMany(table, keys, asks) => {
                let asked = self.selection(asks);
                let keys: Vec<_> = keys.iter().map(|key| self.values(table, *key)).collect();
                let predicted: Vec<_> = keys
                    .iter()
                    .map(|key| self.found(table, key, &asked))
                    .collect();
                let keys = keys.into_iter().map(named).collect();
                let request = vec![(self.table(table).await, keys, asked)];
                let got = self.tables.get_batch(request).await.unwrap().remove(0);
                let got: Vec<_> = got.into_iter().map(|got| row(got.unwrap())).collect();
                assert_eq!(got, predicted);
            }
            Command::Range(table, bounds, is_backward, limit, asks) => {
                self.range(table, bounds, is_backward, limit, asks).await;
            }
            Command::Wait(ms) => {
                self.now += ms;
                self.clock.set(self.now);
            }
            Command::Options(table, ttl, versions) => self.options(table, ttl, versions).await,
            Command::Recreate(table, options) => {
                let name = TABLES[table].0;
                self.tables.delete(name).await.unwrap();
                assert_eq!(self.tables.describe(name).await, Err(Error::TableNotFound));
                let new = || new_table(table, options.clone(), self.hours);
                self.tables.create(new()).await.unwrap();
                let again = self.tables.create(new()).await;
                assert_eq!(again, Err(Error::TableExists));
                let follower = Follower::new(&self.tables, name, options.clone()).await;
                self.followers[table] = Some(follower);
                self.end_all(table);
                let model = &mut self.models[table];
                (model.options, model.rows, model.last) =
                    (options, BTreeMap::new(), BTreeMap::new());
            }
            Command::Transaction(step) => self.step(step).await,
            Command::Flush => self.each_partition(Partitions::rotate).await,
            Command::Settle => self.each_partition(Partitions::settle).await,
        }
    }

    /// The streams tell all that happened.
    async fn follow(&mut self, limit: usize) {
        for (follower, model) in self.followers.iter_mut().zip(&self.models) {
            if let Some(follower) = follower {
                follower.follow(&self.tables, limit).await;
                follower.check(model, self.now.cast_signed());
            }
        }
    }

    async fn each_partition(&self, act: fn(&Partitions, PartitionId)) {
        let partitions = self.partitions.clone();
        let acting = move || partitions.ids().for_each(|id| act(&partitions, id));
        tokio::task::spawn_blocking(acting).await.unwrap();
    }

    pub(super) async fn table(&self, table: usize) -> Arc<Table> {
        self.tables.describe(TABLES[table].0).await.unwrap()
    }

    async fn batch(&mut self, writes: Vec<Write>, is_atomic: bool) {
        let mut writes = writes;
        if is_atomic {
            let (table, first) = (writes[0].table, writes[0].key.0);
            writes
                .iter_mut()
                .for_each(|write| (write.table, write.key.0) = (table, first));
        }
        let increments = |write: &Write| {
            matches!(&write.change, RowChange::Update(changes)
                if changes.iter().any(|change| matches!(change, CellChange::Increment { .. })))
        };
        let mut seen = false;
        writes.retain(|write| !increments(write) || !std::mem::replace(&mut seen, true));
        let before = self.models.clone();
        let mut real = Vec::new();
        for write in &writes {
            real.push((self.table(write.table).await, self.real(write)));
        }
        let mut predicted: Vec<_> = writes
            .iter()
            .zip(&real)
            .map(|(write, (_, real))| self.predict(write.table, real))
            .collect();
        if is_atomic && let Some(Err(error)) = predicted.iter().find(|done| done.is_err()).cloned()
        {
            self.models = before;
            predicted
                .iter_mut()
                .for_each(|done| *done = Err(error.clone()));
        }
        let done = self.tables.write_batch(real, is_atomic).await.unwrap();
        assert_eq!(done.len(), predicted.len());
        done.into_iter()
            .zip(predicted)
            .for_each(|(done, predicted)| same(done, predicted));
    }

    /// Reads a range page by page.
    #[allow(clippy::too_many_lines)] // bounds, expectation and pages belong together
    async fn range(
        &mut self,
        table: usize,
        bounds: [u8; 4],
        is_backward: bool,
        limit: Option<usize>,
        asks: Asks,
    ) {
        let bound = |first: u8, second: u8| {
            let first = match first % 8 {
                0 | 1 => KeyValue::InfMin,
                2 | 3 => KeyValue::InfMax,
                number => self.first(table, number - 4),
            };
            let second = match second % 10 {
                _ if matches!(first, KeyValue::InfMin | KeyValue::InfMax) => first.clone(),
                0 => KeyValue::InfMin,
                1 => KeyValue::InfMax,
                number => KeyValue::Integer(i64::from(number) - 3),
            };
            vec![first, second]
        };
        let (low, high) = (bound(bounds[0], bounds[1]), bound(bounds[2], bounds[3]));
        let (low, high) = if low <= high {
            (low, high)
        } else {
            (high, low)
        };
        let asked = self.selection(asks);
        let (direction, mut start, end) = match is_backward {
            false => (Direction::Forward, low.clone(), high.clone()),
            true => (Direction::Backward, high.clone(), low.clone()),
        };
        let is_inside = |key: &ModelKey| match is_backward {
            false => low <= *key && *key < high,
            true => low < *key && *key <= high,
        };
        let is_there = |key: &&ModelKey| self.models[table].row(key, self.now()).is_some();
        let inside = self.models[table].rows.keys().filter(|key| is_inside(key));
        let mut keys: Vec<ModelKey> = inside.filter(is_there).cloned().collect();
        if is_backward {
            keys.reverse();
        }
        let mut keys = keys.into_iter().peekable();
        let named_table = self.table(table).await;
        loop {
            let range = GetRange {
                direction,
                start: named(start),
                end: named(end.clone()),
                limit,
                selection: asked.clone(),
            };
            let page: RangePage<Vec<FoundRow>> =
                match self.tables.get_range(&named_table, range).await {
                    Ok(page) => page,
                    Err(error) => {
                        let expected = if is_backward {
                            Error::RangeBackward
                        } else {
                            Error::RangeForward
                        };
                        assert_eq!((error, low), (expected, high));
                        return;
                    }
                };
            let mut rows = Vec::new();
            while rows.len() < limit.unwrap_or(usize::MAX)
                && let Some(key) = keys.next()
            {
                rows.extend(self.found(table, &key, &asked));
            }
            assert_eq!(page.rows, rows);
            assert_eq!(page.next.as_ref(), keys.peek());
            match page.next {
                Some(next) => start = next,
                None => return,
            }
        }
    }

    /// Changes options; what was hidden may show or not.
    async fn options(&mut self, table: usize, ttl: Option<i64>, versions: Option<i64>) {
        let update = TableUpdate {
            options: OptionsUpdate {
                time_to_live_s: ttl,
                max_versions: versions,
                ..OptionsUpdate::default()
            },
            ..TableUpdate::default()
        };
        let name = TABLES[table].0;
        let done = self.tables.update(name, update).await;
        if ttl.is_none() && versions.is_none() {
            assert_eq!(done, Err(Error::NoOptions));
            return;
        }
        let options = done.unwrap().options.clone();
        self.followers[table] = None;
        let mut expected = self.models[table].options.clone();
        expected.time_to_live_s = ttl.unwrap_or(expected.time_to_live_s);
        expected.max_versions = versions.unwrap_or(expected.max_versions);
        assert_eq!(options, expected);
        if options != self.models[table].options {
            self.end_all(table);
        }
        // A slice of compaction that began before goes by the options of then.
        self.each_partition(Partitions::settle).await;
        let range = GetRange {
            direction: Direction::Forward,
            start: named(vec![KeyValue::InfMin; 2]),
            end: named(vec![KeyValue::InfMax; 2]),
            limit: None,
            selection: Selection {
                max_versions: Some(1_000_000),
                ..Selection::default()
            },
        };
        let page = self.tables.get_range(&self.table(table).await, range).await;
        let page: RangePage<Vec<FoundRow>> = page.unwrap();
        assert_eq!(page.next, None);
        let now = self.now();
        self.models[table].settle_with(options, &page.rows, now);
    }
}

pub(super) fn row(got: Got<Vec<FoundRow>>) -> Option<FoundRow> {
    assert!(got.rows.len() <= 1);
    got.rows.into_iter().next()
}

pub(super) fn named(values: Vec<KeyValue>) -> PrimaryKey {
    let names = ["k1", "k2"].map(str::to_owned);
    names.into_iter().zip(values).collect()
}

pub(super) fn same(done: Result<Written, Error>, predicted: Result<Did, Error>) {
    let done = done.map(|written| {
        assert!(written.consumed.write > 0);
        let row = written.row.unwrap();
        Did {
            key: row.key,
            incremented: row.cells,
        }
    });
    assert_eq!(done, predicted);
}

/// Runs commands with restarts between them.
/// What the server's metrics say in the end.
fn play(
    seed: u8,
    (operations, restarts): (usize, usize),
    (partitions, offset_s, hours): (u16, i64, u32),
) -> String {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = command();
    let metrics = Arc::new(Metrics::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::new(dir.path(), (partitions, offset_s, hours), &metrics).await;
        for number in 1..=operations {
            let command = strategy.new_tree(&mut runner).unwrap().current();
            world.run(command).await;
            if number % 40 == 0 {
                world.follow(1 + number % 60).await;
            }
            if number % (operations / (restarts + 1)).max(1) == 0 {
                world = world.restart(dir.path()).await;
            }
        }
        world.partitions.close().await;
    });
    metrics.render()
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn tables_do_what_the_model_says() {
    let operations = number("TABLE_MODEL_OPERATIONS", 3_000);
    let restarts = number("TABLE_MODEL_RESTARTS", 6);
    let seed = u8::try_from(number("TABLE_MODEL_SEED", 1)).unwrap();
    let metrics =
        [1, 3].map(|count| play(seed, (operations / 2, restarts / 2), (count, 86_400, 24)));
    for ended in ["committed", "aborted", "expired", "conflicts"] {
        let name = format!("tideline_transactions_{ended}_total ");
        let lines = metrics.iter().flat_map(|text| text.lines());
        let count: u64 = lines
            .filter_map(|line| line.strip_prefix(&name))
            .map(|count| count.parse::<u64>().unwrap())
            .sum();
        writeln!(std::io::stdout(), "{count} transactions: {ended}").unwrap();
        assert_ne!(count, 0, "no transactions: {ended}");
    }
    // All of it beside compaction that gave up what had expired or was deleted.
    for reason in ["expired", "surplus", "table_deleted"] {
        let name = format!("tideline_reclaimed_bytes_total{{reason=\"{reason}\"}} ");
        let lines = metrics.iter().flat_map(|text| text.lines());
        let found = lines.filter_map(|line| line.strip_prefix(&name));
        let bytes: u64 = found.map(|bytes| bytes.parse::<u64>().unwrap()).sum();
        writeln!(std::io::stdout(), "{reason}: {bytes} bytes reclaimed").unwrap();
        assert_ne!(bytes, 0, "nothing was {reason}");
    }
}

#[test]
fn a_planted_bug_is_found() {
    let played = std::panic::catch_unwind(|| play(1, (2_000, 0), (1, PLANTED_OFFSET_S, 24)));
    assert!(
        played.is_err(),
        "automatic versions below stored ones went unnoticed"
    );
    let played = std::panic::catch_unwind(|| play(1, (2_000, 0), (1, 86_400, PLANTED_HOURS)));
    assert!(played.is_err(), "a record of another change went unnoticed");
}
