//! Appending to segments: one frame, one write, one sync.
//!
//! Owns: the active segment and where the next frame goes. Promises: a frame that was settled well is on disk; after
//! `Full` nothing of the frame is left, durably; after any other failure nothing may be written any more, because
//! nobody knows what a failed sync left (`Log` sees to it). Must not: judge what a frame holds.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::super::error::AppendError;
use super::super::frame::Frame;
use super::super::lock;
use super::super::medium::{Archive, Durability, Medium};
use super::segment::Segment;
use super::{File, Files, state};
use crate::log::Error;
use tideline_base::ids::Position;
use tideline_base::{disk, faults};

/// Below so many bytes a frame the next segment is worth being made of zeros. Zeros cost by the byte (each is written
/// twice: as many bytes again to disk, 0.3 µs of processor per KB) and save by the sync (90 µs of waiting and 25 µs of
/// processor, measured on ext4 with frames of 12 to 50 KB). With larger frames there are few syncs, and many bytes.
const ZEROS_PAY_BYTES: u64 = 64 * 1024;

/// The writing end of a log in a directory.
pub(in crate::log) struct LocalMedium {
    files: Arc<Files>,
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    /// Where the next frame goes: everything before it is synced.
    offset: u64,
    segment_bytes: u64,
    /// The last settled frame.
    settled: Position,
    unsynced: Arc<Mutex<Option<Unsynced>>>,
    /// Of a mirror: frames were written since the last sync.
    is_dirty: bool,
}

/// Where a log is appended to.
pub(super) struct LogEnd {
    pub(super) segment: Arc<Segment>,
    pub(super) file: Arc<dyn File>,
    pub(super) offset: u64,
    pub(super) settled: Position,
}

/// The frame in flight.
struct Unsynced {
    position: Position,
    file: Arc<dyn File>,
    /// `None` before the sync.
    outcome: Option<io::Result<()>>,
}

impl Durability for Mutex<Option<Unsynced>> {
    fn wait(&self, position: Position) {
        if let Some(frame) = &mut *lock(self)
            && frame.position <= position
            && frame.outcome.is_none()
        {
            frame.outcome = Some(sync(frame.file.as_ref()));
        }
    }
}

/// A sync, unless a test has it left out, or its failure passed over.
fn sync(file: &dyn File) -> io::Result<()> {
    if faults::is_named("log_unsynced") {
        return Ok(());
    }
    let synced = file.sync_data();
    match faults::is_named("log_sync_unchecked") {
        true => Ok(()),
        false => synced,
    }
}

impl Medium for LocalMedium {
    fn in_flight_max(&self) -> usize {
        1
    }

    fn begin(&mut self, frame: &Frame) -> Result<(), AppendError> {
        let bytes = frame.encoded();
        if self.offset > 0 && self.offset + bytes.len() as u64 > self.segment_bytes {
            self.begin_segment(frame.position)?;
        }
        self.write(frame, true)?;
        *lock(&self.unsynced) = Some(Unsynced {
            position: frame.position,
            file: self.file.clone(),
            outcome: None,
        });
        Ok(())
    }

    fn settle(&mut self, frame: &Frame) -> Result<(), AppendError> {
        self.unsynced.wait(frame.position);
        let outcome = lock(&self.unsynced).take();
        let outcome = outcome.expect("a frame is settled once").outcome;
        outcome
            .expect("it was waited for")
            .map_err(AppendError::Unknown)?;
        self.pass(frame);
        Ok(())
    }

    fn durability(&self) -> Arc<dyn Durability> {
        self.unsynced.clone()
    }

    fn archive(&self) -> Arc<dyn Archive> {
        Arc::new(Arc::clone(&self.files))
    }

    fn close(self: Box<Self>, last: Position) -> Result<(), Error> {
        let newest = self.files.segments.last_first();
        let closed = lock(&self.files.state).write(last, newest, true);
        closed.map_err(|e| Error::io(state::NAME, e))
    }
}

impl LocalMedium {
    pub(super) fn new(files: Arc<Files>, end: LogEnd, segment_bytes: u64) -> LocalMedium {
        let LogEnd {
            segment,
            file,
            offset,
            settled,
        } = end;
        LocalMedium {
            files,
            segment,
            file,
            offset,
            segment_bytes,
            settled,
            unsynced: Arc::default(),
            is_dirty: false,
        }
    }

