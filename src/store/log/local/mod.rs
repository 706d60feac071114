//! The log's medium on the local disk: segment files in a directory, one sync per frame.
//!
//! Owns: every file of the log. Promises: a frame that was settled is on disk; damage is distinguished from a torn end
//! as far as possible, and never cut away. (Damage to the very last frame looks like tearing.) Must not: know entries.
//! One frame may be in flight: a segment is begun only when all before it is synced, and a failed sync leaves nothing
//! in doubt but that frame.

mod append;
#[cfg(feature = "faults")]
pub(crate) mod fuzz;
mod make;
mod mirror;
mod open;
mod prepare;
mod replay;
mod scan;
pub(super) mod segment;
pub(super) mod segments;
pub(super) mod state;
mod storage;
mod verify;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) use make::{identity, make, make_mirror, make_with};
pub(crate) use open::Opened;
pub(crate) use prepare::give_up;
pub(crate) use storage::LocalStorage;
pub(crate) use storage::Storage;
pub(crate) use verify::{verify, verify_while};

pub(super) use mirror::MirrorMedium;
pub(super) use open::open;
pub(super) use storage::File;

use super::error::{Error, LogReadError};
use super::lock;
use super::medium::{Archive, Frames, LogFigures};
use replay::Replay;
use segments::Segments;
use state::StateFile;
use tideline_base::ids::{HistoryId, Position};

/// The files of a log, as every thread may use them.
pub(super) struct Files {
    log: HistoryId,
    segments: Segments,
    state: Mutex<StateFile>,
    /// Of a mirror, whose frames are synced together: up to here they are. Of others all that is published is.
    synced: AtomicU64,
}

impl Archive for Arc<Files> {
    fn frames(
        &self,
        after: Position,
        upto: Position,
        is_all: bool,
    ) -> Result<Frames, LogReadError> {
        Ok(Box::new(Replay::start(self, after, upto, is_all)?))
    }

    fn since(&self, commit_us: u64, upto: Position) -> Result<Position, LogReadError> {
        let after = self.segments.before(commit_us);
        for frame in Replay::start(self, after, upto, false)? {
            let frame = frame?;
            if frame.commit_us() >= commit_us {
                return Ok(frame.position);
            }
        }
        Ok(upto.next())
    }

    fn pieces(&self) -> Vec<(Position, u64)> {
        self.segments.pieces()
    }

    fn figures(&self) -> LogFigures {
        self.segments.figures()
    }

    fn retain(&self, covered: Position, now_ms: u64) -> Result<usize, Error> {
        // The segment with the newest frame that is on disk stays: a power cut takes those above it.
        let synced = self.synced.load(Ordering::Acquire);
        let covered = covered.min(Position(synced.saturating_sub(1)));
        self.segments.retain(covered, now_ms)
    }

    fn prepare(&self) -> Result<bool, Error> {
        prepare::prepare(&self.segments)
    }

    fn keep_room(&self) -> Result<(), Error> {
        prepare::keep_room(&self.segments)
    }

    fn has_room(&self) -> bool {
        self.segments.has_room()
    }

    fn use_room(&self) -> bool {
        self.segments.use_room()
    }

    fn note(&self, published: Position) -> Result<(), Error> {
        let synced = Position(self.synced.load(Ordering::Acquire));
        let noted = lock(&self.state).note_position(published.min(synced));
        noted.map_err(|e| Error::io(state::NAME, e))
    }
}
