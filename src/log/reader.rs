//! Reading committed frames: the in-memory tail, and walking the segment files.
//!
//! Owns: the newest frames in memory and the published position. Promises: a reader sees a frame only after `publish`
//! was called for it, in order and without holes; what retention removed is told as such, never skipped. Must not:
//! write.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use super::error::ReadError;
use super::frame::{self, Effect, Frame};
use super::retain::{Figures, Segments, lock};
use super::scan::{Chain, SCAN_BLOCK_BYTES};
use super::segment::{Cursor, Segment};
use super::state::StateFile;
use crate::ids::{HistoryId, Position};

/// Bytes read at once by those who follow the log from the files.
const READ_BLOCK_BYTES: usize = 256 * 1024;

/// What the writer, the readers and retention share.
pub(super) struct Shared {
    pub(super) log: HistoryId,
    pub(super) segments: Segments,
    pub(super) tail: Mutex<Tail>,
    pub(super) state: Mutex<StateFile>,
}

/// The newest published frames.
pub(super) struct Tail {
    published: Position,
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    bytes_max: usize,
}

impl Tail {
    /// An empty tail of a log whose frames up to `published` are in the files.
    pub(super) fn new(published: Position, bytes_max: usize) -> Tail {
        Tail {
            published,
            frames: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// The newest published position.
    pub(super) fn published(&self) -> Position {
        self.published
    }

    /// Shows the next frame to readers.
    pub(super) fn publish(&mut self, frame: Arc<Frame>) {
        assert_eq!(
            frame.position,
            self.published.next(),
            "frames are published in order"
        );
        self.published = frame.position;
        self.bytes += memory_of(&frame);
        self.frames.push_back(frame);
        // The newest one stays whatever its size: those who are woken for it ask at once.
        while self.bytes > self.bytes_max && self.frames.len() > 1 {
            let oldest = self.frames.pop_front().expect("there are two at least");
            self.bytes -= memory_of(&oldest);
        }
    }

    /// Frames from `position` on, up to about `bytes_max`; `None` if it is not in memory any more.
    fn from(&self, position: Position, bytes_max: usize) -> Option<Vec<Arc<Frame>>> {
        let first = self.frames.front()?.position;
        let skip = usize::try_from(position.0.checked_sub(first.0)?).ok()?;
        let mut bytes = 0;
        let mut frames = Vec::new();
        for frame in self.frames.range(skip..) {
            bytes += frame.bytes;
            if bytes > bytes_max && !frames.is_empty() {
                break;
            }
            frames.push(frame.clone());
        }
        Some(frames)
    }
}

fn memory_of(frame: &Frame) -> usize {
    frame.bytes + frame.effects.len() * size_of::<Effect>()
}

/// Reads published frames. Cheap to clone; every thread may have one. Calls may block on the disk.
#[derive(Clone)]
pub struct Reader {
    pub(super) shared: Arc<Shared>,
}

impl Reader {
    /// The newest published position.
    #[must_use]
    pub fn position(&self) -> Position {
        lock(&self.shared.tail).published()
    }

    /// What the log keeps. May read the first segment's file, once.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.shared.segments.figures()
    }

    /// The same as [`Reader::read`] from memory; `None` = the files have to be read for it.
    #[must_use]
    pub fn recent(&self, after: Position, bytes_max: usize) -> Option<Vec<Arc<Frame>>> {
        let tail = lock(&self.shared.tail);
        if after >= tail.published {
            return Some(Vec::new());
        }
        tail.from(after.next(), bytes_max)
    }

    /// Published frames above `after` in order: none if there are none, else at least one, then up to about `bytes_max`
    /// bytes of frames.
    pub fn read(&self, after: Position, bytes_max: usize) -> Result<Vec<Arc<Frame>>, ReadError> {
        if let Some(frames) = self.recent(after, bytes_max) {
            return Ok(frames);
        }
        let published = self.position();
        let mut frames = Vec::new();
        let mut bytes = 0;
        for frame in Replay::start(&self.shared, after, published, READ_BLOCK_BYTES)? {
            let frame = frame?;
            bytes += frame.bytes;
            if bytes > bytes_max && !frames.is_empty() {
                break;
            }
            frames.push(Arc::new(frame));
        }
        Ok(frames)
    }
}

/// Walks the frames in the files, in order. After an error it ends.
pub struct Replay {
    shared: Arc<Shared>,
    segment: Arc<Segment>,
    cursor: Cursor,
    offset: u64,
    chain: Chain,
    after: Position,
    upto: Position,
    block_bytes: usize,
    ended: bool,
}

impl Replay {
    /// For recovery: everything above `after`, up to `upto`.
    pub(super) fn all(
        shared: &Arc<Shared>,
        after: Position,
        upto: Position,
    ) -> Result<Replay, ReadError> {
        Replay::start(shared, after, upto, SCAN_BLOCK_BYTES)
    }

