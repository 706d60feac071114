//! The writer fills a batch while those before it are being synced: what the later one saw must not be answered if a
//! sync before it fails.
//!
//! Owns: the story of a duplicate that was answered before its original was on disk: the original's sync failed, and
//! the repeat, which had nothing to write, heard "done"; and a log that takes several batches at once. Promises:
//! deterministic; batches of one job, held apart by a channel. Must not: repeat the crash tests.

use crate::partition::commit::{job, recovery};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;

use super::ToyRules;
use crate::log::tests::memory::MemoryMedium;
use crate::log::tests::{DiskFault, RecordingStorage};
use crate::partition::*;

type Told = Result<Option<usize>, SubmitError<usize>>;

/// A partition whose log is on `disk`.
fn open(disk: &RecordingStorage, home: &Path, options: &Options) -> Arc<Shared> {
    let handed: (Arc<dyn Rules>, _) = (Arc::new(ToyRules), Arc::new(Clock::system()));
    let open_log =
        |covered| Log::open(Arc::new(disk.clone()), options.log, covered).map(|(log, _)| log);
    recovery::start(PartitionId(0), open_log, (home, None), options, handed).expect("opens")
}

/// One closure that writes, and behind it one that only looks: at a disk whose call number `fails`, counted from the
/// write on.
fn original_and_repeat(fails: Option<u64>, refuses: bool) -> (Told, Told) {
    let home = tempfile::tempdir().expect("a folder");
    let disk = RecordingStorage::new();
    let options = Options {
        batch_jobs_max: 1,
        ..Options::default()
    };
    let partition = open(&disk, home.path(), &options);
    if let Some(call) = fails {
        disk.fail_call(disk.calls() + call, DiskFault::Io);
    }
    let (go, wait) = sync_channel::<()>(1);
    let original = move |txn: &mut Txn<'_>| {
        wait.recv().expect("told to go on");
        txn.put(&b"row"[..], &b"11"[..]);
        Ok(None)
    };
    let repeat = move |txn: &mut Txn<'_>| {
        let all = txn.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let seen = all.count();
        if refuses { Err(seen) } else { Ok(Some(seen)) }
    };
    let (original, first) = job::bundle(vec![Some(original)], job::call);
    let (repeat, second) = job::bundle(vec![Some(repeat)], job::call);
    partition
        .enqueue(Purpose::Adds, 0, original)
        .expect("queued");
    partition.enqueue(Purpose::Adds, 0, repeat).expect("queued");
    go.send(()).expect("the writer waits");
    let told = (answer(first), answer(second));
    partition.queue.close();
    partition.join();
    told
}

fn answer<M>(told: job::Answer<M, Option<usize>, usize>) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let mut answers = runtime.expect("a runtime").block_on(job::answers(told, 1));
    let answer = answers.pop().expect("one closure, one answer");
    answer.map(|(_, result)| result)
}

#[test]
fn what_a_batch_saw_of_one_that_failed_is_not_told() {
    for refuses in [false, true] {
        let seen = if refuses {
            Err(SubmitError::Rejected(1))
        } else {
            Ok(Some(1))
        };
        assert_eq!(
            original_and_repeat(None, refuses),
            (Ok(None), seen),
            "on a healthy disk"
        );
        let mut unknown = 0;
        for call in 0..6 {
            let (original, repeat) = original_and_repeat(Some(call), refuses);
            if original == Err(SubmitError::Failed(StoreError::OutcomeUnknown)) {
                assert_eq!(
                    repeat,
                    Err(SubmitError::Failed(StoreError::Unavailable)),
                    "call {call}"
                );
                unknown += 1;
            }
        }
        assert!(unknown >= 2, "neither the write nor the sync failed");
    }
}

