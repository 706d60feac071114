//! Transactions and plain writes of many clients at once are as if one came after the other.
//!
//! Owns: clients that append their names to lists, in transactions and without, give up half-way or are cut off; and
//! the check of the history that comes of it. Promises: a lock that keeps nobody away is found. Must not: be in a build
//! that is not a test.
//!
//! Each partition key has two rows with the same list. A client that appends reads both and writes both. So the lists
//! must always be equal (nothing is seen half), every list that anybody reads must be the beginning of the last one (no
//! append is lost and none comes between), and the last one must have exactly the names whose append was answered, and
//! those whose answer was cut off, at most once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::RngExt as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::bed;
use super::commands::named;
use crate::{Change, Partitions, RangePage, Table, Tables, split_key};
use tideline_base::clock::Clock;
use tideline_base::metrics::Metrics;
use tideline_model::{
    Comparator, Condition, Direction, Error, Existence, FoundRow, GetRange, KeyValue, Predicate,
    PutCell, Relation, ReturnContent, RowChange, RowWrite, Selection, TableOptions, TransactionId,
    Value,
};
use tideline_store::partition::{Options, ReadError};

const PARTITION_KEYS: i64 = 3;
const CLIENTS: u64 = 6;
const TURNS: usize = 60;

/// What the clients saw.
#[derive(Default)]
struct History {
    /// Partition key, and the list that was read there.
    read: Vec<(i64, String)>,
    /// Partition key and name of what was answered.
    done: Vec<(i64, String)>,
    /// The same of what was given up on the way to its answer.
    open: Vec<(i64, String)>,
}

fn open(dir: &Path) -> (Partitions, Tables) {
    let options = Options {
        partitions: 2,
        metrics: Arc::new(Metrics::default()),
        ..Options::default()
    };
    bed::open(dir, options, &Arc::new(Clock::system()))
}

async fn make_table(tables: &Tables) {
    let lists = bed::integers("lists", &["k1", "k2"], TableOptions::default());
    tables.create(lists).await.unwrap();
}

fn rows_of(first: i64) -> GetRange {
    let bound = |second| named(vec![KeyValue::Integer(first), second]);
    GetRange {
        direction: Direction::Forward,
        start: bound(KeyValue::InfMin),
        end: bound(KeyValue::InfMax),
        limit: None,
        selection: Selection::newest(Some(1)).unwrap(),
    }
}

