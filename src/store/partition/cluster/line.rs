//! Where a log's driver and a partition's writer meet: what came, what goes out, whose turn the next position is.
//!
//! Owns: [`Line`]. Promises: what came is taken in order; while a batch is being filled for the next position nothing
//! else is written there by this node; the driver waits where the writer is far behind. Must not: hold its lock while
//! anything is called.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tideline_cluster::{Draft, Frame, Place};
use tokio::sync::watch;

use super::Role;
use tideline_base::ids::Position;

/// Bytes that came and wait for the writer; with more the driver waits.
const CAME_BYTES_MAX: usize = 32 << 20;
/// Beside its bytes, what a frame takes.
const CAME_BYTES: usize = 512;
/// So long no batch is filled for a driver that wants to write a frame of its own; it looks every 10 ms.
const WANTED: Duration = Duration::from_millis(50);

/// What came of the log, in order.
pub(super) enum Came {
    Taken {
        frame: Frame,
        is_void: bool,
    },
    Owns,
    Acknowledged(Position),
    /// The node owns the log no longer.
    Moved,
    /// The batch at this position was not written.
    Lost(Position),
    /// The same, for want of room.
    Full(Position),
    Stopped(String),
}

/// A batch on its way to the driver.
pub(super) struct Outgoing {
    pub(super) position: Position,
    pub(super) term: u64,
    pub(super) bytes: Bytes,
}

/// Who may write at the next position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Nobodys,
    /// A batch is being filled, or is on its way.
    Writers,
    /// A control frame is on its way.
    Drivers,
}

#[derive(Default)]
struct State {
    came: VecDeque<Came>,
    came_bytes: usize,
    turn: Turn,
    /// The driver wants a turn.
    wanted: Option<Instant>,
    outgoing: Option<Outgoing>,
    is_closed: bool,
    /// The writer has all that came before this node became the owner, and nothing that ends this has come since.
    owns: bool,
    writer: Option<Thread>,
    place: Option<Place>,
}

/// The driver, as the writer calls it.
struct Reach {
    wake: Box<dyn Fn() + Send + Sync>,
    proves: Box<dyn Fn() -> bool + Send + Sync>,
    read: Box<dyn Fn() -> Option<Position> + Send + Sync>,
}

/// See the file's opening.
pub(in super::super) struct Line {
    state: Mutex<State>,
    /// There is room again for what comes.
    room: Condvar,
    reach: OnceLock<Reach>,
    /// Up to where the image has everything.
    covered: AtomicU64,
    pub(super) role: watch::Sender<Role>,
}

impl Default for Line {
    fn default() -> Line {
        let (owner, term) = (None, 0);
        Line {
            state: Mutex::default(),
            room: Condvar::new(),
            reach: OnceLock::new(),
            covered: AtomicU64::new(0),
            role: watch::Sender::new(Role::Follows { owner, term }),
        }
    }
}

/// The driver's end.
impl Line {
    /// Something came. Blocks while the writer is far behind, unless the line is closed.
    pub(super) fn push(&self, came: Came) {
        let mut state = self.lock();
        while state.came_bytes > CAME_BYTES_MAX && !state.is_closed {
            let waited = self.room.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        state.came_bytes += bytes_of(&came);
        state.owns &= !is_turn(&came);
        state.came.push_back(came);
        wake_writer(&state);
    }

    /// The batch for this draft, if there is one; one for another place is lost.
    pub(super) fn next(&self, draft: &Draft) -> Option<Bytes> {
        let mut state = self.lock();
        if state.turn == Turn::Drivers {
            // Nothing is in flight: its frame was taken, or given up.
            state.turn = Turn::Nobodys;
            wake_writer(&state);
        }
        let Outgoing {
            position,
            term,
            bytes,
        } = state.outgoing.take()?;
        // It was sealed behind all that had come, so these two tell.
        if (position, term) == (draft.position, draft.term) {
            return Some(bytes);
        }
        state.came.push_back(Came::Lost(position));
        wake_writer(&state);
        None
    }

    /// Up to where the image has everything, as the writer has last seen.
    pub(super) fn covered(&self) -> Position {
        Position(self.covered.load(Ordering::Acquire))
    }

    /// The driver wants to write at the next position; whether it may.
    pub(super) fn yields(&self) -> bool {
        let mut state = self.lock();
        match state.turn {
            Turn::Writers if !state.is_closed => {
                state.wanted = Some(Instant::now() + WANTED);
                false
            }
            _ => {
                state.turn = Turn::Drivers;
                state.wanted = None;
                true
            }
        }
    }
}

/// The writer's end.
impl Line {
    pub(super) fn covers(&self, covered: Position) {
        self.covered.store(covered.0, Ordering::Release);
    }

    /// The thread that is woken when something came.
    pub(super) fn writer_is(&self, thread: Thread) {
        self.lock().writer = Some(thread);
    }