/// Four batches on a log that takes three at once; gives their answers, what a reader sees, and the log.
fn on_a_deep_log(lost: Option<u64>) -> (Vec<Told>, Vec<Bytes>, MemoryMedium) {
    let home = tempfile::tempdir().expect("a folder");
    let medium = MemoryMedium::new(3);
    let options = Options {
        batch_jobs_max: 1,
        ..Options::default()
    };
    let handed: (Arc<dyn Rules>, _) = (Arc::new(ToyRules), Arc::new(Clock::system()));
    let opened = recovery::start(
        PartitionId(0),
        |_| Ok(medium.log()),
        (home.path(), None),
        &options,
        handed,
    );
    let partition = opened.expect("opens");
    lost.into_iter().for_each(|position| medium.lose(position));
    let (go, wait) = sync_channel::<()>(1);
    let mut wait = Some(wait);
    let submitted: Vec<_> = (0..4u8)
        .map(|number| {
            let wait = wait.take();
            let closure = move |txn: &mut Txn<'_>| {
                if let Some(wait) = wait {
                    wait.recv().expect("told to go on");
                }
                let all = txn.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
                let seen = all.count();
                txn.put([number], [1, 1]);
                Ok(Some(seen))
            };
            let (bundle, answer) = job::bundle(vec![Some(closure)], job::call);
            partition.enqueue(Purpose::Adds, 0, bundle).expect("queued");
            answer
        })
        .collect();
    go.send(()).expect("the writer waits");
    while medium.begun() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(partition.tail(), Position(0), "nothing is durable yet");
    medium.let_through(9);
    let told = submitted.into_iter().map(answer).collect();
    let view = partition.view().expect("a view");
    let rows = view.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    let rows = rows.map(|row| row.expect("no damage").0).collect();
    partition.queue.close();
    partition.join();
    (told, rows, medium)
}

#[test]
fn a_log_may_take_several_batches_before_the_first_is_settled() {
    let (told, rows, medium) = on_a_deep_log(None);
    let seen: Vec<Told> = (0..4).map(|seen| Ok(Some(seen))).collect();
    assert_eq!((told, rows.len(), medium.begun()), (seen, 4, 4));

    // Those behind it were handed over, or saw what may never be.
    let unknown = Err(SubmitError::Failed(StoreError::OutcomeUnknown));
    let refused = Err(SubmitError::Failed(StoreError::Unavailable));
    let (told, rows, medium) = on_a_deep_log(Some(2));
    let expected = [
        Ok(Some(0)),
        unknown.clone(),
        unknown.clone(),
        unknown.clone(),
    ];
    assert_eq!((told, medium.begun()), (expected.to_vec(), 4));
    assert_eq!(rows, [Bytes::from_static(&[0])]);

    let (told, rows, medium) = on_a_deep_log(Some(1));
    let expected = [unknown.clone(), unknown.clone(), unknown, refused];
    assert_eq!((told, medium.begun()), (expected.to_vec(), 3));
    assert!(rows.is_empty());
}

/// The story: the relay followed the log, was notified of the batch in which a member joined, read the members by a
/// view that did not have them yet, and left the new one out.
#[test]
fn a_batch_is_shown_to_those_who_follow_the_log_when_its_rows_are() {
    let home = tempfile::tempdir().expect("a folder");
    let disk = RecordingStorage::new();
    let options = Options {
        fault: Some(Fault::LateTail),
        ..Options::default()
    };
    let partition = open(&disk, home.path(), &options);
    for (number, from_memory) in [(0, false), (1, true), (2, false), (3, true)] {
        let put = move |txn: &mut Txn<'_>| -> Result<Option<usize>, usize> {
            txn.put([number], [1, 1]);
            Ok(None)
        };
        let (bundle, answer_of) = job::bundle(vec![Some(put)], job::call);
        partition.enqueue(Purpose::Adds, 0, bundle).expect("queued");
        let after = Position(u64::from(number));
        let follow = || match from_memory {
            true => partition.recent(after, 1 << 20).expect("it is young"),
            false => partition.batches(after, 1 << 20).expect("no damage"),
        };
        while follow().is_empty() {
            std::thread::yield_now();
        }
        let view = partition.view().expect("a view");
        let rows = view.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        assert_eq!(rows.count(), usize::from(number) + 1);
        assert_eq!(answer(answer_of), Ok(None));
    }
    partition.queue.close();
    partition.join();
}
