//! One segment file: its name, its sparse index, and a cursor that reads frames out of it.
//!
//! Owns: how segments and spares are named, and where in a segment a position is. Promises: a cursor hands out only
//! frames whose CRC holds, and reads nothing twice but the rest of a block. Must not: judge whether a frame is the one
//! that should come next (see `scan` and `reader`), nor write.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

use super::super::frame::{self, FRAME_BYTES_MAX, HEADER_BYTES, Header};
use super::storage::{File, Storage};
use tideline_base::ids::Position;

/// Every so many bytes of a segment, its index has an entry.
const INDEX_STEP_BYTES: u64 = 32 * 1024;

/// "Not known yet" for a segment's first commit time.
const UNKNOWN: u64 = u64::MAX;

/// The file name of the segment that begins with a position.
pub(crate) fn segment_name(first: Position) -> String {
    format!("{:020}.log", first.0)
}

/// The file name of a retired segment that waits to be reused.
pub(super) fn spare_name(first: Position) -> String {
    format!("{:020}.spare", first.0)
}

/// The file name of a spare that was made of zeros before `next` was appended.
pub(super) fn zeros_name(next: Position) -> String {
    format!("{:020}.zeros", next.0)
}

/// The first positions of the segments among files with these names, in order.
pub(in crate::log) fn segment_firsts(names: &[String]) -> Vec<Position> {
    let mut firsts: Vec<Position> = names.iter().filter_map(|n| parse_segment_name(n)).collect();
    firsts.sort_unstable();
    firsts
}

/// The first position that a segment's file name tells.
pub(super) fn parse_segment_name(name: &str) -> Option<Position> {
    parse_name(name, ".log")
}

/// Whether a file is a spare.
pub(super) fn is_spare_name(name: &str) -> bool {
    parse_name(name, ".spare").is_some() || parse_name(name, ".zeros").is_some()
}

fn parse_name(name: &str, end: &str) -> Option<Position> {
    let digits = name.strip_suffix(end)?;
    if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Position)
}

/// A segment that is part of the log. Readers hold it while they read; only one that nobody holds is reused.
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) first: Position,
    /// The file of the active segment. Others are opened by their readers, for as long as they read: a log may have
    /// more segments than a process may have descriptors.
    file: Mutex<Option<Arc<dyn File>>>,
    /// Some frames, rising, at least a step apart.
    index: Mutex<Vec<Known>>,
    first_commit_ms: AtomicU64,
    bytes: AtomicU64,
}

/// Where a frame is, and when it was committed.
#[derive(Clone, Copy)]
struct Known {
    position: Position,
    offset: u64,
    commit_us: u64,
}

impl Segment {
    /// A segment whose file is not open yet.
    pub(super) fn closed(first: Position) -> Segment {
        Segment {
            name: segment_name(first),
            first,
            file: Mutex::new(None),
            index: Mutex::new(Vec::new()),
            first_commit_ms: AtomicU64::new(UNKNOWN),
            bytes: AtomicU64::new(0),
        }
    }

    /// A segment with its open file.
    pub(super) fn opened(first: Position, file: Arc<dyn File>) -> Segment {
        let segment = Segment::closed(first);
        *segment.held() = Some(file);
        segment
    }

    /// The open file.
    pub(super) fn file(&self, storage: &dyn Storage) -> io::Result<Arc<dyn File>> {
        let held = self.held().clone();
        held.map_or_else(|| storage.open(&self.name), Ok)
    }

    /// Another segment is the active one now.
    pub(super) fn close(&self) {
        *self.held() = None;
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<dyn File>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers where a frame is, if the last entry is far enough away. Called in rising order; others are ignored.
    pub(super) fn note(&self, position: Position, offset: u64, commit_us: u64) {
        if offset == 0 {
            let commit_ms = commit_us / 1_000;
            self.first_commit_ms.store(commit_ms, Ordering::Relaxed);
        }
        let mut index = self.index();
        let far = match index.last() {
            Some(last) => offset >= last.offset + INDEX_STEP_BYTES,
            None => true,
        };
        if far {
            index.push(Known {
                position,
                offset,
                commit_us,
            });
        }
    }

    /// The last known frame at or below a position, with its offset: a place to start walking from.
    pub(super) fn near(&self, position: Position) -> (Position, u64) {
        let index = self.index();
        match index.partition_point(|known| known.position <= position) {
            0 => (self.first, 0),
            after => (index[after - 1].position, index[after - 1].offset),
        }
    }

    /// The last known frame that was committed before a time; if none is known, the end of the segment before.
    pub(super) fn before(&self, commit_us: u64) -> Position {
        let index = self.index();
        match index.partition_point(|known| known.commit_us < commit_us) {
            0 => Position(self.first.0 - 1),
            after => index[after - 1].position,
        }
    }

    /// The commit time of the first frame, if it was seen.
    pub(super) fn first_commit_ms(&self) -> Option<u64> {
        match self.first_commit_ms.load(Ordering::Relaxed) {
            UNKNOWN => None,
            ms => Some(ms),
        }
    }

    /// The file's length as last set.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    fn index(&self) -> MutexGuard<'_, Vec<Known>> {
        // A panic can't leave the list half changed.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads frames of one file, a block at a time.
pub(super) struct FrameCursor {
    file: Arc<dyn File>,
    block_bytes: usize,
    block: Bytes,
    block_at: u64,
}

impl FrameCursor {
    /// A cursor that reads `block_bytes` at once (more for larger frames).
    pub(super) fn new(file: Arc<dyn File>, block_bytes: usize) -> FrameCursor {
        FrameCursor {
            file,
            block_bytes,
            block: Bytes::new(),
            block_at: 0,
        }
    }

    /// The whole frame that begins at `offset`; `None` if there is none.
    pub(super) fn frame_at(&mut self, offset: u64) -> io::Result<Option<(Header, Bytes)>> {
        let Some(header) = Header::parse(&self.bytes_at(offset, HEADER_BYTES)?) else {
            return Ok(None);
        };
        if header.frame_bytes() > FRAME_BYTES_MAX {
            return Ok(None);
        }
        let bytes = self.bytes_at(offset, header.frame_bytes())?;
        Ok(frame::whole(&bytes, &header).then_some((header, bytes)))
    }

    /// Up to `count` bytes at `offset`, less only at the end of the file.
    pub(super) fn bytes_at(&mut self, offset: u64, count: usize) -> io::Result<Bytes> {
        if let Some(bytes) = self.in_block(offset, count) {
            return Ok(bytes);
        }
        let rest = self.file.len()?.saturating_sub(offset);
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        let mut block = BytesMut::zeroed(count.max(self.block_bytes).min(rest));
        let read = self.file.read_at(&mut block, offset)?;
        block.truncate(read);
        self.block = block.freeze();
        self.block_at = offset;
        Ok(self.block.slice(..count.min(read)))
    }

    fn in_block(&self, offset: u64, count: usize) -> Option<Bytes> {
        let start = usize::try_from(offset.checked_sub(self.block_at)?).ok()?;
        let end = start.checked_add(count)?;
        (end <= self.block.len()).then(|| self.block.slice(start..end))
    }
}