    /// What came next.
    pub(super) fn pop(&self) -> Option<Came> {
        let mut state = self.lock();
        let came = state.came.pop_front()?;
        state.came_bytes -= bytes_of(&came);
        state.owns |= matches!(came, Came::Owns) && !state.came.iter().any(is_turn);
        if state.came_bytes <= CAME_BYTES_MAX {
            self.room.notify_all();
        }
        Some(came)
    }

    /// Whether a batch may be filled for the next position: all that came was seen, and the driver does not want it.
    pub(super) fn reserve(&self) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let is_wanted = state.wanted.is_some_and(|until| now < until);
        let may = state.turn == Turn::Writers || state.turn == Turn::Nobodys && !is_wanted;
        let may = may && state.came.is_empty();
        if may {
            state.turn = Turn::Writers;
        }
        may
    }

    /// Whether the driver waits for a turn.
    pub(super) fn is_wanted(&self) -> bool {
        self.lock().wanted.is_some()
    }

    /// No batch is being filled or on its way.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        if state.turn == Turn::Writers {
            state.turn = Turn::Nobodys;
        }
    }

    /// Sends a batch on its way.
    pub(super) fn send(&self, outgoing: Outgoing) {
        self.lock().outgoing = Some(outgoing);
        if let Some(reach) = self.reach.get() {
            (reach.wake)();
        }
    }

    /// Takes back what the driver has not got yet; whether there was something.
    pub(super) fn recall(&self) -> bool {
        self.lock().outgoing.take().is_some()
    }

    /// Whether the driver is sure at this moment that it owns the log, and the writer has all that came before.
    pub(in super::super) fn proves(&self) -> bool {
        let owns = self.lock().owns;
        owns && self.reach.get().is_some_and(|reach| (reach.proves)())
    }

    /// Up to where a view must reach that is to show all that was acknowledged before this call; `None` = this node
    /// can't say. Blocks.
    pub(in super::super) fn read(&self) -> Option<Position> {
        (self.reach.get()?.read)()
    }

    /// The writer takes nothing any more: it ends, or its partition has stopped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        (state.is_closed, state.owns) = (true, false);
        (state.came, state.came_bytes) = (VecDeque::new(), 0);
        state.outgoing = None;
        self.room.notify_all();
    }
}

impl Line {
    pub(super) fn attach(
        &self,
        wake: Box<dyn Fn() + Send + Sync>,
        proves: Box<dyn Fn() -> bool + Send + Sync>,
        read: Box<dyn Fn() -> Option<Position> + Send + Sync>,
    ) {
        // A directory is opened anew for another driver.
        let _ = self.reach.set(Reach { wake, proves, read });
    }

    /// Where the mirror ended when it was opened.
    pub(in super::super) fn set_place(&self, place: Place) {
        self.lock().place = Some(place);
    }

    pub(super) fn take_place(&self) -> Option<Place> {
        self.lock().place.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // It is changed in single steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake_writer(state: &State) {
    if let Some(writer) = &state.writer {
        writer.unpark();
    }
}

/// Whether it begins or ends that this node owns the log.
fn is_turn(came: &Came) -> bool {
    matches!(came, Came::Owns | Came::Moved | Came::Stopped(_))
}

fn bytes_of(came: &Came) -> usize {
    match came {
        Came::Taken { frame, .. } => CAME_BYTES + frame.bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let line = Line::default();
        line.attach(Box::new(|| {}), Box::new(|| true), Box::new(|| None));
        line
    }

    /// The driver's lease alone proves nothing: the writer may be an ownership behind.
    #[test]
    fn reads_are_proven_only_when_the_writer_has_what_came_before() {
        let line = line();
        let seen = |what| {
            line.push(what);
            line.proves()
        };
        assert!(!seen(Came::Owns));
        let popped = || line.pop().map(|_| line.proves());
        assert_eq!(popped(), Some(true));
        assert!(seen(Came::Acknowledged(Position(2))), "it goes on");
        assert!(!seen(Came::Moved) && !seen(Came::Owns));
        assert_eq!(
            [popped(), popped(), popped()],
            [Some(false), Some(false), Some(true)]
        );
        assert!(!seen(Came::Owns) && !seen(Came::Moved) && !seen(Came::Owns));
        assert_eq!(
            [popped(), popped(), popped()],
            [Some(false), Some(false), Some(true)]
        );
        line.close();
        assert!(!line.proves());
    }

    /// The driver is let go when the line is closed, and not made to wait again.
    #[test]
    fn a_closed_line_makes_nobody_wait() {
        let line = line();
        line.lock().came_bytes = CAME_BYTES_MAX + 1;
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| line.push(Came::Moved));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished());
            line.close();
        });
        line.lock().came_bytes = CAME_BYTES_MAX + 1;
        line.push(Came::Moved);
        assert!(line.pop().is_none());
    }
}
