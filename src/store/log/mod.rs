//! The commit log of one partition: append-only, one frame per batch. It is also the change log: recovery, followers
//! and replication all read it.
//!
//! Owns: the format of frames, their chain, and the newest of them in memory. Promises: a frame that was settled is
//! there after any crash, in order, without holes; readers see it only after `publish`. Must not: know what keys and
//! values mean, own a thread, or be asynchronous. Called by `partition` only. Where frames become durable is a medium's
//! affair (`medium.rs`): today that is always segments in a directory (`local/`).

mod copy;
mod draft;
mod error;
mod extent;
mod frame;
mod keeper;
pub(crate) mod local;
mod medium;
mod reader;
mod squeeze;
mod tail;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use copy::{LogCopy, segment_firsts};
pub(crate) use draft::Draft;
pub(crate) use error::Error;
pub(crate) use error::{AppendError, LogReadError};
pub(crate) use extent::Extent;
pub(crate) use frame::FRAME_BYTES_MAX;
pub use frame::Frame;
pub(crate) use local::segment::segment_name;
pub(crate) use local::{LocalStorage, make_mirror, make_with};
pub(crate) use local::{Opened, Storage, give_up, identity, make, verify, verify_while};

use frame::Header;
pub(crate) use keeper::Keeper;
pub(crate) use medium::LogFigures;
use medium::{Frames, Medium};
pub(crate) use reader::{LogReader, Syncer};
use tail::Tail;
use tideline_base::ids::{HistoryId, Position};

/// Makes a log in an empty directory that goes on where others ended: its first frame is an empty one at this position,
/// with a time (µs since 1970) above `after_us`. Gives its ID.
pub(crate) fn begin(
    storage: &dyn Storage,
    position: Position,
    after_us: u64,
) -> Result<HistoryId, Error> {
    make_with(storage, |id| {
        let time_us = after_us + 1;
        let header = Header {
            in_ms: u32::try_from(time_us % 1_000).expect("below 1,000"),
            synced_through: Position(position.0 - 1),
            ..Header::new(id, position, FIRST_TERM, time_us / 1_000)
        };
        let sealed = Draft::default().seal(header, FRAME_BYTES_MAX);
        sealed.expect("an empty frame is small")
    })
}

/// The term of a log that nobody has taken over.
const FIRST_TERM: u64 = 1;

/// Limits of a log.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A batch whose frame would be larger is refused; at most [`FRAME_BYTES_MAX`].
    pub frame_bytes_max: usize,
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
    /// Room that the log keeps for the frames that make room on a full disk, see [`Keeper::keep_room`]; 0 = none.
    pub room_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            frame_bytes_max: FRAME_BYTES_MAX,
            segment_bytes: 64 * 1024 * 1024,
            retention_age_ms: 24 * 60 * 60 * 1000,
            // Nobody reads further back than followers lag; what a restart needs is kept in any case.
            retention_bytes: 128 * 1024 * 1024,
            tail_bytes: 32 * 1024 * 1024,
            spare_segments: 2,
            room_bytes: 0,
        }
    }
}

/// The last frame of the log, as far as the next one depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub(crate) position: Position,
    pub(crate) crc: u32,
    pub(crate) commit_ms: u64,
    pub(crate) in_ms: u32,
    pub(crate) term: u64,
}

/// A commit time has so many µs: so many frames may share its ms.
const IN_MS_MAX: u32 = 999;

/// The writing end of an open log; there is one per partition. Calls may block on the disk.
pub(crate) struct Log {
    id: HistoryId,
    medium: Box<dyn Medium>,
    tail: Arc<Mutex<Tail>>,
    frame_bytes_max: usize,
    /// The last frame that was handed to the medium.
    last: Last,
    /// Handed over and not settled, oldest first.
    in_flight: VecDeque<Arc<Frame>>,
    is_stopped: bool,
}

