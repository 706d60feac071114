//! The tasks that do what time brings: scheduled messages, expired messages.
//!
//! Owns: one task per partition, and their metrics. Promises: a task sleeps until something is due; after a failure it
//! waits, longer each time that nothing else could be done, and goes on; it ends between two steps. Must not: know what
//! is done; the timelines do.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::timeline::{Done, Timelines, Timer};
use tideline_base::metrics::{self, Metrics};
use tideline_store::partition::Partitions;

/// The running timers.
pub struct Timers {
    stop: CancellationToken,
}

impl Timers {
    /// Starts one task per partition on the current runtime.
    #[must_use]
    pub fn start(
        partitions: &Partitions,
        timelines: Timelines,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
    ) -> Timers {
        let (stop, metrics) = (CancellationToken::new(), Arc::clone(metrics));
        partitions.for_each(tasks, &stop, move |life| {
            let timer = timelines.timer(life.partition);
            let figures = metrics.timer(life.partition.0);
            run(timer, figures, Arc::clone(&metrics), life.ends)
        });
        Timers { stop }
    }

    /// Ends the tasks, each after the step that it is at.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

async fn run(
    mut timer: Timer,
    figures: metrics::Timer,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let (mut rest, mut is_told) = (REST_MIN, false);
    loop {
        if stop.run_until_cancelled(timer.wait()).await.is_none() {
            return;
        }
        match timer.step().await {
            Ok(done) => {
                count(&done, &figures, &metrics);
                (rest, is_told) = (REST_MIN, false);
            }
            Err(_) if tideline_base::faults::is_named("timer_ends") => return,
            Err((done, error)) => {
                count(&done, &figures, &metrics);
                figures.failures.increment(1);
                let Done {
                    delivered,
                    refused,
                    expired,
                    trimmed,
                    abandoned,
                    ..
                } = done;
                let went_on = delivered + refused + expired + trimmed + abandoned > 0;
                if went_on {
                    // There may be more that can be done.
                    rest = REST_MIN;
                }
                if !went_on || !is_told {
                    let partition = timer.partition();
                    tracing::warn!(%partition, ?error, ?rest, "what is due could not be done; tried again");
                    is_told = true;
                }
                let slept = stop.run_until_cancelled(tokio::time::sleep(rest)).await;
                if slept.is_none() {
                    return;
                }
                rest = (rest * 2).min(REST_MAX);
            }
        }
    }
}

fn count(done: &Done, figures: &metrics::Timer, metrics: &Metrics) {
    metrics.server.messages.increment(done.delivered);
    metrics.growth.abandoned.increment(done.abandoned);
    figures.delivered.increment(done.delivered);
    figures.refused.increment(done.refused);
    figures.expired.increment(done.expired);
    figures.trimmed.increment(done.trimmed);
    if let Some(late_ms) = done.late_ms {
        figures.late_seconds.record(late_ms as f64 / 1e3);
    }
}

/// After a failure.
const REST_MIN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Append, AppendOne, Create, FanOut, Limits, SettingsPatch, Target};
    use tideline_base::clock::Clock;
    use tideline_store::partition::Options;

    const NOW_MS: u64 = 1_800_000_000_000;

    async fn append(timelines: &Timelines, timeline: &str, messages: Vec<AppendOne>) {
        let append = Append {
            timeline: timeline.to_owned(),
            asker: "u".into(),
            messages,
            expect_head: None,
            create: true,
            epoch: None,
        };
        timelines.append(append).await.unwrap();
    }

    /// A step takes three of them in tests: with a wait that doubles each time this took over two minutes.
    #[tokio::test]
    async fn a_delivery_that_always_fails_does_not_slow_the_rest_down() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock::fixed(NOW_MS));
        let limits = Limits::default();
        let rules = Timelines::rules(&limits);
        let options = Options::default();
        let partitions = Partitions::open(dir.path(), options, rules, Arc::clone(&clock)).unwrap();
        let timelines = Timelines::new(partitions.clone(), limits, Arc::clone(&clock));
        let create = Create {
            settings: SettingsPatch {
                fan_out: Some(Some(FanOut::Write)),
                ..SettingsPatch::default()
            },
            ..Create::from(Target::from("posts"))
        };
        timelines.create(create).await.unwrap();
        timelines.refuse_posts_unless(|_| false);
        let later = AppendOne {
            deliver_at: Some(NOW_MS + 1),
            ..AppendOne::default()
        };
        append(&timelines, "posts", vec![later]).await;
        let short = AppendOne {
            expires_in_ms: Some(1),
            ..AppendOne::default()
        };
        append(&timelines, "a", vec![short; 36]).await;
        clock.set(NOW_MS + 10);
        let tasks = TaskTracker::new();
        let timers = Timers::start(&partitions, timelines.clone(), partitions.metrics(), &tasks);
        let all = async {
            while timelines.get("a".into()).await.unwrap().change_head < 36 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), all).await;
        timers.stop();
        tasks.close();
        tasks.wait().await;
        assert!(in_time.is_ok(), "what can be done waits");
        partitions.close().await;
    }
}
