//! Streams one situation at a time: their life, their beginning, changes of one batch, and the log's end.
//!
//! Owns: what a random run does not meet by itself. Must not: be in a build that is not a test.

use std::path::Path;
use std::sync::Arc;

use super::super::{Partitions, ShardIterator, ShardPage, Table, Tables};
use super::bed;
use super::commands::START_MS;
use super::stream::{Changed, Page};
use tideline_base::clock::Clock;
use tideline_model::{
    CellChange, ChangeKind, Condition, Error, FoundCell, KeyValue, PrimaryKey, PutCell, RowChange,
    RowWrite, StreamSpec, TableOptions, TableUpdate, Value,
};
use tideline_store::partition::{LogOptions, Options};

pub(super) const NAME: &str = "followed";

pub(super) struct Bed {
    pub(super) tables: Tables,
    pub(super) partitions: Partitions,
    clock: Arc<Clock>,
}

impl Bed {
    pub(super) async fn open(dir: &Path, log: LogOptions) -> Bed {
        let clock = Arc::new(Clock::fixed(START_MS));
        let options = Options {
            log,
            ..Options::default()
        };
        let (partitions, tables) = bed::open(dir, options, &clock);
        let bed = Bed {
            tables,
            partitions,
            clock,
        };
        bed.make(NAME).await;
        bed
    }

    /// Makes a table without a stream.
    pub(super) async fn make(&self, name: &str) -> Arc<Table> {
        let new = bed::integers(name, &["k"], TableOptions::default());
        self.tables.create(new).await.unwrap();
        self.tables.describe(name).await.unwrap()
    }

    /// Asks for a stream, or for none; gives its ID.
    pub(super) async fn specify(&self, spec: Option<StreamSpec>) -> String {
        let update = TableUpdate {
            stream: Some(spec),
            ..TableUpdate::default()
        };
        let table = self.tables.update(NAME, update).await.unwrap();
        let stream = table.stream.as_ref();
        stream.map(|stream| stream.id.clone()).unwrap_or_default()
    }

    pub(super) async fn begin(&self, id: &str, since_us: Option<u64>) -> ShardIterator {
        let table = self.tables.describe(NAME).await.unwrap();
        let shard = self.tables.shards(&table)[0].id.to_string();
        let begin = self.tables.shard_iterator(id, &shard, since_us).await;
        begin.unwrap()
    }

    async fn read(&self, iterator: &ShardIterator) -> Result<Vec<Changed>, Error> {
        let page = self.tables.shard_changes(iterator.clone(), 100).await;
        page.map(|page: ShardPage<Page>| page.changes.0)
    }

    async fn write(&self, key: i64, change: RowChange) {
        let table = self.tables.describe(NAME).await.unwrap();
        self.tables.write(&table, write(key, change)).await.unwrap();
    }
}

pub(super) fn hours(hours: i64) -> Option<StreamSpec> {
    StreamSpec::new(hours, vec!["n".to_owned()]).ok()
}

pub(super) fn write(key: i64, change: RowChange) -> RowWrite {
    let key: PrimaryKey = vec![("k".to_owned(), KeyValue::Integer(key))];
    RowWrite::new(key, change, Condition::default()).unwrap()
}

pub(super) fn put(number: i64) -> RowChange {
    RowChange::Put(vec![PutCell {
        name: "n".to_owned(),
        version: None,
        value: Value::Integer(number),
    }])
}

fn numbers(changes: Vec<Changed>) -> Vec<Option<Value>> {
    let value = |change: Changed| change.cells.into_iter().next().and_then(|cell| cell.2);
    changes.into_iter().map(value).collect()
}

fn integers(numbers: &[i64]) -> Vec<Option<Value>> {
    let integer = |number: &i64| Some(Value::Integer(*number));
    numbers.iter().map(integer).collect()
}

