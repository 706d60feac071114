//! Timelines read as tables, held against the model of timelines and against themselves.
//!
//! Owns: random reads of both tables between the commands of `commands.rs`, flushes, compactions and restarts; and what
//! random commands don't reach: pages that end early, writers beside, refusals. Promises: what the tables show is what
//! the protocol shows, because both are compared with one model. Must not: be in a build that is not a test.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use proptest::prelude::*;

use super::commands::{Command, Epoch, NAMES, World, directory, runtime, step};
use super::model::Model;
use crate::timeline::{Append, AppendOne, Columns};
use tideline_base::ids::PartitionId;
use tideline_model::access::Asker;
use tideline_model::{
    Comparator, Condition, Direction, Error, Filter, FoundCell, FoundRow, GetRange, KeyColumn,
    KeyType, KeyValue, NewTable, Predicate, PrimaryKey, Relation, ReturnContent, RowChange,
    RowWrite, Selection, TableOptions, TableUpdate, Throughput, Value,
};
use tideline_store::partition::Partitions;
use tideline_table::{Got, SCANNED_BYTES_MAX, SCANNED_ROWS_MAX, TABLES_MAX};

type RangePage = tideline_table::RangePage<Vec<FoundRow>>;

pub(super) const TABLES: [&str; 2] = ["timeline_message", "timeline_meta"];
const KEY: [&str; 2] = ["timeline_id", "sequence_id"];

pub(super) type Values = Vec<KeyValue>;

#[derive(Clone, Debug)]
struct Asks {
    columns: Vec<&'static str>,
    start: Option<&'static str>,
    versions: Option<(u64, u64)>,
    is_filtered: bool,
}

#[derive(Clone, Debug)]
enum Act {
    Command(usize, Epoch, Command),
    Flush,
    Settle,
    Restart,
    Get(usize, Values, Asks),
    Range(usize, Values, Values, Option<usize>, Asks),
}

fn name() -> impl Strategy<Value = KeyValue> {
    prop_oneof![
        6 => (0..NAMES.len()).prop_map(|at| NAMES[at]),
        1 => prop_oneof![Just(""), Just("aa"), Just("a\0"), Just("zz")],
    ]
    .prop_map(|name| KeyValue::String(name.to_owned()))
}

fn sequence() -> impl Strategy<Value = KeyValue> {
    prop_oneof![
        8 => 0i64..14,
        1 => prop_oneof![Just(-1), Just(i64::MIN), Just(i64::MAX), Just(i64::MAX - 1)],
    ]
    .prop_map(KeyValue::Integer)
}

fn or_infinite(value: impl Strategy<Value = KeyValue>) -> impl Strategy<Value = KeyValue> {
    prop_oneof![4 => value, 1 => Just(KeyValue::InfMin), 1 => Just(KeyValue::InfMax)]
}

fn asks() -> impl Strategy<Value = Asks> {
    let column = prop_oneof![
        Just("k"),
        Just("m"),
        Just("__epoch"),
        Just("__deleted"),
        Just("__sender"),
        Just("sequence_id"),
        Just("none"),
    ];
    (
        prop_oneof![2 => Just(vec![]), 1 => proptest::collection::vec(column, 1..3)],
        proptest::option::weighted(0.2, prop_oneof![Just("__d"), Just("a")]),
        proptest::option::weighted(0.2, (0u64..200, 0u64..200)),
        proptest::bool::weighted(0.3),
    )
        .prop_map(|(columns, start, versions, is_filtered)| Asks {
            columns,
            start,
            versions,
            is_filtered,
        })
}

