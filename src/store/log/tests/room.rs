//! The room that a log keeps for what makes room, on a disk that has so many bytes and no more.
//!
//! Owns: that disk. Promises: it counts what files hold, and refuses a write that would pass its size, whole. Must not:
//! lose power (see `crashes.rs`).

use std::io;

use super::*;
use crate::log::local::{File, Storage};

/// The bytes of the disk.
const DISK_BYTES: u64 = 24_000;

#[derive(Clone)]
pub(crate) struct SmallDisk(RecordingStorage);

struct SmallFile {
    file: Arc<dyn File>,
    disk: SmallDisk,
}

impl SmallDisk {
    pub(crate) fn new() -> SmallDisk {
        SmallDisk(RecordingStorage::new())
    }

    fn room(&self) -> u64 {
        let files = self.0.list().unwrap();
        let bytes = |name: &String| self.0.open(name).unwrap().len().unwrap();
        DISK_BYTES - files.iter().map(bytes).sum::<u64>()
    }

    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        let disk = self.clone();
        Arc::new(SmallFile { file, disk })
    }
}

impl Storage for SmallDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.0.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.0.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }

    fn left(&self) -> Option<u64> {
        Some(self.room())
    }
}

impl File for SmallFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let grows = (offset + bytes.len() as u64).saturating_sub(self.file.len()?);
        if grows > self.disk.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn options(room_bytes: u64) -> Options {
    Options {
        segment_bytes: 2_000,
        retention_bytes: 1,
        spare_segments: 2,
        room_bytes,
        ..Options::default()
    }
}

/// Appends a row of so many bytes that nothing squeezes.
fn append(log: &mut Log, bytes: usize) -> Result<(), AppendError> {
    let number = log.settled().0 + 1;
    let mut seed = number;
    let value = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u8
    });
    let value: Vec<u8> = value.take(bytes).collect();
    let frame = log.append(number, draft(&number.to_be_bytes(), &value, None))?;
    log.publish(frame);
    Ok(())
}

/// Appends what makes room, as the writer does.
fn make_room(log: &mut Log) {
    let appended = append(log, 60);
    if matches!(appended, Err(AppendError::Full(_))) {
        assert!(log.use_room());
        append(log, 60).unwrap();
    }
}

/// Appends until there is no room; how many there were.
fn fill(log: &mut Log, bytes: usize) -> u64 {
    let before = log.settled().0;
    while append(log, bytes).is_ok() {}
    assert!(matches!(append(log, bytes), Err(AppendError::Full(_))));
    log.settled().0 - before
}

#[test]
fn a_full_log_takes_what_makes_room_and_has_room_again_once_segments_go() {
    // Frames of which a segment has many, few, or one: the last one has some, or none.
    for bytes in [40, 300, 700, 1_300, 1_900] {
        let storage = Arc::new(SmallDisk::new());
        let (mut log, _) = Log::open(storage.clone(), options(1_800), Position(0)).unwrap();
        let keeper = log.keeper();
        keeper.keep_room().unwrap();
        assert!(keeper.has_room());
        for turn in 0..5 {
            assert!(fill(&mut log, bytes) > 0, "{bytes}, {turn}");
            assert!(log.use_room() && !log.use_room());
            make_room(&mut log);
            // What was not used is kept on; else the disk has none for it, until the log lets go.
            keeper.keep_room().unwrap();
            make_room(&mut log);
            keeper.retain(log.settled(), u64::MAX).unwrap();
            keeper.keep_room().unwrap();
            assert!(keeper.has_room(), "{bytes}, {turn}");
        }
        let last = log.settled();
        log.close().unwrap();
        let (log, opened) = Log::open(storage, options(1_800), last).unwrap();
        assert!(log.settled() == last && opened.clean && log.keeper().has_room());
    }
}

#[test]
fn a_log_that_nobody_appends_to_gives_up_its_room_and_its_spares_and_is_read_as_before() {
    let storage = Arc::new(SmallDisk::new());
    let (mut log, _) = Log::open(storage.clone(), options(1_800), Position(0)).unwrap();
    for _ in 0..9 {
        append(&mut log, 900).unwrap();
    }
    log.keeper().retain(log.settled(), u64::MAX).unwrap();
    log.keeper().keep_room().unwrap();
    let last = log.settled();
    log.close().unwrap();
    let before = storage.room();
    give_up(&*storage).unwrap();
    assert!(
        storage.room() > before + 1_800,
        "the room, and at least one spare"
    );
    let (log, opened) = Log::open(storage, options(1_800), last).unwrap();
    assert!(log.settled() == last && opened.clean && !log.keeper().has_room());
}

#[test]
fn control_without_it_nothing_is_taken() {
    let storage = Arc::new(SmallDisk::new());
    let (mut log, _) = Log::open(storage, options(0), Position(0)).unwrap();
    log.keeper().keep_room().unwrap();
    fill(&mut log, 300);
    assert!(!log.use_room() && log.keeper().has_room());
    fill(&mut log, 60);
    assert!(matches!(append(&mut log, 60), Err(AppendError::Full(_))));
}
