//! What publisher and listeners of a room share across threads: how far everybody is, and when each message was sent.
//!
//! Owns: these numbers, and the first faults. Promises: the time of a message that is still on its way is there.
//! Must not: lock anything while messages go well.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// So many messages may be on the way; a power of two.
pub(super) const WAY_MAX: u64 = 1 << 18;
/// More faults of the same run say nothing new.
const FAULTS_MAX: usize = 20;

/// What all threads see.
pub(super) struct Board {
    began: Instant,
    /// When message k was sent, or was to be sent: µs since `began`, at k modulo `WAY_MAX`.
    sent_at: Vec<AtomicU64>,
    /// When measuring began and ended, in the same µs; `u64::MAX` before that.
    window: [AtomicU64; 2],
    lanes: Vec<Lane>,
    /// A listener's thread got further, or something failed.
    pub(super) news: Notify,
    failed: AtomicBool,
    faults: Mutex<Vec<String>>,
}

/// One listeners' thread. As far apart as cache lines that are fetched in pairs, so that threads do not disturb each
/// other.
#[derive(Default)]
#[repr(align(128))]
struct Lane {
    /// All of its subscribers have the messages up to this one.
    minimum: AtomicU64,
    /// Messages that came, over all of its subscribers.
    deliveries: AtomicU64,
}

impl Board {
    pub(super) fn new(threads: usize) -> Board {
        Board {
            began: Instant::now(),
            sent_at: (0..WAY_MAX).map(|_| AtomicU64::new(0)).collect(),
            window: [const { AtomicU64::new(u64::MAX) }; 2],
            lanes: (0..threads).map(|_| Lane::default()).collect(),
            news: Notify::new(),
            failed: AtomicBool::new(false),
            faults: Mutex::new(Vec::new()),
        }
    }

    /// µs since the run began.
    pub(super) fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    /// Message `number` is sent, or was to be sent, at this time.
    pub(super) fn stamp(&self, number: u64, micros: u64) {
        self.sent_at[(number % WAY_MAX) as usize].store(micros, Ordering::Release);
    }

    /// When it was.
    pub(super) fn stamped(&self, number: u64) -> u64 {
        self.sent_at[(number % WAY_MAX) as usize].load(Ordering::Acquire)
    }

    /// The time of so many µs.
    pub(super) fn instant(&self, micros: u64) -> Instant {
        self.began + Duration::from_micros(micros)
    }

    /// Measuring begins.
    pub(super) fn begin(&self, now: Instant) {
        self.window[0].store(self.micros(now), Ordering::Release);
    }

    /// And ends.
    pub(super) fn end(&self, now: Instant) {
        self.window[1].store(self.micros(now), Ordering::Release);
    }

    /// When measuring began and ended.
    pub(super) fn window(&self) -> [Option<Instant>; 2] {
        let one = |at: &AtomicU64| match at.load(Ordering::Acquire) {
            u64::MAX => None,
            micros => Some(self.instant(micros)),
        };
        [one(&self.window[0]), one(&self.window[1])]
    }

    /// A thread's subscribers have so much.
    pub(super) fn reached(&self, lane: usize, minimum: u64, deliveries: u64) {
        let lane = &self.lanes[lane];
        lane.deliveries.store(deliveries, Ordering::Relaxed);
        if lane.minimum.swap(minimum, Ordering::AcqRel) != minimum {
            self.news.notify_one();
        }
    }

    /// Every subscriber has the messages up to this one.
    pub(super) fn minimum(&self) -> u64 {
        let one = |lane: &Lane| lane.minimum.load(Ordering::Acquire);
        self.lanes.iter().map(one).min().unwrap_or(0)
    }

    /// Messages that came so far, over all subscribers.
    pub(super) fn deliveries(&self) -> u64 {
        let one = |lane: &Lane| lane.deliveries.load(Ordering::Relaxed);
        self.lanes.iter().map(one).sum()
    }

    /// Something is wrong: the run ends.
    pub(super) fn fault(&self, what: String) {
        // A thread that panicked leaves the list as it is.
        let mut faults = self.faults.lock().unwrap_or_else(|dead| dead.into_inner());
        if faults.len() < FAULTS_MAX {
            faults.push(what);
        }
        drop(faults);
        self.failed.store(true, Ordering::Release);
        self.news.notify_one();
    }

    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// What was wrong.
    pub(super) fn faults(&self) -> Vec<String> {
        let faults = self.faults.lock().unwrap_or_else(|dead| dead.into_inner());
        faults.clone()
    }
}