fn act() -> impl Strategy<Value = Act> {
    let bound = || (or_infinite(name()), or_infinite(sequence())).prop_map(|(a, b)| vec![a, b]);
    let limit = proptest::option::weighted(0.8, 1usize..4);
    prop_oneof![
        12 => step().prop_map(|(name, epoch, command)| Act::Command(name, epoch, command)),
        1 => Just(Act::Flush),
        1 => Just(Act::Settle),
        1 => Just(Act::Restart),
        4 => (0..2usize, name(), sequence(), asks())
            .prop_map(|(table, name, sequence, asks)| Act::Get(table, vec![name, sequence], asks)),
        6 => (0..2usize, bound(), bound(), limit, asks())
            .prop_map(|(table, start, end, limit, asks)| Act::Range(table, start, end, limit, asks)),
    ]
}

/// The rows of a table as they follow from the protocol.
pub(super) fn rows(model: &Model, table: usize) -> BTreeMap<Values, FoundRow> {
    let mut rows = BTreeMap::new();
    let mut add = |key: Values, version: u64, cells: BTreeMap<String, Value>| {
        let cell = |(name, value)| FoundCell {
            name,
            version: version.cast_signed(),
            value,
        };
        let cells = cells.into_iter().map(cell).collect();
        rows.insert(key.clone(), FoundRow { key, cells });
    };
    let integer = |number: u64| Value::Integer(number.cast_signed());
    for (name, timeline) in &model.timelines {
        let (id, head, info) = (
            KeyValue::String(name.clone()),
            &timeline.head,
            &timeline.info,
        );
        let epoch = Value::String(head.epoch.clone());
        if table == 1 {
            let mut cells: BTreeMap<String, Value> = info.meta.iter().cloned().collect();
            let mut ours = |name: &str, value| cells.insert(name.to_owned(), value);
            ours("__epoch", epoch);
            ours("__head", integer(head.head));
            ours("__floor", integer(head.floor));
            ours("__change_head", integer(head.change_head));
            ours("__version", integer(info.version));
            ours("__created_at", integer(info.created_at));
            ours("__updated_at", integer(info.updated_at));
            info.last_at.map(|at| ours("__last_at", integer(at)));
            add(vec![id], info.updated_at, cells);
            continue;
        }
        for message in timeline.messages.values() {
            let entry = message.entry.iter().flatten();
            let mut cells: BTreeMap<String, Value> = entry.cloned().collect();
            let mut ours = |name: &str, value| cells.insert(name.to_owned(), value);
            ours("__epoch", epoch.clone());
            ours("__message_id", Value::String(message.message_id.clone()));
            ours("__timestamp", integer(message.timestamp));
            if !message.sender.is_empty() {
                ours("__sender", Value::String(message.sender.clone()));
            }
            if message.change > 0 {
                ours("__change", integer(message.change));
            }
            if message.entry.is_none() {
                ours("__deleted", Value::Boolean(true));
            }
            if message.pinned {
                ours("__pinned", Value::Boolean(true));
            }
            if message.open.is_some() {
                ours("__open", Value::Boolean(true));
            }
            message.parts.map(|parts| ours("__parts", integer(parts)));
            if let Some(outcome) = message.outcome {
                ours("__outcome", Value::String(outcome.name().to_owned()));
            }
            if let Some(by) = &message.stopped_by {
                ours("__stopped_by", Value::String(by.clone()));
            }
            if let Some(all) = &message.reactions
                && !all.by_name.is_empty()
            {
                ours("__reactions", Value::String(all.json_text()));
            }
            if let Some(by) = &message.recalled_by {
                ours("__recalled_by", Value::String(by.clone()));
            }
            if let Some(reason) = &message.reason {
                ours("__reason", Value::String(reason.clone()));
            }
            message.edited_at.map(|at| ours("__edited_at", integer(at)));
            let sequence = KeyValue::Integer(message.sequence.cast_signed());
            add(vec![id.clone(), sequence], message.timestamp, cells);
        }
    }
    rows
}

/// Times count from the model's start.
fn versions(asks: &Asks) -> Option<(i64, i64)> {
    let time = |ms: u64| (super::commands::START_MS + ms).cast_signed();
    asks.versions.map(|(a, b)| (time(a), time(b)))
}

