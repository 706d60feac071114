//! The writer fills a batch while the one before it is being synced: what the later one saw must not be told if that
//! sync fails.
//!
//! Owns: the story of a duplicate that was answered before its original was on disk: the original's sync failed, and
//! the repeat, which had nothing to write, heard "done". Promises: deterministic; batches of one job, held apart by a
//! channel. Must not: repeat the crash tests.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::model_test::ToyRules;
use super::*;
use crate::log::{Fault as DiskFault, RecordingStorage};

type Told = Result<Option<usize>, SubmitError<usize>>;

/// One closure that writes, and behind it one that only looks: at a disk whose call number `fails`, counted from the
/// write on.
fn original_and_repeat(fails: Option<u64>, refuses: bool) -> (Told, Told) {
    let home = tempfile::tempdir().expect("a folder");
    let disk = RecordingStorage::new();
    let options = Options {
        batch_jobs_max: 1,
        ..Options::default()
    };
    let handed: (Arc<dyn Rules>, _) = (Arc::new(ToyRules), Arc::new(Clock::system()));
    let opened = recovery::start(
        PartitionId(0),
        Arc::new(disk.clone()),
        home.path(),
        &options,
        handed,
    );
    let partition = opened.expect("opens");
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
    partition.close();
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
            if original == Err(SubmitError::OutcomeUnknown) {
                assert_eq!(repeat, Err(SubmitError::Unavailable), "call {call}");
                unknown += 1;
            }
        }
        assert!(unknown >= 2, "neither the write nor the sync failed");
    }
}
