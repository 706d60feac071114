//! How the server is: what is wrong, what there is on the disk, and the last hour in figures.
//!
//! Owns: a look at all figures every five seconds, and what is remembered of it. Promises: what it says is made from
//! the text that `/metrics` returns, so both say the same; however often somebody asks, it looks once a second at most,
//! on a thread that may wait; a look that failed is the first of the notices. Must not: count anything itself, or
//! outlive the process.

mod bounds;
mod history;
mod notices;
mod rules;
mod sample;
mod storage;
#[cfg(test)]
mod tests;
mod words;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use tideline_base::clock::Clock;
use tideline_store::partition::Partitions;

use history::History;
pub use history::{Past, STEP_MS};
use notices::Memory;
pub use notices::{Notice, Severity};
use sample::Sample;
pub use storage::Storage;

/// Returns Prometheus' text with all gauges up to date. May wait for the disk.
pub type Scrape = Arc<dyn Fn() -> String + Send + Sync>;

/// Knows how the server is. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

struct Inner {
    partitions: Partitions,
    scrape: Scrape,
    clock: Arc<Clock>,
    data: PathBuf,
    /// What is wrong as long as the server runs, from its settings.
    settled: Vec<Notice>,
    started_at: u64,
    began: Instant,
    looking: AsyncMutex<Option<(Instant, Arc<Look>)>>,
    known: Mutex<Known>,
}

struct Known {
    memory: Memory,
    history: History,
}

/// What was seen at a moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// What is wrong, the worst first.
    pub notices: Vec<Notice>,
    /// What there is on the disk.
    pub storage: Storage,
}

impl Health {
    /// Of these partitions, in this directory. `settled`: notices that only a restart with other settings ends.
    #[must_use]
    pub fn new(
        partitions: &Partitions,
        scrape: Scrape,
        clock: &Arc<Clock>,
        data: PathBuf,
        settled: Vec<Notice>,
    ) -> Health {
        let started_at = clock.now_ms();
        let known = Known {
            memory: Memory::default(),
            history: History::new(started_at),
        };
        Health {
            inner: Arc::new(Inner {
                partitions: partitions.clone(),
                scrape,
                clock: Arc::clone(clock),
                data,
                settled,
                started_at,
                began: Instant::now(),
                looking: AsyncMutex::default(),
                known: Mutex::new(known),
            }),
        }
    }

    /// Looks every five seconds. It never ends by itself.
    pub async fn run(self) {
        let mut steps = interval(Duration::from_millis(STEP_MS));
        steps.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            steps.tick().await;
            self.look(true).await;
        }
    }

    /// When it began, ms.
    #[must_use]
    pub fn started_at(&self) -> u64 {
        self.inner.started_at
    }

    /// How it is now, or was less than a second ago.
    pub async fn now(&self) -> Arc<Look> {
        self.look(false).await
    }

    /// The last hour after a time, ms; it begins with the process.
    #[must_use]
    pub fn past(&self, since: u64) -> Past {
        self.inner.known().history.since(since)
    }

    /// One look at a time. `is_step` = for the history, too.
    async fn look(&self, is_step: bool) -> Arc<Look> {
        let mut looking = self.inner.looking.lock().await;
        if let Some((at, look)) = &*looking
            && !is_step
            && at.elapsed() < FRESH
        {
            return Arc::clone(look);
        }
        let inner = Arc::clone(&self.inner);
        let looked = tokio::task::spawn_blocking(move || inner.look(is_step)).await;
        let look = Arc::new(looked.unwrap_or_else(|error| {
            tracing::error!(%error, "a look at the server's health failed");
            let before = looking.as_ref().map(|(_, look)| &**look);
            self.inner.failed(before)
        }));
        *looking = Some((Instant::now(), Arc::clone(&look)));
        look
    }
}

/// So long a look is as good as a new one.
const FRESH: Duration = Duration::from_secs(1);

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, is_step: bool) -> Look {
        let text = (self.scrape)();
        let sample = Sample::read(&text);
        let now = self.clock.now_ms();
        let doing = self
            .partitions
            .ids()
            .filter_map(|id| Some((id, self.partitions.doing(id)?)));
        let doing: Vec<_> = doing.collect();
        // Readers of the history must not wait for the disk, so the lock is not held over this.
        let earlier = self.known().history.oldest_taken();
        let storage = storage::look(&self.data, &sample, earlier, now);
        let mut known = self.known();
        let Known { memory, history } = &mut *known;
        if is_step {
            let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            history.push(elapsed, &sample, storage.disk_free);
        }
        let found = rules::find(&sample, &doing, &storage, memory, now);
        let mut notices = memory.told(found, now);
        notices.extend(self.settled.iter().cloned());
        notices.sort_by_key(|notice| notice.severity);
        Look { notices, storage }
    }

    /// What was seen at the look before, and first of all that the newest one failed.
    fn failed(&self, before: Option<&Look>) -> Look {
        let mut look = before.cloned().unwrap_or_else(|| Look {
            notices: self.settled.clone(),
            ..Look::default()
        });
        let first = look.notices.first();
        if first.is_none_or(|notice| notice.what != FAILED) {
            let notice = Notice {
                severity: Severity::Critical,
                since: self.clock.now_ms(),
                what: FAILED.to_owned(),
                advice: FAILED_ADVICE.to_owned(),
            };
            look.notices.insert(0, notice);
        }
        look
    }
}

const FAILED: &str = "A look at the server's health failed: all else that is said here is as it was before, or unknown.";
const FAILED_ADVICE: &str = "An error of the server: keep the log around the panic and report it. Meanwhile, see the metrics and the log.";
