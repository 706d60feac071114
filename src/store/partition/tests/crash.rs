//! The partition on a disk that loses power, is killed, or fails: what was acknowledged is there afterwards, once, in
//! order.
//!
//! Owns: the proof that "answered" means "durable" for the whole commit path, writer and recovery together, on the
//! log's recording backend; the image lies in a real folder and is as it was after the last flush before the crash.
//! Promises: each control, a promise broken on purpose, fails the very same check. Must not: repeat what
//! `log/tests/crashes.rs` shows of the log alone, or assert on time.

use crate::partition::commit::{job, recovery};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::{Builder, Thread};

use tempfile::TempDir;

use super::ToyRules;
use crate::log::tests::{Crash, DiskFault, RecordingStorage};
use crate::partition::*;

const COUNTER: &[u8] = b"counter";
const SUBMITTERS: u8 = 4;

/// In memory where the system has such a place: the disk that matters here is the recorded one.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn open(
    disk: &RecordingStorage,
    image: &Path,
    fault: Option<Fault>,
) -> Result<Arc<Shared>, OpenError> {
    let options = Options {
        log: LogOptions {
            frame_bytes_max: LogOptions::default().frame_bytes_max,
            segment_bytes: 3_000,
            retention_age_ms: u64::MAX / 2,
            retention_bytes: 9_000,
            tail_bytes: 2_000,
            spare_segments: 2,
            room_bytes: 0,
        },
        fault,
        ..Options::default()
    };
    recovery::start(
        PartitionId(0),
        |covered| Log::open(Arc::new(disk.clone()), options.log, covered).map(|(log, _)| log),
        (image, None),
        &options,
        (Arc::new(ToyRules), Arc::new(Clock::fixed(1_000))),
    )
}

/// Ends a partition without its last flush: the image stays as it is.
fn abandon(partition: Arc<Shared>) {
    partition.stop("a test".to_owned());
    partition.queue.close();
    partition.join();
}

/// A row: its number, the writer that put it, and how many that writer had put by then.
type Row = (u64, u8, u32);

fn key_of(number: u64) -> Vec<u8> {
    [b"row", &number.to_be_bytes()[..]].concat()
}

