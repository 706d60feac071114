//! The segments of a log: which there are, how the next is begun, and which may go.
//!
//! Owns: the list of segments, the spares, retention. Promises: a segment goes only when the image covers it and it is
//! too old or the log too large; never the active one, nor the one with the newest frame. Segments go one by one, the
//! oldest first, each durably, so that no crash leaves a hole. Must not: write frames.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::super::error::Error;
use super::super::lock;
use super::super::medium::LogFigures;
use super::segment::{FrameCursor, Segment, segment_name, spare_name};
use super::storage::{File, Storage};
use tideline_base::ids::Position;

/// When segments go and how many wait for reuse.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetentionLimits {
    pub(super) age_ms: u64,
    pub(super) bytes: u64,
    pub(super) spares: usize,
    pub(super) segment_bytes: u64,
    /// Kept for what makes room; 0 = none.
    pub(super) room_bytes: u64,
}

/// The file that is kept for what makes room: a segment of zeros that is none yet.
pub(super) const ROOM: &str = "room";

/// The segments of the log, shared by the writer, the readers and retention.
pub(super) struct Segments {
    storage: Arc<dyn Storage>,
    limits: RetentionLimits,
    list: Mutex<VecDeque<Arc<Segment>>>,
    spares: Mutex<Vec<String>>,
    /// [`ROOM`] is there.
    has_room: AtomicBool,
    /// Held during each change of the directory and its sync: no two changes are ever underway at once.
    directory: Mutex<()>,
    /// After a failed sync of the directory nobody knows which names a crash would leave: no segment goes any more.
    broken: AtomicBool,
    /// The active segment is well filled and the next one should be ready.
    spare_wanted: AtomicBool,
}

/// A new segment and its open file.
pub(super) type Begun = (Arc<Segment>, Arc<dyn File>);

/// Why a segment was not begun.
pub(super) struct BeginError {
    pub(super) source: io::Error,
    /// Whether its name may be there now, so that nothing more may be written.
    pub(super) named: bool,
}

