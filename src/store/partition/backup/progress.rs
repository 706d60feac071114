//! How far a backup is, how fast it may go, and whether it is to end.
//!
//! Owns: these figures and the waits between steps. Promises: over any second or so no more bytes pass than allowed; a
//! cancelled step fails within a moment. Must not: know what the bytes are.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits until a split or merge is done.
    Waiting,
    /// Images and logs are copied.
    Copying,
    /// The copy is opened and read.
    Verifying,
    /// The copy is sent to a bucket.
    Sending,
}

const STAGES: [Stage; 4] = [
    Stage::Waiting,
    Stage::Copying,
    Stage::Verifying,
    Stage::Sending,
];

/// A wait is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What was not used of a moment is not added to the next ones, beyond this.
const BURST: Duration = Duration::from_millis(100);

/// What is synced at once where there is a bound: a disk that is busy with it keeps the log waiting for a moment only.
const PACED_SLICE_BYTES: u64 = 2 << 20;
/// The same without a bound.
const SLICE_BYTES: u64 = 16 << 20;

/// How far it is. Any thread may look.
#[derive(Debug)]
pub struct Progress {
    bytes_per_s: u64,
    stage: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    is_cancelled: AtomicBool,
    /// When the next step may be done.
    next: Mutex<Instant>,
}

impl Progress {
    /// Nothing is done. No more than so many bytes a second are to be; 0 = no bound.
    #[must_use]
    pub fn new(bytes_per_s: u64) -> Progress {
        Progress {
            bytes_per_s,
            stage: AtomicU8::new(0),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
            next: Mutex::new(Instant::now()),
        }
    }

    /// What is being done now.
    #[must_use]
    pub fn stage(&self) -> Stage {
        STAGES[usize::from(self.stage.load(Ordering::Relaxed)) % STAGES.len()]
    }

    /// Bytes that were copied, and about how many there are.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let done = self.done.load(Ordering::Relaxed);
        (done, self.total.load(Ordering::Relaxed).max(done))
    }

    /// Has it end.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Fails if it is to end.
    pub(super) fn goes_on(&self) -> io::Result<()> {
        match self.is_cancelled() {
            true => Err(io::Error::other("cancelled")),
            false => Ok(()),
        }
    }

    pub(super) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Begins to send so many bytes, with none of them sent.
    pub fn begin_to_send(&self, bytes: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.expect(bytes);
        self.enter(Stage::Sending);
    }

    pub(super) fn expect(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// How much is to be synced at once.
    pub(super) fn slice_bytes(&self) -> u64 {
        match self.bytes_per_s {
            0 => SLICE_BYTES,
            _ => PACED_SLICE_BYTES,
        }
    }

    /// So many bytes were copied, or are about to be sent: waits until the next ones may be. Blocks.
    pub fn pass_copied(&self, bytes: u64) -> io::Result<()> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.pass_read(bytes)
    }

    /// The same for bytes that were only read.
    pub(super) fn pass_read(&self, bytes: u64) -> io::Result<()> {
        let until = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let earliest = Instant::now().checked_sub(BURST);
            let took = match self.bytes_per_s {
                0 => 0.0,
                bytes_per_s => bytes as f64 / bytes_per_s as f64,
            };
            *next = earliest.map_or(*next, |earliest| earliest.max(*next))
                + Duration::from_secs_f64(took);
            *next
        };
        loop {
            self.goes_on()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Waits a moment for something else.
    pub(super) fn pause(&self) -> io::Result<()> {
        std::thread::sleep(LOOK_EVERY);
        self.pass_read(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_to_its_rate_and_ends_when_cancelled() {
        let progress = Progress::new(1_000_000);
        let begun = Instant::now();
        for _ in 0..4 {
            progress.pass_copied(100_000).unwrap();
        }
        assert!(begun.elapsed() >= Duration::from_millis(250));
        assert_eq!(progress.bytes(), (400_000, 400_000));
        progress.cancel();
        assert!(progress.pass_copied(1 << 40).is_err() && progress.pause().is_err());
    }
}