/// Some fit a sector, some span several: torn writes have something to tear.
fn value_of(submitter: u8, nth: u32) -> Vec<u8> {
    let mut value = vec![submitter];
    value.extend(nth.to_be_bytes());
    value.resize(
        5 + (nth as usize * 131 + usize::from(submitter) * 37) % 900,
        submitter,
    );
    value
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// Counts one up and puts the row of that number; gives the number.
fn count_up(&mut (submitter, nth): &mut (u8, u32), txn: &mut Txn<'_>) -> Result<u64, ()> {
    let counter = txn.get(COUNTER).map_err(|_| ())?;
    let number = counter.map_or(0, |value| number_of(&value)) + 1;
    txn.put(COUNTER, number.to_be_bytes());
    txn.put(key_of(number), value_of(submitter, nth));
    Ok(number)
}

/// Remembers how far the disk was when the answer came: the waker is called by the thread that answers.
struct Witness {
    disk: RecordingStorage,
    points: OnceLock<usize>,
    thread: Thread,
}

impl Wake for Witness {
    fn wake(self: Arc<Self>) {
        let _ = self.points.set(self.disk.points());
        self.thread.unpark();
    }
}

/// A closure on its way.
struct Submitted {
    answer: Waiting,
    witness: Arc<Witness>,
}

type Answer = Result<u64, SubmitError<()>>;

enum Waiting {
    For(job::Answer<(u8, u32), u64, ()>),
    NoMore(Answer),
}

impl Submitted {
    fn new(partition: &Shared, disk: &RecordingStorage, submitter: u8, nth: u32) -> Submitted {
        let (bundle, answer) = job::bundle(vec![(submitter, nth)], count_up);
        let refused = partition.enqueue(Purpose::Adds, 100, bundle).err();
        let answer = match refused {
            None => Waiting::For(answer),
            Some(StoreError::Unavailable) => {
                Waiting::NoMore(Err(SubmitError::Failed(StoreError::Unavailable)))
            }
            Some(other) => panic!("{other:?} with an empty queue"),
        };
        let mut submitted = Submitted {
            answer,
            witness: Arc::new(Witness {
                disk: disk.clone(),
                points: OnceLock::new(),
                thread: std::thread::current(),
            }),
        };
        // So that the waker is there before the answer, if the answer is not there yet.
        let _ = submitted.poll();
        submitted
    }

    fn poll(&mut self) -> Poll<Answer> {
        if let Waiting::For(answer) = &mut self.answer {
            let waker = Waker::from(Arc::clone(&self.witness));
            let told = ready!(Pin::new(answer).poll(&mut Context::from_waker(&waker)));
            let mut answers = Vec::new();
            told.expect("everybody is answered").answers(&mut answers);
            let answer = answers.pop().expect("one closure, one answer");
            self.answer = Waiting::NoMore(answer.map(|(_, number)| number));
        }
        let _ = self.witness.points.set(self.witness.disk.points());
        match &self.answer {
            Waiting::NoMore(answer) => Poll::Ready(answer.clone()),
            Waiting::For(_) => Poll::Pending,
        }
    }

    /// The answer, and how many changes the disk had seen when it was given.
    fn wait(mut self) -> (Answer, usize) {
        loop {
            if let Poll::Ready(answer) = self.poll() {
                let points = self.witness.points.get();
                return (answer, *points.expect("set before an answer is taken"));
            }
            std::thread::park();
        }
    }
}

/// What one life of the partition promised.
struct History {
    /// Acknowledged rows, each with the disk's changes at that moment.
    acked: Vec<(usize, Row)>,
    /// The image from which change of the disk on.
    images: Vec<(usize, PathBuf)>,
    _home: TempDir,
}

impl History {
    fn image_at(&self, points: usize) -> &Path {
        let after = self.images.partition_point(|(from, _)| *from <= points);
        &self.images[after - 1].1
    }
}

/// Several submitters at once, `stages` times so many closures each, with a flush and its compaction between the
/// stages.
fn live(disk: &RecordingStorage, stages: u32, closures: u32, fault: Option<Fault>) -> History {
    let home = folder();
    let (running, empty) = (home.path().join("running"), home.path().join("empty"));
    let partition = open(disk, &running, fault).expect("a fresh disk");
    let mut history = History {
        acked: Vec::new(),
        images: vec![(0, empty)],
        _home: home,
    };
    for stage in 0..stages {
        let first = stage * closures;
        history
            .acked
            .extend(submit_all(&partition, disk, first..first + closures));
        if stage + 1 < stages {
            // Nothing is written now but what flush and retention do; the image that comes out fits all of that.
            let from = disk.points() + 1;
            partition.queue.rotate();
            while !partition.is_settled() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let copy = history._home.path().join(format!("image-{stage}"));
            std::fs::create_dir(&copy).expect("a copy's folder");
            std::fs::copy(running.join("data.mdb"), copy.join("data.mdb")).expect("a copy");
            history.images.push((from, copy));
        }
    }
    abandon(partition);
    history
}

fn submit_all(
    partition: &Arc<Shared>,
    disk: &RecordingStorage,
    closures: std::ops::Range<u32>,
) -> Vec<(usize, Row)> {
    let submit = |submitter: u8| {
        let (partition, disk, closures) = (Arc::clone(partition), disk.clone(), closures.clone());
        let run = move || {
            let mut acked = Vec::new();
            let mut nth = closures.start;
            while nth < closures.end {
                // One at a time, or some at once.
                let many = (1 + nth % 3).min(closures.end - nth);
                let sent = |nth| (nth, Submitted::new(&partition, &disk, submitter, nth));
                let underway: Vec<_> = (nth..nth + many).map(sent).collect();
                for (nth, submitted) in underway {
                    let (answer, points) = submitted.wait();
                    acked.push((points, (answer.expect("a healthy disk"), submitter, nth)));
                }
                nth += many;
            }
            acked
        };
        Builder::new().spawn(run).expect("a thread")
    };
    let threads: Vec<_> = (0..SUBMITTERS).map(submit).collect();
    let ended = |thread: std::thread::JoinHandle<_>| thread.join().expect("no submitter fails");
    threads.into_iter().flat_map(ended).collect()
}

/// The rows that a partition shows, if they are consistent: numbered from 1 without holes, as many as the counter says,
/// each submitter's in the order of their calls, and the log telling the same.
fn rows_of(partition: &Shared) -> Result<Vec<Row>, String> {
    let view = partition.view().map_err(|error| error.0)?;
    let counter = view.get(COUNTER).map_err(|error| error.0)?;
    let counter = counter.map_or(0, |value| number_of(&value));
    let mut rows: Vec<Row> = Vec::new();
    let mut next_of = [0; 2 + SUBMITTERS as usize];
    let range = (&b"row"[..], &b"rox"[..]);
    for row in view.range(
        Bound::Included(range.0),
        Bound::Excluded(range.1),
        Direction::Forward,
    ) {
        let (key, value) = row.map_err(|error| error.0)?;
        let number = number_of(&key[3..]);
        let (submitter, nth) = (
            value[0],
            u32::from_be_bytes([value[1], value[2], value[3], value[4]]),
        );
        if number != rows.len() as u64 + 1 {
            return Err(format!("row {number} follows {} rows", rows.len()));
        }
        if value[..] != value_of(submitter, nth) {
            return Err(format!("row {number} has other bytes"));
        }
        let next = &mut next_of[usize::from(submitter)];
        if nth < *next {
            return Err(format!("submitter {submitter}'s row {nth} comes late"));
        }
        *next = nth + 1;
        rows.push((number, submitter, nth));
    }
    if rows.len() as u64 != counter {
        return Err(format!(
            "the counter says {counter}, there are {} rows",
            rows.len()
        ));
    }
    let logged = rows_in_log(partition)?;
    if !rows.ends_with(&logged) {
        return Err(format!("the log tells {logged:?}, the rows are {rows:?}"));
    }
    Ok(rows)
}

/// The rows of the batches that the log still has, as a follower reads them.
fn rows_in_log(partition: &Shared) -> Result<Vec<Row>, String> {
    let mut after = partition.covered();
    let mut rows = Vec::new();
    while after < partition.tail() {
        for batch in partition.batches(after, 2_000).map_err(|error| error.0)? {
            after = batch.position;
            let puts = batch
                .entries()
                .filter(|entry| entry.key.starts_with(b"row"));
            rows.extend(puts.map(|put| {
                let nth = put.value[1..5].try_into().expect("four bytes");
                (
                    number_of(&put.key[3..]),
                    put.value[0],
                    u32::from_be_bytes(nth),
                )
            }));
        }
    }
    Ok(rows)
}

/// Opens what a crash left and holds it against what was promised up to then. Gives what is there.
fn check(
    disk: &RecordingStorage,
    history: &History,
    points: usize,
) -> Result<(Arc<Shared>, Vec<Row>), String> {
    let partition = open(disk, history.image_at(points), None)
        .map_err(|error| format!("at change {points}: {error}"))?;
    let checked = rows_of(&partition).and_then(|rows| {
        for (at, row) in &history.acked {
            let found = rows.get(row.0 as usize - 1);
            if *at <= points && found != Some(row) {
                return Err(format!("{row:?} was acknowledged, {found:?} is there"));
            }
        }
        Ok(rows)
    });
    match checked {
        Ok(rows) => Ok((partition, rows)),
        Err(what) => {
            abandon(partition);
            Err(format!("at change {points}: {what}"))
        }
    }
}

/// Cuts the power at every `step`th change, in several ways. How many images were opened.
fn power_cuts(disk: &RecordingStorage, history: &History, step: usize) -> Result<usize, String> {
    let mut images = 0;
    for points in (0..=disk.points()).step_by(step) {
        let seed = points as u64 * 2;
        let kinds = [
            Crash::DropAll,
            Crash::KeepAll,
            Crash::Random(seed),
            Crash::Random(seed + 1),
        ];
        for crash in kinds {
            let (partition, _) = check(&disk.after_power_cut(points, crash), history, points)
                .map_err(|what| format!("{crash:?} {what}"))?;
            abandon(partition);
            images += 1;
        }
    }
    Ok(images)
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_that_was_acknowledged() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 1, 60, None);
    assert_eq!(history.acked.len(), 240);
    let images = power_cuts(&disk, &history, 1).unwrap();
    assert!(images > 400, "{images} images are too few");
}

