//! The tasks that do what time brings: scheduled messages, expired messages.
//!
//! Owns: one task per partition, and their metrics. Promises: a task sleeps until something is due; after a failure it
//! waits longer each time and goes on; it ends between two steps. Must not: know what is done; the timelines do.

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
    let mut rest = REST_MIN;
    loop {
        if stop.run_until_cancelled(timer.wait()).await.is_none() {
            return;
        }
        match timer.step().await {
            Ok(done) => {
                count(&done, &figures);
                metrics.server.messages.increment(done.delivered);
                metrics.growth.abandoned.increment(done.abandoned);
                rest = REST_MIN;
            }
            Err(_) if tideline_base::faults::is_named("timer_ends") => return,
            Err(error) => {
                figures.failures.increment(1);
                let partition = timer.partition();
                tracing::warn!(%partition, ?error, ?rest, "what is due could not be done; tried again");
                let slept = stop.run_until_cancelled(tokio::time::sleep(rest)).await;
                if slept.is_none() {
                    return;
                }
                rest = (rest * 2).min(REST_MAX);
            }
        }
    }
}

fn count(done: &Done, figures: &metrics::Timer) {
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
