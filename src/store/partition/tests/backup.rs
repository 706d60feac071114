//! A backup's second reading, and the first position that a backup is restored to.
//!
//! Owns: that the reading ends when it is told to, in the middle of a log; logs of which each batch is a segment, so
//! that they begin where a test wants. Promises: no clock but that of the log's upkeep. Must not: repeat the tests of
//! the command and the method, which drive the real server.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ToyRules;
use crate::partition::*;

#[tokio::test]
async fn the_second_reading_of_a_log_ends_when_it_is_told_to() {
    let home = tempfile::tempdir().expect("a folder");
    let (rules, clock) = (Arc::new(ToyRules), Arc::new(Clock::system()));
    let opened = Partitions::open(home.path(), Options::default(), rules, clock);
    let (partitions, at) = (opened.expect("opens"), PartitionId(0));
    for number in 0..50u8 {
        let put = move |txn: &mut Txn<'_>| -> Result<(), ()> {
            txn.put([number], [1; 100]);
            Ok(())
        };
        partitions
            .submit(Purpose::Adds, at, 0, put)
            .await
            .expect("written");
    }
    partitions.close().await;
    drop(partitions);
    let inspection = Inspection::open(home.path(), Arc::new(ToyRules)).expect("opens");
    let asked = Cell::new(0);
    let upto = |last: u32| {
        asked.set(0);
        let goes_on = || {
            asked.set(asked.get() + 1);
            match asked.get() < last {
                true => Ok(()),
                false => Err(io::Error::other("cancelled")),
            }
        };
        inspection
            .check(at, &goes_on)
            .map_err(|error| error.to_string())
    };
    assert!(upto(7).expect_err("cancelled").contains("cancelled"));
    assert_eq!(asked.get(), 7);
    // A control: nobody ends it.
    assert_eq!((upto(u32::MAX), asked.get()), (Ok(()), 50));
}

const ONLY: PartitionId = PartitionId(0);

fn open(data: &Path, retention_bytes: u64) -> Partitions {
    let log = LogOptions {
        segment_bytes: 1,
        spare_segments: 0,
        retention_bytes,
        ..LogOptions::default()
    };
    let options = Options {
        memtable_bytes: 8 << 10,
        log,
        ..Options::default()
    };
    let opened = Partitions::open(data, options, Arc::new(ToyRules), Arc::new(Clock::system()));
    opened.expect("opens")
}

/// Writes until the image covers more, and a few batches behind it.
async fn cover_more(partitions: &Partitions) {
    let only = partitions.at(ONLY).expect("it is there");
    let (before, mut behind) = (only.covered(), 0);
    while behind < 3 {
        let key = only.tail().0.to_be_bytes();
        let put = move |txn: &mut Txn<'_>| -> Result<(), ()> {
            txn.put(key, [1; 100]);
            Ok(())
        };
        let written = partitions.submit(Purpose::Adds, ONLY, 0, put);
        written.await.expect("written");
        behind += u32::from(only.covered() > before);
    }
}

/// Waits until the log begins where it is wanted, by what the image covers.
async fn begins(partitions: &Partitions, is_wanted: impl Fn(Position, Position) -> bool) {
    let only = partitions.at(ONLY).expect("it is there");
    while !is_wanted(only.log.pieces()[0].0, only.covered()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A backup, and what its image covers.
fn back_up(partitions: &Partitions, to: &Path, is_full: bool) -> (Backup, Position) {
    let made = partitions.back_up(to, ("1", None), is_full, &Progress::new(0));
    let made = made.expect("made");
    let covered = Position(made.manifest.partitions[0].covered);
    (made, covered)
}

/// Where a log ends that is cut at a position, and that is opened then.
async fn cut(from: &Backup, at: Position, to: &Path) -> Result<Position, String> {
    let rules: Arc<dyn Rules> = Arc::new(ToyRules);
    let point = RestorePoint::Position(ONLY, at);
    let restored = restore(&from.path, to, (point, None), &rules);
    let restored = restored.map_err(|error| error.to_string())?;
    let clock = Arc::new(Clock::system());
    let opened = Partitions::open(to, Options::default(), rules, clock);
    opened.map_err(|error| error.to_string())?.close().await;
    Ok(restored.partitions[0].1)
}

#[tokio::test]
async fn a_backup_is_restored_to_the_first_position_that_its_log_can_end_with() {
    let home = tempfile::tempdir().expect("a folder");
    let path = |name: &str| home.path().join(name);
    let partitions = open(&path("data"), u64::MAX);
    cover_more(&partitions).await;
    let (_, covered) = back_up(&partitions, &path("backups"), false);
    partitions.close().await;
    drop(partitions);
    // The log is trimmed down to its end. The next backup has the segments of the one before, from the image's on.
    let partitions = open(&path("data"), 0);
    begins(&partitions, |first, end| first.next() >= end).await;
    let (shared, of_shared) = back_up(&partitions, &path("backups"), false);
    assert_eq!(of_shared, covered);
    assert_eq!(cut(&shared, covered, &path("one")).await, Ok(covered));
    // The image is copied anew, and the log begins right behind it.
    cover_more(&partitions).await;
    begins(&partitions, |first, covered| first == covered.next()).await;
    let (fresh, covered) = back_up(&partitions, &path("backups"), true);
    partitions.close().await;
    let (first, to) = (covered.next(), path("two"));
    let refused = cut(&fresh, covered, &to).await.expect_err("no log is left");
    let says = format!("to a position from {first} on");
    assert!(refused.contains(&says) && !to.exists(), "{refused}");
    assert_eq!(cut(&fresh, first, &to).await, Ok(first));
}
