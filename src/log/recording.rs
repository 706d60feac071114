//! A disk in memory for crash and fault tests: it keeps every call, and makes the disk as it may look after a power cut at
//! any of them.
//!
//! Owns: the model of what a crash may do. Promises to be as unkind as a disk may be: what no sync covered is dropped, torn
//! at sectors or at bytes, or kept, each write on its own; a file's content being durable says nothing of its name; after a
//! failed sync what it should have covered may be lost for ever, while reads still show it. Must not: be kinder than that,
//! or be used to store anything. A normal module, because the layers above are tested on it too.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::storage::{File, Storage};

const SECTOR_BYTES: usize = 512;

/// What becomes of the writes and names that no sync covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// All are lost.
    DropAll,
    /// All are there.
    KeepAll,
    /// Each is lost, kept or torn, as this seed says.
    Random(u64),
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No space; nothing of a write is done.
    Full,
    /// No space, after a part of a write was done.
    FullAfterPart,
    /// An I/O error; nothing of a write is done.
    Io,
    /// A part of a write is done, and the error says no more.
    Short,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct RecordingStorage {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Default)]
struct Disk {
    /// What was durable when recording began.
    base: Image,
    ops: Vec<Op>,
    /// What a running process sees.
    now: Image,
    calls: u64,
    fault: Option<(u64, Fault)>,
    ignore_syncs: bool,
}

#[derive(Clone, Default)]
struct Image {
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
}

#[derive(Clone)]
enum Op {
    Write(usize, u64, Vec<u8>),
    SetLen(usize, u64),
    Create(String, usize),
    Rename(String, String),
    Remove(String),
    Sync(usize),
    SyncDir,
    /// A sync that failed: what it should have covered is in doubt from here on.
    SyncFailed(usize, u64),
    SyncDirFailed(u64),
}

impl RecordingStorage {
    /// An empty disk.
    #[must_use]
    pub fn new() -> RecordingStorage {
        RecordingStorage::default()
    }

    /// Changes and syncs so far: the points at which a crash can be placed.
    #[must_use]
    pub fn points(&self) -> usize {
        self.disk().ops.len()
    }

    /// Calls of any kind so far, failed ones too.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Lets the call with this number (the first call of a disk is 0) fail, and only that one.
    pub fn fail_call(&self, number: u64, fault: Fault) {
        self.disk().fault = Some((number, fault));
    }

    /// A control for tests: syncs claim success and do nothing. A crash test that passes with it proves nothing.
    pub fn ignore_syncs(&self) {
        self.disk().ignore_syncs = true;
    }

    /// The disk after a power cut that came when the first `points` changes were made.
    #[must_use]
    pub fn after_power_cut(&self, points: usize, crash: Crash) -> RecordingStorage {
        let disk = self.disk();
        let mut durable = Durable::new(&disk.base);
        for op in &disk.ops[..points] {
            durable.record(op);
        }
        RecordingStorage::from_image(durable.settle(crash))
    }

    /// The disk after the process was killed at that point, while the system lives on: everything written is seen, nothing
    /// more of it is durable. If the last change is a write, only a part of it (as the seed says) was done.
    #[must_use]
    pub fn after_kill(&self, points: usize, seed: u64) -> RecordingStorage {
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
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk();
        let file = *disk.now.names.get(name)?;
        Some(disk.now.files[file].clone())
    }

