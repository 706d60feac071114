//! The relay with a toy target: exactly once, in order, whatever ends when.
//!
//! Owns: the toy: posts of some names to others, whose partitions count what arrives. Promises: an arrival that is
//! lost, doubled or out of order fails; so do the controls, which break a promise. Must not: know a real target.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::*;
use tideline_base::clock::Clock;
use tideline_base::ids::{HistoryId, TableId};
use tideline_base::ordered::Reader;
use tideline_model::{Direction, ValueRef};
use tideline_store::partition::{Holder, ImageOptions, LogOptions, Options as StoreOptions};
use tideline_table::{
    Action, Batch, BuiltInTables, Catalog, Change, DropContext, Entry, Key, Purpose, ReadError,
    Row, RowWriter, Source as _, StoreError, SubmitError, TableRules, Txn, View, put, record, scan,
    split_key,
};

const POSTS: TableId = TableId(900);
const ARRIVED: TableId = TableId(901);
const NUMBER: u32 = 77;
const EFFECT_BYTES: usize = 32 << 10;
const NAMES: [&str; 7] = ["ann", "bob", "cid", "dan", "eve", "fay", "gus"];

struct Keeps;

impl BuiltInTables for Keeps {
    fn is_over(&self, _: TableId, _: &[u8], _: &Entry, _: &DropContext<'_>) -> bool {
        false
    }

    fn is_looked_up(&self, _: TableId) -> bool {
        false
    }
}

/// Each post of a name arrives at all others.
struct Toy {
    partitions: Partitions,
    /// Counts how often a post arrives; else it is there or not.
    counts: bool,
    /// This name takes nothing.
    deaf: Arc<(AtomicBool, &'static str)>,
}

fn post_of(key: &[u8]) -> (String, u64) {
    let (_, columns) = split_key(key).unwrap();
    let mut reader = Reader::new(columns);
    (reader.string().unwrap().into_owned(), reader.u64().unwrap())
}

fn times(value: &[u8]) -> u64 {
    let row = Row::parse(value).unwrap();
    match row.column("times").unwrap().unwrap().value {
        ValueRef::Integer(times) => times.cast_unsigned(),
        _ => panic!("not a number"),
    }
}

impl Toy {
    fn spread(&self, from: &str, number: u64, out: &mut Vec<Derived>) {
        for to in NAMES.into_iter().filter(|to| *to != from) {
            let (from, counts, deaf) = (from.to_owned(), self.counts, Arc::clone(&self.deaf));
            let effect = move |txn: &mut Txn<'_>| -> Result<(), ReadError> {
                if deaf.1 == to && deaf.0.load(Ordering::SeqCst) {
                    return Err(ReadError::new("deaf"));
                }
                let key = |number| {
                    Key::new(ARRIVED, &[], 0)
                        .string(to)
                        .string(&from)
                        .number(number)
                };
                let before = txn.row(&key(number))?.map_or(0, |value| times(&value));
                if counts && number > 1 && txn.row(&key(number - 1))?.is_none() {
                    panic!("{from}'s post {number} arrives before the one before it");
                }
                let mut row = RowWriter::new(0);
                let times = if counts { before + 1 } else { 1 };
                row.put("times", ValueRef::Integer(times.cast_signed()));
                put(txn, key(number), row, 1);
                Ok(())
            };
            out.push(Derived {
                destination: self.partitions.place(to.as_bytes()),
                place: out.len() as u64,
                bytes: EFFECT_BYTES,
                effect: Box::new(effect),
            });
        }
    }
}

impl Target for Toy {
    fn kind(&self) -> Kind {
        Kind {
            number: NUMBER,
            name: "toy",
            tables: &[POSTS],
        }
    }

    fn derive(
        &self,
        _: PartitionId,
        batch: &Batch,
        _: &View,
        out: &mut Vec<Derived>,
    ) -> Result<(), CannotDerive> {
        for record in batch.changes() {
            let change = Change::decode(record).unwrap();
            for entry in batch.entries_in(change.indexes()).unwrap() {
                let (from, number) = post_of(entry.key);
                self.spread(&from, number, out);
            }
        }
        Ok(())
    }

    fn anew(
        &self,
        _: PartitionId,
        _: Position,
        view: &View,
        from: Option<&[u8]>,
    ) -> Result<Anew, ReadError> {
        let all = Key::new(POSTS, &[], 0);
        let start = all.clone().below_all();
        let start = from.map_or(start, |columns| Key::new(POSTS, columns, 0));
        let (mut derived, mut next) = (Vec::new(), None);
        for (count, row) in scan(view, &start, &all.above_all(), Direction::Forward).enumerate() {
            let (key, _) = row?;
            if count == 5 {
                next = Some(split_key(&key).unwrap().1.to_vec());
                break;
            }
            let (from, number) = post_of(&key);
            self.spread(&from, number, &mut derived);
        }
        Ok(Anew { derived, next })
    }
}