impl Segments {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        limits: RetentionLimits,
        list: Vec<Arc<Segment>>,
        spares: Vec<String>,
        has_room: bool,
    ) -> Segments {
        Segments {
            has_room: AtomicBool::new(has_room),
            storage,
            limits,
            list: Mutex::new(list.into()),
            spares: Mutex::new(spares),
            directory: Mutex::new(()),
            broken: AtomicBool::new(false),
            spare_wanted: AtomicBool::new(false),
        }
    }

    pub(super) fn storage(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    /// The segment that holds a position, or would; `Err` with the first position if it is gone.
    pub(super) fn find(&self, position: Position) -> Result<Arc<Segment>, Position> {
        let list = lock(&self.list);
        match list.partition_point(|segment| segment.first <= position) {
            0 => Err(list.front().map_or(Position::ZERO, |first| first.first)),
            after => Ok(list[after - 1].clone()),
        }
    }

    /// The segment after one, if there is one.
    pub(super) fn after(&self, segment: &Segment) -> Option<Arc<Segment>> {
        let list = lock(&self.list);
        let after = list.partition_point(|other| other.first <= segment.first);
        list.get(after).cloned()
    }

    pub(super) fn first_position(&self) -> Position {
        lock(&self.list)
            .front()
            .map_or(Position::ZERO, |segment| segment.first)
    }

    /// The first position of the newest segment.
    pub(super) fn last_first(&self) -> Position {
        lock(&self.list)
            .back()
            .map_or(Position::ZERO, |segment| segment.first)
    }

    /// A position whose frame and all before it were committed before this time; walking from there soon finds the
    /// first one that was not.
    pub(super) fn before(&self, commit_us: u64) -> Position {
        let list: Vec<_> = lock(&self.list).iter().cloned().collect();
        let is_before = |segment: &Arc<Segment>| {
            let known = segment.first_commit_ms();
            let first_ms = known.or_else(|| self.read_commit_ms(segment));
            first_ms.is_some_and(|first_ms| first_ms < commit_us / 1_000)
        };
        match list.partition_point(is_before) {
            0 => Position(list.first().map_or(0, |first| first.first.0 - 1)),
            after => list[after - 1].before(commit_us),
        }
    }

    /// First positions and bytes, oldest first.
    pub(super) fn pieces(&self) -> Vec<(Position, u64)> {
        let list = lock(&self.list);
        let piece = |segment: &Arc<Segment>| (segment.first, segment.bytes());
        list.iter().map(piece).collect()
    }

    pub(super) fn figures(&self) -> LogFigures {
        let (oldest, segments, bytes) = {
            let list = lock(&self.list);
            let bytes = list.iter().map(|segment| segment.bytes()).sum();
            (list.front().cloned(), list.len(), bytes)
        };
        let first_ms = oldest.as_ref().and_then(|segment| {
            // Its first frame never changes, so it is read at most once.
            let known = segment.first_commit_ms();
            known.or_else(|| self.read_commit_ms(segment))
        });
        LogFigures {
            first: oldest.map_or(Position::ZERO, |segment| segment.first),
            first_ms,
            segments,
            bytes,
        }
    }

    /// Opens the file of the segment that begins with `first`: a spare under its new name, or a new file. When this
    /// returns the name is durable.
    pub(super) fn begin(&self, first: Position) -> Result<Begun, BeginError> {
        let _directory = lock(&self.directory);
        let name = segment_name(first);
        let mut spares = lock(&self.spares);
        let error = |named| move |source| BeginError { source, named };
        let made = match spares.last() {
            // Opened before it has the name: without a descriptor nothing has changed.
            Some(spare) => self
                .storage
                .open(spare)
                .and_then(|file| self.storage.rename(spare, &name).map(|()| file)),
            None => self.storage.create(&name),
        };
        let file = made.map_err(error(false))?;
        spares.pop();
        drop(spares);
        self.storage.sync_dir().map_err(error(true))?;
        let bytes = file.len().map_err(error(true))?;
        let segment = Arc::new(Segment::opened(first, file.clone()));
        segment.set_bytes(bytes);
        let mut list = lock(&self.list);
        // A segment that has got no frame, for want of room, makes place for one that has room.
        list.pop_back_if(|last| last.first == first);
        if let Some(before) = list.back() {
            before.close();
        }
        list.push_back(segment.clone());
        drop(list);
        Ok((segment, file))
    }

    /// Asks for a spare to be ready before the active segment is full.
    pub(super) fn want_spare(&self) {
        self.spare_wanted.store(true, Ordering::Relaxed);
    }

    /// The size of the spare to make, if one was asked for and there is none.
    pub(super) fn spare_bytes_wanted(&self) -> Option<u64> {
        let wanted = self.limits.spares > 0
            && !self.broken.load(Ordering::Acquire)
            && self.spare_wanted.swap(false, Ordering::Relaxed)
            && lock(&self.spares).is_empty();
        wanted.then_some(self.limits.segment_bytes)
    }

    /// Takes a finished file in as a spare.
    pub(super) fn add_spare(&self, file: &str, spare: String) -> io::Result<()> {
        let _directory = lock(&self.directory);
        self.storage.rename(file, &spare)?;
        self.storage.sync_dir()?;
        lock(&self.spares).push(spare);
        Ok(())
    }

    /// How much room is to be set aside, if none is. What was to be used and was not is the room again.
    pub(super) fn room_bytes_wanted(&self) -> Option<u64> {
        let bytes = self.limits.room_bytes;
        let mut spares = lock(&self.spares);
        if let Some(at) = spares.iter().position(|spare| spare == ROOM) {
            spares.remove(at);
            self.has_room.store(true, Ordering::Release);
        }
        drop(spares);
        let wanted = bytes > 0 && !self.has_room() && !self.broken.load(Ordering::Acquire);
        wanted.then_some(bytes)
    }

    /// Takes a finished file in as the room.
    pub(super) fn add_room(&self, file: &str) -> io::Result<()> {
        let _directory = lock(&self.directory);
        self.storage.rename(file, ROOM)?;
        self.storage.sync_dir()?;
        self.has_room.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether the room is there, or none is to be kept.
    pub(super) fn has_room(&self) -> bool {
        self.limits.room_bytes == 0 || self.has_room.load(Ordering::Acquire)
    }

    /// Makes the room a spare: the next segment will have it. Whether there was any.
    pub(super) fn use_room(&self) -> bool {
        let mut spares = lock(&self.spares);
        let had = self.has_room.swap(false, Ordering::AcqRel);
        if had {
            spares.push(ROOM.to_owned());
        }
        had
    }

    /// Gives the disk back a segment that waits to be used again; whether there was one.
    pub(super) fn drop_spare(&self) -> Result<bool, Error> {
        let _directory = lock(&self.directory);
        let Some(spare) = lock(&self.spares).pop_if(|spare| spare != ROOM) else {
            return Ok(false);
        };
        let removed = self.storage.remove(&spare);
        let removed = removed.and_then(|()| self.storage.sync_dir());
        removed
            .map(|()| true)
            .map_err(|error| Error::io(&spare, error))
    }

    /// Lets go of what may go; returns how many segments went.
    pub(super) fn retain(&self, covered: Position, now_ms: u64) -> Result<usize, Error> {
        let mut gone = 0;
        while !self.broken.load(Ordering::Acquire) {
            let _directory = lock(&self.directory);
            let Some(segment) = self.take_oldest(covered, now_ms) else {
                break;
            };
            self.retire(segment)?;
            gone += 1;
        }
        Ok(gone)
    }

    /// Whether the next segment has its file, and so its room, already.
    pub(super) fn has_spare(&self) -> bool {
        !lock(&self.spares).is_empty()
    }

    /// Takes the oldest segment out of the list, if it may go. Only who holds the directory changes the list, so it
    /// stays as it is while a file is read, and readers don't wait for that.
    fn take_oldest(&self, covered: Position, now_ms: u64) -> Option<Arc<Segment>> {
        let (second, count, bytes) = {
            let list = lock(&self.list);
            let bytes: u64 = list.iter().map(|segment| segment.bytes()).sum();
            (list.get(1)?.clone(), list.len(), bytes)
        };
        // All of the oldest segment is below the second's first position. If that one has no frame yet, the newest
        // frame of the log is in the oldest, and the next frame must name its CRC. A frame that is in the active
        // segment's file but not known yet is not synced yet: a power cut would take it.
        let is_active = count == 2;
        let second_ms = match second.first_commit_ms() {
            None if !is_active => self.read_commit_ms(&second)?,
            known => known?,
        };
        // The second's first frame is not older than anything in the oldest.
        let old = second_ms.saturating_add(self.limits.age_ms) < now_ms;
        if second.first > covered.next() || !(old || bytes > self.limits.bytes) {
            return None;
        }
        lock(&self.list).pop_front()
    }

    /// The commit time of a segment's first frame, from the file: for segments that opening had no reason to scan.
    fn read_commit_ms(&self, segment: &Segment) -> Option<u64> {
        let file = segment.file(self.storage()).ok()?;
        let (header, _) = FrameCursor::new(file.clone(), 4096).frame_at(0).ok()??;
        if header.position < segment.first {
            return None; // a reused segment that has no frame of its own yet
        }
        segment.note(segment.first, 0, header.commit_us());
        Some(header.commit_ms)
    }

    fn retire(&self, segment: Arc<Segment>) -> Result<(), Error> {
        let mut spares = lock(&self.spares);
        // A reader holds it; then its bytes must not change, and the file goes when the reader is done.
        let unread = Arc::strong_count(&segment) == 1;
        let changed = if unread && spares.len() < self.limits.spares {
            let spare = spare_name(segment.first);
            self.storage
                .rename(&segment.name, &spare)
                .map(|()| Some(spare))
        } else {
            self.storage.remove(&segment.name).map(|()| None)
        };
        match changed {
            Ok(spare) => {
                self.storage.sync_dir().map_err(|error| {
                    self.broken.store(true, Ordering::Release);
                    Error::io("directory", error)
                })?;
                spares.extend(spare);
                Ok(())
            }
            Err(error) => {
                let error = Error::io(&segment.name, error);
                lock(&self.list).push_front(segment);
                Err(error)
            }
        }
    }
}
