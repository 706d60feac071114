//! What a driver tells the program whose log it drives, and asks of it.
//!
//! Owns: the seam between what moves frames and what holds them. Promises: events come in the order in which they
//! happened, all on one thread. Must not: decide anything, or know where frames are kept.

use bytes::Bytes;
use tideline_base::ids::Position;

use crate::frame::Draft;
use crate::whole::{CommitTime, Frame};

/// What happens in a log, in order.
#[derive(Debug)]
pub enum Event<'a> {
    /// A frame is in the log: it goes into the mirror, and takes effect unless it is void.
    Taken {
        /// The frame.
        frame: &'a Frame,
        /// It counts as a position only.
        is_void: bool,
    },
    /// The node owns the log: [`Host::next`] will be asked.
    Owns,
    /// The writes of its own frames up to here are answered.
    Acknowledged(Position),
    /// The node owns the log no longer. What is queued was not written, and neither was its batch at this position.
    Moved(Option<Position>),
    /// The batch sealed for this position was not written: it is sealed again.
    Again(Position),
    /// The batch at this position was not written: there is no room.
    Full(Position),
    /// Something that a person should know, and that stops nothing.
    Notice(&'a str),
    /// The node has stopped for good, or was refused. Writes that were not answered have an unknown outcome.
    Stopped(&'a str),
}

/// What a log is written and read for. It is called on the driver's thread, which must go on: a call returns
/// soon.
pub trait Host: Send {
    /// The next batch, sealed for this place with this time; `None` if nothing is queued.
    fn next(&mut self, draft: &Draft, time: CommitTime) -> Option<Bytes>;

    /// The node wants to write a frame of its own at the next position. `false`: a batch is being filled for it; the
    /// node asks again soon. After `true` no batch is filled until [`Host::next`] is called again.
    fn yields(&mut self) -> bool {
        true
    }

    /// Up to where everything is in the image, durably.
    fn covered(&mut self) -> Position {
        Position::ZERO
    }

    /// Something happened.
    fn event(&mut self, event: Event<'_>);
}
