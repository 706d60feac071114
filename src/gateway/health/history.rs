//! The last hour, in steps of five seconds.
//!
//! Owns: which figures are kept, and their steps. Promises: a value is that of its time or none: time in which nobody
//! looked is a gap; memory is bounded by the steps of an hour, about 250 KB. Must not: live longer than the process.

use std::collections::VecDeque;

use super::sample::Sample;

/// Time from one step to the next, ms.
pub const STEP_MS: u64 = 5_000;
/// Steps that are kept.
const STEPS_MAX: usize = 720;

/// How a figure comes from the metrics.
enum From {
    /// What a counter rises by in a second, all of its lines together.
    Rate(&'static str),
    /// All of a gauge's lines together.
    Sum(&'static str),
    /// The largest of a gauge's lines.
    Max(&'static str),
    /// Comes from elsewhere.
    Given,
}

use From::{Given, Max, Rate, Sum};

/// The figures that are kept, by name.
#[rustfmt::skip] // a table
const FIGURES: [(&str, From); 20] = [
    ("appends", Rate("tideline_messages_total")),
    ("deliveries", Rate("tideline_deliveries_total")),
    ("requests", Rate("tideline_requests_total")),
    ("refusals", Rate("tideline_refusals_total")),
    ("reads", Rate("tideline_reads_total")),
    ("syncs", Rate("tideline_commit_batches_total")),
    ("received_bytes", Rate("tideline_received_bytes_total")),
    ("sent_bytes", Rate("tideline_sent_bytes_total")),
    ("cpu", Rate("process_cpu_seconds_total")),
    ("connections", Sum("tideline_connections")),
    ("subscriptions", Sum("tideline_subscriptions")),
    ("in_flight", Sum("tideline_requests_in_flight")),
    ("queue", Sum("tideline_commit_queue_depth")),
    ("memory_bytes", Sum("process_resident_memory_bytes")),
    ("used_bytes", Sum("tideline_image_used_bytes")),
    ("dead_bytes", Sum("tideline_image_dead_bytes")),
    ("log_bytes", Sum("tideline_log_bytes")),
    ("disk_free_bytes", Given),
    ("feed_lag_s", Max("tideline_feed_lag_seconds")),
    ("relay_lag_s", Max("tideline_relay_lag_seconds")),
];
/// The histogram that is kept: of one method, the time to acknowledgement.
const APPEND: (&str, &str) = ("tideline_request_seconds_bucket", "message.append");

/// The figures of one time.
struct Step {
    /// Steps since the start.
    number: u64,
    figures: [f64; FIGURES.len()],
    /// Appends by bucket, of the time since the step before.
    appends: Box<[u64]>,
}

/// Everything as it was at the last look, counters since the process' start.
struct Before {
    elapsed_ms: u64,
    figures: [f64; FIGURES.len()],
    /// By bucket of Prometheus, each with those below it.
    appends: Vec<f64>,
}

impl Before {
    /// The figures of the time since another look, and its appends by bucket.
    fn since(&self, before: &Before) -> ([f64; FIGURES.len()], Box<[u64]>) {
        let seconds = self.elapsed_ms.saturating_sub(before.elapsed_ms) as f64 / 1e3;
        let mut figures = self.figures;
        for (figure, ((_, from), before)) in
            figures.iter_mut().zip(FIGURES.iter().zip(before.figures))
        {
            if matches!(from, Rate(_)) {
                *figure = (*figure - before).max(0.0) / seconds.max(1e-3);
            }
        }
        let before = before.appends.iter().copied().chain(std::iter::repeat(0.0));
        let rose = self.appends.iter().zip(before);
        let rose = rose.map(|(now, before)| (now - before).max(0.0) as u64);
        let mut below = 0;
        let appends = rose.map(|all| all.saturating_sub(std::mem::replace(&mut below, all)));
        (figures, appends.collect())
    }
}

/// The kept steps.
pub(super) struct History {
    /// When step 0 was, ms.
    start: u64,
    bounds: Vec<f64>,
    before: Option<Before>,
    steps: VecDeque<Step>,
}

/// A part of the last hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// When the first value was, ms.
    pub from: u64,
    /// Each figure's values; `None` = nobody looked then.
    pub series: Vec<(&'static str, Vec<Option<f64>>)>,
    /// The upper bounds of the buckets of appends, seconds.
    pub bounds: Vec<f64>,
    /// Appends by bucket, the last one above all bounds.
    pub appends: Vec<Option<Box<[u64]>>>,
}

impl History {
    pub(super) fn new(start: u64) -> History {
        History {
            start,
            bounds: Vec::new(),
            before: None,
            steps: VecDeque::new(),
        }
    }

    /// Takes a sample in, so long after the start. The first one only says where counters begin.
    pub(super) fn push(&mut self, elapsed_ms: u64, sample: &Sample<'_>, disk_free: Option<u64>) {
        let now = FIGURES.map(|(_, from)| match from {
            Rate(name) | Sum(name) => sample.sum(name),
            Max(name) => sample.max(name),
            Given => disk_free.map_or(0.0, |bytes| bytes as f64),
        });
        let (bounds, appends) = buckets(sample);
        let now = Before {
            elapsed_ms,
            figures: now,
            appends,
        };
        self.bounds = bounds;
        if let Some(before) = &self.before {
            let (figures, appends) = now.since(before);
            self.steps.push_back(Step {
                number: (elapsed_ms + STEP_MS / 2) / STEP_MS,
                figures,
                appends,
            });
        }
        self.before = Some(now);
        while self.steps.len() > STEPS_MAX {
            self.steps.pop_front();
        }
    }

    /// What there was after a time.
    pub(super) fn since(&self, since: u64) -> Past {
        let at = |step: &Step| self.start + step.number * STEP_MS;
        let kept = || self.steps.iter().filter(|step| at(step) > since);
        let (Some(first), Some(last)) = (kept().next(), kept().next_back()) else {
            return Past::default();
        };
        let many = usize::try_from(last.number - first.number + 1)
            .unwrap_or(usize::MAX)
            .min(2 * STEPS_MAX);
        let mut past = Past {
            from: at(first),
            series: FIGURES.map(|(name, _)| (name, vec![None; many])).into(),
            bounds: self.bounds.clone(),
            appends: vec![None; many],
        };
        for step in kept() {
            let index = usize::try_from(step.number - first.number).unwrap_or(usize::MAX);
            if index >= many {
                break;
            }
            for ((_, values), figure) in past.series.iter_mut().zip(step.figures) {
                values[index] = Some((figure * 1e3).round() / 1e3);
            }
            past.appends[index] = Some(step.appends.clone());
        }
        past
    }

    /// What the server took of the disk at the oldest step, with when that was.
    pub(super) fn oldest_taken(&self) -> Option<(u64, f64)> {
        let step = self.steps.front()?;
        let taken = FIGURES.iter().zip(step.figures);
        let taken = taken.filter(|((name, _), _)| ["used_bytes", "log_bytes"].contains(name));
        let bytes = taken.map(|(_, bytes)| bytes).sum();
        Some((self.start + step.number * STEP_MS, bytes))
    }
}

/// The bounds of the buckets of appends, and their counts, each with those below it.
fn buckets(sample: &Sample<'_>) -> (Vec<f64>, Vec<f64>) {
    let of = sample
        .each(APPEND.0)
        .iter()
        .filter(|line| line.label("method") == Some(APPEND.1));
    let mut buckets: Vec<(f64, f64)> = of
        .filter_map(|line| Some((line.label("le")?.parse().ok()?, line.value)))
        .collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let bounds = buckets.iter().map(|(bound, _)| *bound);
    (
        bounds.filter(|bound| bound.is_finite()).collect(),
        buckets.iter().map(|(_, count)| *count).collect(),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tideline_base::metrics::{Metrics, catalogue};

    #[test]
    fn every_figure_is_in_the_catalogue() {
        for (name, from) in &FIGURES {
            let (Rate(metric) | Sum(metric) | Max(metric)) = from else {
                assert_eq!(*name, "disk_free_bytes");
                continue;
            };
            assert!(catalogue().any(|one| one.name == *metric), "{metric}");
        }
    }

    fn push(history: &mut History, metrics: &Metrics, elapsed_ms: u64) {
        let text = metrics.render();
        history.push(elapsed_ms, &Sample::read(&text), Some(7));
    }

    fn values(past: &Past, name: &str) -> Vec<Option<f64>> {
        past.series
            .iter()
            .find(|(own, _)| *own == name)
            .unwrap()
            .1
            .clone()
    }

    #[test]
    fn counters_are_rates_gauges_are_values_and_missed_steps_are_gaps() {
        let metrics = Arc::new(Metrics::default());
        let mut history = History::new(1_000_000);
        metrics.feed.deliveries.increment(1_000);
        push(&mut history, &metrics, 0);
        assert_eq!(history.since(0), Past::default());
        metrics.feed.deliveries.increment(50);
        metrics.gateway.connections.set(3.0);
        let append = metrics.families.request_seconds.of(&["message.append"]);
        append.record(0.00015);
        append.record(0.0003);
        append.record(99.0);
        push(&mut history, &metrics, 5_010);
        metrics.feed.deliveries.increment(15);
        append.record(0.0003);
        push(&mut history, &metrics, 20_000);
        let past = history.since(0);
        assert_eq!(past.from, 1_005_000);
        assert_eq!(
            values(&past, "deliveries"),
            [Some(9.98), None, None, Some(1.001)]
        );
        assert_eq!(
            values(&past, "connections"),
            [Some(3.0), None, None, Some(3.0)]
        );
        assert_eq!(values(&past, "disk_free_bytes")[0], Some(7.0));
        let appends = past.appends[0].as_deref().unwrap();
        assert_eq!((past.bounds.len() + 1, appends.len()), (18, 18));
        assert_eq!(
            (past.bounds[0], &appends[..4], appends[17]),
            (0.0001, &[0, 1, 1, 0][..], 1)
        );
        assert_eq!(past.appends[3].as_deref().unwrap()[..4], [0, 0, 1, 0]);
        assert_eq!(history.since(1_005_000).from, 1_020_000);
        assert_eq!(history.since(1_020_000), Past::default());
        assert_eq!(history.oldest_taken(), Some((1_005_000, 0.0)));
    }

    #[test]
    fn what_is_taken_is_rows_and_logs() {
        let metrics = Arc::new(Metrics::default());
        let (partition, mut history) = (metrics.partition(0), History::new(0));
        for (step, (used, dead, log)) in [(1.0, 1.0, 1.0), (70.0, 20.0, 9.0), (500.0, 0.0, 0.0)]
            .into_iter()
            .enumerate()
        {
            partition.image.used_bytes.set(used);
            partition.image.dead_bytes.set(dead);
            partition.log.bytes.set(log);
            push(&mut history, &metrics, step as u64 * STEP_MS);
        }
        // The first one says only where counters begin.
        assert_eq!(history.oldest_taken(), Some((STEP_MS, 79.0)));
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let metrics = Arc::new(Metrics::default());
        let mut history = History::new(0);
        for step in 0..800 {
            push(&mut history, &metrics, step * STEP_MS);
        }
        let past = history.since(0);
        assert_eq!(
            (past.from, values(&past, "cpu").len()),
            (80 * STEP_MS, STEPS_MAX)
        );
        let bytes = STEPS_MAX * (size_of::<Step>() + 18 * 8);
        assert!(bytes < 300_000, "{bytes}");
    }
}
