//! Splits and merges against a plain map: no row is lost, doubled or misplaced, positions and times rise, and whenever
//! the process ends, the next start finds all parents or all children.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::{OF_EACH, OF_NOBODY, ToyRules, UNFINISHED, UNKNOWN};
use crate::partition::*;

#[derive(Clone, Debug)]
enum Step {
    /// Keys and values.
    Write(Vec<(Vec<u8>, u8)>),
    Delete(Vec<u8>),
    Rotate(usize),
    Reopen,
    Equal(u16, bool),
    Split(usize, bool),
    Merge(usize, bool),
    /// A split or a merge while writers go on: what they write in each round.
    Served(bool, usize, Served, Vec<Vec<(Vec<u8>, u8)>>),
}

#[derive(Clone, Copy, Debug)]
struct Served {
    keeps_logs: bool,
    /// How often the cut comes too late.
    late: usize,
}

impl Served {
    fn in_time(keeps_logs: bool) -> Served {
        Served {
            keeps_logs,
            late: 0,
        }
    }
}

fn served() -> impl Strategy<Value = Served> {
    (any::<bool>(), 0usize..3).prop_map(|(keeps_logs, late)| Served { keeps_logs, late })
}

fn rows() -> impl Strategy<Value = Vec<(Vec<u8>, u8)>> {
    prop::collection::vec((key(), any::<u8>()), 0..6)
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => prop::collection::vec(0u8..4, 1..4),
        1 => (0u8..3).prop_map(|last| vec![OF_EACH, last]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec((key(), any::<u8>()), 1..6).prop_map(Step::Write),
        2 => key().prop_map(Step::Delete),
        1 => (0usize..5).prop_map(Step::Rotate),
        1 => Just(Step::Reopen),
        1 => (1u16..5, any::<bool>()).prop_map(|(count, keeps)| Step::Equal(count, keeps)),
        2 => (0usize..5, any::<bool>()).prop_map(|(at, keeps)| Step::Split(at, keeps)),
        2 => (0usize..5, any::<bool>()).prop_map(|(at, keeps)| Step::Merge(at, keeps)),
        3 => (any::<bool>(), 0usize..5, served(), prop::collection::vec(rows(), 0..5))
            .prop_map(|(splits, at, served, rounds)| Step::Served(splits, at, served, rounds)),
    ]
}

fn open(dir: &Path, partitions: u16, clock: &Arc<Clock>) -> Partitions {
    open_with(dir, partitions, clock, None)
}

fn open_with(dir: &Path, partitions: u16, clock: &Arc<Clock>, fault: Option<Fault>) -> Partitions {
    let options = Options {
        partitions,
        fault,
        memtable_bytes: 1 << 10,
        ..Options::default()
    };
    Partitions::open(dir, options, Arc::new(ToyRules), Arc::clone(clock)).expect("opens")
}

/// A row and the position of its last write.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Position)>;

/// With memtables as small as these a slow flusher is soon behind: it is asked again for a while.
fn read_to_its_end(tail: &Tail) {
    let mut at = Position(tail.first().0 - 1);
    while at < tail.position() {
        let batches = tail.batches(at, 1 << 20).expect("kept");
        at = batches.last().expect("more").position;
    }
}

fn patiently<T>(mut submit: impl FnMut() -> Result<T, SubmitError<()>>) -> T {
    for _ in 0..10_000 {
        match submit() {
            Err(SubmitError::Failed(StoreError::Busy)) => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            done => return done.expect("done"),
        }
    }
    panic!("busy for ever");
}

struct Bed {
    runtime: tokio::runtime::Runtime,
    home: tempfile::TempDir,
    clock: Arc<Clock>,
    partitions: Option<Partitions>,
    model: Model,
    /// Rows of which each partition has its own.
    of_each: BTreeMap<(PartitionId, Vec<u8>), Vec<u8>>,
}

