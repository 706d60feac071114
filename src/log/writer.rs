//! Appending: one frame, one write, one sync per batch.
//!
//! Owns: the active segment and where the next frame goes. Promises: a frame that `sync` returned is on disk; after
//! `Full` nothing of the batch is left, durably; after any other failure nothing is written any more, because nobody
//! knows what a failed sync left. Must not: show a frame to readers (see `Log::publish`).

use std::io;
use std::sync::Arc;

use super::error::{AppendError, Refusal};
use super::frame::{self, EffectRef, Encoder, Frame, Header, Stamp};
use super::reader::Shared;
use super::retain::lock;
use super::segment::Segment;
use super::storage::File;
use crate::disk;
use crate::ids::Position;

/// Below so many bytes a frame the next segment is worth being made of zeros. Zeros cost by the byte (each is written
/// twice: as many bytes again to disk, 0.3 µs of processor per KB) and save by the sync (90 µs of waiting and 25 µs of
/// processor, measured on ext4 with frames of 12 to 50 KB). With larger frames there are few syncs, and many bytes.
const ZEROS_PAY_BYTES: u64 = 64 * 1024;

/// The last frame of the log, as far as the next one depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    pub(super) position: Position,
    pub(super) crc: u32,
    pub(super) commit_ms: u64,
    pub(super) term: u64,
}

/// A batch that was written and is not yet synced. It may be synced on another thread.
#[must_use = "nothing is durable before Log::sync"]
pub struct Written {
    frame: Arc<Frame>,
    file: Arc<dyn File>,
    crc: u32,
    synced: Option<io::Result<()>>,
}

impl Written {
    /// The batch, for those who prepare its publication while the disk works. It must not be shown to anybody yet.
    #[must_use]
    pub fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    /// Syncs now, on this thread; [`super::Log::sync`] then only settles the outcome. Blocks on the disk.
    pub fn flush(&mut self) {
        if self.synced.is_none() {
            self.synced = Some(self.file.sync_data());
        }
    }
}

enum Condition {
    Ready,
    Unsettled,
    Stopped,
}

/// The writing end of the log.
pub(super) struct Writer {
    shared: Arc<Shared>,
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    /// Where the next frame goes: everything before it is synced.
    offset: u64,
    segment_bytes: u64,
    last: Last,
    encoder: Encoder,
    condition: Condition,
}

