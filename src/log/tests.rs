//! Tests of the log as a whole: appending, reading, rolling over, retention, damage.
//!
//! Owns: the small cases, one rule of the design each. Must not: test crashes and faults at length (see `tests/log_crash.rs`
//! and `tests/log_faults.rs`).

use std::sync::Arc;

use super::*;
use crate::ids::EntryKind;

fn options() -> Options {
    Options {
        segment_bytes: 2000,
        retention_age_ms: 1000,
        retention_bytes: 1 << 40,
        tail_bytes: 4000,
        spare_segments: 2,
        zero_ahead_bytes: 0,
    }
}

fn value(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| (number as usize * 31 + i) as u8)
        .collect()
}

fn append(log: &mut Log, now_ms: u64, bytes: usize) -> Arc<Frame> {
    let number = log.last_position().0 + 1;
    let key = number.to_be_bytes();
    let value = value(number, bytes);
    let effect = EffectRef {
        key: &key,
        kind: EntryKind::Put,
        value: &value,
    };
    let change = b"change";
    let frame = log
        .append(now_ms, [effect].into_iter(), [&change[..]].into_iter())
        .unwrap();
    log.publish(frame.clone());
    frame
}

#[test]
fn what_was_appended_is_replayed_and_read_also_after_reopening() {
    let disk = RecordingStorage::new();
    let (mut log, opened) = Log::open(Arc::new(disk.clone()), options(), Position(0)).unwrap();
    assert!(opened.created && opened.clean);
    let frames: Vec<_> = (0..50).map(|i| append(&mut log, i, 200)).collect();
    let check = |log: &Log| {
        for after in 0..50 {
            let want: Vec<&Frame> = frames[after..].iter().map(|f| &**f).collect();
            let replayed: Vec<Frame> = log
                .replay(Position(after as u64))
                .unwrap()
                .map(|f| f.unwrap())
                .collect();
            assert_eq!(replayed.iter().collect::<Vec<_>>(), want);
            let read = log
                .reader()
                .read(Position(after as u64), usize::MAX)
                .unwrap();
            assert_eq!(read.iter().map(|f| &**f).collect::<Vec<_>>(), want);
        }
        assert!(log.reader().read(Position(50), 1).unwrap().is_empty());
        assert_eq!(log.reader().read(Position(10), 1).unwrap().len(), 1);
    };
    check(&log);
    log.close().unwrap();
    let (log, opened) = Log::open(Arc::new(disk.clone()), options(), Position(0)).unwrap();
    assert!(opened.clean && !opened.created);
    assert_eq!(opened.cut, None);
    check(&log);
    drop(log);
    let (log, opened) = Log::open(Arc::new(disk), options(), Position(20)).unwrap();
    assert!(!opened.clean);
    check(&log);
}