impl Bed {
    fn new(roots: u16) -> Bed {
        let home = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(Clock::fixed(1_000_000));
        let partitions = open(home.path(), roots, &clock);
        Bed {
            runtime: tokio::runtime::Runtime::new().expect("a runtime"),
            home,
            clock,
            partitions: Some(partitions),
            model: Model::new(),
            of_each: BTreeMap::new(),
        }
    }

    fn partitions(&self) -> &Partitions {
        self.partitions.as_ref().expect("open")
    }

    fn close(&mut self) {
        let partitions = self.partitions.take().expect("open");
        self.runtime.block_on(partitions.close());
    }

    fn reopen(&mut self) {
        self.close();
        self.partitions = Some(open(self.home.path(), 0, &self.clock));
    }

    fn put(&mut self, at: PartitionId, key: &[u8], value: Option<Vec<u8>>) -> Position {
        patiently(|| {
            let (key, value) = (key.to_vec(), value.clone());
            let written =
                self.partitions()
                    .submit(Purpose::Adds, at, 0, move |txn: &mut Txn<'_>| {
                        match value {
                            Some(value) => drop(txn.put(&key[..], value)),
                            None => drop(txn.delete(&key[..])),
                        }
                        Ok(txn.position())
                    });
            self.runtime.block_on(written)
        })
    }

    fn write(&mut self, key: &[u8], value: u8) {
        let mut value = vec![value; 2 + 2 * usize::from(value)];
        if key[0] == OF_EACH {
            for id in self.partitions().ids() {
                value.push(u8::try_from(id.0).unwrap_or(u8::MAX));
                self.put(id, key, Some(value.clone()));
                self.of_each.insert((id, key.to_vec()), value.clone());
            }
            return;
        }
        let position = self.put(self.partitions().place(key), key, Some(value.clone()));
        let before = self.model.insert(key.to_vec(), (value, position));
        assert!(before.is_none_or(|(_, before)| before < position));
    }

    /// Changes a part of a row.
    fn change(&mut self, key: &[u8], column: u8) {
        if key[0] == OF_EACH {
            return;
        }
        let (at, delta) = (self.partitions().place(key), [column, column / 2]);
        let entry = |value: &[u8]| Entry::put(value.to_vec().into());
        let before = self.model.get(key);
        let before = before.map_or_else(Entry::tombstone, |(value, _)| entry(value));
        let after = ToyRules.compose(key, &before, &entry(&delta));
        let position = patiently(|| {
            let own = key.to_vec();
            let written =
                self.partitions()
                    .submit(Purpose::Adds, at, 0, move |txn: &mut Txn<'_>| {
                        txn.delta(own, delta);
                        Ok(txn.position())
                    });
            self.runtime.block_on(written)
        });
        self.model
            .insert(key.to_vec(), (after.value.to_vec(), position));
    }

    /// Puts, changes and deletions.
    fn go_on(&mut self, rows: &[(Vec<u8>, u8)]) {
        for (key, value) in rows {
            match value % 4 {
                3 => self.delete(key),
                2 => self.change(key, *value),
                _ => self.write(key, *value),
            }
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if key[0] != OF_EACH && self.model.remove(key).is_some() {
            self.put(self.partitions().place(key), key, None);
        }
    }

    fn reshape(&mut self, reshape: Option<Reshape>, keeps_logs: bool) {
        let Some(reshape) = reshape else { return };
        let before = self.partitions().map();
        let last = |id| {
            self.partitions()
                .at(id)
                .expect("live")
                .last_us()
                .expect("read")
        };
        let last_us: BTreeMap<_, _> = before.ids().map(|id| (id, last(id))).collect();
        // A clock that is set back meanwhile makes no time fall.
        self.clock.set(self.clock.now_ms() - 10);
        self.partitions()
            .reshape(&reshape, keeps_logs)
            .expect("reshaped");
        self.reopen();
        let after = self.partitions().map();
        for id in after.ids().filter(|id| !before.is_live(*id)) {
            let share = after.share(id).expect("there");
            let parents: Vec<PartitionId> = before
                .ids()
                .filter(|old| {
                    let old = before.share(*old).expect("there");
                    old.first <= share.last && old.last >= share.first
                })
                .collect();
            let tail = self.partitions().tail(id);
            assert_eq!(
                (tail.first(), tail.position()),
                (share.begins, share.begins)
            );
            let batches = tail.batches(Position(share.begins.0 - 1), 1).expect("read");
            let time_us = batches[0].commit_us();
            assert!(parents.iter().all(|parent| last_us[parent] < time_us));
        }
        self.take_over(&before, &after);
        for share in after.shares().filter(|share| share.ends.is_some()) {
            let folder = self
                .home
                .path()
                .join(format!("partition-{:04}", share.id.0));
            assert_eq!(folder.join("log").exists(), share.keeps_log);
            assert!(!folder.join("image").exists());
        }
    }

    /// What those that begin have of rows of which each has its own.
    fn take_over(&mut self, before: &Map, after: &Map) {
        for id in after.ids().filter(|id| !before.is_live(*id)) {
            let share = after.share(id).expect("there");
            let overlaps = |old: &PartitionId| {
                let old = before.share(*old).expect("there");
                old.first <= share.last && old.last >= share.first
            };
            let parents: Vec<PartitionId> = before.ids().filter(overlaps).collect();
            let keys: Vec<Vec<u8>> = self.of_each.keys().map(|(_, key)| key.clone()).collect();
            for key in keys {
                let of = parents.iter().map(|parent| (*parent, key.clone()));
                let united = of.filter_map(|of| self.of_each.get(&of)).max().cloned();
                if let Some(united) = united {
                    self.of_each.insert((id, key), united);
                }
            }
        }
        self.of_each.retain(|(id, _), _| after.is_live(*id));
    }

    /// The same while the partitions are served: rows are written beside, in rounds.
    fn reshape_served(
        &mut self,
        reshape: Option<Reshape>,
        Served { keeps_logs, late }: Served,
        rounds: &[Vec<(Vec<u8>, u8)>],
    ) {
        let Some(reshape) = reshape else { return };
        let before = self.partitions().map();
        let never = CancellationToken::new();
        let mut making = Making::begin(self.partitions(), &reshape, never).expect("begun");
        let other = Making::begin(self.partitions(), &reshape, CancellationToken::new());
        assert!(
            other
                .err()
                .expect("refused")
                .to_string()
                .contains("under way")
        );
        for (number, rows) in rounds.iter().enumerate() {
            self.go_on(rows);
            // The last ones are left to the end.
            if number + 1 < rounds.len() {
                making.catch_up().expect("caught up");
            }
        }
        let parents = making.parents();
        for turn in 0..late {
            let paused = self.partitions().pause(&parents);
            self.runtime.block_on(paused.seal()).expect("sealed");
            assert!(!making.cut(paused, keeps_logs, || false).expect("made"));
            assert_eq!(self.partitions().map(), before);
            if let Some(rows) = rounds.get(turn) {
                self.go_on(rows);
                making.catch_up().expect("caught up");
                self.go_on(&rows[rows.len() / 2..]);
            }
        }
        let tails: Vec<Tail> = parents
            .iter()
            .map(|id| self.partitions().tail(*id))
            .collect();
        let paused = self.partitions().pause(&parents);
        let submit = |purpose| {
            let nothing = |_: &mut Txn<'_>| Ok::<_, ()>(());
            let at = parents[0];
            self.runtime
                .block_on(self.partitions().submit(purpose, at, 0, nothing))
        };
        let busy = Err(SubmitError::Failed(StoreError::Busy));
        assert_eq!(submit(Purpose::Adds), busy);
        patiently(|| submit(Purpose::Derives));
        self.runtime.block_on(paused.seal()).expect("sealed");
        assert_eq!(submit(Purpose::Derives), busy);
        assert!(making.cut(paused, keeps_logs, || true).expect("cut"));
        drop(making);
        assert_eq!(submit(Purpose::Derives), busy);
        let after = self.partitions().map();
        self.take_over(&before, &after);
        self.partitions().retire(&parents);
        tails.iter().for_each(read_to_its_end);
        if keeps_logs {
            self.partitions().clear(&parents).expect("cleared");
            for parent in &parents {
                // Now from the disk.
                read_to_its_end(&self.partitions().ended_log(*parent).expect("kept"));
            }
        }
    }

    /// How many batches of the first partition have waited.
    fn slowed(&self) -> u64 {
        let text = self.partitions().metrics().render();
        let name = "tideline_commit_slowed_batches_total{partition=\"0\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect("shown").parse().expect("a number")
    }

    fn check(&self) {
        let (partitions, map) = (self.partitions(), self.partitions().map());
        for id in map.ids() {
            let view = partitions.view(id).expect("a view");
            let rows = view.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
            let rows = rows.map(|row| row.expect("no damage"));
            let found: Vec<_> = rows
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect();
            let own = |key: &Vec<u8>| map.place(key) == id;
            let own = self.model.iter().filter(|(key, _)| own(key));
            let own = own.map(|(key, (value, position))| {
                assert!(*position <= view.position());
                (key.clone(), value.clone())
            });
            let of_each = self.of_each.iter().filter(|((of, _), _)| *of == id);
            let of_each = of_each.map(|((_, key), value)| (key.clone(), value.clone()));
            assert_eq!(found, own.chain(of_each).collect::<Vec<_>>());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_row_is_lost_doubled_or_misplaced(
        roots in 1u16..4,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut bed = Bed::new(roots);
        for step in steps {
            let map = bed.partitions().map();
            let ids: Vec<PartitionId> = map.ids().collect();
            match step {
                Step::Write(rows) => rows.iter().for_each(|(key, value)| bed.write(key, *value)),
                Step::Delete(key) => bed.delete(&key),
                Step::Rotate(at) => bed.partitions().rotate(ids[at % ids.len()]),
                Step::Reopen => bed.reopen(),
                Step::Equal(count, keeps) => bed.reshape(Some(Reshape::equal(count)), keeps),
                Step::Split(at, keeps) => bed.reshape(Reshape::split(&map, ids[at % ids.len()]), keeps),
                Step::Merge(at, keeps) => {
                    let (one, other) = (ids[at % ids.len()], ids[(at + 1) % ids.len()]);
                    bed.reshape(Reshape::merge(&map, one, other), keeps);
                }
                Step::Served(splits, at, served, rounds) => {
                    let (one, other) = (ids[at % ids.len()], ids[(at + 1) % ids.len()]);
                    let reshape = match splits {
                        true => Reshape::split(&map, one),
                        false => Reshape::merge(&map, one, other),
                    };
                    bed.reshape_served(reshape, served, &rounds);
                }
            }
            bed.check();
        }
        bed.close();
    }
}

fn with_rows(fault: Option<Fault>) -> (Bed, Reshape) {
    let mut bed = Bed::new(1);
    for number in 0..100u8 {
        bed.write(&[number % 4, number], number);
    }
    bed.close();
    bed.partitions = Some(open_with(bed.home.path(), 0, &bed.clock, fault));
    (bed, Reshape::equal(2))
}

#[test]
fn what_is_given_up_leaves_no_trace_and_what_was_let_in_goes_on() {
    let (mut bed, reshape) = with_rows(None);
    let stop = CancellationToken::new();
    let mut making = Making::begin(bed.partitions(), &reshape, stop.clone()).expect("begun");
    bed.write(&[1, 2], 3);
    making.catch_up().expect("caught up");
    let paused = bed.partitions().pause(&making.parents());
    bed.runtime.block_on(paused.seal()).expect("sealed");
    assert!(!making.cut(paused, true, || false).expect("made"));
    drop(making);
    assert_eq!(bed.partitions().ids().len(), 1);
    assert!(!bed.home.path().join("partition-0001").exists());
    bed.write(&[1, 3], 4);
    bed.check();
    // A stop ends it early.
    let mut making = Making::begin(bed.partitions(), &reshape, stop.clone()).expect("begun");
    stop.cancel();
    bed.write(&[1, 4], 5);
    assert!(making.catch_up().is_err());
    drop(making);
    assert!(!bed.home.path().join("directory.toml.new").exists());
    bed.reshape_served(Some(reshape), Served::in_time(false), &[]);
    bed.check();
    bed.reopen();
    bed.check();
    bed.close();
}

/// What is left of one change is cleared away while the next one is made.
#[test]
fn no_change_of_the_set_is_lost() {
    let mut bed = Bed::new(1);
    let partitions = bed.partitions().clone();
    let over = CancellationToken::new();
    std::thread::scope(|scope| {
        // A failure ends the threads, too: the scope waits for them.
        let _over = over.clone().drop_guard();
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.is_cancelled() {
                    partitions.clear(&[]).expect("cleared");
                }
            });
        }
        for _ in 0..30 {
            let map = partitions.map();
            let ids: Vec<_> = map.ids().collect();
            let reshape = match ids[..] {
                [one] => Reshape::split(&map, one),
                [one, other, ..] => Reshape::merge(&map, one, other),
                [] => unreachable!("there is always one"),
            };
            // The logs stay, as the bed reads them after the change.
            bed.reshape_served(reshape, Served::in_time(true), &[]);
            let is_served = |id: PartitionId| partitions.view(id).is_ok();
            assert!(
                partitions.ids().all(is_served),
                "{:?} are not all served",
                partitions.map()
            );
        }
    });
    drop(partitions);
    bed.close();
}

