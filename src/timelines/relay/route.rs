//! One route: what goes from one source partition to one destination, of one target.
//!
//! Owns: how far the route has read, what waits in it, and its place in the destination. Promises: effects leave in the
//! order in which they came in, in bounded pieces; what waits is bounded but for one batch. Must not: wait for
//! anything.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use super::cursor::{At, CursorKey};
use super::target::{Derived, Effect};
use tideline_base::ids::{PartitionId, Position};

/// A route takes nothing more while so many effects wait in it. They are small, however much they will write.
const WAITING_MAX: usize = 4_096;
/// Nor while its cursor is so many bytes of log behind what it has read: the log keeps them.
const HELD_BYTES_MAX: i64 = 1 << 30;
/// What goes into one write, about: far below what a closure may write, and soon done.
const PIECE_BYTES: usize = 256 << 10;
/// A cursor with nothing to write is moved when it is behind by so many bytes of log.
const LAZY_BYTES: i64 = 4 << 20;
/// How long a route waits after its first failure; twice as long after each further one, up to the second.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What waits for its turn.
struct Waiting {
    /// Of the batch that it comes from.
    position: Position,
    /// See [`Derived::place`].
    place: u64,
    bytes: usize,
    /// [`Route::read_bytes`] behind its batch.
    read_bytes: i64,
    effect: Effect,
}

/// Some effects and the move of the cursor that goes with them.
pub(super) struct Piece {
    /// `None` = there must be no cursor.
    pub(super) from: Option<At>,
    pub(super) to: At,
    bytes: usize,
    effects: Arc<Vec<Effect>>,
    /// Bytes of the batches up to the cursor when it is written.
    cursor_bytes: i64,
}

impl Piece {
    /// With about how many bytes they hold and will write.
    pub(super) fn effects(&self) -> (usize, Arc<Vec<Effect>>) {
        (self.bytes, Arc::clone(&self.effects))
    }
}

/// How far a route has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nobody has looked at its cursor.
    Closed,
    /// What was derived is to be made anew, and then what changed after this.
    Anew(Position),
    /// It follows the log.
    Follows,
}

/// What is to be done for a route.
pub(super) enum Work {
    /// Look where it is.
    Open,
    /// Make anew what was derived, for what happened up to a position.
    Anew(Position),
    /// Write this.
    Write(Arc<Piece>),
}

pub(super) struct Route {
    /// Which of the targets.
    pub(super) target: usize,
    pub(super) destination: PartitionId,
    pub(super) key: CursorKey,
    /// The cursor as it is in the destination; `None` = there is none.
    pub(super) cursor: Option<At>,
    stage: Stage,
    /// Every batch up to this was taken.
    read: Position,
    /// What the next batch leads to below this place was written before.
    skip: u64,
    /// Bytes of the batches that were taken, as the partition counts those that it publishes.
    read_bytes: i64,
    /// The same up to the cursor.
    cursor_bytes: i64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// What is being written.
    piece: Option<Arc<Piece>>,
    /// Something of the route is under way.
    is_busy: bool,
    /// It is to be closed when that has ended.
    closes: bool,
    failures: u32,
    retry_at: Option<Instant>,
    /// Up to where everything is done.
    done: watch::Sender<Position>,
}

impl Route {
    pub(super) fn new(
        target: usize,
        destination: PartitionId,
        key: CursorKey,
        done: watch::Sender<Position>,
    ) -> Route {
        Route {
            target,
            destination,
            key,
            cursor: None,
            stage: Stage::Closed,
            read: Position::ZERO,
            skip: 0,
            read_bytes: 0,
            cursor_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            piece: None,
            is_busy: false,
            closes: false,
            failures: 0,
            retry_at: None,
            done,
        }
    }

    /// Follows the log from a place on: the cursor's, or where the log begins without one. `published_bytes`: what the
    /// partition had published there; below zero for what it did before its start.
    pub(super) fn follow(&mut self, cursor: Option<At>, at: At, published_bytes: i64) {
        (self.cursor, self.stage) = (cursor, Stage::Follows);
        (self.read, self.skip) = (at.position, at.place);
        (self.read_bytes, self.cursor_bytes) = (published_bytes, published_bytes);
        self.ended();
    }

    /// Has everything made anew; the changes after `since` are to follow.
    pub(super) fn begin_anew(&mut self, cursor: Option<At>, since: Position) {
        (self.cursor, self.stage) = (cursor, Stage::Anew(since));
        self.ended();
    }

    /// The cursor or the log is not where it should be: forgets everything and looks again, when what is under way has
    /// ended.
    pub(super) fn close(&mut self) {
        self.closes = self.is_busy;
        if self.closes {
            return;
        }
        self.waiting.clear();
        (self.waiting_bytes, self.piece) = (0, None);
        self.stage = Stage::Closed;
    }

    /// Every batch up to this was taken.
    pub(super) fn read(&self) -> Position {
        self.read
    }

    /// Whether it takes a batch now.
    pub(super) fn is_open(&self) -> bool {
        let is_full = self.waiting.len() >= WAITING_MAX
            || self.read_bytes - self.cursor_bytes >= HELD_BYTES_MAX;
        self.stage == Stage::Follows && !self.closes && !is_full
    }

