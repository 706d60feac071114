//! A writer's part in a log that machines share.
//!
//! Owns: [`Member`]: where the mirror is, what is filled, and what is on its way. Promises: a mirror that does not lead
//! to where its place says is refused. Must not: write.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tideline_cluster::{Frame as WholeFrame, Place};

use super::super::OpenError;
use super::super::commit::job::Job;
use super::super::memory::view::View;
use super::line::Line;
use super::place;
use crate::log::Frame;
use tideline_base::ids::Position;

/// What a writer has of its part in a log.
pub(in super::super) struct Member {
    pub(super) line: Arc<Line>,
    /// Behind the last frame that was taken.
    pub(super) place: Place,
    /// The partition's folder, and the log's first frame.
    pub(super) files: (PathBuf, WholeFrame),
    pub(super) forward: Duration,
    pub(super) owns: bool,
    /// The driver has stopped for good, and until then all was well here …
    pub(super) is_halted: bool,
    /// … and this node owned the log.
    pub(super) owned: bool,
    /// The batch that is filled.
    pub(super) filled: Option<Filled>,
    /// The batch on its way.
    pub(super) sent: Option<Sent>,
    /// Batches that are in the log, and whose answers wait for leases of earlier owners.
    pub(super) unanswered: VecDeque<(Position, Vec<Box<dyn Job>>)>,
    /// Since when writes wait for a turn.
    pub(super) waits: Option<Instant>,
    /// When the mirror was synced last.
    pub(super) synced: Instant,
    /// Frames were taken since.
    pub(super) is_dirty: bool,
    /// The flusher is too far behind to take more.
    pub(super) is_lagging: bool,
    /// Since when the memtable can't be flushed.
    pub(super) stuck: Option<Instant>,
    pub(super) waker: Waker,
}

/// A batch that is filled.
pub(super) struct Filled {
    pub(super) base: View,
    pub(super) closures: usize,
    pub(super) since: Instant,
}

/// A batch on its way.
pub(super) struct Sent {
    pub(super) frame: Arc<Frame>,
    pub(super) answers: Vec<Box<dyn Job>>,
    pub(super) since: Instant,
    /// It is in the log.
    pub(super) is_stored: bool,
}

/// Wakes the writer's thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Member {
    pub(super) fn new(
        line: Arc<Line>,
        place: Place,
        files: (PathBuf, WholeFrame),
        forward: Duration,
    ) -> Member {
        Member {
            line,
            place,
            files,
            forward,
            owns: false,
            is_halted: false,
            owned: false,
            filled: None,
            sent: None,
            unanswered: VecDeque::new(),
            waits: None,
            synced: Instant::now(),
            is_dirty: false,
            is_lagging: false,
            stuck: None,
            waker: Waker::noop().clone(),
        }
    }

    /// What comes, and what is queued, wakes this thread.
    pub(super) fn wakes(&mut self, writer: Thread) {
        self.line.writer_is(writer.clone());
        self.waker = Arc::new(Unpark(writer)).into();
    }

    pub(in super::super) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// A frame that the mirror has, at a start.
    pub(in super::super) fn replay(&mut self, frame: &Frame) -> Result<(), OpenError> {
        if frame.position <= self.place.position {
            return Ok(());
        }
        let whole = WholeFrame::read(frame.encoded().clone());
        let judged = whole.map(|whole| self.place.replay(&whole.sealed));
        match judged {
            Some(Ok(is_void)) if is_void == frame.is_void() => Ok(()),
            _ => Err(self.unlike(&format!("frame {} does not follow", frame.position))),
        }
    }

    /// The mirror ends at this position: from here on the log is followed.
    pub(in super::super) fn begins(&self, position: Position) -> Result<(), OpenError> {
        if self.place.position != position {
            return Err(self.unlike(&format!("it ends at {position}")));
        }
        let (folder, first) = &self.files;
        place::write(folder, &self.place, first)?;
        self.line.set_place(self.place.clone());
        Ok(())
    }

    fn unlike(&self, what: &str) -> OpenError {
        let at = self.place.position;
        OpenError::Damaged {
            text: format!(
                "the mirror of the cluster's log was right up to {at}, and now {what}; begin with an empty data \
                 directory, which is filled from the log"
            ),
        }
    }

    /// Nothing is filled and nothing is on its way.
    pub(super) fn is_free(&self) -> bool {
        self.filled.is_none() && self.sent.is_none()
    }
}