    /// Puts bytes into a file behind everybody's back, durably: damage.
    pub fn bend(&self, name: &str, offset: usize, bytes: &[u8]) {
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

    fn from_image(image: Image) -> RecordingStorage {
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
    fn call(&mut self) -> Option<Fault> {
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

fn error_of(fault: Fault) -> io::Error {
    match fault {
        Fault::Full | Fault::FullAfterPart => io::ErrorKind::StorageFull.into(),
        Fault::Io => io::Error::other("the disk failed"),
        Fault::Short => io::ErrorKind::WriteZero.into(),
    }
}

impl Image {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(file, offset, bytes) => self.write(*file, *offset as usize, bytes),
            Op::SetLen(file, bytes) => self.file(*file).resize(*bytes as usize, 0),
            Op::Create(name, file) => {
                self.file(*file);
                self.names.insert(name.clone(), *file);
            }
            Op::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Op::Remove(name) => {
                self.names.remove(name);
            }
            Op::Sync(_) | Op::SyncDir | Op::SyncFailed(..) | Op::SyncDirFailed(_) => {}
        }
    }

    fn write(&mut self, file: usize, offset: usize, bytes: &[u8]) {
        let content = self.file(file);
        let end = offset + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset..end].copy_from_slice(bytes);
    }

    fn file(&mut self, file: usize) -> &mut Vec<u8> {
        if self.files.len() <= file {
            self.files.resize_with(file + 1, Vec::new);
        }
        &mut self.files[file]
    }
}

/// What is on the disk for sure, and what is underway to it.
struct Durable<'a> {
    image: Image,
    contents: Vec<&'a Op>,
    names: Vec<&'a Op>,
}

impl<'a> Durable<'a> {
    fn new(base: &Image) -> Durable<'a> {
        Durable {
            image: base.clone(),
            contents: Vec::new(),
            names: Vec::new(),
        }
    }

    fn record(&mut self, op: &'a Op) {
        match op {
            Op::Write(..) | Op::SetLen(..) => self.contents.push(op),
            Op::Create(..) | Op::Rename(..) | Op::Remove(_) => self.names.push(op),
            Op::Sync(file) => self.settle_file(*file, Crash::KeepAll),
            Op::SyncFailed(file, seed) => self.settle_file(*file, Crash::Random(*seed)),
            Op::SyncDir => self.settle_names(Crash::KeepAll),
            Op::SyncDirFailed(seed) => self.settle_names(Crash::Random(*seed)),
        }
    }

    fn settle_file(&mut self, file: usize, crash: Crash) {
        let of_file = |op: &Op| matches!(op, Op::Write(of, ..) | Op::SetLen(of, _) if *of == file);
        let (mine, others): (Vec<&Op>, Vec<&Op>) =
            self.contents.iter().copied().partition(|op| of_file(op));
        self.contents = others;
        apply_some(&mut self.image, &mine, crash);
    }

    fn settle_names(&mut self, crash: Crash) {
        let names = std::mem::take(&mut self.names);
        apply_some(&mut self.image, &names, crash);
    }

    fn settle(mut self, crash: Crash) -> Image {
        self.settle_names(crash);
        let contents = std::mem::take(&mut self.contents);
        apply_some(&mut self.image, &contents, crash);
        self.image
    }
}

/// Applies those that the crash lets live, in their order, writes perhaps in parts.
fn apply_some(image: &mut Image, ops: &[&Op], crash: Crash) {
    let mut dice = match crash {
        Crash::DropAll => return,
        Crash::KeepAll => {
            ops.iter().for_each(|op| image.apply(op));
            return;
        }
        Crash::Random(seed) => Dice(seed),
    };
    for op in ops {
        match (dice.below(4), op) {
            (0, _) => {}
            (1, _) => image.apply(op),
            (2, Op::Write(file, offset, bytes)) => {
                // A torn write: a first part, to the byte.
                let cut = dice.below(bytes.len() + 1);
                image.write(*file, *offset as usize, &bytes[..cut]);
            }
            (_, Op::Write(file, offset, bytes)) => {
                tear_at_sectors(image, &mut dice, *file, *offset as usize, bytes);
            }
            (side, _) => {
                if side == 2 {
                    image.apply(op);
                }
            }
        }
    }
}

/// Each sector of the disk that a write touches is written or not, in no order.
fn tear_at_sectors(image: &mut Image, dice: &mut Dice, file: usize, offset: usize, bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let to_border = SECTOR_BYTES - (offset + at) % SECTOR_BYTES;
        let end = (at + to_border).min(bytes.len());
        if dice.below(2) == 0 {
            image.write(file, offset + at, &bytes[at..end]);
        }
        at = end;
    }
}

/// Repeatable dice (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
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
        disk.file_of(from)?;
        disk.record(Op::Rename(from.to_owned(), to.to_owned()));
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
            Some(Fault::Full | Fault::Io) => 0,
            Some(Fault::FullAfterPart | Fault::Short) => Dice(disk.calls).below(bytes.len().max(1)),
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
