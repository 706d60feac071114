//! Crashes and faults of the log on the recording disk: power cuts at every change, kills, and failing calls.
//!
//! Owns: the promise "what was acknowledged is there, byte for byte, in order, without holes; besides it at most the
//! one batch whose outcome is open". Promises: thousands of crash points, and controls that break the log's rules on
//! purpose and must be noticed. Must not: assert on time.

use super::*;

fn options() -> Options {
    Options {
        frame_bytes_max: 100_000,
        segment_bytes: 3000,
        retention_age_ms: u64::MAX / 2,
        retention_bytes: 9000,
        tail_bytes: 2000,
        spare_segments: 2,
        room_bytes: 0,
    }
}

/// The batch of an attempt: number and size are all that distinguishes one, and both can be read back.
fn batch(attempt: u64) -> Vec<u8> {
    let bytes = match attempt % 7 {
        0 => 1400, // several sectors
        5 => 4000, // larger than a segment
        other => 20 + (attempt * 37 % 300 + other) as usize,
    };
    let mut value = attempt.to_be_bytes().to_vec();
    value.resize(bytes, attempt as u8 | 1);
    value
}

/// The attempt as a batch for the log.
fn put_of(attempt: u64) -> Draft {
    draft(b"key", &batch(attempt), None)
}

/// What one process life with the log did, against the disk's change count.
#[derive(Default)]
struct History {
    /// Acknowledged: (disk changes at the acknowledgement, attempt). The first has position 1.
    acked: Vec<(usize, u64)>,
    /// Every attempt that began to write: (disk changes before, attempt).
    begun: Vec<(usize, u64)>,
    /// What the image covered from which change on.
    covered: Vec<(usize, u64)>,
}

