//! The commit log of one partition: append-only, one frame per batch, one sync per frame. It is also the change log:
//! recovery, followers and replication all read it.
//!
//! Owns: the format of segments and frames on disk, and the newest frames in memory. Promises: a frame that `sync`
//! returned is there after any crash, in order, without holes; readers see it only after `publish`; damage is told from
//! a torn end as far as that can be, and never cut away. Damage to the very last batch can't be told from tearing. Must
//! not: know what keys and values mean, own a thread, or be asynchronous. Called by `partition` only.

mod crash;
mod error;
mod frame;
#[cfg(test)]
mod measure;
mod open;
mod prepare;
mod reader;
mod recording;
mod retain;
mod scan;
mod segment;
mod state;
mod storage;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::sync::Arc;

pub use crash::Crash;
pub use error::{AppendError, Error, ReadError, Refusal};
pub use frame::{Effect, EffectRef, FRAME_BYTES_MAX, Frame};
pub use open::{Cut, Opened, identity, make};
pub use reader::{Reader, Replay};
pub use recording::{Fault, RecordingStorage};
pub use retain::{Figures, Hold};
pub use storage::{File, LocalStorage, Storage};
pub use verify::{Report, verify};
pub use writer::Written;

use crate::ids::{HistoryId, Position};
use reader::Shared;
use retain::lock;
use writer::Writer;

/// Limits of a log.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A segment that would pass this many bytes is followed by a new one. A larger frame gets a segment of its own.
    pub segment_bytes: u64,
    /// A segment whose frames are all older than this may go.
    pub retention_age_ms: u64,
    /// While the log takes more bytes than this, its oldest segment may go whatever its age.
    pub retention_bytes: u64,
    /// Bytes of the newest frames that stay in memory for readers.
    pub tail_bytes: usize,
    /// How many retired segments wait to be written over, instead of being removed; 0 also turns [`Keeper::prepare`]
    /// off.
    pub spare_segments: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 * 1024 * 1024,
            retention_age_ms: 24 * 60 * 60 * 1000,
            // Nobody reads further back than followers lag; what a restart needs is kept in any case.
            retention_bytes: 128 * 1024 * 1024,
            tail_bytes: 32 * 1024 * 1024,
            spare_segments: 2,
        }
    }
}

/// The writing end of an open log; there is one per directory. Every call may block on the disk.
pub struct Log {
    shared: Arc<Shared>,
    writer: Writer,
}