#[test]
fn writers_wait_as_long_as_they_are_slowed_down() {
    let (mut bed, reshape) = with_rows(None);
    let making = Making::begin(bed.partitions(), &reshape, CancellationToken::new());
    let mut making = Some(making.expect("begun"));
    for (steps, slowed) in [(0, 0), (2, 1), (3, 2), (0, 2), (2, 3)] {
        making.as_ref().expect("there").slow_down(steps);
        bed.write(&[1, 2], 3);
        assert_eq!(bed.slowed(), slowed);
    }
    making.take();
    bed.write(&[1, 2], 3);
    assert_eq!(bed.slowed(), 3);
    bed.close();
}

#[test]
#[should_panic(expected = "left == right")]
fn a_control_forgets_what_was_written_meanwhile() {
    let (mut bed, reshape) = with_rows(Some(Fault::ReshapeForgets));
    let rounds = [vec![(vec![1, 2], 8)], vec![(vec![2, 2], 12)]];
    bed.reshape_served(Some(reshape), Served::in_time(false), &rounds);
    bed.check();
}

/// As a snapshot of the file system would: a copy of each file is noticed by `served`.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("listed");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false if from.ends_with("served") => {}
            false => drop(fs::copy(from, to).expect("copied")),
        }
    }
}

/// Folders in the order in which a reshape from 0 to 1 and 2 makes those of its children.
const PIECES: [&str; 6] = [
    "partition-0001",
    "partition-0001/log",
    "partition-0001/image",
    "partition-0002",
    "partition-0002/log",
    "partition-0002/image",
];

