//! When the watchers of a timeline are woken for parts that have gathered.
//!
//! Owns: one task and the ticks at which topics are due. Promises: it sleeps while nothing gathers; all that is due in
//! one tick costs one wake-up of it; a topic that is gone costs nothing. Must not: decide who is woken, or hold parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::mailbox::lock;
use super::topic::Topic;
use tideline_base::faults::is_named;
use tideline_base::metrics::Metrics;
use tideline_store::partition::caught;

#[derive(Debug)]
pub(super) struct Sweep {
    /// Ticks are counted from here.
    begin: Instant,
    due: Mutex<BTreeMap<u64, Vec<Weak<Topic>>>>,
    /// There is a new first tick.
    changed: Notify,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep {
            begin: Instant::now(),
            due: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl Sweep {
    /// The tick that a time is in.
    pub(super) fn tick(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.begin);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX) / TICK_MS
    }

    /// A topic is due when this tick begins.
    pub(super) fn add(&self, tick: u64, topic: &Arc<Topic>) {
        let is_first = {
            let mut due = lock(&self.due);
            let is_first = due.first_key_value().is_none_or(|(first, _)| tick < *first);
            due.entry(tick).or_default().push(Arc::downgrade(topic));
            is_first
        };
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Wakes what is due until `stop`.
    pub(super) async fn run(self: Arc<Sweep>, metrics: Arc<Metrics>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let first = lock(&self.due).first_key_value().map(|(tick, _)| *tick);
            let until = async {
                match first {
                    Some(tick) => {
                        let at = self.begin + Duration::from_millis(tick * TICK_MS);
                        tokio::time::sleep_until(at.into()).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => continue,
                () = until => {}
            }
            while let Some((tick, topics)) = self.pop() {
                for topic in topics.iter().filter_map(Weak::upgrade) {
                    let wake = || topic.watchers.parts_gathered(tick);
                    if !is_named("window_forgets") && caught("waking for parts", wake).is_none() {
                        metrics.server.panics.increment(1);
                        // Whoever was not woken asks the store.
                        topic.doubt();
                    }
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// The next topics that are due, and the tick that it is.
    fn pop(&self) -> Option<(u64, Vec<Weak<Topic>>)> {
        let tick = self.tick(Instant::now());
        let mut due = lock(&self.due);
        let first = due.first_entry().filter(|first| *first.key() <= tick)?;
        Some((tick, first.remove()))
    }
}

/// How many ticks a window has: the full ones, and at least one unless it is none at all.
pub(super) fn window_ticks(window_ms: u64) -> u8 {
    let ticks = (window_ms / TICK_MS).max(u64::from(window_ms > 0));
    u8::try_from(ticks).unwrap_or(u8::MAX)
}

/// Windows end at the beginning of a tick.
const TICK_MS: u64 = 5;
