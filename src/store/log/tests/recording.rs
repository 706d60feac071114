//! A disk in memory for crash and fault tests: it keeps every change, can be cut off at any of them, and fails where
//! the test says.
//!
//! Owns: the calls and their faults; what a crash leaves is in `power_cut.rs`. Promises: the same calls and seeds give
//! the same disk. The layers above are tested on it too.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::power_cut::{Crash, Dice, DiskImage, Op, durable_after};
use crate::log::local::{File, Storage};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// No space; nothing of a write is done.
    Full,
    /// No space, after a part of a write was done.
    FullAfterPart,
    /// An I/O error; nothing of a write is done.
    Io,
    /// A part of a write is done, and the error says no more.
    Short,
}

impl DiskFault {
    pub(crate) const ALL: [DiskFault; 4] = [
        DiskFault::Full,
        DiskFault::FullAfterPart,
        DiskFault::Io,
        DiskFault::Short,
    ];
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct RecordingStorage {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Default)]
struct Disk {
    /// What was durable when recording began.
    base: DiskImage,
    ops: Vec<Op>,
    /// What a running process sees.
    now: DiskImage,
    calls: u64,
    fault: Option<(u64, DiskFault)>,
    ignore_syncs: bool,
}

impl RecordingStorage {
    /// An empty disk.
    pub(crate) fn new() -> RecordingStorage {
        RecordingStorage::default()
    }

    /// Changes and syncs so far: the points at which a crash can be placed.
    pub(crate) fn points(&self) -> usize {
        self.disk().ops.len()
    }

    /// Calls of any kind so far, failed ones too.
    pub(crate) fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Lets the call with this number (the first call of a disk is 0) fail, and only that one.
    pub(crate) fn fail_call(&self, number: u64, fault: DiskFault) {
        self.disk().fault = Some((number, fault));
    }

    /// A control for tests: syncs claim success and do nothing. A crash test that passes with it proves nothing.
    pub(crate) fn ignore_syncs(&self) {
        self.disk().ignore_syncs = true;
    }

    /// The disk after a power cut that came when the first `points` changes were made.
    pub(crate) fn after_power_cut(&self, points: usize, crash: Crash) -> RecordingStorage {
        let disk = self.disk();
        RecordingStorage::from_image(durable_after(&disk.base, &disk.ops[..points], crash))
    }

    /// The disk after the process was killed at that point, while the system lives on: everything written is seen,
    /// nothing more of it is durable. If the last change is a write, only a part of it (as the seed says) was done.
    pub(crate) fn after_kill(&self, points: usize, seed: u64) -> RecordingStorage {
        let disk = self.disk();
        let mut ops = disk.ops[..points].to_vec();
        if let Some(Op::Write(_, _, bytes)) = ops.last_mut() {
            bytes.truncate(Dice(seed).below(bytes.len() + 1));
        }
        let mut now = disk.base.clone();
        for op in &ops {
            now.apply(op);
        }
        RecordingStorage {
            disk: Arc::new(Mutex::new(Disk {
                base: disk.base.clone(),
                ops,
                now,
                ..Disk::default()
            })),
        }
    }