#[test]
fn power_cuts_around_flushes_and_segments_that_are_used_again() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 8, 20, None);
    let images = power_cuts(&disk, &history, 2).unwrap();
    assert!(images > 400, "{images} images are too few");
}

#[test]
fn control_with_the_sync_left_out_it_is_noticed() {
    let disk = RecordingStorage::new();
    disk.ignore_syncs();
    let history = live(&disk, 1, 20, None);
    assert!(power_cuts(&disk, &history, 1).is_err());
}

#[test]
fn control_with_the_acknowledgement_before_the_log_append_it_is_noticed() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 1, 20, Some(Fault::AckBeforeLog));
    assert!(power_cuts(&disk, &history, 1).is_err());
}

#[test]
fn control_with_the_acknowledgement_before_the_sync_it_is_noticed() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 1, 20, Some(Fault::AckBeforeSync));
    assert!(power_cuts(&disk, &history, 1).is_err());
}

/// Kills the process at every `step`th change; another recovers from what the page cache shows, serves it, and commits
/// one more; then the power fails.
fn kills_then_power_cuts(
    disk: &RecordingStorage,
    history: &History,
    step: usize,
    recovery_syncs: bool,
) -> Result<usize, String> {
    let mut images = 0;
    for points in (0..=disk.points()).step_by(step) {
        let killed = disk.after_kill(points, points as u64);
        if !recovery_syncs {
            killed.ignore_syncs();
        }
        let (partition, served) = check(&killed, history, points)?;
        let served_at = killed.points();
        let mut more = served.clone();
        let is_writing = points % 2 == 0;
        let mut more_at = served_at;
        if is_writing {
            let (answer, at) = Submitted::new(&partition, &killed, SUBMITTERS, 0).wait();
            more.push((answer.expect("a healthy disk"), SUBMITTERS, 0));
            more_at = at;
        }
        abandon(partition);
        let cuts = [
            (served_at, Crash::DropAll, &served),
            (more_at, Crash::DropAll, &more),
            (more_at, Crash::Random(points as u64), &more),
        ];
        for (at, crash, promised) in cuts {
            let after = killed.after_power_cut(at, crash);
            let (partition, found) = check(&after, history, points)?;
            abandon(partition);
            if !found.starts_with(promised) {
                return Err(format!(
                    "killed at change {points}, power cut at {at}, {crash:?}: {} rows were served, {} are there",
                    promised.len(),
                    found.len()
                ));
            }
            images += 1;
        }
    }
    Ok(images)
}