impl History {
    fn covered_at(&self, points: usize) -> u64 {
        let upto = |all: &[(usize, u64)]| all.partition_point(|(at, _)| *at <= points);
        match upto(&self.covered) {
            0 => 0,
            after => self.covered[after - 1].1,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Acknowledge {
    AfterSync,
    /// A control: too early.
    BeforeSync,
}

/// Appends `attempts` batches, keeps an image that lags a little, lets retention recycle segments, reopens now and
/// then.
fn live(disk: &RecordingStorage, attempts: u64, prepare: bool, ack: Acknowledge) -> History {
    let mut history = History::default();
    let shared = Arc::new(disk.clone());
    let (mut log, _) = Log::open(shared.clone(), options(), Position(0)).unwrap();
    let mut covered = 0;
    for attempt in 1..=attempts {
        history.begun.push((disk.points(), attempt));
        let frame = log.seal(attempt, &mut put_of(attempt)).unwrap();
        log.begin(&frame).unwrap();
        if ack == Acknowledge::BeforeSync {
            history.acked.push((disk.points(), attempt));
        }
        let frame = log.settle().unwrap();
        if ack == Acknowledge::AfterSync {
            history.acked.push((disk.points(), attempt));
        }
        log.publish(frame);
        if prepare {
            log.keeper().prepare().unwrap();
        }
        if attempt % 9 == 0 {
            covered = attempt - 4;
            history.covered.push((disk.points(), covered));
            log.keeper().retain(Position(covered), attempt).unwrap();
        }
        if attempt % 61 == 0 {
            log.close().unwrap();
            (log, _) = Log::open(shared.clone(), options(), Position(covered)).unwrap();
        }
    }
    history
}

/// All attempts that the log holds above `covered`.
fn attempts_in(log: &Log, covered: u64) -> Result<Vec<u64>, String> {
    let mut attempts = Vec::new();
    let mut position = covered;
    let replay = log.replay(Position(covered)).map_err(|e| e.to_string())?;
    for frame in replay {
        let frame = frame.map_err(|e| e.to_string())?;
        position += 1;
        if frame.position.0 != position {
            return Err(format!("{} where {position} should be", frame.position));
        }
        let value = frame.entries().next().unwrap().value;
        let attempt = u64::from_be_bytes(value[..8].try_into().unwrap());
        if value != batch(attempt) {
            return Err(format!("batch {position} has other bytes"));
        }
        attempts.push(attempt);
    }
    Ok(attempts)
}

/// Opens what a crash left and holds it against what was promised up to then.
fn check(
    disk: &RecordingStorage,
    history: &History,
    points: usize,
) -> Result<(Log, Opened, Vec<u64>), String> {
    let covered = history.covered_at(points);
    let (log, opened) = Log::open(Arc::new(disk.clone()), options(), Position(covered))
        .map_err(|e| e.to_string())?;
    let found = attempts_in(&log, covered)?;
    let acked = history.acked.partition_point(|(at, _)| *at <= points);
    let begun = history.begun.partition_point(|(at, _)| *at < points);
    let must: Vec<u64> = (covered + 1..=acked as u64).collect();
    let may: Vec<u64> = (covered + 1..=begun as u64).collect();
    if !found.starts_with(&must) {
        return Err(format!(
            "at change {points}: {must:?} were acknowledged, {found:?} are there"
        ));
    }
    if !may.starts_with(&found) {
        return Err(format!(
            "at change {points}: {may:?} were written, {found:?} are there"
        ));
    }
    Ok((log, opened, found))
}

fn crashes(points: usize) -> Vec<Crash> {
    let mut all = vec![Crash::DropAll, Crash::KeepAll];
    all.extend((0..4).map(|i| Crash::Random((points * 4 + i) as u64)));
    all
}

fn power_cuts(disk: &RecordingStorage, history: &History) -> Result<usize, String> {
    let mut images = 0;
    for points in 0..=disk.points() {
        for crash in crashes(points) {
            let after = disk.after_power_cut(points, crash);
            let (mut log, opened, found) =
                check(&after, history, points).map_err(|e| format!("{crash:?}: {e}"))?;
            images += 1;
            // Life goes on, and the power fails again at once.
            let covered = history.covered_at(points);
            if crash != Crash::KeepAll && points % 3 == 0 {
                log.append(0, put_of(10_000)).map_err(|e| e.to_string())?;
                let again = after.after_power_cut(after.points(), crash);
                let (log, reopened) = Log::open(Arc::new(again), options(), Position(covered))
                    .map_err(|e| format!("{crash:?} twice, {opened:?}: {e}"))?;
                let mut want = found.clone();
                want.push(10_000);
                if attempts_in(&log, covered)? != want {
                    return Err(format!("lost after {opened:?}, {reopened:?}"));
                }
                images += 1;
            }
        }
    }
    Ok(images)
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_that_was_acknowledged() {
    let mut images = 0;
    for prepare in [false, true] {
        let disk = RecordingStorage::new();
        let history = live(&disk, 200, prepare, Acknowledge::AfterSync);
        images += power_cuts(&disk, &history).unwrap();
    }
    assert!(images > 5_000, "{images} crash images are too few");
}

/// Retention runs on another thread: also between the write of a segment's first frame and its sync.
#[test]
fn retention_between_write_and_sync_keeps_the_newest_frame_that_is_durable() {
    let disk = RecordingStorage::new();
    let shared = Arc::new(disk.clone());
    let limits = Options {
        retention_bytes: 0,
        ..options()
    };
    let (mut log, _) = Log::open(shared, limits, Position(0)).unwrap();
    for last in 0..6 {
        let frame = log.seal(0, &mut draft(b"key", &[7; 1400], None)).unwrap();
        log.begin(&frame).unwrap();
        let keeper = log.keeper();
        keeper.retain(Position(last), 1).unwrap();
        let after = disk.after_power_cut(disk.points(), Crash::DropAll);
        let opened = Log::open(Arc::new(after), limits, Position(last)).map(|(_, opened)| opened);
        assert_eq!(opened.unwrap().last, Position(last));
        log.settle().unwrap();
    }
    assert!(log.keeper().first_position() > Position(1), "nothing went");
}

#[test]
fn control_with_the_sync_left_out_the_power_cuts_are_noticed() {
    let disk = RecordingStorage::new();
    disk.ignore_syncs();
    let history = live(&disk, 60, false, Acknowledge::AfterSync);
    assert!(power_cuts(&disk, &history).is_err());
}

#[test]
fn control_with_the_acknowledgement_before_the_sync_the_power_cuts_are_noticed() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 60, false, Acknowledge::BeforeSync);
    assert!(power_cuts(&disk, &history).is_err());
}

/// Kills the process at every change; a new one opens the log from the page cache and serves what it finds; then the
/// power fails: at any change of the recovery for what was acknowledged, right after it for what was served.
fn kills_then_power_cuts(
    disk: &RecordingStorage,
    history: &History,
    sync_in_recovery: bool,
) -> Result<usize, String> {
    let mut images = 0;
    for points in 0..=disk.points() {
        let killed = disk.after_kill(points, points as u64);
        if !sync_in_recovery {
            killed.ignore_syncs();
        }
        let (log, _, served) = check(&killed, history, points)?;
        drop(log);
        for during in points..killed.points() {
            let crash = Crash::Random(during as u64);
            check(&killed.after_power_cut(during, crash), history, points)?;
            images += 1;
        }
        for crash in crashes(points) {
            let after = killed.after_power_cut(killed.points(), crash);
            let (_, _, found) = check(&after, history, points)?;
            if found != served {
                return Err(format!(
                    "at change {points}: {served:?} were served, now {found:?}"
                ));
            }
            images += 1;
        }
    }
    Ok(images)
}

#[test]
fn what_a_restart_served_survives_a_power_cut_right_after() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 150, false, Acknowledge::AfterSync);
    let images = kills_then_power_cuts(&disk, &history, true).unwrap();
    assert!(images > 3_000, "{images} crash images are too few");
}