/// The list that both rows hold.
fn list(page: &RangePage<Vec<FoundRow>>) -> String {
    let text = |row: &FoundRow| match &row.cells[0].value {
        Value::String(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let lists: Vec<String> = page.rows.iter().map(text).collect();
    match &lists[..] {
        [] => String::new(),
        [one, other] => {
            assert_eq!(one, other, "seen half");
            one.clone()
        }
        _ => panic!("a row is missing: {lists:?}"),
    }
}

fn puts(first: i64, list: &str, expected: Option<&str>) -> [RowWrite; 2] {
    [0, 1].map(|second| RowWrite {
        key: named(vec![KeyValue::Integer(first), KeyValue::Integer(second)]),
        change: RowChange::Put(vec![PutCell {
            name: "list".to_owned(),
            version: None,
            value: Value::String(list.to_owned()),
        }]),
        condition: match expected {
            None => Condition::default(),
            Some("") => Condition {
                existence: Existence::NotExist,
                columns: None,
            },
            Some(list) => Condition {
                existence: Existence::Exist,
                columns: Some(Predicate::Single(Relation {
                    column: "list".to_owned(),
                    comparator: Comparator::Equal,
                    value: Value::String(list.to_owned()),
                    pass_if_missing: false,
                    latest_version_only: true,
                    transfer: None,
                })),
            },
        },
        content: ReturnContent::None,
    })
}

struct Client {
    tables: Tables,
    table: Arc<Table>,
    number: u64,
    turns: Arc<AtomicU64>,
    history: History,
    rng: TestRng,
}

impl Client {
    async fn run(mut self) -> History {
        for _ in 0..TURNS {
            let first = self.rng.random_range(0..PARTITION_KEYS);
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}.{turn};", self.number);
            let done = match self.rng.random_range(0..3) {
                0 => self.plain(first, &name).await,
                _ => self.transaction(first, &name).await,
            };
            match done {
                Ok(true) => self.history.done.push((first, name)),
                Ok(false) | Err(Error::ConditionFailed | Error::RowConflict) => {}
                Err(Error::TransactionNotFound | Error::ShuttingDown) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        self.history
    }

    /// Reads without a transaction, then writes if nothing has changed.
    async fn plain(&mut self, first: i64, name: &str) -> Result<bool, Error> {
        let page = self.tables.get_range(&self.table, rows_of(first)).await?;
        let list = list(&page);
        self.history.read.push((first, list.clone()));
        let puts = puts(first, &(list.clone() + name), Some(&list));
        let rows = puts.map(|put| (Arc::clone(&self.table), put)).to_vec();
        let answers = self.tables.write_batch(rows, true).await?;
        for answer in answers {
            answer?;
        }
        Ok(true)
    }

    async fn transaction(&mut self, first: i64, name: &str) -> Result<bool, Error> {
        let key = vec![("k1".to_owned(), KeyValue::Integer(first))];
        let id = self.tables.start_transaction(&self.table, key).await?;
        let read = rows_of(first);
        let page = self.tables.get_range_in(id, &self.table, read).await?;
        let list = list(&page);
        self.history.read.push((first, list.clone()));
        let longer = list.clone() + name;
        for put in puts(first, &longer, Some(&list)) {
            if self.rng.random_range(0..4) == 0 {
                tokio::task::yield_now().await;
            }
            self.tables.write_in(id, &self.table, put).await?;
        }
        let own = self.tables.get_range_in(id, &self.table, rows_of(first));
        assert_eq!(self::list(&own.await?), longer, "own writes are seen");
        match self.rng.random_range(0..8) {
            0 => {
                self.tables.abort_transaction(id).await?;
                Ok(false)
            }
            1 => self.cut_off(id, first, name).await,
            _ => self.tables.commit_transaction(id).await.map(|()| true),
        }
    }

    /// Goes away while the commit is on its way.
    async fn cut_off(&mut self, id: TransactionId, first: i64, name: &str) -> Result<bool, Error> {
        let tables = self.tables.clone();
        let commit = tokio::spawn(async move { tables.commit_transaction(id).await });
        tokio::task::yield_now().await;
        commit.abort();
        self.history.open.push((first, name.to_owned()));
        // If it was cut off before it was queued, the transaction is still open.
        let _ = self.tables.abort_transaction(id).await;
        Ok(false)
    }
}

/// A round of clients on a fresh directory, with a restart in the middle if it has one.
async fn round(seed: u8, is_planted: bool) {
    let dir = tempfile::tempdir().unwrap();
    let turns = Arc::new(AtomicU64::new(0));
    let mut all = History::default();
    for life in 0..2u8 {
        let (partitions, tables) = open(dir.path());
        if life == 0 {
            make_table(&tables).await;
        }
        let planted = &tables.transactions().is_planted;
        planted.store(is_planted, Ordering::Relaxed);
        let table = tables.describe("lists").await.unwrap();
        let client = |number| {
            let seed = [seed, life, u8::try_from(number).unwrap()].repeat(11);
            let client = Client {
                tables: tables.clone(),
                table: Arc::clone(&table),
                number,
                turns: Arc::clone(&turns),
                history: History::default(),
                rng: TestRng::from_seed(RngAlgorithm::ChaCha, &seed[..32]),
            };
            tokio::spawn(client.run())
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for client in clients {
            let history = client.await.unwrap();
            all.read.extend(history.read);
            all.done.extend(history.done);
            all.open.extend(history.open);
        }
        // It is open when the server ends, so it has never been.
        let key = vec![("k1".to_owned(), KeyValue::Integer(0))];
        let id = tables.start_transaction(&table, key).await.unwrap();
        for put in puts(0, "lost;", None) {
            tables.write_in(id, &table, put).await.unwrap();
        }
        check(&tables, &table, &all).await;
        check_changes(&partitions, &table).unwrap();
        partitions.close().await;
    }
}

async fn check(tables: &Tables, table: &Arc<Table>, history: &History) {
    for first in 0..PARTITION_KEYS {
        let page = tables.get_range(table, rows_of(first)).await.unwrap();
        let last = list(&page);
        for (at, read) in &history.read {
            assert!(
                *at != first || last.starts_with(read),
                "{read} was read and is no beginning of {last}"
            );
        }
        let names: Vec<&str> = last.split_terminator(';').collect();
        let once: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), once.len(), "a name came twice");
        let of = |names: &[(i64, String)]| -> BTreeSet<String> {
            let own = names.iter().filter(|(at, _)| *at == first);
            own.map(|(_, name)| name.trim_end_matches(';').to_owned())
                .collect()
        };
        let (done, open) = (of(&history.done), of(&history.open));
        for name in &done {
            assert!(once.contains(&name[..]), "{name} was answered and is lost");
        }
        for name in once {
            assert!(
                done.contains(name) || open.contains(name),
                "{name} was not answered and is there"
            );
        }
    }
}

/// In each batch of the log the change records name just the rows that were written.
fn check_changes(partitions: &Partitions, table: &Table) -> Result<(), ReadError> {
    for id in partitions.ids() {
        let tail = partitions.tail(id);
        let mut position = tideline_base::ids::Position::ZERO;
        loop {
            let batches = tail.batches(position, 1 << 20)?;
            let Some(last) = batches.last() else { break };
            position = last.position;
            for batch in batches {
                let is_ours = |key: &[u8]| split_key(key).is_some_and(|(id, _)| id == table.id);
                let keys: Vec<Vec<u8>> = batch.entries().map(|entry| entry.key.to_vec()).collect();
                let rows = (0..keys.len()).filter(|at| is_ours(&keys[*at]));
                let changes = batch
                    .changes()
                    .map(|change| Change::decode(change).unwrap());
                let named = changes
                    .filter(|change| change.table == table.id)
                    .flat_map(|change| change.indexes());
                assert_eq!(
                    rows.collect::<BTreeSet<usize>>(),
                    named.collect::<BTreeSet<usize>>()
                );
            }
        }
    }
    Ok(())
}

fn play(seed: u8, is_planted: bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(round(seed, is_planted));
}

#[test]
fn all_is_as_if_one_came_after_the_other() {
    (0..4).for_each(|seed| play(seed, false));
}

#[test]
fn a_lock_that_keeps_nobody_away_is_found() {
    let is_found = |seed| std::panic::catch_unwind(|| play(seed, true)).is_err();
    assert!(
        (0..4).any(is_found),
        "plain writes beside transactions went unnoticed"
    );
}
