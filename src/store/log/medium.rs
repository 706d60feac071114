//! What lies below the log: where sealed frames become durable, and where they are read again.
//!
//! Owns: the seam. Segments in a directory are the one medium today (`local/`); a replicated stream is to be another.
//! Promises, of every medium: frames are handed over in the order of their positions and settled in that order; a frame
//! that was settled well is there for ever, and so is every frame before it. Must not: know entries, or the frames that
//! readers see (`Log::publish` decides).

use std::sync::Arc;

use super::error::{AppendError, Error, LogReadError};
use super::frame::Frame;
use tideline_base::ids::Position;

/// Frames in order, as a medium gives them. After an error it ends.
pub(super) type Frames = Box<dyn Iterator<Item = Result<Frame, LogReadError>>>;

/// What a log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct LogFigures {
    /// The oldest position that is still there.
    pub first: Position,
    /// Its commit time, ms since 1970; `None` in an empty log.
    pub first_ms: Option<u64>,
    /// Files.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// The end that writes. Only the thread that appends has it.
pub(crate) trait Medium: Send {
    /// How many frames may be handed over before the first of them is settled.
    fn in_flight_max(&self) -> usize;

    /// Hands the next frame over. `Full` and `Busy`: nothing of it is there, and it may be handed over again.
    fn begin(&mut self, frame: &Frame) -> Result<(), AppendError>;

    /// Waits for the oldest frame that is not settled, and says what became of it. After `Unknown` nothing is handed
    /// over any more.
    fn settle(&mut self, frame: &Frame) -> Result<(), AppendError>;

    /// Makes durable here what is settled because it is durable elsewhere.
    fn sync(&mut self) -> Result<(), AppendError> {
        Ok(())
    }

    /// What another thread waits with, so that this one can go on meanwhile.
    fn durability(&self) -> Arc<dyn Durability>;

    /// What the other threads read and look after.
    fn archive(&self) -> Arc<dyn Archive>;

    /// Notes that the log ends here in good order. Every frame is settled.
    fn close(self: Box<Self>, last: Position) -> Result<(), Error>;
}

/// Waits for frames to become durable.
pub(crate) trait Durability: Send + Sync {
    /// Returns when every frame up to `position` is durable or has failed; [`Medium::settle`] says which. Blocks.
    fn wait(&self, position: Position);
}

/// The frames that a medium keeps. Calls may block on the disk.
pub(crate) trait Archive: Send + Sync {
    /// The frames above `after` and up to `upto`, in order. `is_all`: nearly all of them will be read.
    fn frames(&self, after: Position, upto: Position, is_all: bool)
    -> Result<Frames, LogReadError>;

    /// The first frame up to `upto` whose commit time is at or above this; the one behind `upto` if there is none.
    fn since(&self, commit_us: u64, upto: Position) -> Result<Position, LogReadError>;

    /// The first positions of the pieces in which frames are kept and let go, oldest first, and their bytes.
    fn pieces(&self) -> Vec<(Position, u64)>;

    /// What is kept.
    fn figures(&self) -> LogFigures;

    /// Lets go of what the image covers and the limits do not ask for; how many pieces went.
    fn retain(&self, covered: Position, now_ms: u64) -> Result<usize, Error>;

    /// Gets ready for what will be written next; whether there was something to do.
    fn prepare(&self) -> Result<bool, Error>;

    /// Sets room aside for frames that make room on a full disk, if it can.
    fn keep_room(&self) -> Result<(), Error>;

    /// Whether it is there, or none is to be kept.
    fn has_room(&self) -> bool;

    /// Lets the next frames have it; whether there was any.
    fn use_room(&self) -> bool;

    /// Notes about once a second that every frame up to `published` is there.
    fn note(&self, published: Position) -> Result<(), Error>;
}
