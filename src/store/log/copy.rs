//! A log written anew, frame by frame, in another directory: for backups, and for a restore to a point.
//!
//! Owns: the writer of such a log. Promises: the copy has the ID, the segments and the bytes of the frames that it was
//! given; once it is finished, it is synced and says how far it reaches, so that a copy that was cut is refused. Must
//! not: choose where the copy ends.

use std::io;
use std::sync::Arc;

use super::local::segment::{self, segment_name};
use super::local::state::StateFile;
use super::local::{File, Storage};
use super::{Error, Frame, Frames, LogReadError, LogReader, lock};
use tideline_base::ids::{HistoryId, Position};

/// Bytes that are written at once.
const BLOCK_BYTES: usize = 1 << 20;

/// A log that is being written in an empty directory.
pub(crate) struct LogCopy<'s> {
    storage: &'s dyn Storage,
    /// The first positions of the segments that are to come.
    firsts: std::vec::IntoIter<Position>,
    next_first: Option<Position>,
    segment: Option<Growing>,
    last: Position,
}

struct Growing {
    name: String,
    first: Position,
    file: Arc<dyn File>,
    offset: u64,
    block: Vec<u8>,
}

/// The first positions of the segments in a directory.
pub(crate) fn segment_firsts(storage: &dyn Storage) -> Result<Vec<Position>, Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    Ok(segment::segment_firsts(&names))
}

impl LogReader {
    /// The frames from one to another that was published, from the medium.
    pub(crate) fn kept(&self, first: Position, upto: Position) -> Result<Frames, LogReadError> {
        let upto = upto.min(lock(&self.tail).published());
        self.archive
            .frames(Position(first.0.max(1) - 1), upto, true)
    }
}

impl<'s> LogCopy<'s> {
    /// A copy whose segments begin with these positions, as far as it gets.
    pub(crate) fn new(storage: &'s dyn Storage, firsts: Vec<Position>) -> LogCopy<'s> {
        let mut firsts = firsts.into_iter();
        LogCopy {
            storage,
            next_first: firsts.next(),
            firsts,
            segment: None,
            last: Position::ZERO,
        }
    }

    /// Adds the next frame.
    pub(crate) fn put(&mut self, frame: &Frame) -> Result<(), Error> {
        while self.next_first.is_some_and(|first| first <= frame.position) {
            self.begin()?;
        }
        let Some(segment) = &mut self.segment else {
            let lost = io::Error::other("its first segment is gone");
            return Err(Error::io("directory", lost));
        };
        segment.block.extend_from_slice(frame.encoded());
        self.last = frame.position;
        match segment.block.len() >= BLOCK_BYTES {
            true => segment.write(),
            false => Ok(()),
        }
    }

    /// Ends the copy; gives its last position.
    pub(crate) fn finish(mut self, log: HistoryId) -> Result<Position, Error> {
        if self.segment.is_none() {
            // A log without a frame has a segment, too.
            self.begin()?;
        }
        let Some(mut segment) = self.segment.take() else {
            return Err(Error::io(
                "directory",
                io::Error::other("it has no segment"),
            ));
        };
        segment.end()?;
        let directory = |e| Error::io("directory", e);
        self.storage.sync_dir().map_err(directory)?;
        StateFile::create(self.storage, log, self.last, segment.first)?;
        Ok(self.last)
    }

    /// Goes on in the next segment.
    fn begin(&mut self) -> Result<(), Error> {
        if let Some(mut segment) = self.segment.take() {
            segment.end()?;
        }
        let Some(first) = self.next_first else {
            return Ok(());
        };
        self.next_first = self.firsts.next();
        let name = segment_name(first);
        let file = self
            .storage
            .create(&name)
            .map_err(|e| Error::io(&name, e))?;
        self.segment = Some(Growing {
            name,
            first,
            file,
            offset: 0,
            block: Vec::with_capacity(BLOCK_BYTES),
        });
        Ok(())
    }
}

impl Growing {
    fn write(&mut self) -> Result<(), Error> {
        let written = self.file.write_at(&self.block, self.offset);
        written.map_err(|e| Error::io(&self.name, e))?;
        self.offset += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.write()?;
        self.file.sync_data().map_err(|e| Error::io(&self.name, e))
    }
}