/// Heads and times that pass the filter.
const PASSING: [Range<i64>; 8] = {
    const START: i64 = super::commands::START_MS.cast_signed();
    [
        0..1,
        2..3,
        4..5,
        6..7,
        8..9,
        START..START + 40,
        START + 90..START + 130,
        START + 400..i64::MAX,
    ]
};

/// Rows with such a number in `__timestamp` or `__head`, if the cell is selected.
fn filter(row: &FoundRow) -> bool {
    let counted = |cell: &&FoundCell| ["__timestamp", "__head"].contains(&cell.name.as_str());
    row.cells
        .iter()
        .find(counted)
        .is_none_or(|cell| matches!(cell.value, Value::Integer(number) if PASSING.iter().any(|some| some.contains(&number))))
}

/// The same.
fn predicate() -> Predicate {
    let compares = |column: &str, comparator, number| {
        Predicate::Single(Relation {
            column: column.to_owned(),
            comparator,
            value: Value::Integer(number),
            pass_if_missing: true,
            latest_version_only: true,
            transfer: None,
        })
    };
    let passes = |column| {
        let within = PASSING.map(|some| {
            Predicate::And(vec![
                compares(column, Comparator::GreaterEqual, some.start),
                compares(column, Comparator::LessThan, some.end),
            ])
        });
        Predicate::Or(within.to_vec())
    };
    Predicate::And(vec![passes("__timestamp"), passes("__head")])
}

fn selection(asks: &Asks) -> Selection {
    Selection {
        columns: asks.columns.iter().map(|name| (*name).to_owned()).collect(),
        start: asks.start.map(str::to_owned),
        end: None,
        max_versions: Some(1),
        times: versions(asks).map(|(start, end)| start..end),
        filter: asks.is_filtered.then(|| Filter::Rows(predicate())),
    }
}

/// What a selection leaves of a row.
fn selected(table: usize, row: &FoundRow, asks: &Asks) -> Option<FoundRow> {
    let mut row = row.clone();
    row.cells.retain(|cell| {
        let name = cell.name.as_str();
        (asks.columns.is_empty() || asks.columns.contains(&name))
            && asks.start.is_none_or(|start| name >= start)
            && versions(asks).is_none_or(|(a, b)| (a..b).contains(&cell.version))
    });
    let is_key = |name: &&str| KEY[..2 - table].contains(name);
    let qualifies = !row.cells.is_empty() || asks.columns.iter().any(is_key);
    (qualifies && (!asks.is_filtered || filter(&row))).then_some(row)
}

pub(super) fn named(key: &[KeyValue]) -> PrimaryKey {
    let pair = |(name, value): (&str, &KeyValue)| (name.to_owned(), value.clone());
    KEY.into_iter().zip(key).map(pair).collect()
}

/// A bound up to its first infinity, behind which nothing counts.
fn decisive(bound: &[KeyValue]) -> Values {
    let is_infinite = |value: &KeyValue| matches!(value, KeyValue::InfMin | KeyValue::InfMax);
    let count = bound.iter().position(is_infinite).unwrap_or(bound.len());
    bound.iter().take(count + 1).cloned().collect()
}

async fn range(
    world: &World,
    table: usize,
    direction: Direction,
    (start, end): (&[KeyValue], &[KeyValue]),
    (limit, selection): (Option<usize>, Selection),
) -> Result<RangePage, Error> {
    let range = GetRange {
        direction,
        start: named(start),
        end: named(end),
        limit,
        selection,
    };
    let table = world.tables.describe(TABLES[table]).await.unwrap();
    world.tables.get_range(&table, range).await
}

async fn get(world: &World, table: usize, key: &[KeyValue], asks: &Asks) {
    let found = rows(&world.model, table).remove(key);
    let expected = found.and_then(|row| selected(table, &row, asks));
    let described = world.tables.describe(TABLES[table]).await.unwrap();
    let got = world.tables.get(&described, named(key), selection(asks));
    let got: Got<Vec<FoundRow>> = got.await.unwrap();
    let expected: Vec<FoundRow> = expected.into_iter().collect();
    assert_eq!(got.rows, expected);
    let batch = vec![(described, vec![named(key)], selection(asks))];
    let got = world.tables.get_batch(batch).await.unwrap();
    let got: &Got<Vec<FoundRow>> = got[0][0].as_ref().unwrap();
    assert_eq!(got.rows, expected);
}