#[test]
fn control_without_making_the_last_frames_durable_again_it_is_noticed() {
    let disk = RecordingStorage::new();
    let history = live(&disk, 20, false, Acknowledge::AfterSync);
    assert!(kills_then_power_cuts(&disk, &history, false).is_err());
}

#[test]
fn a_log_that_was_made_is_there_whatever_ended_the_attempt_before() {
    let disk = RecordingStorage::new();
    make(&disk).unwrap();
    for points in 0..=disk.points() {
        let killed = disk.after_kill(points, points as u64);
        let id = make(&killed).unwrap();
        // From now on a log that is not there is lost.
        let made = killed.points();
        let (log, _) = Log::open(Arc::new(killed.clone()), options(), Position(0)).unwrap();
        drop(log);
        for during in made..=killed.points() {
            for crash in crashes(during) {
                let found = identity(&killed.after_power_cut(during, crash));
                assert_eq!(
                    found.unwrap(),
                    id,
                    "killed at {points}, cut at {during}, {crash:?}"
                );
            }
        }
    }
}

/// One life under a fault: what was promised, by attempt.
#[derive(Default)]
struct Outcome {
    acked: Vec<u64>,
    unknown: Option<u64>,
    full: usize,
    covered: u64,
}

fn put(log: &mut Log, attempt: u64, outcome: &mut Outcome) {
    match log.append(attempt, put_of(attempt)) {
        Ok(frame) => {
            outcome.acked.push(attempt);
            assert_eq!(frame.position.0, outcome.acked.len() as u64);
            log.publish(frame);
        }
        Err(AppendError::Full(_) | AppendError::Busy(_)) => outcome.full += 1,
        Err(AppendError::Unknown(_)) => {
            assert_eq!(
                outcome.unknown.replace(attempt),
                None,
                "stopped means stopped"
            );
        }
        Err(AppendError::Stopped) => {
            assert!(
                outcome.unknown.is_some(),
                "refused though nothing was unknown"
            );
        }
        Err(other) => panic!("{other}"),
    }
}