impl Log {
    /// Opens the log in a directory, making it if the directory is empty. `covered` is the position up to which the
    /// image has everything: the log must reach it, and is scanned from there. The caller sees to it that no other
    /// process does the same.
    ///
    /// Everything that the log holds after opening counts as published.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        options: Options,
        covered: Position,
    ) -> Result<(Log, Opened), Error> {
        let (medium, opened, id, last) = local::open(storage, options, covered, false)?;
        Ok((Log::on(Box::new(medium), id, last, &options), opened))
    }

    /// The same of the mirror of a log that machines share. It may end before what it once had; the rest is elsewhere.
    pub(crate) fn open_mirror(
        storage: Arc<dyn Storage>,
        options: Options,
        covered: Position,
    ) -> Result<(Log, Opened), Error> {
        let (medium, opened, id, last) = local::open(storage, options, covered, true)?;
        let medium = Box::new(local::MirrorMedium(medium));
        Ok((Log::on(medium, id, last, &options), opened))
    }

    /// A log whose frames are on `medium`, the last of which is `last`.
    fn on(medium: Box<dyn Medium>, id: HistoryId, last: Last, options: &Options) -> Log {
        assert!(
            options.frame_bytes_max <= FRAME_BYTES_MAX,
            "a reader would take a larger frame for damage"
        );
        Log {
            id,
            medium,
            tail: Arc::new(Mutex::new(Tail::new(last.position, options.tail_bytes))),
            frame_bytes_max: options.frame_bytes_max,
            last,
            in_flight: VecDeque::new(),
            is_stopped: false,
        }
    }

    /// Which log it is, and the last frame that is not void, with the position behind all.
    #[must_use]
    pub(crate) fn end(&self) -> (HistoryId, Last) {
        (self.id, self.last)
    }

    /// The position of the last settled frame; zero for an empty log.
    #[must_use]
    pub(crate) fn settled(&self) -> Position {
        Position(self.last.position.0 - self.in_flight.len() as u64)
    }

    /// How many frames may be in flight.
    #[must_use]
    pub(crate) fn in_flight_max(&self) -> usize {
        self.medium.in_flight_max()
    }

    /// The commit time that a batch gets if it is sealed now: the wanted one, but never below the last frame's.
    #[must_use]
    pub(crate) fn commit_ms(&self, wanted: u64) -> u64 {
        wanted.max(self.last.commit_ms)
    }

    /// The time of the next frame: above the last frame's, by its number in the ms if need be.
    fn time(&self, wanted_ms: u64) -> (u64, u32) {
        let Last {
            commit_ms, in_ms, ..
        } = self.last;
        match wanted_ms > commit_ms {
            true => (wanted_ms, 0),
            false if in_ms < IN_MS_MAX => (commit_ms, in_ms + 1),
            false => (commit_ms + 1, 0),
        }
    }

    /// The frames above `after` up to the last settled one, from the medium, in order: for recovery.
    pub(crate) fn replay(&self, after: Position) -> Result<Frames, LogReadError> {
        self.medium.archive().frames(after, self.settled(), true)
    }

    /// Makes the next frame of a draft, and empties the draft. Nothing is written yet.
    pub(crate) fn seal(
        &self,
        commit_ms_wanted: u64,
        draft: &mut Draft,
    ) -> Result<Arc<Frame>, AppendError> {
        let (commit_ms, in_ms) = self.time(commit_ms_wanted);
        let position = self.last.position.next();
        let header = Header {
            in_ms,
            synced_through: self.settled(),
            previous_crc: self.last.crc,
            ..Header::new(self.id, position, self.last.term, commit_ms)
        };
        let frame = draft.seal(header, self.frame_bytes_max);
        frame.map(Arc::new).ok_or(AppendError::TooLarge)
    }

    /// Hands the next frame to the medium. It is durable only when [`Log::settle`] has returned it.
    pub(crate) fn begin(&mut self, frame: &Arc<Frame>) -> Result<(), AppendError> {
        if self.is_stopped {
            return Err(AppendError::Stopped);
        }
        if self.in_flight.len() >= self.in_flight_max() {
            return Err(AppendError::Unsettled);
        }
        assert_eq!(
            frame.position,
            self.last.position.next(),
            "a frame is handed over once, and none is left out"
        );
        let begun = self.medium.begin(frame);
        self.stop_after(&begun);
        begun?;
        self.last = Last {
            position: frame.position,
            crc: frame.crc,
            commit_ms: frame.commit_ms,
            in_ms: frame.in_ms,
            term: frame.term,
        };
        self.in_flight.push_back(Arc::clone(frame));
        Ok(())
    }

    /// After `Full`: the next frames may go where the log keeps room; whether there was any. See [`Keeper::keep_room`].
    pub(crate) fn use_room(&self) -> bool {
        self.medium.archive().use_room()
    }

    /// Waits for the oldest frame in flight. After a failure, those behind it have failed too.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn settle(&mut self) -> Result<Arc<Frame>, AppendError> {
        let frame = self.in_flight.front().expect("a frame is in flight");
        let settled = self.medium.settle(frame);
        self.stop_after(&settled);
        settled?;
        Ok(self.in_flight.pop_front().expect("it was there"))
    }

    /// Takes the next frame, which is durable elsewhere, into a mirror. After `Full` and `Busy` it may be taken again.
    /// Only [`Log::sync`] makes it durable here.
    ///
    /// # Panics
    /// If it is not the next one. Who judges frames has seen to it.
    pub(crate) fn take(&mut self, frame: &Frame) -> Result<(), AppendError> {
        let is_next = frame.position == self.last.position.next();
        let is_later = frame.is_void() || frame.term >= self.last.term;
        assert!(is_next && is_later, "what is mirrored has no holes");
        if self.is_stopped {
            return Err(AppendError::Stopped);
        }
        let begun = self.medium.begin(frame);
        let taken = begun.and_then(|()| self.medium.settle(frame));
        self.stop_after(&taken);
        taken?;
        let time = (self.last.commit_ms, self.last.in_ms).max((frame.commit_ms, frame.in_ms));
        self.last.position = frame.position;
        (self.last.commit_ms, self.last.in_ms) = time;
        if !frame.is_void() {
            (self.last.crc, self.last.term) = (frame.crc, frame.term);
        }
        Ok(())
    }

    /// Makes durable here what was taken.
    pub(crate) fn sync(&mut self) -> Result<(), AppendError> {
        let synced = self.medium.sync();
        self.stop_after(&synced);
        synced
    }

    fn stop_after(&mut self, outcome: &Result<(), AppendError>) {
        self.is_stopped |= matches!(outcome, Err(AppendError::Unknown(_)));
    }

    /// Shows a settled frame to readers. Frames are published in order, each once.
    pub(crate) fn publish(&self, frame: Arc<Frame>) {
        assert!(
            frame.position <= self.settled(),
            "only what is durable is published"
        );
        lock(&self.tail).publish(frame);
    }

    /// What another thread waits with until a frame is durable.
    #[must_use]
    pub(crate) fn syncer(&self) -> Syncer {
        Syncer(self.medium.durability())
    }

    /// A reader of published frames.
    #[must_use]
    pub(crate) fn reader(&self) -> LogReader {
        LogReader {
            tail: self.tail.clone(),
            archive: self.medium.archive(),
        }
    }

    /// The handle on retention, for another thread.
    #[must_use]
    pub(crate) fn keeper(&self) -> Keeper {
        Keeper {
            tail: self.tail.clone(),
            archive: self.medium.archive(),
        }
    }

    /// Writes the clean-shutdown mark. A log that was stopped by an error, or has a frame that is not settled, gets
    /// none, and the next opening treats it as after a crash.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        if self.is_stopped || !self.in_flight.is_empty() || self.medium.sync().is_err() {
            return Ok(());
        }
        self.medium.close(self.last.position)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these locks guard is changed in single steps: a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
