//! Splits by themselves.
//!
//! Owns: the watch over sizes and rates. Promises: a partition above a bound is split, one at a time; after a failed
//! split there is a rest. Must not: merge: a partition that has grown mostly grows again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Asked, Options, Reshaper, Stage, blocking};
use tideline_base::ids::PartitionId;

/// How often partitions are looked at.
const EVERY: Duration = Duration::from_secs(5);
/// A rate counts once it was above its bound at so many looks in a row: a minute.
const LOOKS: u32 = 12;
/// The rest after a failed split.
const REST: Duration = Duration::from_secs(300);

/// What was seen of a partition.
#[derive(Clone, Copy)]
struct Seen {
    log_bytes: u64,
    at: Instant,
    /// At how many looks its log grew too fast.
    fast: u32,
}

impl Seen {
    fn new(log_bytes: u64, at: Instant) -> Seen {
        Seen {
            log_bytes,
            at,
            fast: 0,
        }
    }

    fn look(&mut self, log_bytes: u64, at: Instant, bytes_per_s_max: u64) {
        let grown = log_bytes.saturating_sub(self.log_bytes) as f64;
        let seconds = at.duration_since(self.at).as_secs_f64();
        let is_fast = grown > bytes_per_s_max as f64 * seconds;
        self.fast = if is_fast { self.fast + 1 } else { 0 };
        (self.log_bytes, self.at) = (log_bytes, at);
    }
}

pub(super) async fn watch(reshaper: Reshaper, options: Options) {
    let inner = &reshaper.inner;
    let mut seen: BTreeMap<PartitionId, Seen> = BTreeMap::new();
    while inner.stop.run_until_cancelled(sleep(EVERY)).await.is_some() {
        let last = reshaper.last();
        let failed = last.filter(|change| matches!(change.stage, Stage::Failed(_)));
        let now_ms = inner.clock.now_ms();
        let rest_ms = u64::try_from(REST.as_millis()).unwrap_or(u64::MAX);
        if failed.is_some_and(|change| now_ms.abs_diff(change.since) < rest_ms) {
            continue;
        }
        let partitions = inner.partitions.clone();
        let sizes = blocking(move || {
            let size = |id| (id, partitions.bytes_of(id), partitions.tail(id).bytes());
            partitions.ids().map(size).collect::<Vec<_>>()
        });
        let (sizes, now) = (sizes.await, Instant::now());
        seen.retain(|id, _| sizes.iter().any(|(there, ..)| there == id));
        for (id, bytes, log_bytes) in sizes {
            let seen = seen.entry(id).or_insert_with(|| Seen::new(log_bytes, now));
            seen.look(log_bytes, now, options.split_bytes_per_s);
            let is_large = options.split_bytes > 0 && bytes > options.split_bytes;
            let is_busy = options.split_bytes_per_s > 0 && seen.fast >= LOOKS;
            if (is_large || is_busy) && reshaper.begin(Asked::Split(id)).is_ok() {
                tracing::info!(partition = %id, bytes, is_large, is_busy, "a partition is split by itself");
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_that_stays() {
        let begun = Instant::now();
        let mut seen = Seen::new(1_000, begun);
        let mut bytes = 1_000;
        for (second, grown, fast) in [(1, 200, 1), (2, 200, 2), (3, 100, 0), (4, 101, 1)] {
            bytes += grown;
            seen.look(bytes, begun + Duration::from_secs(second), 100);
            assert_eq!(seen.fast, fast, "at {second}");
        }
    }
}