    /// Writes the next frame of a mirror. The walk of a segment begins with no void frame.
    pub(super) fn mirror(&mut self, frame: &Frame) -> Result<(), AppendError> {
        let is_full = self.offset + frame.encoded().len() as u64 > self.segment_bytes;
        if self.offset > 0 && is_full && !frame.is_void() {
            self.begin_segment(frame.position)?;
        }
        self.write(frame, !frame.is_void())?;
        self.is_dirty = true;
        self.pass(frame);
        Ok(())
    }

    /// Syncs what was written of a mirror.
    pub(super) fn sync_mirror(&mut self) -> Result<(), AppendError> {
        if self.is_dirty {
            sync(self.file.as_ref()).map_err(AppendError::Unknown)?;
            self.is_dirty = false;
            self.files.synced.store(self.settled.0, Ordering::Release);
        }
        Ok(())
    }

    /// Writes a frame where the next one goes.
    fn write(&mut self, frame: &Frame, may_begin: bool) -> Result<(), AppendError> {
        let bytes = frame.encoded();
        if self.offset == 0 {
            self.note_segment()?;
        }
        self.put(bytes, may_begin.then_some(frame.position))?;
        let end = self.offset + bytes.len() as u64;
        self.segment.set_bytes(end.max(self.segment.bytes()));
        Ok(())
    }

    /// Goes on behind a frame.
    fn pass(&mut self, frame: &Frame) {
        if !frame.is_void() {
            self.segment
                .note(frame.position, self.offset, frame.commit_us());
        }
        self.offset += frame.bytes() as u64;
        self.settled = frame.position;
        let frames = frame.position.0 - self.segment.first.0 + 1;
        if self.offset > self.segment_bytes / 2 && self.offset / frames < ZEROS_PAY_BYTES {
            self.files.segments.want_spare();
        }
    }

    /// Goes on in a new segment. All before it is synced: frames are written one at a time, or in a mirror.
    fn begin_segment(&mut self, first: Position) -> Result<(), AppendError> {
        self.sync_mirror()?;
        match self.files.segments.begin(first) {
            Ok((segment, file)) => {
                self.segment = segment;
                self.file = file;
                self.offset = 0;
                Ok(())
            }
            // Nothing was made, so there is nothing to cut back.
            Err(error) if !error.named && self.is_full(&error.source) => {
                Err(AppendError::Full(error.source))
            }
            Err(error) if !error.named && disk::is_no_descriptor(&error.source) => {
                Err(AppendError::Busy(error.source))
            }
            Err(error) => Err(AppendError::Unknown(error.source)),
        }
    }

    /// Before the first frame of a segment: from here on the segment's loss, and that of anything before it, is
    /// noticed. Costs one write to a block that exists and one sync.
    fn note_segment(&self) -> Result<(), AppendError> {
        let mut state = lock(&self.files.state);
        let noted = state.note_segment(self.settled, self.segment.first);
        drop(state);
        match noted {
            Ok(()) => Ok(()),
            // Nothing is in the segment yet: the next batch tries it again.
            Err(error) if self.is_full(&error) => Err(AppendError::Full(error)),
            Err(error) => Err(AppendError::Unknown(error)),
        }
    }

    /// Writes a frame at the end of the active segment. If that can't grow any more, a spare may have room.
    fn put(&mut self, bytes: &[u8], may_begin: Option<Position>) -> Result<(), AppendError> {
        let Err(error) = self.file.write_at(bytes, self.offset) else {
            return Ok(());
        };
        let failed = self.write_failed(error);
        let is_full = matches!(failed, AppendError::Full(_));
        let Some(position) = may_begin.filter(|_| is_full && self.files.segments.has_spare())
        else {
            return Err(failed);
        };
        self.begin_segment(position)?;
        self.note_segment()?;
        let written = self.file.write_at(bytes, self.offset);
        written.map_err(|error| self.write_failed(error))
    }

    /// After a failed write: takes back what may be in the file, if the disk is only full. A write that failed has left
    /// no whole frame, so nothing of it can come back even if the cut fails for want of room as well; the next frame
    /// goes to the same place.
    fn write_failed(&self, error: io::Error) -> AppendError {
        if !self.is_full(&error) {
            return AppendError::Unknown(error);
        }
        let cut = self
            .file
            .set_len(self.offset)
            .and_then(|()| self.file.sync_data());
        match cut {
            Ok(()) => self.segment.set_bytes(self.offset),
            Err(cut) if self.is_full(&cut) => {}
            Err(cut) => return AppendError::Unknown(cut),
        }
        AppendError::Full(error)
    }

    fn is_full(&self, error: &io::Error) -> bool {
        disk::is_full(error, || self.files.segments.storage().left())
    }
}
