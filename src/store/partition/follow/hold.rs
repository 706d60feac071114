//! What the log shows its followers, and what it keeps for them.
//!
//! Owns: the count of published bytes and the holds. Promises: while a position is held, no segment goes that has a
//! batch above it. Must not: decide how far a hold may lag; each holder has a bound of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tideline_base::ids::Position;
pub use tideline_model::server::Holder;

/// How many holders there are.
const HOLDERS: usize = 5;

/// The position of a holder that needs nothing of the log.
const NOTHING: Position = Position(u64::MAX);

/// A log as its followers need it.
pub(in super::super) struct Hold {
    /// Bytes of the frames that were published since the start.
    bytes: AtomicU64,
    /// Above these positions the log keeps everything, by holder.
    above: [AtomicU64; HOLDERS],
    /// Holders that can are to let go of what is below this: the log has no room.
    asked: AtomicU64,
    /// The log follows what another node writes: the holders above the store do not run here, so none can let go.
    follows: AtomicBool,
}

impl Hold {
    /// Keeps everything until each holder has called [`Hold::set`], or nothing. There is no split, merge or backup yet.
    pub(in super::super) fn new(holds_log: bool) -> Hold {
        let above = if holds_log { 0 } else { u64::MAX };
        let hold = Hold {
            bytes: AtomicU64::new(0),
            above: std::array::from_fn(|_| AtomicU64::new(above)),
            asked: AtomicU64::new(0),
            follows: AtomicBool::new(false),
        };
        hold.let_go(Holder::Reshape);
        hold.let_go(Holder::Backup);
        hold
    }

    pub(in super::super) fn published(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(in super::super) fn published_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// From now on everything above `position` is kept for this holder.
    pub(in super::super) fn set(&self, holder: Holder, position: Position) {
        self.above[holder as usize].store(position.0, Ordering::Release);
    }

    /// Asks the holders to let go of what is below `position`, because the log has no room.
    pub(in super::super) fn ask(&self, position: Position) {
        self.asked.fetch_max(position.0, Ordering::AcqRel);
    }

    pub(in super::super) fn asked(&self) -> Position {
        Position(self.asked.load(Ordering::Acquire))
    }

    /// From now on nothing is kept for this holder.
    pub(in super::super) fn let_go(&self, holder: Holder) {
        self.set(holder, NOTHING);
    }

    /// Whether the log follows what another node writes. Then it keeps nothing for holders above the store; what they
    /// said last counts again when it does not.
    pub(in super::super) fn set_follows(&self, follows: bool) {
        self.follows.store(follows, Ordering::Release);
    }

    /// The holders of the log, each with the position above which it holds.
    pub(in super::super) fn all(&self) -> Vec<(Holder, Position)> {
        let all = [
            Holder::Relay,
            Holder::Streams,
            Holder::Reshape,
            Holder::Backup,
            Holder::Search,
        ];
        let follows = self.follows.load(Ordering::Acquire);
        let above = |holder| match holder {
            Holder::Relay | Holder::Streams | Holder::Search if follows => NOTHING,
            _ => Position(self.above[holder as usize].load(Ordering::Acquire)),
        };
        let all = all.map(|holder| (holder, above(holder)));
        all.into_iter()
            .filter(|(_, above)| *above != NOTHING)
            .collect()
    }

    /// Up to here nobody needs the log's frames.
    pub(in super::super) fn above(&self) -> Position {
        let all = self.all().into_iter().map(|(_, above)| above);
        all.min().unwrap_or(NOTHING)
    }
}