impl Log {
    /// Opens the log of a directory, making it if the directory is empty. `covered` is the position up to which the
    /// image has everything: the log must reach it, and is scanned from there. The caller sees to it that no other
    /// process does the same.
    ///
    /// Everything that the log holds after opening counts as published.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: Options,
        covered: Position,
    ) -> Result<(Log, Opened), Error> {
        open::open(storage, options, covered)
    }

    fn assemble(shared: Arc<Shared>, writer: Writer) -> Log {
        Log { shared, writer }
    }

    /// The log's own random ID.
    #[must_use]
    pub fn id(&self) -> HistoryId {
        self.shared.log
    }

    /// The position of the last synced frame; zero for an empty log.
    #[must_use]
    pub fn last_position(&self) -> Position {
        self.writer.last().position
    }

    /// The commit time that a batch gets if it is written now: the wanted one, but never below the last frame's.
    #[must_use]
    pub fn commit_ms(&self, wanted: u64) -> u64 {
        wanted.max(self.writer.last().commit_ms)
    }

    /// The frames above `after` up to the last synced one, from the files, in order: for recovery.
    pub fn replay(&self, after: Position) -> Result<Replay, ReadError> {
        Replay::all(&self.shared, after, self.last_position())
    }

    /// Writes the next batch as one frame. It is durable only after [`Log::sync`], and until then no other may be
    /// written. The iterators are walked twice.
    pub fn write<'a>(
        &mut self,
        commit_ms_wanted: u64,
        effects: impl Iterator<Item = EffectRef<'a>> + Clone,
        changes: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Written, AppendError> {
        self.writer.write(commit_ms_wanted, effects, changes)
    }

    /// Makes a written batch durable.
    pub fn sync(&mut self, written: Written) -> Result<Arc<Frame>, AppendError> {
        self.writer.sync(written)
    }

    /// [`Log::write`] and [`Log::sync`].
    pub fn append<'a>(
        &mut self,
        commit_ms_wanted: u64,
        effects: impl Iterator<Item = EffectRef<'a>> + Clone,
        changes: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Arc<Frame>, AppendError> {
        let written = self.write(commit_ms_wanted, effects, changes)?;
        self.sync(written)
    }

    /// Shows a synced frame to readers. Frames are published in order, each once.
    pub fn publish(&self, frame: Arc<Frame>) {
        assert!(
            frame.position <= self.last_position(),
            "only what is on disk is published"
        );
        lock(&self.shared.tail).publish(frame);
    }

    /// A reader of published frames.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader {
            shared: self.shared.clone(),
        }
    }

    /// The handle on holds and retention, for other threads.
    #[must_use]
    pub fn keeper(&self) -> Keeper {
        Keeper {
            shared: self.shared.clone(),
        }
    }

    /// Writes the clean-shutdown mark. A log that was stopped by an error, or has a batch that is not synced, gets
    /// none, and the next opening treats it as after a crash.
    pub fn close(self) -> Result<(), Error> {
        if self.writer.settled() {
            let (last, newest) = (self.last_position(), self.shared.segments.last_first());
            let closed = lock(&self.shared.state).write(last, newest, true);
            closed.map_err(|e| Error::io(state::NAME, e))?;
        }
        Ok(())
    }
}

/// Holds and retention of a log. Cheap to clone; any thread may call it while another appends.
#[derive(Clone)]
pub struct Keeper {
    shared: Arc<Shared>,
}

impl Keeper {
    /// Keeps everything above `position` in the log until the hold moves on or is dropped. What is gone already stays
    /// gone: compare with [`Keeper::first_position`] afterwards.
    #[must_use]
    pub fn hold(&self, position: Position) -> Hold {
        self.shared.segments.hold(position)
    }

    /// Lets go of segments: those that the image covers, that are past every hold, and that are older than the age
    /// limit or make the log larger than the size limit. Returns how many went. May block on the disk.
    pub fn retain(&self, covered: Position, now_ms: u64) -> Result<usize, Error> {
        self.shared.segments.retain(covered, now_ms)
    }

    /// Makes a file of zeros for the next segment, if the active one is half full of small frames and no retired one
    /// waits. Writing over a file costs a fraction of extending it, because a sync need not also write the file's new
    /// length and blocks; with large frames, so few syncs, the zeros would cost more. Cheap if there is nothing to do:
    /// call it often, from a thread that may block for as long as a segment takes to write, and never from the one that
    /// appends. Without room on the disk it does nothing. Whether a file was made.
    pub fn prepare(&self) -> Result<bool, Error> {
        prepare::prepare(&self.shared.segments)
    }

    /// Notes in `log.state` about once a second how far the log surely reaches, so that the loss of anything older is
    /// noticed at the next start. Cheap if there is nothing to do; never on the thread that appends.
    pub fn note(&self) -> Result<(), Error> {
        let published = lock(&self.shared.tail).published();
        let noted = lock(&self.shared.state).note_position(published);
        noted.map_err(|e| Error::io(state::NAME, e))
    }

    /// The first position that is still in the log (or would be the first, in an empty one).
    #[must_use]
    pub fn first_position(&self) -> Position {
        self.shared.segments.first_position()
    }

    /// Bytes that the log's segments take on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.segments.bytes()
    }

    /// Whether a hold keeps the log above its size limit: time to slow writers down.
    #[must_use]
    pub fn held(&self) -> bool {
        self.shared.segments.held()
    }
}