/// Partitions with posts in them, and what was posted.
struct Bed {
    dir: tempfile::TempDir,
    partitions: Partitions,
    posted: BTreeMap<&'static str, u64>,
    counts: bool,
    deaf: Arc<(AtomicBool, &'static str)>,
}

fn open(dir: &std::path::Path) -> Partitions {
    let options = StoreOptions {
        partitions: 3,
        holds_log: true,
        memtable_bytes: 64 << 10,
        log: LogOptions {
            segment_bytes: 64 << 10,
            retention_bytes: 64 << 10,
            tail_bytes: EFFECT_BYTES,
            ..LogOptions::default()
        },
        image: ImageOptions {
            map_bytes: 256 << 20,
            ..ImageOptions::default()
        },
        ..StoreOptions::default()
    };
    let rules = TableRules::new(Arc::new(Keeps), Catalog::default());
    let opened = Partitions::open(dir, options, Arc::new(rules), Arc::new(Clock::system()));
    let partitions = opened.unwrap();
    for partition in partitions.ids() {
        // There are no streams, nor search indexes.
        let tail = partitions.tail(partition);
        tail.hold(Holder::Streams, None);
        tail.hold(Holder::Search, None);
    }
    partitions
}

impl Bed {
    fn new(counts: bool) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        Bed {
            partitions: open(dir.path()),
            dir,
            posted: BTreeMap::new(),
            counts,
            deaf: Arc::new((AtomicBool::new(false), "cid")),
        }
    }

    async fn reopen(&mut self) {
        self.partitions.close().await;
        let (dir, empty) = (self.dir.path().to_owned(), tempfile::tempdir().unwrap());
        // The old handle holds the directory's lock.
        self.partitions = open(empty.path());
        self.partitions = open(&dir);
    }

    /// Writes, however busy the partition is.
    async fn submit(
        &self,
        at: PartitionId,
        write: impl Fn(&mut Txn<'_>) -> Result<(), ReadError> + Clone + Send + 'static,
    ) {
        loop {
            let done = self
                .partitions
                .submit(Purpose::Adds, at, 100, write.clone());
            match done.await {
                Err(SubmitError::Failed(StoreError::Busy)) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                done => return done.unwrap(),
            }
        }
    }

    async fn post(&mut self, from: &'static str, count: u64, bytes: usize) {
        let last = self.posted.entry(from).or_default();
        let first = *last + 1;
        *last += count;
        let at = self.partitions.place(from.as_bytes());
        let write = move |txn: &mut Txn<'_>| -> Result<(), ReadError> {
            for number in first..first + count {
                let mut row = RowWriter::new(0);
                row.put("text", ValueRef::String(&"x".repeat(bytes)));
                let key = Key::new(POSTS, &[], 0).string(from).number(number);
                let entry = put(txn, key, row, 1);
                record(txn, POSTS, Action::Put, entry, 1);
            }
            Ok(())
        };
        self.submit(at, write).await;
    }

    fn relay(&self, faults: Faults) -> (Relay, TaskTracker) {
        let toy = Toy {
            partitions: self.partitions.clone(),
            counts: self.counts,
            deaf: Arc::clone(&self.deaf),
        };
        let options = Options {
            backlog_bytes_max: 1 << 20,
            faults: Arc::new(faults),
        };
        let tasks = TaskTracker::new();
        let targets: Vec<Arc<dyn Target>> = vec![Arc::new(toy)];
        let relay = Relay::start(&self.partitions, targets, options, &Arc::default(), &tasks);
        tasks.close();
        (relay, tasks)
    }

    /// Waits until every post has arrived wherever it belongs, as far as the relay says.
    async fn caught_up(&self, relay: &Relay) -> bool {
        for source in self.partitions.ids() {
            let tail = self.partitions.tail(source).position();
            for destination in self.partitions.ids() {
                let reached = relay.reached(NUMBER, source, destination, tail);
                let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
                if !reached.expect("it gets there") {
                    return false;
                }
            }
        }
        true
    }

    /// What did not arrive exactly once.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for to in NAMES {
            let view = self
                .partitions
                .view(self.partitions.place(to.as_bytes()))
                .unwrap();
            for (from, last) in self.posted.iter().filter(|(from, _)| **from != to) {
                let all = Key::new(ARRIVED, &[], 0).string(to).string(from);
                let (start, end) = (all.clone().below_all(), all.above_all());
                let mut count = 0;
                for row in scan(&view, &start, &end, Direction::Forward) {
                    let times = times(&row.unwrap().1);
                    if times != 1 {
                        wrong.push(format!("{from} at {to}: {times} times"));
                    }
                    count += 1;
                }
                if count != *last {
                    wrong.push(format!("{from} at {to}: {count} of {last}"));
                }
            }
        }
        wrong
    }
}