/// All pages of a range, one after the other.
async fn pages(
    world: &World,
    table: usize,
    (start, end): (Values, Values),
    (limit, asks): (Option<usize>, &Asks),
) {
    let (low, high) = (decisive(&start), decisive(&end));
    let all = rows(&world.model, table);
    let (direction, keys): (_, Vec<_>) = if low < high {
        let between = (Bound::Included(low), Bound::Excluded(high));
        (Direction::Forward, all.range(between).collect())
    } else if low > high {
        let between = (Bound::Excluded(high), Bound::Included(low));
        (Direction::Backward, all.range(between).rev().collect())
    } else {
        for direction in [Direction::Forward, Direction::Backward] {
            let asked = (limit, selection(asks));
            let page = range(world, table, direction, (&start, &end), asked).await;
            assert!(matches!(
                page,
                Err(Error::RangeForward | Error::RangeBackward)
            ));
        }
        return;
    };
    let (mut keys, mut from) = (keys.into_iter().peekable(), start);
    loop {
        let asked = (limit, selection(asks));
        let page = range(world, table, direction, (&from, &end), asked).await;
        let page = page.unwrap();
        let mut expected = Vec::new();
        while expected.len() < limit.unwrap_or(usize::MAX)
            && let Some((_, row)) = keys.next()
        {
            expected.extend(selected(table, row, asks));
        }
        assert_eq!(page.rows, expected);
        assert_eq!(page.next.as_ref(), keys.peek().map(|(key, _)| *key));
        match page.next {
            Some(next) => from = next,
            None => return,
        }
    }
}

pub(super) async fn each_partition(partitions: &Partitions, act: fn(&Partitions, PartitionId)) {
    let partitions = partitions.clone();
    let acting = move || partitions.ids().for_each(|id| act(&partitions, id));
    tokio::task::spawn_blocking(acting).await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tables_show_what_the_model_has(
        acts in proptest::collection::vec(act(), 1..150),
        partitions in 1u16..4,
    ) {
        let dir = directory();
        runtime().block_on(async {
            let mut world = World::open(dir.path(), partitions);
            for act in acts {
                match act {
                    Act::Command(name, epoch, command) => {
                        world.run(NAMES[name], epoch, command).await;
                    }
                    Act::Flush => each_partition(&world.partitions, Partitions::rotate).await,
                    Act::Settle => each_partition(&world.partitions, Partitions::settle).await,
                    Act::Restart => world = world.restart(dir.path()).await,
                    Act::Get(table, key, asks) => {
                        get(&world, table, &key[..2 - table], &asks).await;
                    }
                    Act::Range(table, mut start, mut end, limit, asks) => {
                        start.truncate(2 - table);
                        end.truncate(2 - table);
                        pages(&world, table, (start, end), (limit, &asks)).await;
                    }
                }
            }
            world.partitions.close().await;
        });
    }
}

fn append(timeline: &str, entries: Vec<Columns>) -> Append {
    let one = |entry| AppendOne {
        entry,
        message_id: None,
        ..AppendOne::default()
    };
    Append {
        timeline: timeline.to_owned(),
        asker: Asker::default(),
        messages: entries.into_iter().map(one).collect(),
        expect_head: None,
        create: true,
        epoch: None,
    }
}

fn everything(direction: Direction) -> (Values, Values) {
    let bounds = (vec![KeyValue::InfMin; 2], vec![KeyValue::InfMax; 2]);
    match direction {
        Direction::Forward => bounds,
        Direction::Backward => (bounds.1, bounds.0),
    }
}

