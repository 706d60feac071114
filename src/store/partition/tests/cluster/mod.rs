//! Nodes that share a log, in one process: random writes, take-overs, stopped owners, lost answers, restarts from a
//! mirror that is torn or gone. What is in the end is held against a plain map that follows the log, and against what
//! writers were answered.

mod stream;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tideline_cluster::Place;

use super::ToyRules;
use super::random::Random;
use crate::partition::*;
use stream::{Drive, Stream, genesis};
use tideline_base::entry::EntryKind;

const HOME: PartitionId = PartitionId(0);
const NAMES: [&str; 3] = ["n1", "n2", "n3"];
/// So long something that comes is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a writer was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// With the number that it got.
    Done(u64),
    NotWritten,
    Unknown,
}

type History = Vec<(String, Heard)>;

/// A node.
struct Node {
    partitions: Partitions,
    /// Dropped last.
    drive: Drive,
}

struct Cluster {
    home: tempfile::TempDir,
    stream: Stream,
    nodes: Mutex<Vec<Option<Arc<Node>>>>,
    fault: Option<Fault>,
    seed: u64,
}

impl Cluster {
    fn new(seed: u64, fault: Option<Fault>) -> Cluster {
        let cluster = Cluster {
            home: tempfile::tempdir().expect("a folder"),
            stream: Stream::new(),
            nodes: Mutex::new(vec![None, None, None]),
            fault,
            seed,
        };
        (0..3).for_each(|index| cluster.open(index));
        cluster
    }

    fn folder(&self, index: usize) -> PathBuf {
        self.home.path().join(NAMES[index])
    }

    fn open(&self, index: usize) {
        let opened = self.try_open(index);
        opened.unwrap_or_else(|error| panic!("{}: {error}", NAMES[index]));
    }

    fn try_open(&self, index: usize) -> Result<(), OpenError> {
        let mut options = Options {
            // Several batches to a memtable, several memtables to a test.
            memtable_bytes: 16 << 10,
            fault: self.fault,
            // Here nobody is above the store: while a node owns, its log then keeps all.
            holds_log: self.seed.is_multiple_of(2),
            ..Options::default()
        };
        options.log.segment_bytes = 8 << 10;
        options.log.retention_age_ms = 1;
        options.log.retention_bytes = 1;
        let member = MemberOptions {
            first: self.stream.at(tideline_base::ids::Position(1)),
            forward_ms_max: 400,
            frame_bytes_max: 1 << 20,
        };
        let clock = Arc::new(Clock::system());
        let folder = self.folder(index);
        let opened = Partitions::open_member(&folder, options, Arc::new(ToyRules), clock, member)?;
        let (partitions, seat) = opened;
        assert_eq!(seat.genesis, genesis());
        let seed = self.seed ^ (index as u64 + 1);
        let host = Box::new(seat.host);
        let drive = Drive::begin(NAMES[index], seed, &self.stream, seat.place, host);
        // It looks often by itself.
        partitions.attach(|| {}, || false, || None);
        let node = Arc::new(Node { partitions, drive });
        self.nodes.lock().expect("whole")[index] = Some(node);
        Ok(())
    }

    fn node(&self, index: usize) -> Option<Arc<Node>> {
        self.nodes.lock().expect("whole")[index].clone()
    }

    /// Closes a node; as a kill would, or in order.
    fn close(&self, index: usize, is_kill: bool) {
        let node = self.nodes.lock().expect("whole")[index].take();
        let Some(mut node) = node else {
            return;
        };
        if is_kill && let Some(partition) = node.partitions.at(HOME) {
            // The last flush is left out.
            partition.stop("a test".to_owned());
        }
        runtime().block_on(node.partitions.close());
        // A writer may still wait for its answer.
        let until = Instant::now() + PATIENCE;
        while let Err(shared) = Arc::try_unwrap(node) {
            assert!(Instant::now() < until, "writers are answered");
            std::thread::sleep(Duration::from_millis(2));
            node = shared;
        }
    }

