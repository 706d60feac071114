//! What one closure of many does wrong, or too much of, is its own affair.
//!
//! Owns: the stories of batches that no frame could hold, and of a panic, which each stopped everything for good.
//! Promises: whatever a closure does, those beside it stand and the partition goes on. Must not: know rows.

use std::path::Path;
use std::sync::Arc;

use super::ToyRules;
use crate::partition::*;

const AT: PartitionId = PartitionId(0);
const MIB: usize = 1 << 20;
const FRAME_BYTES_MAX: usize = 16 * MIB;
const CLOSURE_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;

/// A key and how many bytes are written there.
type Member = (u8, usize);
type Told = Result<(Member, u8), SubmitError<&'static str>>;

fn open(dir: &Path, batch_bytes_max: usize) -> Partitions {
    let log = LogOptions {
        frame_bytes_max: FRAME_BYTES_MAX,
        ..LogOptions::default()
    };
    let options = Options {
        batch_bytes_max,
        log,
        ..Options::default()
    };
    Partitions::open(dir, options, Arc::new(ToyRules), Arc::new(Clock::system())).expect("opens")
}

/// Submits members that write that many bytes; one of none panics after it has written.
async fn write(partitions: &Partitions, members: &[Member]) -> Vec<Told> {
    let run = |&mut (key, bytes): &mut Member, txn: &mut Txn<'_>| {
        *txn.memo::<usize>() += 1;
        txn.put([key], vec![1; bytes]);
        assert!(bytes > 0, "on purpose");
        Ok(key)
    };
    partitions
        .submit_all(Purpose::Adds, AT, 0, members.to_vec(), run)
        .await
}

fn sizes(partitions: &Partitions) -> Vec<Member> {
    let view = partitions.view(AT).expect("a view");
    let all = std::ops::Bound::Unbounded;
    view.range(all, all, Direction::Forward)
        .map(|row| row.expect("no damage"))
        .map(|(key, value)| (key[0], value.len()))
        .collect()
}

#[tokio::test]
async fn a_bundle_larger_than_a_frame_is_several_batches_and_one_answer() {
    for batch_bytes_max in [MIB, FRAME_BYTES_MAX / 2, usize::MAX] {
        let home = tempfile::tempdir().expect("a folder");
        let partitions = open(home.path(), batch_bytes_max);
        let largest = CLOSURE_BYTES_MAX - 64;
        let members = [(1, 7), (2, MIB), (3, largest), (4, largest), (5, largest)];
        let told = write(&partitions, &members).await;
        let expected: Vec<Told> = members.iter().map(|&one| Ok((one, one.0))).collect();
        assert_eq!(told, expected);
        assert!(partitions.tail(AT).position() > Position(1));
        partitions.close().await;
        drop(partitions);

        let partitions = open(home.path(), batch_bytes_max);
        assert_eq!(sizes(&partitions), members);
        partitions.close().await;
    }
}

#[tokio::test]
async fn a_member_that_writes_too_much_or_panics_leaves_nothing_and_stops_nobody() {
    let home = tempfile::tempdir().expect("a folder");
    let partitions = open(home.path(), 4 * MIB);
    let members = [(1, 1), (4, CLOSURE_BYTES_MAX), (2, 0), (3, 3)];
    for _ in 0..2 {
        let told = write(&partitions, &members).await;
        assert_eq!(told[0], Ok(((1, 1), 1)));
        let Err(SubmitError::TooLarge { limit, actual }) = told[1] else {
            panic!("{told:?}");
        };
        assert!(limit == CLOSURE_BYTES_MAX && actual > limit);
        assert_eq!(told[2], Err(SubmitError::Failed(StoreError::Internal)));
        assert_eq!(told[3], Ok(((3, 3), 3)));
        assert_eq!(sizes(&partitions), [(1, 1), (3, 3)]);
    }
    assert!(partitions.can_commit());

    // One that writes the same row again and again takes memory, though the frame stays small.
    let again = |txn: &mut Txn<'_>| {
        let mut turns = 0;
        while txn.too_large().is_none() {
            // By another length each time, or it is written over in place.
            txn.put(b"1", vec![1; MIB - turns % 2]);
            turns += 1;
        }
        assert!(turns < 1_000);
        Ok::<_, &str>(())
    };
    let told = partitions.submit(Purpose::Adds, AT, 0, again).await;
    assert!(matches!(told, Err(SubmitError::TooLarge { .. })));
    // What closures remember is forgotten with what they did.
    let remembered = partitions.submit(Purpose::Adds, AT, 0, |txn| {
        Ok::<_, ()>(*txn.memo::<usize>())
    });
    assert_eq!(remembered.await, Ok(0));

    let read = partitions.read(AT, |_| -> Result<(), ReadError> { panic!("on purpose") });
    assert!(read.await.is_err_and(|error| error.is_panic()));
    assert_eq!(sizes(&partitions), [(1, 1), (3, 3)]);
    partitions.close().await;
}
