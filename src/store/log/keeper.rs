//! Looking after a log, beside the thread that appends: what goes, what is made ready, what is kept.
//!
//! Owns: [`Keeper`]. Promises: it never waits for the thread that appends.
//! Must not: append, or know what a frame holds.

use std::sync::{Arc, Mutex};

use super::error::Error;
use super::lock;
use super::medium::Archive;
use super::tail::Tail;
use tideline_base::ids::Position;

/// Retention of a log. Any thread may call it while another appends.
pub(crate) struct Keeper {
    pub(super) tail: Arc<Mutex<Tail>>,
    pub(super) archive: Arc<dyn Archive>,
}

impl Keeper {
    /// Lets go of segments: those that the image covers, and that are older than the age limit or make the log larger
    /// than the size limit. Returns how many went. May block on the disk.
    pub(crate) fn retain(&self, covered: Position, now_ms: u64) -> Result<usize, Error> {
        self.archive.retain(covered, now_ms)
    }

    /// Makes a file of zeros for the next segment, if the active one is half full of small frames and no retired one
    /// waits. Writing over a file costs a fraction of extending it, because a sync need not also write the file's new
    /// length and blocks; with large frames, so few syncs, the zeros would cost more. Cheap if there is nothing to do:
    /// call it often, from a thread that may block for as long as a segment takes to write, and never from the one that
    /// appends. Without room on the disk it does nothing. Whether a file was made.
    pub(crate) fn prepare(&self) -> Result<bool, Error> {
        self.archive.prepare()
    }

    /// Sets room aside for frames that make room, if none is and the disk has it: a file that becomes the next segment
    /// when [`Log::use_room`] says so. Nothing but the log ever gets it. Cheap if there is nothing to do.
    pub(crate) fn keep_room(&self) -> Result<(), Error> {
        self.archive.keep_room()
    }

    /// Whether that room is there, or none is to be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.archive.has_room()
    }

    /// Up to here the log could go if nobody needed it: all but its newest piece.
    pub(crate) fn spared(&self) -> Position {
        let newest = self.archive.pieces().pop();
        Position(newest.map_or(0, |(first, _)| first.0.saturating_sub(1)))
    }

    /// Notes about once a second how far the log surely reaches, so that the loss of anything older is noticed at the
    /// next start. Cheap if there is nothing to do; never on the thread that appends.
    pub(crate) fn note(&self) -> Result<(), Error> {
        let published = lock(&self.tail).published();
        self.archive.note(published)
    }
}
