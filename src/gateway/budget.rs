//! Bounds on bytes over all connections.
//!
//! Owns: how many bytes all connections together hold of one kind, and which may hold more. Promises: a small share is
//! always granted, so that a client that sends or reads little is never refused; what a share held is given back when
//! it is dropped. Must not: wait; the caller decides what a refusal means.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::metrics::{Counter, Gauge};

/// One bound, and how much of it is in use.
pub(super) struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
    gauge: Gauge,
    refused: Counter,
}

impl Budget {
    pub(super) fn new(bytes_max: usize, gauge: &Gauge, refused: Counter) -> Arc<Budget> {
        Arc::new(Budget {
            bytes_max,
            used: AtomicUsize::new(0),
            gauge: gauge.clone(),
            refused,
        })
    }

    pub(super) fn share(self: &Arc<Budget>) -> Share {
        Share {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }

    /// Whether all of it is in use.
    pub(super) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.bytes_max
    }

    /// Counts a refusal.
    pub(super) fn refuse(&self) {
        self.refused.increment(1);
    }
}

/// What one holder has of a budget.
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// Makes the share this large; `false` and no change if the budget has not so much left.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let wanted = counted(bytes);
        let Some(more) = wanted.checked_sub(self.bytes).filter(|more| *more > 0) else {
            self.force(bytes);
            return true;
        };
        let budget = &self.budget;
        let fits = |used: usize| {
            used.checked_add(more)
                .filter(|all| *all <= budget.bytes_max)
        };
        let taken = budget
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        if taken.is_ok() {
            self.set_gauge(wanted);
        }
        taken.is_ok()
    }

    /// Makes the share this large, whatever is left: for bytes that are there already.
    pub(super) fn force(&mut self, bytes: usize) {
        let wanted = counted(bytes);
        if wanted == self.bytes {
            return;
        }
        let used = &self.budget.used;
        if wanted > self.bytes {
            used.fetch_add(wanted - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - wanted, Ordering::Relaxed);
        }
        self.set_gauge(wanted);
    }

    #[allow(clippy::cast_precision_loss)] // a gauge
    fn set_gauge(&mut self, wanted: usize) {
        self.budget
            .gauge
            .increment(wanted as f64 - self.bytes as f64);
        self.bytes = wanted;
    }

    /// Whether it is so small that it does not count.
    pub(super) fn is_small(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.force(0);
    }
}

/// What counts of so many bytes.
fn counted(bytes: usize) -> usize {
    if bytes <= SMALL_BYTES { 0 } else { bytes }
}

/// A share up to this does not count: each connection may have it.
pub(super) const SMALL_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_full_budget_refuses_large_shares_only_and_takes_back_what_is_dropped() {
        let metrics = Metrics::default();
        let refused = metrics.families.refusals.of(&["inbound_bytes_max"]);
        let budget = Budget::new(100_000, &metrics.gateway.inbound, refused);
        let (mut large, mut other) = (budget.share(), budget.share());
        assert!(large.resize(90_000) && !budget.is_full());
        assert!(!other.resize(20_000) && other.is_small());
        assert!(other.resize(SMALL_BYTES));
        assert!(large.resize(70_000) && other.resize(20_000));
        assert!(!large.resize(80_001), "the refused share keeps what it had");
        other.force(200_000);
        assert!(budget.is_full());
        drop(other);
        assert!(large.resize(100_000) && budget.is_full());
        drop(large);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