fn newest() -> Selection {
    Selection::newest(Some(1)).unwrap()
}

/// All pages of a table; each must begin behind the one before.
async fn whole(world: &World, table: usize, direction: Direction) -> Vec<RangePage> {
    let (mut start, mut end) = everything(direction);
    start.truncate(2 - table);
    end.truncate(2 - table);
    let mut pages = Vec::new();
    loop {
        let bounds = (start.as_slice(), end.as_slice());
        let page = range(world, table, direction, bounds, (None, newest())).await;
        let page = page.unwrap();
        pages.push(page.clone());
        let Some(next) = page.next else {
            return pages;
        };
        match direction {
            Direction::Forward => assert!(next > start),
            Direction::Backward => assert!(next < start),
        }
        start = next;
    }
}

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

#[test]
fn a_page_over_many_deleted_timelines_ends_and_the_next_one_goes_on() {
    let dir = directory();
    runtime().block_on(async {
        let world = World::open(dir.path(), 2);
        let named = |at: usize| format!("t{at:05}");
        let many = SCANNED_ROWS_MAX + 1_000;
        for first in (0..many).step_by(500) {
            let timelines = first..first + 500;
            let made = timelines.clone().map(|at| {
                let entry = vec![("n".to_owned(), Value::Integer(1))];
                world.timelines.append(append(&named(at), vec![entry]))
            });
            futures_util::future::try_join_all(made).await.unwrap();
            let gone = timelines.filter(|at| *at != 700 && *at != 5_600);
            let gone = gone.map(|at| world.timelines.delete(named(at).as_str().into()));
            futures_util::future::try_join_all(gone).await.unwrap();
        }
        each_partition(&world.partitions, Partitions::rotate).await;
        for table in 0..TABLES.len() {
            for direction in DIRECTIONS {
                let pages = whole(&world, table, direction).await;
                assert_eq!(pages.len(), 2);
                let rows = pages.iter().flat_map(|page| &page.rows);
                let mut found: Vec<_> = rows.map(|row| row.key[0].clone()).collect();
                if direction == Direction::Backward {
                    found.reverse();
                }
                assert_eq!(found, [700, 5_600].map(|at| KeyValue::String(named(at))));
            }
        }
        world.partitions.close().await;
    });
}

#[test]
fn a_page_ends_at_its_bytes() {
    let dir = directory();
    runtime().block_on(async {
        let world = World::open(dir.path(), 1);
        let entry = || {
            vec![(
                "t".to_owned(),
                Value::String("x".repeat(SCANNED_BYTES_MAX / 16)),
            )]
        };
        let large = append("room", (0..20).map(|_| entry()).collect());
        world.timelines.append(large).await.unwrap();
        for direction in DIRECTIONS {
            let pages = whole(&world, 0, direction).await;
            let counts: Vec<_> = pages.iter().map(|page| page.rows.len()).collect();
            assert_eq!(counts, [16, 4]);
            let units: Vec<_> = pages.iter().map(|page| page.consumed.read).collect();
            assert!(units[0] > 1_024 && units[0] < 1_032 && units[1] < 300);
        }
        world.partitions.close().await;
    });
}

fn epoch(row: &FoundRow) -> &Value {
    let cell = row.cells.iter().find(|cell| cell.name == "__epoch");
    &cell.unwrap().value
}

