//! When the lanes of watched timelines are put together, and reactions that were held back.
//!
//! Owns: one task and the times at which topics are due. Promises: it sleeps while nothing is due; a topic that is gone
//! costs nothing. Must not: decide what is pushed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::follower::Followers;
use super::mailbox::lock;
use super::topic::Topic;
use tideline_base::metrics::Metrics;
use tideline_store::partition::caught;

#[derive(Debug, Default)]
pub(super) struct Schedule {
    times: Mutex<Times>,
    /// There is a new first time.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Times {
    due: BTreeMap<(Instant, u64), Weak<Topic>>,
    /// Makes equal times differ.
    count: u64,
}

impl Schedule {
    pub(super) fn add(&self, at: Instant, topic: &Arc<Topic>) {
        let is_first = {
            let mut times = lock(&self.times);
            times.count += 1;
            let key = (at, times.count);
            times.due.insert(key, Arc::downgrade(topic));
            times
                .due
                .first_key_value()
                .is_some_and(|(first, _)| *first == key)
        };
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Gathers what is due until `stop`.
    pub(super) async fn run(
        self: Arc<Schedule>,
        followers: Followers,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) {
        while !stop.is_cancelled() {
            let first = lock(&self.times)
                .due
                .first_key_value()
                .map(|(key, _)| key.0);
            let until = async {
                match first {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => continue,
                () = until => {}
            }
            while let Some(topic) = self.pop() {
                let gather = {
                    let (schedule, topic) = (Arc::clone(&self), Arc::clone(&topic));
                    let metrics = Arc::clone(&metrics);
                    move || schedule.gather(&topic, &metrics)
                };
                if !followers.once_told(&topic.name, gather) {
                    self.add(Instant::now() + LATER, &topic);
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// Gathers what a topic is due to push. Runs after everything was announced that was committed when it was due, so
    /// that a user that was shut out does not learn which users come and go.
    fn gather(&self, topic: &Arc<Topic>, metrics: &Metrics) {
        let now = Instant::now();
        match caught("gathering of pushes", || topic.gather(now)) {
            Some(Some(at)) => self.add(at, topic),
            Some(None) => {}
            None => {
                metrics.server.panics.increment(1);
                // What was due is still to be pushed.
                self.add(now + AFTER_PANIC, topic);
            }
        }
        metrics
            .feed
            .gather_seconds
            .record(now.elapsed().as_secs_f64());
    }

    /// The next topic that is due now and still there.
    fn pop(&self) -> Option<Arc<Topic>> {
        let now = Instant::now();
        let mut times = lock(&self.times);
        loop {
            let first = times
                .due
                .first_entry()
                .filter(|first| first.key().0 <= now)?;
            if let Some(topic) = first.remove().upgrade() {
                return Some(topic);
            }
        }
    }
}

/// How long a gathering is put off if too much waits for the follower.
const LATER: Duration = Duration::from_millis(100);
/// How long it is put off after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);