#[tokio::test]
async fn a_stream_begins_where_it_is_enabled_and_each_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path(), LogOptions::default()).await;
    assert_eq!(bed.tables.streams(None).await.unwrap(), []);
    bed.write(1, put(1)).await;
    let first = bed.specify(hours(24)).await;
    let begin = bed.begin(&first, None).await;
    assert_eq!(bed.read(&begin).await, Ok(Vec::new()));
    bed.write(1, put(2)).await;
    let changes = bed.read(&begin).await.unwrap();
    let original = FoundCell {
        name: "n".to_owned(),
        version: START_MS.cast_signed(),
        value: Value::Integer(1),
    };
    assert_eq!(changes[0].original, Some(vec![original]));
    assert_eq!(numbers(changes), integers(&[2]));
    // Asked for in another way it stays the same stream.
    assert_eq!(bed.specify(hours(48)).await, first);
    assert_eq!(
        bed.tables
            .stream(&first)
            .await
            .unwrap()
            .stream
            .as_ref()
            .unwrap()
            .hours,
        48
    );
    bed.specify(None).await;
    bed.write(1, put(3)).await;
    assert_eq!(bed.tables.stream(&first).await, Err(Error::StreamNotFound));
    assert_eq!(bed.read(&begin).await, Err(Error::StreamTrimmed));
    let second = bed.specify(hours(24)).await;
    assert_ne!(second, first);
    bed.write(1, put(4)).await;
    let begin = bed.begin(&second, None).await;
    assert_eq!(numbers(bed.read(&begin).await.unwrap()), integers(&[4]));
    // Nor is the stream of a table that is gone there.
    bed.tables.delete(NAME).await.unwrap();
    assert_eq!(bed.tables.stream(&second).await, Err(Error::StreamNotFound));
    assert_eq!(bed.read(&begin).await, Err(Error::StreamTrimmed));
    bed.partitions.close().await;
}

#[tokio::test]
async fn a_reader_begins_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path(), LogOptions::default()).await;
    let id = bed.specify(hours(24)).await;
    for second in 1..=5 {
        bed.clock.set(START_MS + second * 1_000);
        bed.write(1, put(second.cast_signed())).await;
    }
    for (since_ms, expected) in [(0, 1..=5), (2_000, 2..=5), (2_001, 3..=5), (5_000, 5..=5)] {
        let begin = bed.begin(&id, Some((START_MS + since_ms) * 1_000)).await;
        let expected: Vec<i64> = expected.collect();
        assert_eq!(
            numbers(bed.read(&begin).await.unwrap()),
            integers(&expected)
        );
    }
    let begin = bed.begin(&id, Some(u64::MAX / 2)).await;
    assert_eq!(bed.read(&begin).await, Ok(Vec::new()));
    // The clock goes back: the log's time does not, and stays unique.
    bed.clock.set(START_MS);
    bed.write(1, put(6)).await;
    let changes = bed.read(&begin).await.unwrap();
    assert_eq!(changes[0].at, ((START_MS + 5_000) * 1_000 + 1, 0));
    bed.partitions.close().await;
}

#[tokio::test]
async fn changes_of_one_row_in_one_batch_are_told_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path(), LogOptions::default()).await;
    let id = bed.specify(hours(24)).await;
    let begin = bed.begin(&id, None).await;
    let clear = CellChange::DeleteAll {
        name: "n".to_owned(),
    };
    let increment = |by| CellChange::Increment {
        name: "n".to_owned(),
        by,
    };
    let update = |change| RowChange::update(vec![change]).unwrap();
    let changes = [
        put(1),
        put(2),
        update(increment(5)),
        update(clear),
        RowChange::Delete,
        put(3),
        update(increment(1)),
    ];
    let table = bed.tables.describe(NAME).await.unwrap();
    let rows = changes.map(|change| (Arc::clone(&table), write(7, change)));
    let done = bed.tables.write_batch(rows.into(), true).await.unwrap();
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    let told = bed.read(&begin).await.unwrap();
    let kinds: Vec<ChangeKind> = told.iter().map(|change| change.kind).collect();
    use ChangeKind::{Delete, Put, Update};
    assert_eq!(kinds, [Put, Put, Update, Update, Delete, Put, Update]);
    let indexes: Vec<u32> = told.iter().map(|change| change.at.1).collect();
    assert_eq!(indexes, [0, 1, 2, 3, 4, 5, 6]);
    assert!(told.iter().all(|change| change.at.0 == told[0].at.0));
    assert_eq!(told[3].cells, [("n".to_owned(), None, None)]);
    let originals = told.iter().map(|change| {
        let cells = change.original.as_ref()?;
        Some(cells.first().map(|cell| cell.value.clone()))
    });
    let integer = |number| Some(Some(Value::Integer(number)));
    let expected = [
        None,
        integer(1),
        integer(2),
        integer(7),
        Some(None),
        None,
        integer(3),
    ];
    assert_eq!(originals.collect::<Vec<_>>(), expected);
    let mut expected = integers(&[1, 2, 7, 0, 0, 3, 4]);
    (expected[3], expected[4]) = (None, None);
    assert_eq!(numbers(told), expected);
    bed.partitions.close().await;
}

