//! Appends that came in with one read of the socket: queued together, answered together.
//!
//! Owns: the bundles of a read, one for each partition, and the way from their answers to frames. Promises: appends of
//! one timeline are queued in the order of their frames, each is answered for itself. Must not: hold anything longer
//! than a read takes, or be passed by another call: `receive.rs` submits before it begins one.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::super::Shared;
use super::super::dispatch::timelines::message::{Answer, Appending, Asked};
use super::answer::{Cost, Weight};
use crate::timeline::Prepared;
use crate::wire::{Dialect, Id};

/// Appends that are not queued yet.
#[derive(Default)]
pub(super) struct Gathered {
    bundles: Vec<Gathering>,
}

struct Gathering {
    appends: Vec<Prepared>,
    calls: Vec<Call>,
    /// Of the frames.
    bytes: usize,
    since: Instant,
}

struct Call {
    /// `None` = a notification.
    id: Option<Id>,
    asked: Asked,
}

/// Appends that are queued.
pub(super) struct Bundle {
    calls: Vec<Call>,
    dialect: &'static dyn Dialect,
    since: Instant,
    answers: BoxFuture<'static, Vec<Answer>>,
}

impl Gathered {
    /// Puts an append behind those of its partition; whether that is as much as should be queued together. `bytes`: of
    /// its frame.
    pub(super) fn push(&mut self, id: Option<Id>, appending: Appending, bytes: usize) -> bool {
        let Appending { prepared, asked } = appending;
        let partition = prepared.partition();
        let of_partition = |bundle: &Gathering| bundle.appends[0].partition() == partition;
        let place = self.bundles.iter().position(of_partition);
        let place = place.unwrap_or_else(|| {
            self.bundles.push(Gathering {
                appends: Vec::new(),
                calls: Vec::new(),
                bytes: 0,
                since: Instant::now(),
            });
            self.bundles.len() - 1
        });
        let bundle = &mut self.bundles[place];
        bundle.appends.push(prepared);
        bundle.calls.push(Call { id, asked });
        bundle.bytes += bytes;
        bundle.bytes >= BUNDLE_BYTES
    }

    /// Queues what has gathered.
    pub(super) fn submit(
        &mut self,
        shared: &Shared,
        dialect: &'static dyn Dialect,
    ) -> impl Iterator<Item = (Bundle, Cost)> {
        self.bundles.drain(..).map(move |gathering| {
            let Gathering {
                appends,
                calls,
                bytes,
                since,
            } = gathering;
            let cost = Cost {
                calls: calls.len(),
                bytes,
                weight: Weight::Light,
            };
            let answers = shared.timelines.append_all(appends).boxed();
            let bundle = Bundle {
                calls,
                dialect,
                since,
                answers,
            };
            (bundle, cost)
        })
    }
}

impl Bundle {
    /// The frames of the replies, in the order of the calls; notifications have none.
    pub(super) fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Vec<Bytes>> {
        let answers = ready!(self.answers.as_mut().poll(context));
        let took = self.since.elapsed();
        let answered = self.calls.iter().zip(answers);
        let outcomes = answered.filter_map(|(Call { id, asked }, answer)| {
            let outcome = asked.outcome(answer);
            let result = outcome.as_ref().map(drop);
            shared.counters.count(Some(asked.method()), result, took);
            Some((id.as_ref()?, outcome))
        });
        Poll::Ready(self.dialect.encode_all(outcomes))
    }
}

/// A batch is closed between bundles only, so what a bundle holds must be little beside a batch.
const BUNDLE_BYTES: usize = 128 << 10;
