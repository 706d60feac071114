//! The log in a directory: appending, reading, rolling over, retention, damage.
//!
//! Owns: the small cases, one rule of the design each. Must not: test crashes and faults at length (see `crashes.rs`).

use super::*;
use crate::log::local::state::StateFile;

fn options() -> Options {
    Options {
        frame_bytes_max: 150_000,
        segment_bytes: 2000,
        retention_age_ms: 1000,
        retention_bytes: 1 << 40,
        tail_bytes: 4000,
        spare_segments: 2,
        room_bytes: 0,
    }
}

fn value(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| (number as usize * 31 + i) as u8)
        .collect()
}

fn append(log: &mut Log, now_ms: u64, bytes: usize) -> Arc<Frame> {
    let number = log.settled().0 + 1;
    let draft = draft(
        &number.to_be_bytes(),
        &value(number, bytes),
        Some(b"change"),
    );
    let frame = log.append(now_ms, draft).unwrap();
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

/// A log of `count` frames that was killed, and where its frames begin in the one segment.
fn killed(count: u64, options: Options) -> (RecordingStorage, Vec<usize>) {
    let disk = RecordingStorage::new();
    let (mut log, _) = Log::open(Arc::new(disk.clone()), options, Position(0)).unwrap();
    let mut starts = vec![0];
    for _ in 0..count {
        let frame = append(&mut log, 0, 100);
        starts.push(starts.last().unwrap() + frame.bytes());
    }
    (disk, starts)
}

const FIRST: &str = "00000000000000000001.log";

fn reopen(disk: &RecordingStorage, options: Options, covered: u64) -> Result<(Log, Opened), Error> {
    Log::open(Arc::new(disk.clone()), options, Position(covered))
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_the_log_goes_on() {
    let (disk, starts) = killed(5, options());
    let whole = disk.contents(FIRST).unwrap();
    for bytes in starts[4]..starts[5] {
        // In a fresh segment nothing follows, in a reused one whatever was there, in a zeroed one zeros.
        for rest in [vec![], vec![0; 300], vec![0x54; 300]] {
            let torn = disk.after_kill(disk.points(), 0);
            torn.cut(FIRST, bytes);
            torn.bend(FIRST, bytes, &rest);
            let (mut log, opened) = reopen(&torn, options(), 0).unwrap();
            assert_eq!(opened.last, Position(4), "at byte {bytes}");
            if bytes > starts[4] {
                let cut = opened.cut.unwrap();
                assert_eq!((&*cut.file, cut.offset), (FIRST, starts[4] as u64));
                assert!(cut.bytes >= (bytes - starts[4]).min(1) as u64);
            }
            append(&mut log, 0, 100);
            assert_eq!(torn.contents(FIRST).unwrap(), whole);
        }
    }
}

#[test]
fn damage_anywhere_before_the_last_frame_is_refused_with_its_place() {
    let (disk, starts) = killed(6, options());
    let whole = disk.contents(FIRST).unwrap();
    for (byte, good) in whole.iter().enumerate().take(starts[5]) {
        let bent = disk.after_kill(disk.points(), u64::MAX);
        bent.bend(FIRST, byte, &[good ^ 0x10]);
        let before = bent.contents(FIRST);
        let frame = starts.partition_point(|start| *start <= byte) - 1;
        for result in [
            reopen(&bent, options(), 0).map(drop),
            verify(&bent, Position(0), &mut |_| {}).map(drop),
        ] {
            match result {
                Err(Error::Damaged { file, offset, .. }) => {
                    assert_eq!((&*file, offset), (FIRST, starts[frame] as u64));
                }
                other => panic!("byte {byte}: {other:?}"),
            }
        }
        assert_eq!(bent.contents(FIRST), before, "a refused log is not touched");
    }
}

#[test]
fn what_the_image_covers_or_a_clean_shutdown_named_is_never_cut() {
    let (disk, starts) = killed(5, options());
    disk.cut(FIRST, starts[4] + 10);
    assert!(matches!(
        reopen(&disk, options(), 5),
        Err(Error::EndsEarly {
            last: Position(4),
            needed: Position(5),
            ..
        })
    ));
    assert!(matches!(
        reopen(&disk, options(), 9),
        Err(Error::EndsEarly {
            needed: Position(9),
            ..
        })
    ));
    let (log, _) = reopen(&disk, options(), 4).unwrap();
    log.close().unwrap();
    disk.cut(FIRST, starts[3]);
    assert!(matches!(
        reopen(&disk, options(), 0),
        Err(Error::EndsEarly {
            last: Position(3),
            needed: Position(4),
            ..
        })
    ));
}

#[test]
fn missing_files_are_refused() {
    let disk = RecordingStorage::new();
    let (mut log, _) = reopen(&disk, options(), 0).unwrap();
    (0..40).for_each(|_| drop(append(&mut log, 0, 200)));
    drop(log);
    let names = disk.list().unwrap();
    assert!(names.len() > 5);
    for name in names {
        let missing = disk.after_kill(disk.points(), u64::MAX);
        missing.remove(&name).unwrap();
        assert!(reopen(&missing, options(), 0).is_err(), "without {name}");
        assert!(
            verify(&missing, Position(0), &mut |_| {}).is_err(),
            "without {name}"
        );
    }
    let empty = RecordingStorage::new();
    assert!(
        reopen(&empty, options(), 3).is_err(),
        "an empty directory, but an image"
    );
}

#[test]
fn segments_are_written_over_and_old_frames_are_no_part_of_the_log() {
    let disk = RecordingStorage::new();
    let small = Options {
        retention_bytes: 0,
        ..options()
    };
    let (mut log, _) = reopen(&disk, small, 0).unwrap();
    let mut reused = false;
    for round in 0..60 {
        let frame = append(&mut log, 0, 150 + round % 90);
        log.keeper().retain(frame.position, 0).unwrap();
        let active = disk
            .list()
            .unwrap()
            .into_iter()
            .filter(|name| name.ends_with(".log"));
        let active = active.max().unwrap();
        // Old frames behind the newest one, whatever the cut between them: the end is found, nothing is torn.
        let killed = disk.after_kill(disk.points(), u64::MAX);
        let report = verify(&killed, frame.position, &mut |_| {}).unwrap();
        assert_eq!(report.last, frame.position);
        // Rests of old frames at the very end of the file may pass for a torn one; whole old frames never.
        assert!(report.torn.is_none_or(|cut| cut.bytes < 800));
        reused |= disk.contents(&active).unwrap().len() as u64 > report.bytes + 1000
            && log.keeper().first_position() > Position(20);
        let (mut again, opened) = reopen(&killed, small, frame.position.0).unwrap();
        assert_eq!(opened.last, frame.position);
        append(&mut again, 0, 10);
    }
    assert!(reused);
}

#[test]
fn a_segment_goes_only_when_covered_and_old_or_too_much() {
    let disk = RecordingStorage::new();
    let limits = Options {
        retention_age_ms: 1000,
        ..options()
    };
    let (mut log, _) = reopen(&disk, limits, 0).unwrap();
    (1..=60).for_each(|i| drop(append(&mut log, i * 10, 200)));
    let keeper = log.keeper();
    let all = keeper.bytes();
    assert_eq!(keeper.retain(Position(60), 700).unwrap(), 0, "too young");
    assert_eq!(keeper.retain(Position(3), 5000).unwrap(), 0, "not covered");
    assert!(keeper.retain(Position(12), 5000).unwrap() > 0);
    let first = keeper.first_position();
    assert!(first > Position(1) && first <= Position(13), "{first}");
    assert!(keeper.bytes() < all);
    assert!(matches!(
        log.reader().read(Position(first.0 - 2), 1),
        Err(LogReadError::Trimmed { first: told }) if told == first
    ));
    let read = log
        .reader()
        .read(Position(first.0 - 1), usize::MAX)
        .unwrap();
    assert_eq!(read.len() as u64, 61 - first.0);
    keeper.retain(Position(60), 5000).unwrap();
    assert!(keeper.first_position() > Position(31));
    // The newest frame stays, whatever the limits.
    assert_eq!(log.reader().read(Position(59), 1).unwrap().len(), 1);
    let (log, _) = reopen(&disk, limits, 60).unwrap();
    assert_eq!(log.replay(Position(59)).unwrap().count(), 1);
}

#[test]
fn a_log_above_its_size_lets_go_of_what_is_covered() {
    let limits = Options {
        retention_bytes: 5000,
        ..options()
    };
    let (mut log, _) = reopen(&RecordingStorage::new(), limits, 0).unwrap();
    let keeper = log.keeper();
    (1..=60).for_each(|i| drop(append(&mut log, i, 200)));
    assert_eq!(keeper.retain(Position(1), 61).unwrap(), 0);
    assert!(keeper.bytes() > 5000);
    assert!(keeper.retain(Position(60), 61).unwrap() > 0);
    assert!(keeper.bytes() <= 5000 + 2000);
}

/// The image covers all that is on disk, and the next segment has only what a power cut takes.
#[test]
fn a_mirror_keeps_the_newest_frame_that_is_on_disk() {
    let disk = RecordingStorage::new();
    let small = Options {
        retention_bytes: 0,
        ..options()
    };
    drop(reopen(&disk, small, 0).unwrap());
    let mirror = |disk: &RecordingStorage, covered| {
        Log::open_mirror(Arc::new(disk.clone()), small, covered).unwrap()
    };
    let (mut log, _) = mirror(&disk, Position(0));
    let (mut begun, mut gone) = (0, 0);
    for now_ms in 1..=60 {
        let frame = append(&mut log, now_ms, 200);
        let (keeper, before) = (log.keeper(), Position(frame.position.0 - 1));
        let newest = log.reader().pieces().last().map(|(first, _)| *first);
        if newest == Some(frame.position) && before > Position::ZERO {
            gone += keeper.retain(before, u64::MAX).unwrap();
            let cut = disk.after_power_cut(disk.points(), Crash::DropAll);
            assert_eq!(mirror(&cut, before).1.last, before);
            begun += 1;
        }
    }
    assert!(begun > 3 && gone > 3, "{begun} {gone}");
}

#[test]
fn a_reader_keeps_the_file_it_reads_while_retention_goes_on() {
    let disk = RecordingStorage::new();
    let limits = Options {
        retention_bytes: 0,
        ..options()
    };
    let (mut log, _) = reopen(&disk, limits, 0).unwrap();
    let first = append(&mut log, 0, 200);
    (0..30).for_each(|_| drop(append(&mut log, 0, 200)));
    let mut replay = log.replay(Position(0)).unwrap();
    assert_eq!(replay.next().unwrap().unwrap(), *first);
    log.keeper().retain(Position(31), 0).unwrap();
    (0..60).for_each(|_| drop(append(&mut log, 0, 200)));
    let read: Vec<_> = replay.collect();
    let (last, good) = read.split_last().unwrap();
    for (frame, position) in good.iter().zip(2..) {
        assert_eq!(frame.as_ref().unwrap().position, Position(position));
    }
    assert!(
        matches!(last, Err(LogReadError::Trimmed { .. })),
        "{last:?}"
    );
}

#[test]
fn frames_are_unseen_until_published_and_wait_for_the_one_before() {
    let (mut log, _) = reopen(&RecordingStorage::new(), options(), 0).unwrap();
    let reader = log.reader();
    let first = log.seal(7, &mut Draft::default()).unwrap();
    log.begin(&first).unwrap();
    let second = log.seal(3, &mut Draft::default()).unwrap();
    assert_eq!(second.commit_ms, 7, "time never falls");
    assert!(matches!(log.begin(&second), Err(AppendError::Unsettled)));
    assert_eq!(log.settled(), Position(0));
    let frame = log.settle().unwrap();
    assert!(reader.read(Position(0), 1).unwrap().is_empty());
    log.publish(frame);
    assert_eq!(reader.read(Position(0), 1).unwrap().len(), 1);
    // What was sealed before the other was settled says less of what is synced, and is as good.
    log.begin(&second).unwrap();
    assert_eq!(log.settle().unwrap().position, Position(2));
}

#[test]
fn a_frame_that_is_too_large_is_refused_and_stays_a_draft() {
    let (mut log, _) = reopen(&RecordingStorage::new(), options(), 0).unwrap();
    let bytes = options().frame_bytes_max;
    let mut large = draft(b"key", &vec![7; bytes - 80], Some(b"12345"));
    assert!(matches!(
        log.seal(0, &mut large),
        Err(AppendError::TooLarge)
    ));
    assert_eq!(large.entries().len(), 1);
    large.clear();
    assert_eq!(log.append(0, large).unwrap().position, Position(1));
    let fits = log.append(0, draft(b"key", &vec![7; bytes - 90], Some(b"12345")));
    assert!(fits.unwrap().bytes() > bytes - 10);
}

#[test]
fn a_prepared_segment_is_zeros_and_is_used_next() {
    let disk = RecordingStorage::new();
    let (mut log, _) = reopen(&disk, options(), 0).unwrap();
    let keeper = log.keeper();
    assert!(!keeper.prepare().unwrap(), "nothing is in the log yet");
    (0..3).for_each(|_| drop(append(&mut log, 0, 300)));
    assert!(keeper.prepare().unwrap() && !keeper.prepare().unwrap());
    (0..5).for_each(|_| drop(append(&mut log, 0, 300)));
    let names = disk.list().unwrap();
    assert!(
        names.iter().all(|name| !name.ends_with(".zeros")),
        "{names:?}"
    );
    let used = names.iter().rfind(|name| name.ends_with(".log")).unwrap();
    assert_eq!(
        disk.contents(used).unwrap().len() as u64,
        options().segment_bytes
    );
    drop(log);
    let (log, opened) = reopen(&disk, options(), 0).unwrap();
    assert_eq!((opened.last, opened.cut), (Position(8), None));
    assert_eq!(log.replay(Position(0)).unwrap().count(), 8);
}

#[test]
fn no_zeros_are_made_for_large_frames() {
    let disk = RecordingStorage::new();
    let options = Options {
        segment_bytes: 1 << 20,
        ..options()
    };
    let (mut log, _) = reopen(&disk, options, 0).unwrap();
    (0..9).for_each(|_| drop(append(&mut log, 0, 100_000)));
    assert!(!log.keeper().prepare().unwrap());
    // Small ones bring the mean down.
    (0..10).for_each(|_| drop(append(&mut log, 0, 10)));
    assert!(log.keeper().prepare().unwrap());
}

#[test]
fn a_loss_behind_the_begin_of_a_segment_is_all_that_may_go_unnoticed() {
    let disk = RecordingStorage::new();
    let (mut log, _) = reopen(&disk, options(), 0).unwrap();
    let mut last_of = std::collections::BTreeMap::new();
    for _ in 0..40 {
        let frame = append(&mut log, 0, 200);
        let newest = disk.list().unwrap().into_iter();
        let newest = newest.filter(|name| name.ends_with(".log")).max().unwrap();
        last_of.insert(newest, frame.position);
    }
    let names: Vec<String> = last_of.keys().cloned().collect();
    assert!(names.len() > 4);
    for gone in 1..names.len() {
        let lost = disk.after_kill(disk.points(), u64::MAX);
        for name in &names[names.len() - gone..] {
            lost.remove(name).unwrap();
        }
        let newest = names.last().unwrap();
        for result in [
            reopen(&lost, options(), 0).map(drop),
            verify(&lost, Position(0), &mut |_| {}).map(drop),
        ] {
            assert!(
                matches!(&result, Err(Error::Damaged { file, .. }) if file == newest),
                "{gone} newest gone: {result:?}"
            );
        }
    }
    let (newest, older) = names.split_last().unwrap();
    for name in &names {
        let length = disk.contents(name).unwrap().len();
        for bytes in (0..length).step_by(97) {
            let cut = disk.after_kill(disk.points(), u64::MAX);
            cut.cut(name, bytes);
            match reopen(&cut, options(), 0) {
                Ok((_, opened)) => {
                    assert_eq!(name, newest, "cut to {bytes}");
                    assert!(opened.last >= last_of[older.last().unwrap()]);
                }
                Err(Error::Damaged { file, .. }) => assert_eq!(&file, name, "cut to {bytes}"),
                Err(other) => panic!("{name} cut to {bytes}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_was_noted_is_missed() {
    let (disk, starts) = killed(5, options());
    let (log, _) = reopen(&disk, options(), 0).unwrap();
    let state = StateFile::read(&disk, &disk.list().unwrap()).unwrap();
    let noted = state.unwrap().write(Position(5), Position(1), false);
    noted.unwrap();
    drop(log);
    for frame in 0..5 {
        let cut = disk.after_kill(disk.points(), u64::MAX);
        cut.cut(FIRST, starts[frame + 1] - 1);
        assert!(matches!(
            reopen(&cut, options(), 0),
            Err(Error::EndsEarly {
                needed: Position(5),
                ..
            })
        ));
    }
}
