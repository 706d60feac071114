//! What the log's followers are told of it, and what it keeps for them.
//!
//! Owns: the count of published bytes and the hold. Promises: while a position is held, no segment goes that has a
//! batch above it. Must not: decide how far the hold may lag; those who hold have a bound of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::Position;

/// A log as its followers need it.
pub(super) struct Hold {
    /// Bytes of the frames that were published since the start.
    bytes: AtomicU64,
    /// Above this position the log keeps everything.
    above: AtomicU64,
}

impl Hold {
    /// Keeps everything until [`Hold::set`], or nothing.
    pub(super) fn new(holds_log: bool) -> Hold {
        Hold {
            bytes: AtomicU64::new(0),
            above: AtomicU64::new(if holds_log { 0 } else { u64::MAX }),
        }
    }

    pub(super) fn published(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn published_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// From now on everything above `position` is kept.
    pub(super) fn set(&self, position: Position) {
        self.above.store(position.0, Ordering::Release);
    }

    /// Up to here nobody needs the log's frames.
    pub(super) fn above(&self) -> Position {
        Position(self.above.load(Ordering::Acquire))
    }
}