    /// The bytes of a file as a process sees them; for tests that look at them or bend them.
    pub(crate) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk();
        let file = *disk.now.names.get(name)?;
        Some(disk.now.files[file].clone())
    }

    /// Puts bytes into a file behind everybody's back, durably: damage.
    pub(crate) fn bend(&self, name: &str, offset: usize, bytes: &[u8]) {
        let mut disk = self.disk();
        let Some(file) = disk.now.names.get(name).copied() else {
            return;
        };
        for op in [
            Op::Write(file, offset as u64, bytes.to_vec()),
            Op::Sync(file),
        ] {
            disk.record(op);
        }
    }

    /// Cuts a file behind everybody's back, durably: loss.
    pub(crate) fn cut(&self, name: &str, bytes: usize) {
        let mut disk = self.disk();
        let Some(file) = disk.now.names.get(name).copied() else {
            return;
        };
        for op in [Op::SetLen(file, bytes as u64), Op::Sync(file)] {
            disk.record(op);
        }
    }

    fn from_image(image: DiskImage) -> RecordingStorage {
        RecordingStorage {
            disk: Arc::new(Mutex::new(Disk {
                base: image.clone(),
                now: image,
                ..Disk::default()
            })),
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A test that panicked elsewhere may still look at the disk.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// Counts a call; the fault if this is the one to fail.
    fn call(&mut self) -> Option<DiskFault> {
        let number = self.calls;
        self.calls += 1;
        self.fault
            .filter(|(at, _)| *at == number)
            .map(|(_, fault)| fault)
    }

    fn call_or_fail(&mut self) -> io::Result<()> {
        match self.call() {
            None => Ok(()),
            Some(fault) => Err(error_of(fault)),
        }
    }

    fn record(&mut self, op: Op) {
        self.now.apply(&op);
        self.ops.push(op);
    }

    fn file_of(&self, name: &str) -> io::Result<usize> {
        self.now
            .names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&mut self, good: Op, bad: impl FnOnce(u64) -> Op) -> io::Result<()> {
        if let Some(fault) = self.call() {
            self.record(bad(self.calls));
            return Err(error_of(fault));
        }
        if !self.ignore_syncs {
            self.record(good);
        }
        Ok(())
    }
}

fn error_of(fault: DiskFault) -> io::Error {
    match fault {
        DiskFault::Full | DiskFault::FullAfterPart => io::ErrorKind::StorageFull.into(),
        DiskFault::Io => io::Error::other("the disk failed"),
        DiskFault::Short => io::ErrorKind::WriteZero.into(),
    }
}

impl Storage for RecordingStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk();
        disk.call_or_fail()?;
        if disk.now.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = disk.now.files.len();
        disk.record(Op::Create(name.to_owned(), file));
        drop(disk);
        Ok(self.handle(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk();
        disk.call_or_fail()?;
        let file = disk.file_of(name)?;
        drop(disk);
        Ok(self.handle(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut disk = self.disk();
        disk.call_or_fail()?;
        Ok(disk.now.names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call_or_fail()?;
        let file = disk.file_of(from)?;
        disk.record(Op::Rename(from.to_owned(), to.to_owned(), file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call_or_fail()?;
        disk.file_of(name)?;
        disk.record(Op::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk().sync(Op::SyncDir, Op::SyncDirFailed)
    }
}

impl RecordingStorage {
    fn handle(&self, file: usize) -> Arc<dyn File> {
        Arc::new(RecordingFile {
            storage: self.clone(),
            file,
        })
    }
}

struct RecordingFile {
    storage: RecordingStorage,
    file: usize,
}

impl File for RecordingFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.storage.disk();
        let fault = disk.call();
        let done = match fault {
            None => bytes.len(),
            Some(DiskFault::Full | DiskFault::Io) => 0,
            Some(DiskFault::FullAfterPart | DiskFault::Short) => {
                Dice(disk.calls).below(bytes.len().max(1))
            }
        };
        if done > 0 {
            disk.record(Op::Write(self.file, offset, bytes[..done].to_vec()));
        }
        fault.map_or(Ok(()), |fault| Err(error_of(fault)))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.storage.disk();
        disk.call_or_fail()?;
        let content = &disk.now.files[self.file];
        let start = content.len().min(offset as usize);
        let count = buffer.len().min(content.len() - start);
        buffer[..count].copy_from_slice(&content[start..start + count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        let mut disk = self.storage.disk();
        disk.call_or_fail()?;
        Ok(disk.now.files[self.file].len() as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.storage.disk();
        disk.call_or_fail()?;
        disk.record(Op::SetLen(self.file, bytes));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let file = self.file;
        self.storage
            .disk()
            .sync(Op::Sync(file), |seed| Op::SyncFailed(file, seed))
    }
}