    /// The route has taken all that the next batch holds for it, given in order.
    pub(super) fn take(
        &mut self,
        position: Position,
        bytes: usize,
        effects: impl Iterator<Item = Derived>,
    ) {
        assert_eq!(position, self.read.next(), "no batch is left out");
        let skip = std::mem::take(&mut self.skip);
        self.read = position;
        self.read_bytes += i64::try_from(bytes).expect("a frame is far below 2^63");
        for Derived {
            place,
            bytes,
            effect,
            ..
        } in effects
        {
            if place >= skip {
                self.waiting_bytes += bytes;
                self.waiting.push_back(Waiting {
                    position,
                    place,
                    bytes,
                    read_bytes: self.read_bytes,
                    effect,
                });
            }
        }
    }

    /// What to do now, if there is something and it is time. The same piece again until [`Route::wrote`].
    /// `asked`: up to here the log asks to be let go of.
    pub(super) fn next_work(&mut self, now: Instant, asked: Position) -> Option<Work> {
        if self.is_busy || self.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        self.retry_at = None;
        let work = match self.stage {
            Stage::Closed => Some(Work::Open),
            Stage::Anew(since) => Some(Work::Anew(since)),
            Stage::Follows => {
                if self.piece.is_none() {
                    self.piece = self.cut(asked).map(Arc::new);
                }
                self.piece.clone().map(Work::Write)
            }
        };
        self.is_busy = work.is_some();
        work
    }

    fn cut(&mut self, asked: Position) -> Option<Piece> {
        let is_asked = self.held() < asked && asked <= self.read;
        let is_late = self.read_bytes - self.cursor_bytes >= LAZY_BYTES || is_asked;
        if self.waiting.is_empty() && !is_late {
            return None;
        }
        let mut piece = Piece {
            from: self.cursor,
            to: At {
                position: self.read,
                place: 0,
            },
            bytes: 0,
            effects: Arc::default(),
            cursor_bytes: self.read_bytes,
        };
        let mut effects = Vec::new();
        while let Some(next) = self.waiting.pop_front() {
            piece.bytes += next.bytes;
            effects.push(next.effect);
            if piece.bytes < PIECE_BYTES {
                continue;
            }
            match self.waiting.front() {
                None => {}
                Some(after) if after.position == next.position => {
                    piece.to.position = Position(next.position.0 - 1);
                    piece.to.place = next.place + 1;
                    piece.cursor_bytes = self.cursor_bytes;
                }
                Some(_) => {
                    piece.to.position = next.position;
                    piece.cursor_bytes = next.read_bytes;
                }
            }
            break;
        }
        self.waiting_bytes -= piece.bytes;
        piece.effects = Arc::new(effects);
        Some(piece)
    }

    /// The piece is on disk.
    pub(super) fn wrote(&mut self) {
        let piece = self.piece.take().expect("a piece was under way");
        (self.cursor, self.cursor_bytes) = (Some(piece.to), piece.cursor_bytes);
        self.ended();
    }

    /// What was under way has ended well.
    fn ended(&mut self) {
        (self.is_busy, self.failures) = (false, 0);
        if self.closes {
            self.close();
        }
    }

    /// What was under way showed that the cursor is another one.
    pub(super) fn moved(&mut self) {
        self.closes = true;
        self.ended();
    }

    /// What was under way has failed, and is tried again after a while.
    pub(super) fn failed(&mut self) {
        self.is_busy = false;
        if tideline_base::faults::is_named("relay_forgets_failed") {
            self.piece = None;
        }
        if self.closes {
            self.close();
        }
        let wait = RETRY_MIN.saturating_mul(1 << self.failures.min(10));
        self.retry_at = Some(Instant::now() + wait.min(RETRY_MAX));
        self.failures += 1;
    }

    /// When a route that has failed may try again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at.filter(|_| !self.is_busy)
    }

    /// Nothing waits, nothing is under way.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.piece.is_none() && self.stage == Stage::Follows
    }

    /// Up to where everything is done.
    pub(super) fn done(&self) -> Position {
        match self.stage {
            Stage::Follows if self.is_idle() => self.read,
            Stage::Follows => self.held(),
            // Held is what was before; nobody knows what of it is there.
            Stage::Closed | Stage::Anew(_) => Position::ZERO,
        }
    }

    /// What the partition had published up to where the route has read, and what is still to be written of that.
    /// `None`: nobody knows yet.
    pub(super) fn progress(&self) -> Option<(i64, i64)> {
        let writing = self.piece.as_ref().map_or(0, |piece| piece.bytes);
        let left = i64::try_from(self.waiting_bytes + writing).expect("effects fit into memory");
        (self.stage == Stage::Follows).then_some((self.read_bytes, left))
    }

    /// Whether its cursor is behind what it has read, and nothing is to be written.
    pub(super) fn is_behind(&self) -> bool {
        self.is_idle() && !self.is_busy && self.held() < self.read
    }

    /// Above this the route may need the log again.
    pub(super) fn held(&self) -> Position {
        match self.stage {
            Stage::Closed => Position::ZERO,
            Stage::Anew(since) => since,
            Stage::Follows => self.cursor.map_or(Position::ZERO, |at| at.position),
        }
    }

    /// Wakes the callers that wait.
    pub(super) fn announce(&self) {
        let done = self.done();
        self.done.send_if_modified(|known| {
            let moved = *known != done;
            *known = done;
            moved
        });
    }
}
