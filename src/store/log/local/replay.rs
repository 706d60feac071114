//! Walking the frames of the segment files in order.
//!
//! Owns: where a walk begins and how it goes from segment to segment. Promises: frames come in order and without holes;
//! what retention removed is an error of its own, never skipped. Must not: write, or read past `upto`.

use std::io;
use std::sync::Arc;

use super::super::error::LogReadError;
use super::super::frame::{self, Frame};
use super::Files;
use super::scan::{Chain, SCAN_BLOCK_BYTES};
use super::segment::{FrameCursor, Segment};
use tideline_base::ids::Position;

/// Bytes read at once by a reader that follows the log from the files.
const READ_BLOCK_BYTES: usize = 256 * 1024;

/// Walks the frames in the files, in order. After an error it ends.
pub(super) struct Replay {
    files: Arc<Files>,
    segment: Arc<Segment>,
    cursor: FrameCursor,
    offset: u64,
    chain: Chain,
    after: Position,
    upto: Position,
    block_bytes: usize,
    ended: bool,
}

impl Replay {
    /// The frames above `after`, up to `upto`. `is_all`: it will be read to the end, so in large blocks.
    pub(super) fn start(
        files: &Arc<Files>,
        after: Position,
        upto: Position,
        is_all: bool,
    ) -> Result<Replay, LogReadError> {
        let block_bytes = if is_all {
            SCAN_BLOCK_BYTES
        } else {
            READ_BLOCK_BYTES
        };
        let segment = files
            .segments
            .find(after.next())
            .map_err(|first| LogReadError::Trimmed { first })?;
        let (position, offset) = segment.near(after.next());
        Ok(Replay {
            cursor: open(files, &segment, block_bytes)?,
            files: Arc::clone(files),
            segment,
            offset,
            chain: Chain::new(files.log, position),
            after,
            upto,
            block_bytes,
            ended: false,
        })
    }

    fn step(&mut self) -> Result<Option<Frame>, LogReadError> {
        while self.chain.next() <= self.upto {
            let at = self
                .cursor
                .frame_at(self.offset)
                .map_err(|source| io_error(&self.segment, source))?;
            let Some((header, bytes)) = at.filter(|(header, _)| self.chain.follows(header)) else {
                self.enter_next()?;
                continue;
            };
            let is_void = self.chain.is_void(&header);
            self.chain.advance(&header);
            if !is_void {
                self.segment
                    .note(header.position, self.offset, header.commit_us());
            }
            let offset = self.offset;
            self.offset += bytes.len() as u64;
            if header.position > self.after {
                let frame = frame::decode_as(&bytes, &header, is_void);
                return frame
                    .map(Some)
                    .ok_or_else(|| damaged(&self.segment, offset));
            }
        }
        Ok(None)
    }

    /// Goes on in the next segment, if this one ends where that one begins.
    fn enter_next(&mut self) -> Result<(), LogReadError> {
        let Some(next) = self.files.segments.after(&self.segment) else {
            return Err(damaged(&self.segment, self.offset));
        };
        if !self.chain.enter(next.first) {
            // Perhaps what was between has just gone.
            let first = self.files.segments.first_position();
            return Err(if self.chain.next() < first {
                LogReadError::Trimmed { first }
            } else {
                damaged(&self.segment, self.offset)
            });
        }
        self.cursor = open(&self.files, &next, self.block_bytes)?;
        self.segment = next;
        self.offset = 0;
        Ok(())
    }
}

impl Iterator for Replay {
    type Item = Result<Frame, LogReadError>;

    fn next(&mut self) -> Option<Result<Frame, LogReadError>> {
        if self.ended {
            return None;
        }
        let step = self.step().transpose();
        self.ended = !matches!(step, Some(Ok(_)));
        step
    }
}

fn open(files: &Files, segment: &Segment, block_bytes: usize) -> Result<FrameCursor, LogReadError> {
    match segment.file(files.segments.storage()) {
        Ok(file) => Ok(FrameCursor::new(file.clone(), block_bytes)),
        Err(error) => {
            let first = files.segments.first_position();
            if error.kind() == io::ErrorKind::NotFound && segment.first < first {
                return Err(LogReadError::Trimmed { first });
            }
            Err(io_error(segment, error))
        }
    }
}

fn io_error(segment: &Segment, source: io::Error) -> LogReadError {
    LogReadError::Io {
        file: segment.name.clone(),
        source,
    }
}

fn damaged(segment: &Segment, offset: u64) -> LogReadError {
    LogReadError::Damaged {
        file: segment.name.clone(),
        offset,
    }
}