#[test]
fn what_a_recovery_served_survives_a_power_cut_right_after() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 4, 20, None);
    let images = kills_then_power_cuts(&disk, &history, 1, true).unwrap();
    assert!(images > 300, "{images} images are too few");
}

#[test]
fn control_without_syncs_in_the_recovery_it_is_noticed() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 1, 20, None);
    assert!(kills_then_power_cuts(&disk, &history, 1, false).is_err());
}

/// What a life on a failing disk heard.
#[derive(Default)]
struct Heard {
    acked: Vec<Row>,
    /// Closures with an unknown outcome, by their number in the life.
    unknown: Vec<u32>,
    full: usize,
    unavailable: usize,
}

/// Closures by one submitter, in pairs, while the disk fails somewhere. `None`: it failed so early that nothing opened.
fn live_on_failing_disk(disk: &RecordingStorage, image: &Path) -> Option<Heard> {
    let partition = open(disk, image, None).ok()?;
    let mut heard = Heard::default();
    let mut read_failures = 0;
    for pair in 0..12 {
        let sent = |nth| (nth, Submitted::new(&partition, disk, 0, nth));
        for (nth, submitted) in [sent(2 * pair), sent(2 * pair + 1)] {
            match submitted.wait().0 {
                Ok(number) => {
                    assert!(heard.unknown.is_empty(), "acknowledged after a failure");
                    heard.acked.push((number, 0, nth));
                }
                Err(SubmitError::Failed(StoreError::StorageFull)) => heard.full += 1,
                Err(SubmitError::Failed(StoreError::OutcomeUnknown)) => heard.unknown.push(nth),
                Err(SubmitError::Failed(StoreError::Unavailable)) => {
                    assert!(!heard.unknown.is_empty(), "stopped without a failure");
                    heard.unavailable += 1;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        // Reads go on, and show what was acknowledged: that is in memory. The log is read from the disk, which may fail
        // once.
        match rows_of(&partition) {
            Ok(rows) => assert_eq!(rows, heard.acked),
            Err(error) => {
                assert!(
                    error.contains("the disk failed") || error.contains("log "),
                    "{error}"
                );
                read_failures += 1;
            }
        }
    }
    assert!(read_failures <= 1, "the disk failed only once");
    if heard.unknown.is_empty() {
        // The disk fails only once: one batch is refused, and everything behind it goes on.
        assert!(heard.full <= 2 && heard.acked.len() + heard.full == 24);
    } else {
        assert!(partition.view().is_ok() && partition.is_stopped());
    }
    abandon(partition);
    Some(heard)
}

#[test]
fn every_call_to_the_log_s_disk_may_fail_in_every_way() {
    let home = folder();
    let clean = RecordingStorage::new();
    let heard = live_on_failing_disk(&clean, &home.path().join("clean")).expect("a healthy disk");
    assert_eq!(heard.acked.len(), 24);
    let (mut full, mut unknown, mut unavailable) = (0, 0, 0);
    for call in 0..clean.calls() {
        for fault in DiskFault::ALL {
            // A full log has rows flushed, if its life is long enough; so each life has an image, and each end a copy.
            let life = folder();
            let image = life.path().join("image");
            let disk = RecordingStorage::new();
            disk.fail_call(call, fault);
            // A log without room has what is in memory flushed, if the life is long enough: that image is of this log.
            let _ = std::fs::remove_dir_all(&image);
            let heard = live_on_failing_disk(&disk, &image).unwrap_or_default();
            full += heard.full;
            unknown += heard.unknown.len();
            unavailable += heard.unavailable;
            let points = disk.points();
            for after in [
                disk.after_kill(points, u64::MAX),
                disk.after_power_cut(points, Crash::DropAll),
                disk.after_power_cut(points, Crash::Random(call)),
            ] {
                let what = format!("call {call}, {fault:?}");
                let copy = tempfile::tempdir_in(life.path()).unwrap();
                // It is not there if nothing opened.
                let _ = std::fs::copy(image.join("data.mdb"), copy.path().join("data.mdb"));
                let partition =
                    open(&after, copy.path(), None).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = rows_of(&partition).unwrap_or_else(|error| panic!("{what}: {error}"));
                abandon(partition);
                assert!(found.starts_with(&heard.acked), "{what}: {found:?}");
                let more = found[heard.acked.len()..].iter().map(|row| row.2);
                let more: Vec<u32> = more.collect();
                assert!(
                    more.is_empty() || more == heard.unknown,
                    "{what}: {more:?} was refused"
                );
            }
        }
    }
    assert!(
        full > 20 && unknown > 20 && unavailable > 100,
        "{full}, {unknown}, {unavailable}"
    );
}
