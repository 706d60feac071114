//! Appends that came in with one read of the socket: queued together, answered together.
//!
//! Owns: the bundles of a read, one for each partition, and the way from their answers to frames. Promises: appends of
//! one timeline are queued in the order of their frames, each is answered for itself. Must not: hold anything longer
//! than a read takes, or be passed by another call: `receive.rs` submits before it begins one.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;

use super::super::Shared;
use super::super::dispatch::timelines::message::{Appending, Asked};
use super::super::spans::Span;
use tideline_timelines::timeline::Prepared;
use tideline_wire::{Dialect, Id};

/// Appends of one partition that are not queued yet.
pub(super) struct Bundle {
    appends: Vec<Prepared>,
    /// Of each, how it is answered, and as which span; without an ID it is a notification.
    calls: Vec<(Option<Id>, Asked, Option<Box<Span>>)>,
    /// Of the frames.
    pub(super) bytes: usize,
    since: Instant,
}

/// Puts an append behind those of its partition; whether that is as much as should be queued together. `bytes`: of its
/// frame.
pub(super) fn gather(
    bundles: &mut Vec<Bundle>,
    id: Option<Id>,
    appending: Appending,
    bytes: usize,
) -> bool {
    let Appending {
        prepared,
        asked,
        span,
    } = appending;
    let partition = prepared.partition();
    let of_partition = |bundle: &Bundle| bundle.appends[0].partition() == partition;
    let place = bundles.iter().position(of_partition);
    let place = place.unwrap_or_else(|| {
        bundles.push(Bundle {
            appends: Vec::new(),
            calls: Vec::new(),
            bytes: 0,
            since: Instant::now(),
        });
        bundles.len() - 1
    });
    let bundle = &mut bundles[place];
    let place = match tideline_base::faults::is_named("bundle_reversed") {
        true => 0,
        false => bundle.appends.len(),
    };
    bundle.appends.insert(place, prepared);
    bundle.calls.insert(place, (id, asked, span));
    bundle.bytes += bytes;
    bundle.bytes >= BUNDLE_BYTES
}

impl Bundle {
    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Queues it. Comes to the frames of the replies, in the order of the calls; notifications have none.
    pub(super) fn submit(
        self,
        shared: &Arc<Shared>,
        dialect: &'static dyn Dialect,
    ) -> impl Future<Output = Vec<Bytes>> + Send + use<> {
        let partition = self.appends[0].partition();
        let answers = shared.timelines.append_all(self.appends);
        let (calls, since, shared) = (self.calls, self.since, Arc::clone(shared));
        answers.map(move |answers| {
            let took = since.elapsed();
            let answered = calls.iter().zip(answers);
            let outcomes = answered.filter_map(|((id, asked, span), answer)| {
                let outcome = asked.outcome(answer);
                let result = outcome.as_ref().map(drop);
                shared.counters.count(Some(asked.method()), result, took);
                if let Some(span) = span {
                    let refused = result.err().map(|failure| failure.reason.name());
                    let method = asked.method().name();
                    span.end(method, Some(partition), refused, took);
                }
                Some((id.as_ref()?, outcome))
            });
            dialect.encode_all(outcomes)
        })
    }
}

/// A batch is closed between bundles only, so what a bundle holds must be little beside a batch.
const BUNDLE_BYTES: usize = 128 << 10;