#[test]
fn a_start_after_any_end_finds_what_was_before_or_what_comes_after() {
    let mut bed = Bed::new(1);
    for number in 0..200u8 {
        bed.write(&[number % 16, number], number);
    }
    let before = tempfile::tempdir().expect("a folder");
    copy(bed.home.path(), before.path());
    bed.partitions()
        .reshape(&Reshape::equal(2), true)
        .expect("reshaped");
    bed.close();
    let manifest = |folder: &Path| folder.join("directory.toml");
    let whole = tempfile::tempdir().expect("a folder");
    copy(bed.home.path(), whole.path());
    for made in 0..=PIECES.len() {
        // It ended while the children were made.
        let folder = tempfile::tempdir().expect("a folder");
        copy(whole.path(), folder.path());
        fs::rename(
            manifest(folder.path()),
            folder.path().join("directory.toml.new"),
        )
        .expect("renamed");
        fs::copy(manifest(before.path()), manifest(folder.path())).expect("copied");
        for piece in &PIECES[made..] {
            let _ = fs::remove_dir_all(folder.path().join(piece));
        }
        assert!(
            Inspection::open(folder.path(), Arc::new(ToyRules))
                .expect("opens")
                .surplus()
                .expect("listed")
                .is_empty()
        );
        bed.home = folder;
        bed.partitions = Some(open(bed.home.path(), 0, &bed.clock));
        assert_eq!(bed.partitions().ids().len(), 1);
        assert!(!bed.home.path().join("partition-0001").exists());
        assert!(!bed.home.path().join("directory.toml.new").exists());
        bed.check();
        // The numbers were never used.
        bed.reshape(Some(Reshape::equal(2)), false);
        assert_eq!(
            bed.partitions().ids().collect::<Vec<_>>(),
            [1, 2].map(PartitionId)
        );
        bed.check();
        bed.close();
    }
    for gone in [&[][..], &["image"], &["reserve"], &["image", "reserve"]] {
        // It ended before all was cleared away.
        let folder = tempfile::tempdir().expect("a folder");
        copy(whole.path(), folder.path());
        for name in gone {
            let _ = fs::remove_dir_all(folder.path().join("partition-0000").join(name));
        }
        // So has its log not given up what it kept for more batches.
        let kept = ["room", "00000000000000000001.spare", "unfinished.zeros"];
        let kept = kept.map(|name| folder.path().join("partition-0000/log").join(name));
        for file in &kept {
            fs::write(file, [0; 9]).expect("written");
        }
        bed.home = folder;
        bed.partitions = Some(open(bed.home.path(), 0, &bed.clock));
        bed.check();
        assert!(!kept.iter().any(|file| file.exists()));
        assert!(bed.home.path().join("partition-0000/log").exists());
        assert!(!bed.home.path().join("partition-0000/image").exists());
        bed.close();
    }
    // The log of one that has ended is part of the directory.
    fs::remove_dir_all(bed.home.path().join("partition-0000")).expect("removed");
    let opened = Partitions::open(
        bed.home.path(),
        Options::default(),
        Arc::new(ToyRules),
        Arc::clone(&bed.clock),
    );
    let error = opened.err().expect("refused").to_string();
    assert!(error.contains("partition-0000/log is missing"), "{error}");
}

#[test]
fn what_has_no_place_ends_the_change_before_anything_counts() {
    let mut bed = Bed::new(2);
    bed.write(&[1, 2], 3);
    let [low, high] = [0, 1].map(PartitionId);
    let own = bed.partitions().place(&[7]);
    let other = if own == low { high } else { low };
    for (at, key, told) in [
        (other, [7], "is not where it belongs"),
        (low, [UNFINISHED], "work is left to do"),
        (high, [UNKNOWN], "nobody says which partition"),
    ] {
        bed.put(at, &key, Some(vec![1]));
        let refused = bed.partitions().reshape(&Reshape::equal(1), false);
        let error = refused.expect_err("refused").to_string();
        assert!(error.contains(told), "{error}");
        bed.put(at, &key, None);
        bed.reopen();
        assert_eq!(bed.partitions().ids().len(), 2);
        bed.check();
    }
    bed.put(high, &[OF_NOBODY], Some(vec![1]));
    bed.reshape(Some(Reshape::equal(1)), false);
    bed.check();
    bed.close();
}
