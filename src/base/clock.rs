//! The clock: what time it is, and what to believe of the system's clock when it jumps.
//!
//! Owns: time. Promises: one wrong reading is not followed; what the system's clock did is told once. Must not: import
//! anything of the project, or log: the clock is read under locks, and by what writes the log.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where "now" comes from: the system's clock, or one that a test moves by hand.
///
/// The system's clock may be set. Back is followed at once, and so is a small step forward. A jump forward is followed
/// only after the clock has kept to it for a while: one wrong reading ten years ahead would otherwise stamp what
/// happens now, and times of a timeline never fall. Until then time goes on as the steady clock counts it.
#[derive(Debug, Default)]
pub struct Clock {
    /// 0 = the system's clock; else what a test's steady clock says, ms.
    fixed_ms: AtomicU64,
    /// By how much the system's clock is ahead of the steady one.
    offset_ms: AtomicI64,
    /// Whether a reading needs no look at `steps`: there is an offset, and no jump is in doubt.
    is_settled: AtomicBool,
    steps: Mutex<Steps>,
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock that stays at `now_ms` until `set` moves it.
    #[must_use]
    pub fn fixed(now_ms: u64) -> Clock {
        Clock {
            fixed_ms: AtomicU64::new(now_ms),
            ..Clock::default()
        }
    }

    /// Moves a fixed clock, also backwards, and the steady one with it.
    pub fn set(&self, now_ms: u64) {
        let ahead_ms = self.offset_ms.load(Ordering::SeqCst);
        let steady_ms = now_ms.saturating_add_signed(-ahead_ms);
        self.fixed_ms.store(steady_ms, Ordering::SeqCst);
    }

    /// Steps a fixed clock, as somebody does who sets the system's clock: the steady one stays.
    pub fn step(&self, by_ms: i64) {
        self.offset_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Milliseconds since 1970. May go backwards; a caller that needs more keeps a maximum.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        match self.fixed_ms.load(Ordering::Relaxed) {
            0 => self.at(wall_ms(), steady_ms()).max(0).cast_unsigned(),
            fixed => fixed.saturating_add_signed(self.offset_ms.load(Ordering::Relaxed)),
        }
    }

    /// Milliseconds since some moment before this process, by a clock that nobody sets; means nothing after a restart.
    #[must_use]
    pub fn steady_ms(&self) -> u64 {
        match self.fixed_ms.load(Ordering::Relaxed) {
            0 => steady_ms().max(0).cast_unsigned(),
            fixed => fixed,
        }
    }

    /// By how much it is ahead of the steady clock: less than before = it was set back meanwhile.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        self.now_ms().cast_signed() - self.steady_ms().cast_signed()
    }

    /// What it says at these readings.
    fn at(&self, wall_ms: i64, steady_ms: i64) -> i64 {
        let ahead_ms = (wall_ms - steady_ms) - self.offset_ms.load(Ordering::Relaxed);
        if ahead_ms.abs() <= JITTER_MS && self.is_settled.load(Ordering::Acquire) {
            return wall_ms;
        }
        let mut steps = self.steps();
        let offset_ms = steps.offset(wall_ms, steady_ms);
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
        let is_settled = steps.doubt.is_none();
        self.is_settled.store(is_settled, Ordering::Release);
        steady_ms + offset_ms
    }

    /// Looks at the system's clock, and returns its steps since the last call: for the log.
    #[must_use]
    pub fn stepped(&self) -> Vec<Stepped> {
        let _ = self.now_ms();
        let mut steps = self.steps();
        if crate::faults::is_named("clock_deadlock") {
            let _ = self.now_ms();
        }
        std::mem::take(&mut steps.news)
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step of the system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepped {
    /// Which one.
    pub step: Step,
    /// What the system's clock says.
    pub wall_ms: i64,
    /// What [`Clock`] said until then.
    pub clock_ms: i64,
}

/// The kinds of steps that are worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It jumped forward, and is not followed yet.
    Jumped,
    /// It is back from its jump.
    Undone,
    /// It keeps to its jump, and is followed.
    Kept,
    /// It was set back, and is followed.
    Back,
}

/// Two readings that are so far apart differ only by the time between them.
const JITTER_MS: i64 = 5;
/// A larger step is a jump: it is logged, and forward it is not followed at once.
const JUMP_MS: i64 = 60_000;
/// So long the system's clock must keep to a jump forward.
const DOUBT_MS: i64 = 10_000;

/// How far ahead of the clock a time may be before it is no accident, in ms.
pub const CLOCK_JUMP_MS: u64 = JUMP_MS.cast_unsigned();

/// What is known of the steps of the system's clock.
#[derive(Debug, Default)]
struct Steps {
    /// That is followed; `None` before the first reading.
    offset_ms: Option<i64>,
    doubt: Option<Doubt>,
    /// Those that [`Clock::stepped`] has not returned yet.
    news: Vec<Stepped>,
}

/// A jump that may be an error.
#[derive(Debug)]
struct Doubt {
    offset_ms: i64,
    since_ms: i64,
}

