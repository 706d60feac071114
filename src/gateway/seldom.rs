//! Warnings that any client can cause.
//!
//! Owns: how often such a line is logged. Promises: the first one at once, then one a minute with how many there were.
//! Must not: know what the line says.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The turns of one kind of line.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    said: Option<Instant>,
    count: u64,
}

impl Seldom {
    /// Counts; if it is time to say so, how many there were since the last time, this one included.
    pub(super) fn turn(&self) -> Option<u64> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.count += 1;
        if since.said.is_some_and(|at| at.elapsed() < PAUSE) {
            return None;
        }
        since.said = Some(Instant::now());
        Some(std::mem::take(&mut since.count))
    }
}

const PAUSE: Duration = Duration::from_secs(60);
