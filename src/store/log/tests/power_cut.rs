//! What a power cut leaves of a recorded disk.
//!
//! Owns: the model. Promises to be as unkind as a disk may be: what no sync covered is dropped, torn at sectors or at
//! bytes, or kept, each write on its own; a file's content being durable says nothing of its name; after a failed sync
//! what it should have covered may be lost for ever, while reads still show it. Must not: be kinder than that.

use std::collections::BTreeMap;

const SECTOR_BYTES: usize = 512;

/// What becomes of the writes and names that no sync covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// All are lost.
    DropAll,
    /// All are there.
    KeepAll,
    /// Each is lost, kept or torn, as this seed says.
    Random(u64),
}

/// Names and contents. A file without a name keeps its number.
#[derive(Clone, Default)]
pub(super) struct DiskImage {
    pub(super) names: BTreeMap<String, usize>,
    pub(super) files: Vec<Vec<u8>>,
}

/// A change of the disk, or a sync.
#[derive(Clone)]
pub(super) enum Op {
    Write(usize, u64, Vec<u8>),
    SetLen(usize, u64),
    Create(String, usize),
    /// From, to, and the file: a durable rename names it whatever became of the changes before.
    Rename(String, String, usize),
    Remove(String),
    Sync(usize),
    SyncDir,
    /// A sync that failed: what it should have covered is in doubt from here on.
    SyncFailed(usize, u64),
    SyncDirFailed(u64),
}

/// The disk after a power cut behind `ops`.
pub(super) fn durable_after(base: &DiskImage, ops: &[Op], crash: Crash) -> DiskImage {
    let mut durable = Durable {
        image: base.clone(),
        contents: Vec::new(),
        names: Vec::new(),
    };
    for op in ops {
        durable.record(op);
    }
    durable.settle(crash)
}

impl DiskImage {
    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(file, offset, bytes) => self.write(*file, *offset as usize, bytes),
            Op::SetLen(file, bytes) => self.file(*file).resize(*bytes as usize, 0),
            Op::Create(name, file) => {
                self.file(*file);
                self.names.insert(name.clone(), *file);
            }
            Op::Rename(from, to, file) => {
                self.names.remove(from);
                self.names.insert(to.clone(), *file);
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
    image: DiskImage,
    contents: Vec<&'a Op>,
    names: Vec<&'a Op>,
}

impl<'a> Durable<'a> {
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

    fn settle(mut self, crash: Crash) -> DiskImage {
        self.settle_names(crash);
        let contents = std::mem::take(&mut self.contents);
        apply_some(&mut self.image, &contents, crash);
        self.image
    }
}

/// Applies those that the crash lets live, in their order, writes perhaps in parts.
fn apply_some(image: &mut DiskImage, ops: &[&Op], crash: Crash) {
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
fn tear_at_sectors(
    image: &mut DiskImage,
    dice: &mut Dice,
    file: usize,
    offset: usize,
    bytes: &[u8],
) {
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
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number below `sides`.
    pub(super) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }
}