    fn start(
        shared: &Arc<Shared>,
        after: Position,
        upto: Position,
        block_bytes: usize,
    ) -> Result<Replay, ReadError> {
        let segment = shared
            .segments
            .find(after.next())
            .map_err(|first| ReadError::Trimmed { first })?;
        let (position, offset) = segment.near(after.next());
        Ok(Replay {
            cursor: open(shared, &segment, block_bytes)?,
            shared: shared.clone(),
            segment,
            offset,
            chain: Chain::new(shared.log, position),
            after,
            upto,
            block_bytes,
            ended: false,
        })
    }

    fn step(&mut self) -> Result<Option<Frame>, ReadError> {
        while self.chain.next() <= self.upto {
            let at = self
                .cursor
                .frame_at(self.offset)
                .map_err(|source| io_error(&self.segment, source))?;
            let Some((header, bytes)) = at.filter(|(header, _)| self.chain.follows(header)) else {
                self.enter_next()?;
                continue;
            };
            self.chain.advance(&header);
            self.segment
                .note(header.position, self.offset, header.commit_ms);
            let offset = self.offset;
            self.offset += bytes.len() as u64;
            if header.position > self.after {
                let frame = frame::decode(&bytes, &header);
                return frame
                    .map(Some)
                    .ok_or_else(|| damaged(&self.segment, offset));
            }
        }
        Ok(None)
    }

    /// Goes on in the next segment, if this one ends where that one begins.
    fn enter_next(&mut self) -> Result<(), ReadError> {
        let Some(next) = self.shared.segments.after(&self.segment) else {
            return Err(damaged(&self.segment, self.offset));
        };
        if !self.chain.enter(next.first) {
            // Perhaps what was between has just gone.
            let first = self.shared.segments.first_position();
            return Err(if self.chain.next() < first {
                ReadError::Trimmed { first }
            } else {
                damaged(&self.segment, self.offset)
            });
        }
        self.cursor = open(&self.shared, &next, self.block_bytes)?;
        self.segment = next;
        self.offset = 0;
        Ok(())
    }
}

impl Iterator for Replay {
    type Item = Result<Frame, ReadError>;

    fn next(&mut self) -> Option<Result<Frame, ReadError>> {
        if self.ended {
            return None;
        }
        let step = self.step().transpose();
        self.ended = !matches!(step, Some(Ok(_)));
        step
    }
}

fn open(shared: &Shared, segment: &Segment, block_bytes: usize) -> Result<Cursor, ReadError> {
    match segment.file(shared.segments.storage()) {
        Ok(file) => Ok(Cursor::new(file.clone(), block_bytes)),
        Err(error) => {
            let first = shared.segments.first_position();
            if error.kind() == io::ErrorKind::NotFound && segment.first < first {
                return Err(ReadError::Trimmed { first });
            }
            Err(io_error(segment, error))
        }
    }
}

fn io_error(segment: &Segment, source: io::Error) -> ReadError {
    ReadError::Io {
        file: segment.name.clone(),
        source,
    }
}

fn damaged(segment: &Segment, offset: u64) -> ReadError {
    ReadError::Damaged {
        file: segment.name.clone(),
        offset,
    }
}