/// Where a writer starts.
pub(super) struct Start {
    pub(super) segment: Arc<Segment>,
    pub(super) file: Arc<dyn File>,
    pub(super) offset: u64,
    pub(super) last: Last,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, start: Start, segment_bytes: u64) -> Writer {
        let Start {
            segment,
            file,
            offset,
            last,
        } = start;
        Writer {
            shared,
            segment,
            file,
            offset,
            segment_bytes,
            last,
            encoder: Encoder::default(),
            condition: Condition::Ready,
        }
    }

    pub(super) fn last(&self) -> Last {
        self.last
    }

    /// Whether every frame that was written is also synced.
    pub(super) fn settled(&self) -> bool {
        matches!(self.condition, Condition::Ready)
    }

    /// Encodes and writes the next frame.
    pub(super) fn write<'a>(
        &mut self,
        commit_ms_wanted: u64,
        effects: impl Iterator<Item = EffectRef<'a>> + Clone,
        changes: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Written, AppendError> {
        match self.condition {
            Condition::Ready => {}
            Condition::Unsettled => return Err(AppendError::Refused(Refusal::Unsettled)),
            Condition::Stopped => return Err(AppendError::Refused(Refusal::Stopped)),
        }
        let stamp = Stamp {
            log: self.shared.log,
            term: self.last.term,
            position: self.last.position.next(),
            synced_through: self.last.position,
            commit_ms: commit_ms_wanted.max(self.last.commit_ms),
            previous_crc: self.last.crc,
            sparse: false,
        };
        let (bytes, crc) = self
            .encoder
            .encode(&stamp, effects, changes)
            .ok_or(AppendError::Refused(Refusal::TooLarge))?;
        if self.offset > 0 && self.offset + bytes.len() as u64 > self.segment_bytes {
            self.begin_segment(stamp.position)?;
        }
        if self.offset == 0 {
            self.note_segment()?;
        }
        self.put(&bytes, stamp.position)?;
        let end = self.offset + bytes.len() as u64;
        self.segment.set_bytes(end.max(self.segment.bytes()));
        self.condition = Condition::Unsettled;
        let header = Header::parse(&bytes).expect("it was just written");
        let frame = frame::decode(&bytes, &header).expect("it was just written");
        Ok(Written {
            frame: Arc::new(frame),
            file: self.file.clone(),
            crc,
            synced: None,
        })
    }

    /// Makes a written frame durable, and the log ready for the next one.
    pub(super) fn sync(&mut self, mut written: Written) -> Result<Arc<Frame>, AppendError> {
        if !matches!(self.condition, Condition::Unsettled) {
            return Err(AppendError::Refused(Refusal::Stopped));
        }
        written.flush();
        let Written {
            frame, crc, synced, ..
        } = written;
        assert_eq!(
            frame.position,
            self.last.position.next(),
            "the frame is of this log"
        );
        if let Some(Err(error)) = synced {
            self.condition = Condition::Stopped;
            return Err(AppendError::Unknown(error));
        }
        self.segment
            .note(frame.position, self.offset, frame.commit_ms);
        self.offset += frame.bytes as u64;
        let frames = frame.position.0 - self.segment.first.0 + 1;
        if self.offset > self.segment_bytes / 2 && self.offset / frames < ZEROS_PAY_BYTES {
            self.shared.segments.want_spare();
        }
        self.last = Last {
            position: frame.position,
            crc,
            commit_ms: frame.commit_ms,
            term: frame.term,
        };
        self.condition = Condition::Ready;
        Ok(frame)
    }

    /// Goes on in a new segment. All before it is synced: frames are written one at a time.
    fn begin_segment(&mut self, first: Position) -> Result<(), AppendError> {
        match self.shared.segments.begin(first) {
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
            Err(error) => {
                self.condition = Condition::Stopped;
                Err(AppendError::Unknown(error.source))
            }
        }
    }

    /// Before the first frame of a segment: from here on the segment's loss, and that of anything before it, is
    /// noticed. Costs one write over a block that exists and one sync.
    fn note_segment(&mut self) -> Result<(), AppendError> {
        let mut state = lock(&self.shared.state);
        let noted = state.note_segment(self.last.position, self.segment.first);
        drop(state);
        match noted {
            Ok(()) => Ok(()),
            // Nothing is in the segment yet: the next batch tries it again.
            Err(error) if self.is_full(&error) => Err(AppendError::Full(error)),
            Err(error) => {
                self.condition = Condition::Stopped;
                Err(AppendError::Unknown(error))
            }
        }
    }

    /// Writes a frame at the end of the active segment. If that can't grow any more, a spare may have room.
    fn put(&mut self, bytes: &[u8], position: Position) -> Result<(), AppendError> {
        let Err(error) = self.file.write_at(bytes, self.offset) else {
            return Ok(());
        };
        let failed = self.write_failed(error);
        let is_full = matches!(failed, AppendError::Full(_));
        if !is_full || self.offset == 0 || !self.shared.segments.has_spare() {
            return Err(failed);
        }
        self.begin_segment(position)?;
        let written = self.file.write_at(bytes, self.offset);
        written.map_err(|error| self.write_failed(error))
    }

    /// After a failed write: takes back what may be in the file, if the disk is only full. A write that failed has left
    /// no whole frame, so nothing of the batch can come back even if the cut fails for want of room as well; the next
    /// frame goes to the same place.
    fn write_failed(&mut self, error: io::Error) -> AppendError {
        if !self.is_full(&error) {
            self.condition = Condition::Stopped;
            return AppendError::Unknown(error);
        }
        let cut = self
            .file
            .set_len(self.offset)
            .and_then(|()| self.file.sync_data());
        match cut {
            Ok(()) => self.segment.set_bytes(self.offset),
            Err(cut) if self.is_full(&cut) => {}
            Err(cut) => {
                self.condition = Condition::Stopped;
                return AppendError::Unknown(cut);
            }
        }
        AppendError::Full(error)
    }

    fn is_full(&self, error: &io::Error) -> bool {
        disk::is_full(error, || self.shared.segments.storage().left())
    }
}
