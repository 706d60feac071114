//! The bound on the memory of all fresh messages together.
//!
//! Owns: the order in which groups came. Promises: beyond the budget the oldest groups go first, whatever timeline they
//! belong to. Must not: keep a group or a topic alive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use super::super::mailbox::lock;
use super::Topic;
use super::fresh::Fresh;
use tideline_base::metrics::Gauge;

/// Bounds the bytes of all groups, oldest out first, whatever timeline they belong to.
#[derive(Debug)]
pub(in super::super) struct Budget {
    bytes_max: usize,
    gauge: Gauge,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    order: VecDeque<(Weak<Topic>, Weak<Fresh>, usize)>,
}

impl Budget {
    pub(in super::super) fn new(bytes_max: usize, gauge: Gauge) -> Budget {
        Budget {
            bytes_max,
            gauge,
            kept: Mutex::default(),
        }
    }

    /// Counts a group in and puts out the oldest ones beyond the budget. Call without holding a topic's lock.
    pub(in super::super) fn add(&self, topic: &Arc<Topic>, fresh: &Arc<Fresh>) {
        let weight = fresh.weight();
        let mut evicted = Vec::new();
        let bytes = {
            let mut kept = lock(&self.kept);
            kept.bytes += weight;
            kept.order
                .push_back((Arc::downgrade(topic), Arc::downgrade(fresh), weight));
            while kept.bytes > self.bytes_max {
                let Some((topic, fresh, weight)) = kept.order.pop_front() else {
                    break;
                };
                kept.bytes -= weight;
                evicted.push((topic, fresh));
            }
            kept.bytes
        };
        self.gauge.count(bytes as u64);
        for (topic, fresh) in evicted {
            if let Some(topic) = topic.upgrade() {
                topic.forget(&fresh);
            }
        }
    }
}
