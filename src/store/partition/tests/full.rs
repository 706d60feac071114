//! What a full disk leaves to whom: a log on a disk that has so many bytes and no more.
//!
//! Owns: the story of a cursor that let the log go, and so had the image use up the reserve before anything was
//! trimmed. Promises: deterministic: the log is held, so nothing goes. Must not: repeat the tests of the log's room.

use std::path::Path;
use std::sync::Arc;

use super::ToyRules;
use crate::log::tests::room::SmallDisk;
use crate::partition::commit::{job, recovery};
use crate::partition::*;

/// A partition whose log is on a small disk, where 1,800 bytes of it are room, and its image on a large one. Each write
/// is a batch.
fn open(home: &Path) -> Arc<Shared> {
    let log = LogOptions {
        segment_bytes: 2_000,
        room_bytes: 1_800,
        ..LogOptions::default()
    };
    let options = Options {
        log,
        reserve_bytes: 8 << 20,
        holds_log: true,
        batch_bytes_max: 1,
        ..Options::default()
    };
    let handed: (Arc<dyn Rules>, _) = (Arc::new(ToyRules), Arc::new(Clock::system()));
    let disk = Arc::new(SmallDisk::new());
    let open_log = |covered| Log::open(disk, options.log, covered).map(|(log, _)| log);
    let image = home.join("image");
    std::fs::create_dir(&image).expect("a folder");
    recovery::start(PartitionId(0), open_log, (&image, None), &options, handed).expect("opens")
}

/// Some bytes that nothing squeezes.
fn noise(seed: &mut u64) -> Vec<u8> {
    let bytes = std::iter::repeat_with(|| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) as u8
    });
    bytes.take(100).collect()
}

/// Writes a bundle of rows, those without a value not at all; what came of each.
fn write_all(
    partition: &Shared,
    purpose: Purpose,
    values: Vec<Option<Vec<u8>>>,
) -> Result<Vec<Result<(), StoreError>>, StoreError> {
    let count = values.len();
    let put = |value: &mut Option<Vec<u8>>, txn: &mut Txn<'_>| -> Result<(), ()> {
        if let Some(value) = value {
            txn.put(&b"row"[..], &value[..]);
        }
        Ok(())
    };
    let (job, told) = job::bundle(values, put);
    partition.enqueue(purpose, 0, job)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let told = runtime
        .expect("a runtime")
        .block_on(job::answers(told, count));
    let failed = |error| match error {
        SubmitError::Failed(error) => error,
        error => panic!("{error:?}"),
    };
    let told = told.into_iter();
    Ok(told.map(|one| one.map(drop).map_err(failed)).collect())
}

/// Writes one row.
fn write(partition: &Shared, purpose: Purpose, seed: &mut u64) -> Result<(), StoreError> {
    let told = write_all(partition, purpose, vec![Some(noise(seed))])?;
    told.into_iter().next().expect("one closure, one answer")
}

#[test]
fn what_lets_the_log_go_gets_the_logs_room_and_nothing_of_the_reserve() {
    let (home, mut seed) = (tempfile::tempdir().expect("a folder"), 1);
    let partition = open(home.path());
    let full = Err(StoreError::StorageFull);
    let mut fill = |purpose| {
        let mut count = 0;
        while write(&partition, purpose, &mut seed) != full {
            count += 1;
        }
        count
    };
    assert!(fill(Purpose::Adds) > 20);
    // What was derived has no part in it either.
    assert_eq!((fill(Purpose::Derives), fill(Purpose::Adds)), (0, 0));
    assert!(fill(Purpose::LetsGo) > 5, "the room");
    assert!(!partition.reserve.is_making_room());
    assert_eq!(fill(Purpose::Adds), 0);
    // A control: only what makes room is let to the reserve.
    assert_eq!(fill(Purpose::MakesRoom), 0);
    assert!(partition.reserve.is_making_room());
    partition.queue.close();
    partition.join();
}

/// The story: a walk trimmed a thousand timelines by one bundle, and on a full disk only those in its first batch were.
#[test]
fn what_is_left_of_a_bundle_gets_what_its_first_batch_got() {
    for (purpose, is_let) in [(Purpose::Adds, false), (Purpose::LetsGo, true)] {
        let (home, mut seed) = (tempfile::tempdir().expect("a folder"), 1);
        let partition = open(home.path());
        while write(&partition, Purpose::Adds, &mut seed).is_ok() {}
        // The first one has nothing to write and so needs no room.
        let values = vec![None, Some(noise(&mut seed)), Some(noise(&mut seed))];
        let told = write_all(&partition, purpose, values);
        assert_eq!(told == Ok(vec![Ok(()); 3]), is_let, "{told:?}");
        partition.queue.close();
        partition.join();
    }
}