#[tokio::test]
async fn the_log_is_kept_for_streams_up_to_their_share_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let log = LogOptions {
        segment_bytes: 16 << 10,
        retention_bytes: 1,
        ..LogOptions::default()
    };
    let bed = Bed::open(dir.path(), log).await;
    let home = bed.partitions.ids().next().unwrap();
    let tail = bed.partitions.tail(home);
    let wide = |number| {
        RowChange::Put(vec![PutCell {
            name: "n".to_owned(),
            version: None,
            value: Value::String(format!("{number:01000}")),
        }])
    };
    let settle = |bed: &Bed| {
        let partitions = bed.partitions.clone();
        tokio::task::spawn_blocking(move || partitions.settle(home))
    };
    let goes_past = async |position| {
        while tail.first() <= position {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    // Without streams nothing is held, also of what comes after the look.
    let held = bed.tables.hold_logs(u64::MAX, 1).await.unwrap();
    assert_eq!((held[0].bytes, held[0].is_cut), (0, false));
    let looked_at = tail.position();
    for number in 0..50 {
        bed.write(number, wide(number)).await;
    }
    settle(&bed).await.unwrap();
    let goes = goes_past(looked_at);
    let went = tokio::time::timeout(std::time::Duration::from_secs(60), goes).await;
    went.expect("the log went on without another look");
    // A stream has its changes from its begin on, also before the next look.
    let id = bed.specify(hours(1)).await;
    let begin = bed.begin(&id, None).await;
    for number in 0..50 {
        bed.write(number, wide(number)).await;
    }
    settle(&bed).await.unwrap();
    assert_eq!(bed.read(&begin).await.unwrap().len(), 50);
    let held = bed.tables.hold_logs(u64::MAX, 1).await.unwrap();
    assert_eq!(held[0].above.next(), begin.place.position);
    assert!(held[0].bytes > 50_000 && !held[0].is_cut);
    settle(&bed).await.unwrap();
    assert_eq!(bed.read(&begin).await.unwrap().len(), 50);
    // The hour has passed, but for what is written now.
    bed.clock.set(START_MS + 3_600_001);
    bed.write(50, wide(50)).await;
    let held = bed.tables.hold_logs(u64::MAX, 1).await.unwrap();
    assert_eq!(
        (held[0].above.next(), held[0].is_cut),
        (tail.position(), false)
    );
    // A longer life can't bring back what has gone, and a small share ends the rest.
    for number in 51..100 {
        bed.write(number, wide(number)).await;
    }
    let held = bed.tables.hold_logs(20 << 10, 1).await.unwrap();
    assert!(held[0].is_cut && held[0].bytes <= 20 << 10, "{held:?}");
    settle(&bed).await.unwrap();
    goes_past(begin.place.position).await;
    assert_eq!(bed.read(&begin).await, Err(Error::StreamTrimmed));
    // Segments go one by one.
    let begins_with_the_log = async {
        loop {
            let oldest = bed.begin(&id, None).await;
            let read = bed.read(&oldest).await;
            if oldest.place.position == tail.first() {
                break read;
            }
        }
    };
    let read = tokio::time::timeout(std::time::Duration::from_secs(60), begins_with_the_log).await;
    assert!(!read.expect("a log that rests").unwrap().is_empty());
    bed.partitions.close().await;
}
