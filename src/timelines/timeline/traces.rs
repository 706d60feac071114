//! Which traces the newest messages are of, for what is sent of them while they are new.
//!
//! Owns: the places in traces that appends were called with. Promises: a message has the one of its own append or none,
//! for [`AGE_MAX_MS`] and as long as [`KEPT_MAX`] newer ones have not taken its place; an append without one costs
//! nothing, nor does a message that is sent where no append had one; old messages cost no lock. Must not: be needed:
//! none of this is stored.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tideline_base::trace::TraceParent;
use xxhash_rust::xxh3::Xxh3;

use super::Message;

/// The traces of the newest messages.
#[derive(Default)]
pub(super) struct Traces {
    /// The time of the newest message that has one, ms.
    newest: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_message: HashMap<u128, TraceParent>,
    /// Oldest first.
    order: VecDeque<u128>,
}

/// What a message is told apart by: a number alone may be given again, if its batch was not written.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) sequence: u64,
    pub(super) timestamp: u64,
    pub(super) message_id: &'a str,
}

impl Traces {
    /// Keeps the trace of messages that are about to be written to a timeline.
    pub(super) fn keep<'a>(
        &self,
        timeline: &str,
        trace: TraceParent,
        messages: impl Iterator<Item = Told<'a>>,
    ) {
        let mut kept = self.lock();
        for message in messages {
            let key = message.key(timeline);
            if kept.by_message.insert(key, trace).is_none() {
                kept.order.push_back(key);
            }
            if kept.order.len() > KEPT_MAX
                && let Some(oldest) = kept.order.pop_front()
            {
                kept.by_message.remove(&oldest);
            }
            self.newest.fetch_max(message.timestamp, Ordering::Relaxed);
        }
    }

    /// Marks those of a timeline's messages that have a trace.
    pub(super) fn mark<'m>(
        &self,
        timeline: &str,
        messages: impl Iterator<Item = &'m mut Message>,
        now_ms: impl Fn() -> u64,
    ) {
        // The log's lock has passed on what the writer did before.
        let newest = self.newest.load(Ordering::Relaxed);
        if newest == 0 {
            return;
        }
        let times = now_ms().saturating_sub(AGE_MAX_MS)..=newest;
        let mut messages = messages
            .filter(|message| times.contains(&message.timestamp))
            .peekable();
        if messages.peek().is_none() {
            return;
        }
        let kept = self.lock();
        for message in messages {
            let told = Told {
                sequence: message.sequence,
                timestamp: message.timestamp,
                message_id: &message.message_id,
            };
            let trace = kept.by_message.get(&told.key(timeline));
            message.traceparent = trace.copied().map(Box::new);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told<'_> {
    fn key(&self, timeline: &str) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(&self.sequence.to_be_bytes());
        hash.update(&self.timestamp.to_be_bytes());
        hash.update(&(timeline.len() as u64).to_be_bytes());
        hash.update(timeline.as_bytes());
        hash.update(self.message_id.as_bytes());
        hash.digest128()
    }
}

/// Messages whose traces are kept: 1 MiB or so.
const KEPT_MAX: usize = 16_384;
/// So long a message is new.
const AGE_MAX_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(number: u64) -> TraceParent {
        let text = format!("00-{:032x}-{:016x}-01", number + 1, number + 1);
        text.parse().expect("it is well formed")
    }

    fn told(sequence: u64) -> Told<'static> {
        Told {
            sequence,
            timestamp: 1_000,
            message_id: "a",
        }
    }

    fn marked(traces: &Traces, timeline: &str, of: Told<'_>, now_ms: u64) -> Option<TraceParent> {
        let mut message = Message {
            sequence: of.sequence,
            timestamp: of.timestamp,
            message_id: of.message_id.to_owned(),
            ..Message::default()
        };
        traces.mark(timeline, [&mut message].into_iter(), || now_ms);
        message.traceparent.map(|trace| *trace)
    }

    #[test]
    fn a_message_has_the_trace_of_its_own_append_while_it_is_new() {
        let traces = Traces::default();
        assert_eq!(marked(&traces, "t", told(1), 1_000), None);
        traces.keep("t", trace(1), [told(1), told(2)].into_iter());
        for sequence in [1, 2] {
            let is_new = marked(&traces, "t", told(sequence), 1_000 + AGE_MAX_MS);
            assert_eq!(is_new, Some(trace(1)));
        }
        assert_eq!(marked(&traces, "t", told(1), 1_001 + AGE_MAX_MS), None);
        for other in [
            told(3),
            Told {
                timestamp: 999,
                ..told(1)
            },
            Told {
                timestamp: 1_001,
                ..told(1)
            },
            Told {
                message_id: "b",
                ..told(1)
            },
        ] {
            assert_eq!(marked(&traces, "t", other, 1_000), None);
        }
        assert_eq!(marked(&traces, "u", told(1), 1_000), None);
    }

    #[test]
    fn the_newest_are_kept() {
        let traces = Traces::default();
        let many = KEPT_MAX as u64 + 10;
        for number in 1..=many {
            traces.keep("t", trace(number), [told(number), told(number)].into_iter());
        }
        let of = |number| marked(&traces, "t", told(number), 1_000);
        assert_eq!((of(10), of(11)), (None, Some(trace(11))));
        assert_eq!(of(many), Some(trace(many)));
        assert_eq!(traces.lock().by_message.len(), KEPT_MAX);
    }
}
