//! Reading a log, and waiting for it, beside the thread that appends.
//!
//! Owns: [`LogReader`], [`Syncer`]. Promises: only published frames are read, in order. Must not: append.

use std::sync::{Arc, Mutex};

use super::error::LogReadError;
use super::frame::Frame;
use super::lock;
use super::medium::{Archive, Durability, LogFigures};
use super::tail::Tail;
use tideline_base::ids::Position;

/// Waits for frames to become durable, on a thread of its own.
pub(crate) struct Syncer(pub(super) Arc<dyn Durability>);

impl Syncer {
    /// Returns when every frame up to `position` is durable or has failed; [`Log::settle`] says which. Blocks.
    pub(crate) fn wait(&self, position: Position) {
        self.0.wait(position);
    }
}

/// Reads published frames. Cheap to clone; every thread may have one. Calls may block on the disk.
#[derive(Clone)]
pub(crate) struct LogReader {
    pub(super) tail: Arc<Mutex<Tail>>,
    pub(super) archive: Arc<dyn Archive>,
}

impl LogReader {
    /// What the log keeps. May read a file, once.
    #[must_use]
    pub(crate) fn figures(&self) -> LogFigures {
        self.archive.figures()
    }

    /// The first published frame whose commit time is at or above this; the one behind the last if there is none.
    pub(crate) fn since(&self, commit_us: u64) -> Result<Position, LogReadError> {
        let published = lock(&self.tail).published();
        self.archive.since(commit_us, published)
    }

    /// The first positions of the pieces that are kept, oldest first, and their bytes.
    #[must_use]
    pub(crate) fn pieces(&self) -> Vec<(Position, u64)> {
        self.archive.pieces()
    }

    /// The same as [`LogReader::read`] from memory; `None` = the medium has to be read for it.
    #[must_use]
    pub(crate) fn recent(&self, after: Position, bytes_max: usize) -> Option<Vec<Arc<Frame>>> {
        lock(&self.tail).read(after, bytes_max)
    }

    /// Lets go of what is in memory: from now on frames are read from the medium. For a log that has ended, of which a
    /// few frames would hold the whole chunk that they were made in.
    pub(crate) fn forget(&self) {
        lock(&self.tail).forget();
    }

    /// Published frames above `after` in order: none if there are none, else at least one, then up to about `bytes_max`
    /// bytes of memory.
    pub(crate) fn read(
        &self,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Frame>>, LogReadError> {
        if let Some(frames) = self.recent(after, bytes_max) {
            return Ok(frames);
        }
        let published = lock(&self.tail).published();
        let mut frames = Vec::new();
        let mut bytes = 0;
        for frame in self.archive.frames(after, published, false)? {
            let mut frame = frame?;
            frame.let_go();
            bytes += frame.memory();
            if bytes > bytes_max && !frames.is_empty() {
                break;
            }
            frames.push(Arc::new(frame));
        }
        Ok(frames)
    }
}