/// Reads all that is published, and that it is what was acknowledged. A read may fail by the injected fault: once.
fn read_all(reader: &LogReader, keeper: &Keeper, outcome: &Outcome) {
    let mut after = Position(keeper.first_position().0 - 1);
    let mut failures = 0;
    while after < reader.position() {
        match reader.read(after, 3000) {
            Ok(frames) => {
                for frame in frames {
                    assert_eq!(frame.position, after.next());
                    after = frame.position;
                    let attempt = outcome.acked[after.0 as usize - 1];
                    assert_eq!(frame.entries().next().unwrap().value, batch(attempt));
                }
            }
            Err(error) => {
                failures += 1;
                assert_eq!(failures, 1, "{error}");
            }
        }
    }
    assert_eq!(after.0, outcome.acked.len() as u64);
}

fn live_with_fault(disk: &RecordingStorage) -> Outcome {
    let mut outcome = Outcome::default();
    let shared = Arc::new(disk.clone());
    for life in 0..2u64 {
        let Ok((mut log, _)) = Log::open(shared.clone(), options(), Position(outcome.covered))
        else {
            return outcome;
        };
        if life == 1 && outcome.unknown.take().is_some() {
            // The new opening settles what was unknown.
            outcome.acked = attempts_after_unknown(&log, &outcome);
        }
        let reader = log.reader();
        let keeper = log.keeper();
        for attempt in 0..25 {
            put(&mut log, life * 100 + attempt, &mut outcome);
            if attempt % 8 == 7 {
                outcome.covered = (outcome.acked.len() as u64).saturating_sub(2);
                let _ = keeper.retain(Position(outcome.covered), 0);
                let _ = keeper.prepare();
                read_all(&reader, &keeper, &outcome);
            }
        }
        read_all(&reader, &keeper, &outcome);
        let _ = log.close();
    }
    outcome
}

fn attempts_after_unknown(log: &Log, outcome: &Outcome) -> Vec<u64> {
    let mut all = outcome.acked[..outcome.covered as usize].to_vec();
    all.extend(attempts_in(log, outcome.covered).unwrap());
    assert!(all.starts_with(&outcome.acked) && all.len() <= outcome.acked.len() + 1);
    all
}

/// Whatever call fails and however: nothing acknowledged is lost, nothing refused is there, the log opens again.
#[test]
fn every_call_may_fail_in_every_way() {
    let clean = RecordingStorage::new();
    let outcome = live_with_fault(&clean);
    assert_eq!(outcome.acked.len(), 50);
    let (mut full, mut unknown) = (0, 0);
    for number in 0..clean.calls() {
        for fault in DiskFault::ALL {
            let disk = RecordingStorage::new();
            disk.fail_call(number, fault);
            let outcome = live_with_fault(&disk);
            full += outcome.full;
            unknown += usize::from(outcome.unknown.is_some());
            let points = disk.points();
            let seed = number * 4;
            let images = [
                disk.after_kill(points, u64::MAX - seed),
                disk.after_power_cut(points, Crash::DropAll),
                disk.after_power_cut(points, Crash::KeepAll),
                disk.after_power_cut(points, Crash::Random(seed)),
                disk.after_power_cut(points, Crash::Random(seed + 1)),
            ];
            for (image, after) in images.into_iter().enumerate() {
                let what = format!("call {number}, {fault:?}, image {image}");
                let (log, _) = Log::open(Arc::new(after), options(), Position(outcome.covered))
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = attempts_in(&log, outcome.covered).expect(&what);
                let acked = &outcome.acked[outcome.covered as usize..];
                assert!(
                    found.starts_with(acked),
                    "{what}: {acked:?} became {found:?}"
                );
                let more: Vec<u64> = found[acked.len()..].to_vec();
                assert!(
                    more.is_empty() || more == Vec::from_iter(outcome.unknown),
                    "{what}: {more:?} was refused"
                );
            }
        }
    }
    assert!(full > 50 && unknown > 50, "{full} full, {unknown} unknown");
}