#[test]
fn a_page_never_mixes_two_timelines_of_one_name() {
    let dir = directory();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let world = World::open(dir.path(), 2);
        let timelines = world.timelines.clone();
        let writer = tokio::spawn(async move {
            for round in 0..150 {
                let name = ["a", "b"][round % 2];
                let entry = |n| vec![("n".to_owned(), Value::Integer(n))];
                let messages = append(name, (0..3).map(entry).collect());
                timelines.append(messages.clone()).await.unwrap();
                timelines.append(messages).await.unwrap();
                let deleted = timelines.delete(name.into());
                let again = timelines.append(append(name, vec![entry(0); 5]));
                assert!(deleted.await.unwrap() && again.await.is_ok());
            }
        });
        let mut seen = BTreeSet::new();
        while !writer.is_finished() {
            for direction in DIRECTIONS {
                let (start, end) = everything(direction);
                let asked = (None, newest());
                let page = range(&world, 0, direction, (&start, &end), asked).await;
                let mut rows = page.unwrap().rows;
                if direction == Direction::Backward {
                    rows.reverse();
                }
                for of_one in rows.chunk_by(|a, b| a.key[0] == b.key[0]) {
                    for (row, sequence) in of_one.iter().zip(1..) {
                        assert_eq!(row.key[1], KeyValue::Integer(sequence));
                        assert_eq!(epoch(row), epoch(&of_one[0]));
                    }
                    // Both appends of three are whole, and so is that of five.
                    assert!([3, 5, 6, 8, 11].contains(&of_one.len()));
                    seen.insert(format!("{:?}", epoch(&of_one[0])));
                }
            }
        }
        writer.await.unwrap();
        assert!(seen.len() > 2);
        world.partitions.close().await;
    });
}

#[test]
fn nobody_writes_to_them_and_their_names_are_taken() {
    let dir = directory();
    runtime().block_on(async {
        let world = World::open(dir.path(), 1);
        let tables = &world.tables;
        let users = |name: &str| NewTable {
            name: name.to_owned(),
            primary_key: vec![KeyColumn {
                name: KEY[0].to_owned(),
                kind: KeyType::String,
                auto_increment: false,
            }],
            defined_columns: Vec::new(),
            options: TableOptions::default(),
            indexes: Vec::new(),
            reserved: Throughput::default(),
            stream: None,
            local_transactions: true,
        };
        let write = |key: &[KeyValue], change| RowWrite {
            key: named(key),
            change,
            condition: Condition::default(),
            content: ReturnContent::None,
        };
        let key = [KeyValue::String("a".to_owned()), KeyValue::Integer(1)];
        tables.create(users("own")).await.unwrap();
        let own = tables.describe("own").await.unwrap();
        for (table, name) in TABLES.into_iter().enumerate() {
            let described = tables.describe(name).await.unwrap();
            let key = &key[..2 - table];
            for change in [
                RowChange::Put(Vec::new()),
                RowChange::Update(Vec::new()),
                RowChange::Delete,
            ] {
                let refused = tables.write(&described, write(key, change)).await;
                assert_eq!(refused, Err(Error::ReadOnlyTable));
            }
            let put = |key| write(key, RowChange::Put(Vec::new()));
            let batch = vec![
                (Arc::clone(&described), put(key)),
                (Arc::clone(&own), put(&key[..1])),
            ];
            let answers = tables.write_batch(batch, false).await.unwrap();
            assert_eq!(answers[0], Err(Error::ReadOnlyTable));
            assert!(answers[1].is_ok());
            let created = tables.create(users(name)).await;
            assert_eq!(created, Err(Error::TableExists));
            assert_eq!(tables.delete(name).await, Err(Error::ReadOnlyTable));
            let changed = tables.update(name, TableUpdate::default()).await;
            assert_eq!(changed, Err(Error::ReadOnlyTable));
            let defined = tables.add_defined_columns(name, Vec::new()).await;
            assert_eq!(defined, Err(Error::ReadOnlyTable));
        }
        let got = tables.get(&own, named(&key[..1]), newest()).await;
        let got: Got<Vec<FoundRow>> = got.unwrap();
        assert_eq!(got.rows.len(), 1);
        assert_eq!(
            tables.list().await.unwrap(),
            ["own", "timeline_message", "timeline_meta"]
        );
        // They don't count.
        for more in 1..TABLES_MAX {
            tables.create(users(&format!("own{more}"))).await.unwrap();
        }
        let refused = tables.create(users("last")).await;
        assert_eq!(refused, Err(Error::TableQuota(TABLES_MAX)));
        world.partitions.close().await;
    });
}