impl Steps {
    /// By how much time is ahead of the steady clock.
    fn offset(&mut self, wall_ms: i64, steady_ms: i64) -> i64 {
        let read_ms = wall_ms - steady_ms;
        let known_ms = *self.offset_ms.get_or_insert(read_ms);
        let by_ms = read_ms - known_ms;
        let mut note = |step| {
            let clock_ms = steady_ms + known_ms;
            let stepped = Stepped {
                step,
                wall_ms,
                clock_ms,
            };
            if self.news.len() < NEWS_MAX {
                self.news.push(stepped);
            }
        };
        if by_ms <= JUMP_MS {
            if self.doubt.take().is_some() {
                note(Step::Undone);
            }
            if by_ms < -JUMP_MS {
                note(Step::Back);
            }
            return *self.offset_ms.insert(read_ms);
        }
        match &mut self.doubt {
            Some(doubt) if (read_ms - doubt.offset_ms).abs() > JUMP_MS => {
                (doubt.offset_ms, doubt.since_ms) = (read_ms, steady_ms);
            }
            Some(doubt) if steady_ms - doubt.since_ms >= DOUBT_MS => {
                note(Step::Kept);
                self.doubt = None;
                return *self.offset_ms.insert(read_ms);
            }
            Some(_) => {}
            None => {
                note(Step::Jumped);
                self.doubt = Some(Doubt {
                    offset_ms: read_ms,
                    since_ms: steady_ms,
                });
            }
        }
        known_ms
    }
}

/// Steps that are kept for the log: far more than there are between two looks.
const NEWS_MAX: usize = 16;

/// The system's clock as it is, also after a jump, ms since 1970; takes no lock. For the log only, whose lines have
/// this time on standard error, too. All else asks [`Clock`].
#[must_use]
pub fn unchecked_ms() -> u64 {
    wall_ms().max(0).cast_unsigned()
}

#[allow(clippy::disallowed_methods)] // the one place that asks the system
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX / 2)
    })
}

/// Milliseconds since some moment; counts on while the machine sleeps, so that waking up is no jump.
#[cfg(target_os = "linux")]
fn steady_ms() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// The same elsewhere, where it may stop while the machine sleeps: then waking up is a jump.
#[cfg(not(target_os = "linux"))]
fn steady_ms() -> i64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let since = START.get_or_init(std::time::Instant::now).elapsed();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000_000;
    const YEARS: i64 = 10 * 365 * 86_400_000;

    /// Reads a clock at (seconds since the start, by how much the system's is off); tells by how much it is.
    fn off(clock: &Clock, seconds: i64, off_ms: i64) -> i64 {
        let (right, steady) = (START + seconds * 1_000, 7 + seconds * 1_000);
        clock.at(right + off_ms, steady) - right
    }

    #[test]
    fn a_wrong_reading_is_not_followed() {
        let clock = Clock::system();
        assert_eq!(off(&clock, 0, 0), 0);
        assert_eq!(off(&clock, 1, YEARS), 0);
        assert_eq!(off(&clock, 2, 0), 0);
        // Nor are many that do not keep to one time.
        for second in 3..100 {
            assert_eq!(off(&clock, second, YEARS + second * 2 * JUMP_MS), 0);
        }
        assert_eq!(off(&clock, 200, 3), 3);
        for second in 201..300 {
            assert_eq!(off(&clock, second, second % 2 * YEARS + 3), 3);
        }
        assert_eq!(clock.steps().news.len(), NEWS_MAX, "bounded");
    }

    #[test]
    fn a_jump_that_stays_is_followed_and_so_is_the_way_back() {
        let clock = Clock::system();
        for second in 0..5 {
            assert_eq!(off(&clock, second, 0), 0);
        }
        for second in 5..15 {
            assert_eq!(off(&clock, second, YEARS), 0);
        }
        assert_eq!(off(&clock, 15, YEARS), YEARS);
        assert_eq!(off(&clock, 16, 0), 0);
        let news = std::mem::take(&mut clock.steps().news);
        let steps: Vec<_> = news.iter().map(|news| news.step).collect();
        assert_eq!(steps, [Step::Jumped, Step::Kept, Step::Back]);
        assert_eq!(news[0].wall_ms - news[0].clock_ms, YEARS);
        // A clock that was wrong at the start is set right by the network.
        let clock = Clock::system();
        assert_eq!(off(&clock, 0, -YEARS), -YEARS);
        assert_eq!(off(&clock, 1, 0), -YEARS);
        assert_eq!(off(&clock, 11, 0), 0);
    }

    #[test]
    fn small_steps_are_followed_at_once_and_sleep_is_no_jump() {
        let clock = Clock::system();
        assert_eq!(off(&clock, 0, 0), 0);
        assert_eq!(off(&clock, 1, 30_000), 30_000);
        assert_eq!(off(&clock, 2, -3_000), -3_000);
        assert_eq!(off(&clock, 90_000, -3_000), -3_000);
    }

    #[test]
    fn the_systems_clock_goes_on() {
        let clock = Clock::system();
        let (first, second) = (clock.now_ms(), clock.now_ms());
        assert!(first > 1_700_000_000_000 && second >= first && second < first + 60_000);
    }
}