fn ends_at(point: Point, countdown: u32, broken: Option<Broken>) -> Faults {
    Faults {
        point: Some(point),
        countdown: AtomicU32::new(countdown),
        broken,
        ..Faults::default()
    }
}

/// Ends relays at a point, again and again, while posts come in.
async fn ends_again_and_again(bed: &mut Bed, point: Point, broken: Option<Broken>) {
    for round in 1..=4 {
        let (relay, tasks) = bed.relay(ends_at(point, round, broken));
        for (turn, from) in NAMES.into_iter().enumerate() {
            bed.post(from, 1 + (turn as u64 + u64::from(round)) % 3 * 40, 50)
                .await;
        }
        // Some of the tasks end by themselves; the others go on for a while.
        tokio::time::sleep(Duration::from_millis(20)).await;
        relay.stop();
        tasks.wait().await;
        drop(relay);
        if round == 2 {
            tokio::task::block_in_place(|| bed.partitions.rotate(PartitionId(1)));
        }
        if round == 3 {
            bed.reopen().await;
        }
    }
    let faults = Faults {
        broken,
        ..Faults::default()
    };
    let (relay, tasks) = bed.relay(faults);
    assert!(bed.caught_up(&relay).await);
    relay.stop();
    tasks.wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_effect_is_written_once_wherever_the_relay_ends() {
    for point in Point::ALL {
        let mut bed = Bed::new(true);
        ends_again_and_again(&mut bed, point, None).await;
        assert_eq!(bed.wrong(), Vec::<String>::new(), "{point:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_cursor_that_moves_first_loses() {
    let mut bed = Bed::new(false);
    ends_again_and_again(&mut bed, Point::Submitted, Some(Broken::CursorFirst)).await;
    assert!(!bed.wrong().is_empty());
}

/// Two relays at once: one of them was deposed and does not know it yet.
async fn two_owners(broken: Option<Broken>) -> Vec<String> {
    let mut bed = Bed::new(true);
    let faults = || Faults {
        broken,
        ..Faults::default()
    };
    let owners = [bed.relay(faults()), bed.relay(faults())];
    for round in 0..20 {
        for from in NAMES {
            bed.post(from, 1 + round % 4 * 10, 50).await;
        }
    }
    for (relay, tasks) in owners {
        assert!(bed.caught_up(&relay).await);
        relay.stop();
        tasks.wait().await;
    }
    bed.wrong()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_owner_repeats_nothing() {
    assert_eq!(two_owners(None).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_without_the_check_a_deposed_owner_doubles() {
    assert!(!two_owners(Some(Broken::NoCheck)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_another_history_has_all_made_anew() {
    for point in [None, Some(Point::Anew)] {
        let mut bed = Bed::new(false);
        for from in NAMES {
            bed.post(from, 12, 50).await;
        }
        for source in bed.partitions.ids() {
            for destination in bed.partitions.ids() {
                let key = CursorKey::new(NUMBER, source, HistoryId::random());
                let write = move |txn: &mut Txn<'_>| -> Result<(), ReadError> {
                    key.store(
                        txn,
                        cursor::At {
                            position: Position(5),
                            place: 0,
                        },
                    );
                    Ok(())
                };
                let done = bed.partitions.submit(Purpose::Adds, destination, 10, write);
                done.await.unwrap();
            }
        }
        if let Some(point) = point {
            let (relay, tasks) = bed.relay(ends_at(point, 2, None));
            tokio::time::sleep(Duration::from_millis(30)).await;
            relay.stop();
            tasks.wait().await;
        }
        let (relay, tasks) = bed.relay(Faults::default());
        bed.post("ann", 3, 50).await;
        assert!(bed.caught_up(&relay).await);
        assert_eq!(bed.wrong(), Vec::<String>::new());
        relay.stop();
        tasks.wait().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_be_written_to_holds_up_only_itself_and_the_log_keeps_all() {
    let mut bed = Bed::new(true);
    bed.deaf.0.store(true, Ordering::SeqCst);
    let (relay, tasks) = bed.relay(Faults::default());
    let deaf = bed.partitions.place(b"cid");
    let sources = NAMES.map(|name| bed.partitions.place(name.as_bytes()));
    for _ in 0..30 {
        for from in NAMES {
            bed.post(from, 2, 40 << 10).await;
        }
    }
    for (from, source) in NAMES.into_iter().zip(sources) {
        assert!(!relay.has_room(source), "{from} is far ahead of the deaf");
        let tail = bed.partitions.tail(source);
        for destination in bed.partitions.ids().filter(|one| *one != deaf) {
            assert!(
                relay
                    .reached(NUMBER, source, destination, tail.position())
                    .await
            );
        }
        tokio::task::block_in_place(|| bed.partitions.rotate(source));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    bed.deaf.0.store(false, Ordering::SeqCst);
    assert!(bed.caught_up(&relay).await);
    assert_eq!(bed.wrong(), Vec::<String>::new());
    tokio::time::sleep(Duration::from_millis(20)).await;
    for source in sources {
        assert!(relay.has_room(source));
        assert_eq!(
            relay.inner.sources.load()[&source].backlog.of(0),
            0,
            "counted exactly"
        );
    }
    relay.stop();
    tasks.wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leads_to_nothing_is_no_backlog_however_slow_a_route_is() {
    let mut bed = Bed::new(true);
    bed.deaf.0.store(true, Ordering::SeqCst);
    let (relay, tasks) = bed.relay(Faults::default());
    let (source, deaf) = (bed.partitions.place(b"ann"), bed.partitions.place(b"cid"));
    bed.post("ann", 2, 10).await;
    // Four times the bound, as of the relay itself, which writes more than it reads.
    for turn in 0..64u64 {
        let write = move |txn: &mut Txn<'_>| -> Result<(), ReadError> {
            let mut row = RowWriter::new(0);
            row.put("text", ValueRef::String(&"x".repeat(64 << 10)));
            put(txn, Key::new(TableId(902), &[], 0).number(turn), row, 1);
            Ok(())
        };
        bed.submit(source, write).await;
    }
    let is_late = |name: &&str| *name != "ann" && bed.partitions.place(name.as_bytes()) == deaf;
    let late = NAMES.into_iter().filter(is_late).count() * 2 * EFFECT_BYTES;
    let left = || relay.inner.sources.load()[&source].backlog.of(0);
    let mut tries = 0;
    while left() != i64::try_from(late).unwrap() {
        assert!(tries < 500, "{} bytes are left, not {late}", left());
        tries += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(relay.has_room(source));
    bed.deaf.0.store(false, Ordering::SeqCst);
    assert!(bed.caught_up(&relay).await);
    assert_eq!(bed.wrong(), Vec::<String>::new());
    relay.stop();
    tasks.wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_with_nothing_to_write_follows_so_that_the_log_may_go() {
    let mut bed = Bed::new(true);
    let (relay, tasks) = bed.relay(Faults::default());
    // Filler that nothing is derived from.
    for turn in 0..200u64 {
        let write = move |txn: &mut Txn<'_>| -> Result<(), ReadError> {
            let mut row = RowWriter::new(0);
            row.put("text", ValueRef::String(&"x".repeat(64 << 10)));
            put(txn, Key::new(TableId(902), &[], 0).number(turn), row, 1);
            Ok(())
        };
        bed.submit(PartitionId(0), write).await;
    }
    assert!(bed.caught_up(&relay).await);
    tokio::task::block_in_place(|| bed.partitions.settle(PartitionId(0)));
    let tail = bed.partitions.tail(PartitionId(0));
    let mut tries = 0;
    while tail.batches(Position::ZERO, 1).is_ok() {
        assert!(tries < 200, "the log's begin is still held");
        tries += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    relay.stop();
    tasks.wait().await;
    drop((relay, tail));
    bed.post("ann", 2, 10).await;
    bed.reopen().await;
    let (relay, tasks) = bed.relay(Faults::default());
    assert!(bed.caught_up(&relay).await);
    assert_eq!(bed.wrong(), Vec::<String>::new());
    relay.stop();
    tasks.wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_effect_is_written_once_however_often_the_relay_begins_anew() {
    let mut bed = Bed::new(true);
    let (relay, tasks) = bed.relay(Faults::default());
    // A caller that waits meanwhile is not refused.
    let waiting = tokio::spawn({
        let (relay, of) = (relay.clone(), bed.partitions.place(b"ann"));
        async move { relay.reached(NUMBER, of, of, Position(30)).await }
    });
    for round in 0..30u64 {
        for (turn, from) in NAMES.into_iter().enumerate() {
            bed.post(from, 1 + (turn as u64 + round) % 3 * 20, 50).await;
        }
        bed.partitions.show_map();
        tokio::time::sleep(Duration::from_millis(round % 4 * 5)).await;
    }
    assert!(bed.caught_up(&relay).await);
    assert!(waiting.await.unwrap());
    assert_eq!(bed.wrong(), Vec::<String>::new());
    relay.stop();
    tasks.wait().await;
}