    /// Cuts some bytes off the end of a mirror.
    fn tear(&self, index: usize, bytes: u64) {
        let log = self.folder(index).join("partition-0000/log");
        let names = fs::read_dir(&log).expect("a log").map(|entry| {
            let name = entry.expect("a name").file_name();
            name.into_string().expect("plain")
        });
        let newest = names.filter(|name| name.ends_with(".log")).max();
        let newest = log.join(newest.expect("a segment"));
        let file = fs::OpenOptions::new()
            .write(true)
            .open(newest)
            .expect("it is there");
        let length = file.metadata().expect("a length").len();
        file.set_len(length.saturating_sub(bytes)).expect("cut");
    }

    /// Waits until a node owns.
    fn owns(&self, index: usize) {
        let node = self.node(index).expect("it runs");
        node.drive.take_over();
        let role = node.partitions.role().expect("a member");
        let until = Instant::now() + PATIENCE;
        while !matches!(*role.borrow(), Role::Owns { .. }) {
            assert!(
                Instant::now() < until,
                "{} owns: {:?}",
                NAMES[index],
                role.borrow()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// One write: a number from a counter, under an ID that nobody else has.
fn write(node: &Node, runtime: &tokio::runtime::Runtime, id: &str) -> Heard {
    let key = format!("id {id}").into_bytes();
    let closure = move |txn: &mut Txn<'_>| {
        let counted = txn.get(b"counter").expect("no damage");
        let number = counted.map_or(0, |value| read_number(&value)) + 1;
        txn.put(b"counter", number.to_be_bytes());
        txn.put(&key, number.to_be_bytes());
        txn.change(&key);
        Ok::<u64, ()>(number)
    };
    let submitted = node.partitions.submit(Purpose::Adds, HOME, 64, closure);
    match runtime.block_on(submitted) {
        Ok(number) => Heard::Done(number),
        Err(SubmitError::Failed(StoreError::OutcomeUnknown)) => Heard::Unknown,
        Err(_) => Heard::NotWritten,
    }
}

fn read_number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the log says, by a plain map.
fn model(stream: &Stream) -> Rows {
    let frames = stream.frames();
    let first = &frames[0].sealed;
    let mut place = Place::before_genesis(first.log, Position::ZERO, 0, 0);
    let mut rows = Rows::new();
    for whole in frames {
        let is_void = place.replay(&whole.sealed).expect("a frame of this log");
        let frame = crate::log::Frame::read(&whole.bytes, is_void).expect("a frame");
        for entry in frame.entries() {
            assert_eq!(entry.kind, EntryKind::Put);
            rows.insert(entry.key.to_vec(), entry.value.to_vec());
        }
    }
    rows
}

fn rows_of(partitions: &Partitions) -> Rows {
    let view = partitions.view(HOME).expect("a view");
    let rows = view.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    let rows = rows.map(|row| row.expect("no damage"));
    rows.map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Whether all nodes are at this position, and have these rows.
fn compare(cluster: &Cluster, last: Position, expected: &Rows) -> Result<(), String> {
    for (index, name) in NAMES.iter().enumerate() {
        let node = cluster.node(index).expect("it runs");
        let at = node.partitions.tail(HOME).position();
        if at != last {
            let role = node.partitions.role().expect("a member");
            let role = role.borrow().clone();
            return Err(format!("{name} is at {at} of {last}: {role:?}"));
        }
        if rows_of(&node.partitions) != *expected {
            return Err(format!("{name} has other rows than the log"));
        }
    }
    Ok(())
}

/// Waits until all nodes have all of the log, and says what is not as it must be.
fn judge(cluster: &Cluster, history: &History) -> Result<(), String> {
    cluster.stream.trouble.store(0, Ordering::Relaxed);
    let until = Instant::now() + PATIENCE;
    let expected = loop {
        // Late copies are still stored, and owners write frames of their own.
        cluster.stream.arrive();
        let last = cluster.stream.last();
        let expected = model(&cluster.stream);
        let compared = compare(cluster, last, &expected);
        match compared {
            Ok(()) => break expected,
            Err(what) if last == cluster.stream.last() && Instant::now() > until => {
                return Err(what);
            }
            // Rows of one position are what they are.
            Err(what) if last == cluster.stream.last() && what.contains("other rows") => {
                return Err(what);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let counter = expected
        .get(&b"counter"[..])
        .map_or(0, |value| read_number(value));
    let mut numbers: Vec<u64> = expected
        .iter()
        .filter(|(key, _)| key.starts_with(b"id "))
        .map(|(_, value)| read_number(value))
        .collect();
    numbers.sort_unstable();
    if !numbers.iter().copied().eq(1..=counter) {
        return Err(format!(
            "{} writes, and the counter is at {counter}",
            numbers.len()
        ));
    }
    for (id, heard) in history {
        let found = expected
            .get(format!("id {id}").as_bytes())
            .map(|value| read_number(value));
        let is_right = match heard {
            Heard::Done(number) => found == Some(*number),
            Heard::NotWritten => found.is_none(),
            Heard::Unknown => true,
        };
        if !is_right {
            return Err(format!("{id} heard {heard:?}, and the log has {found:?}"));
        }
    }
    Ok(())
}

/// Writes from three threads, each to any node, while `scene` goes on; then judges.
fn run(cluster: Cluster, scene: impl FnOnce(&Cluster)) -> (Result<(), String>, usize) {
    let (ends, all) = (AtomicBool::new(false), Mutex::new(History::new()));
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let (cluster, ends, all) = (&cluster, &ends, &all);
            scope.spawn(move || {
                let (runtime, mut history) = (runtime(), History::new());
                let mut random = Random(cluster.seed ^ writer << 32);
                while !ends.load(Ordering::SeqCst) {
                    let Some(node) = cluster.node(random.below(3) as usize) else {
                        continue;
                    };
                    let id = format!("{writer}-{}", history.len());
                    let heard = write(&node, &runtime, &id);
                    history.push((id, heard));
                    drop(node);
                    let pause_us = if heard == Heard::NotWritten {
                        300
                    } else {
                        random.below(600)
                    };
                    std::thread::sleep(Duration::from_micros(pause_us));
                }
                all.lock().expect("whole").append(&mut history);
            });
        }
        // A panic of the scene must end the writers, too.
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scene(&cluster)));
        ends.store(true, Ordering::SeqCst);
        if let Err(panic) = ran {
            std::panic::resume_unwind(panic);
        }
    });
    let history = all.into_inner().expect("whole");
    let done = history
        .iter()
        .filter(|(_, heard)| matches!(heard, Heard::Done(_)));
    let done = done.count();
    let judged = judge(&cluster, &history);
    (0..3).for_each(|index| cluster.close(index, false));
    (judged, done)
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Everything that may happen to nodes, in an order that follows from the seed.
fn troubles(cluster: &Cluster) {
    let mut random = Random(cluster.seed);
    cluster
        .stream
        .has_void
        .store(random.percent(50), Ordering::Relaxed);
    cluster.owns(0);
    let mut owner = 0;
    for _ in 0..6 {
        pause(random.below(120));
        cluster
            .stream
            .trouble
            .store(*random.one(&[0, 0, 3, 15]), Ordering::Relaxed);
        let other = (owner + 1 + random.below(2) as usize) % 3;
        match random.below(7) {
            // The owner hands over.
            0 => {
                let node = cluster.node(owner).expect("it runs");
                node.drive.resign(NAMES[other]);
                cluster.owns(other);
                owner = other;
            }
            // It is stopped for a while, and wakes as none.
            1 | 2 => {
                let stopped = cluster.node(owner).expect("it runs");
                stopped.drive.is_frozen.store(true, Ordering::SeqCst);
                pause(random.below(30));
                cluster.owns(other);
                pause(random.below(60));
                stopped.drive.is_frozen.store(false, Ordering::SeqCst);
                owner = other;
            }
            // It is killed; it comes back from its mirror, perhaps of another end.
            3 => {
                cluster.close(owner, true);
                cluster.tear(owner, random.below(1_500));
                cluster.owns(other);
                reopen(cluster, owner);
                owner = other;
            }
            // A follower restarts, in order.
            4 => {
                cluster.close(other, false);
                pause(random.below(40));
                cluster.open(other);
            }
            // A follower is killed.
            5 => {
                cluster.close(other, true);
                cluster.tear(other, random.below(1_500));
                reopen(cluster, other);
            }
            // A follower is behind for a while, and is to own then.
            _ => {
                let behind = cluster.node(other).expect("it runs");
                behind.drive.is_deaf.store(true, Ordering::SeqCst);
                pause(random.below(60));
                behind.drive.is_deaf.store(false, Ordering::SeqCst);
                let node = cluster.node(owner).expect("it runs");
                node.drive.resign(NAMES[other]);
                cluster.owns(other);
                owner = other;
            }
        }
    }
    pause(60);
}

/// A mirror that lost what was synced is refused; then the node begins with an empty directory.
fn reopen(cluster: &Cluster, index: usize) {
    match cluster.try_open(index) {
        Ok(()) => {}
        Err(OpenError::Damaged { text }) => {
            assert!(text.contains("mirror") || text.contains("log"), "{text}");
            fs::remove_dir_all(cluster.folder(index)).expect("removed");
            cluster.open(index);
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nothing_acknowledged_is_lost_doubled_or_different_between_nodes() {
    let seeds: u64 =
        std::env::var("TIDELINE_SEEDS").map_or(6, |seeds| seeds.parse().expect("a number"));
    for seed in 1..=seeds {
        let (judged, done) = run(Cluster::new(seed, None), troubles);
        judged.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert!(done > 20, "seed {seed}: {done} writes");
    }
}

/// Take-overs from an owner that is stopped with a batch on its way: every one of these has something to take back.
fn stops(cluster: &Cluster) {
    cluster.owns(0);
    for round in 0..8 {
        pause(20);
        cluster.stream.trouble.store(25, Ordering::Relaxed);
        pause(30);
        let (owner, other) = (round % 3, (round + 1) % 3);
        let stopped = cluster.node(owner).expect("it runs");
        stopped.drive.is_frozen.store(true, Ordering::SeqCst);
        cluster.owns(other);
        cluster.stream.trouble.store(0, Ordering::Relaxed);
        stopped.drive.is_frozen.store(false, Ordering::SeqCst);
    }
    pause(40);
}

#[test]
fn what_a_deposed_owner_had_on_its_way_is_taken_back() {
    let (judged, done) = run(Cluster::new(77, None), stops);
    judged.expect("all holds");
    assert!(done > 20, "{done} writes");
}

/// Its memtable is full, and nothing on its disk has room: it goes on refusing for as long as nobody else can own the
/// log.
#[test]
fn an_owner_that_can_not_flush_stops_so_that_another_node_can_own() {
    let cluster = Cluster::new(2, None);
    cluster.owns(0);
    let part = cluster.folder(0).join("partition-0000/place.part");
    fs::create_dir(&part).expect("in the way of the file");
    let (node, runtime) = (cluster.node(0).expect("it runs"), runtime());
    let role = node.partitions.role().expect("a member");
    let until = Instant::now() + PATIENCE;
    let mut number = 0;
    while !matches!(&*role.borrow(), Role::Stopped(why) if why.contains("can't be flushed")) {
        assert!(Instant::now() < until, "{:?}", role.borrow());
        number += 1;
        write(&node, &runtime, &format!("w-{number}"));
    }
    drop((role, node));
    (0..3).for_each(|index| cluster.close(index, false));
}

/// Whether this is found within some seeds.
fn is_found(fault: Fault) -> bool {
    (1..=6).any(|seed| run(Cluster::new(seed, Some(fault)), stops).0.is_err())
}

#[test]
fn control_with_answers_before_the_log_it_is_noticed() {
    assert!(is_found(Fault::MemberAnswersEarly));
}

#[test]
fn control_with_rows_of_lost_batches_it_is_noticed() {
    assert!(is_found(Fault::MemberKeepsRows));
}

#[test]
fn a_member_s_directory_is_not_served_alone_nor_another_one_as_a_member_s() {
    let cluster = Cluster::new(1, None);
    (0..3).for_each(|index| cluster.close(index, false));
    let open = |folder: &std::path::Path| {
        let (rules, clock) = (Arc::new(ToyRules), Arc::new(Clock::system()));
        let opened = Partitions::open(folder, Options::default(), rules, clock);
        opened.err().map(|error| error.to_string())
    };
    let refused = open(&cluster.folder(0)).expect("refused");
    assert!(refused.contains("belongs to a cluster"), "{refused}");
    let alone = cluster.home.path().join("alone");
    assert_eq!(open(&alone), None);
    fs::remove_dir_all(cluster.folder(1)).expect("removed");
    fs::rename(&alone, cluster.folder(1)).expect("moved");
    let refused = cluster.try_open(1).expect_err("refused").to_string();
    assert!(refused.contains("another history"), "{refused}");
}

/// What holds the log runs where the log is owned. Elsewhere it would never let go.
#[test]
fn a_mirror_lets_go_while_its_node_follows() {
    let cluster = Cluster::new(2, None);
    let runtime = runtime();
    let first = |index: usize| {
        let node = cluster.node(index).expect("it runs");
        node.partitions.tail(HOME).first()
    };
    let mut number = 0;
    let mut write_until = |owner: usize, is_there: &dyn Fn() -> bool| {
        let until = Instant::now() + PATIENCE;
        while !is_there() {
            assert!(
                Instant::now() < until,
                "{:?}",
                [first(0), first(1), first(2)]
            );
            number += 1;
            write(
                &cluster.node(owner).expect("it runs"),
                &runtime,
                &format!("{number}"),
            );
        }
    };
    cluster.owns(0);
    write_until(0, &|| first(1) > Position(1) && first(2) > Position(1));
    assert_eq!(first(0), Position(1), "an owner waits for those that hold");
    cluster.owns(1);
    write_until(1, &|| first(0) > Position(1));
    (0..3).for_each(|index| cluster.close(index, false));
}

/// The log takes nothing: what was begun has an unknown outcome after a while, and what was not is known not to be.
#[test]
fn a_log_that_stands_still_is_answered_for_in_time() {
    let cluster = Cluster::new(9, None);
    cluster.owns(0);
    let node = cluster.node(0).expect("it runs");
    let runtime = runtime();
    assert_eq!(write(&node, &runtime, "first"), Heard::Done(1));
    cluster.stream.trouble.store(100, Ordering::Relaxed);
    // On a busy machine all of them may come in time for one batch: then others come behind it.
    let (mut heard, until) = (Vec::new(), Instant::now() + PATIENCE);
    while !(heard.contains(&Heard::Unknown) && heard.contains(&Heard::NotWritten)) {
        assert!(Instant::now() < until, "{heard:?}");
        let first = heard.len() as u64;
        let more = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..6)
                .map(|number| {
                    let (node, runtime) = (&node, self::runtime());
                    scope.spawn(move || {
                        pause(5 * number);
                        write(node, &runtime, &format!("late {}", first + number))
                    })
                })
                .collect();
            let answered = |writer: std::thread::ScopedJoinHandle<'_, Heard>| writer.join();
            let heard = writers.into_iter().map(answered);
            heard.collect::<Result<Vec<_>, _>>().expect("answered")
        });
        heard.extend(more);
    }
    cluster.stream.trouble.store(0, Ordering::Relaxed);
    drop(node);
    let history = heard.into_iter().enumerate();
    let history = history
        .map(|(number, heard)| (format!("late {number}"), heard))
        .collect();
    judge(&cluster, &history).expect("all holds");
    // It goes on, once the batch that was on its way has been sent again.
    let node = cluster.node(0).expect("it runs");
    let until = Instant::now() + PATIENCE;
    for number in 0.. {
        match write(&node, &runtime, &format!("again {number}")) {
            Heard::Done(_) => break,
            heard => assert!(Instant::now() < until, "{heard:?}"),
        }
        pause(20);
    }
    drop(node);
    (0..3).for_each(|index| cluster.close(index, false));
}
