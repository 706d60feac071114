//! The calls of one connection that are not answered yet.
//!
//! Owns: what is in flight, counted in calls and bytes; whose turn it is to read the store. Promises: never more in
//! flight than the limits; finished reads in memory are few, whatever the client does not read. Must not: begin
//! anything by itself.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use super::super::dispatch::timelines::message::Appending;
use super::super::{REQUESTS_BYTES_MAX, Shared};
use super::Session;
use super::answer::{Begun, Cost, Finished, Weight};
use super::appends::{Bundle, Gathered};
use super::batch::Batch;
use super::subscriptions::anew::Decisions;
use super::subscriptions::own_side::Looking;
use super::subscriptions::parts::{Fetch, Opened, Opening, Part, Rest};
use super::subscriptions::steps::{Step, Stepping};
use crate::bounds::Share;
use crate::feed::{Next, Pull};
use crate::metrics::Held;
use crate::people::OwnSide;
use crate::reshape::Inside;
use crate::timeline::Error;
use crate::wire::{Dialect, Id};

/// Everything under way on one connection.
pub(super) struct Jobs {
    gathered: Gathered,
    /// Set while calls are taken: they have passed the gate.
    pub(super) inside: Option<Inside>,
    running: FuturesUnordered<Job>,
    /// Reads that wait for their turn.
    waiting: VecDeque<Job>,
    pub(super) calls: usize,
    bytes: usize,
    /// Of these bytes in the bound of all connections.
    pub(super) share: Share,
    /// Of the calls, appends.
    pub(super) appends: usize,
    pages: usize,
    waits: usize,
    pub(super) fetches: usize,
}

struct Job {
    shared: Arc<Shared>,
    work: Kind,
    cost: Cost,
    _counted: Option<Held>,
    /// Of a call that may write: a change of partitions waits for it.
    _inside: Option<Inside>,
}

enum Kind {
    One(Begun),
    Appends(Bundle),
    Many(BoxFuture<'static, Batch>),
    Fetch(Option<Next>, Opening, BoxFuture<'static, Pull>),
    Open(BoxFuture<'static, Filled>),
    Look(Opening, Looking),
    Decide(BoxFuture<'static, Decisions>),
    /// Whether it reads, of a stream of changes.
    Changes(u64, bool, Stepping),
}

/// Timelines of a subscribe that were read, and those that were not yet.
type Filled = (Vec<Part>, Option<Box<Rest>>);

enum Done {
    One(Option<Bytes>, Opened, Cost),
    Appends(Vec<Bytes>, Cost),
    Many(Batch, Cost),
    Fetched(Opening, Next, Pull),
    Filled(Filled),
    Looked(Opening, Result<OwnSide, Error>),
    Decided(Decisions),
    Changes(u64, bool, Step),
}

impl Future for Job {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        let Job {
            shared, work, cost, ..
        } = &mut *self;
        match work {
            Kind::One(begun) => {
                let Finished { outcome, opened } = ready!(begun.poll(shared, context));
                Poll::Ready(Done::One(begun.encode(&outcome), opened, *cost))
            }
            Kind::Appends(bundle) => bundle
                .poll(shared, context)
                .map(|replies| Done::Appends(replies, *cost)),
            Kind::Many(batch) => batch
                .as_mut()
                .poll(context)
                .map(|batch| Done::Many(batch, *cost)),
            Kind::Fetch(next, at, pull) => {
                let pull = ready!(pull.as_mut().poll(context));
                let next = next.take().unwrap_or(Next::CaughtUp);
                Poll::Ready(Done::Fetched(*at, next, pull))
            }
            Kind::Open(filled) => filled.as_mut().poll(context).map(Done::Filled),
            Kind::Look(at, looking) => looking
                .as_mut()
                .poll(context)
                .map(|looked| Done::Looked(*at, looked)),
            Kind::Decide(deciding) => deciding.as_mut().poll(context).map(Done::Decided),
            Kind::Changes(number, reads, step) => step
                .as_mut()
                .poll(context)
                .map(|step| Done::Changes(*number, *reads, step)),
        }
    }
}

impl Jobs {
    pub(super) fn new(share: Share) -> Jobs {
        Jobs {
            gathered: Gathered::default(),
            inside: None,
            running: FuturesUnordered::new(),
            waiting: VecDeque::new(),
            calls: 0,
            bytes: 0,
            share,
            appends: 0,
            pages: 0,
            waits: 0,
            fetches: 0,
        }
    }

    /// Nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.calls == 0
    }

    /// Whether another frame may be taken from the socket. A client with much in flight waits for its answers
    /// while all connections together, or those of its caller, hold as much as they may.
    pub(super) fn has_room(&self, shared: &Shared) -> bool {
        let options = &shared.options;
        (self.calls as u64) < options.limits.requests_in_flight_max
            && self.bytes < REQUESTS_BYTES_MAX
            && (self.share.is_small() || !self.share.is_full())
    }

    /// Reads that run, each of which may hold a page.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Whether another call may wait for as long as it likes.
    pub(super) fn may_wait(&self) -> bool {
        self.waits < WAITS_MAX
    }

    /// Whether a subscription may read the store.
    pub(super) fn may_fetch(&self) -> bool {
        self.fetches < FETCHES_MAX
    }

    pub(super) fn one(&mut self, shared: &Arc<Shared>, begun: Begun, cost: Cost) {
        self.add(shared, Kind::One(begun), cost);
    }

    /// Takes an append, to be queued with those around it by [`Jobs::submit`]; whether it is time for that. `bytes`: of
    /// its frame.
    #[must_use]
    pub(super) fn append(&mut self, id: Option<Id>, appending: Appending, bytes: usize) -> bool {
        self.calls += 1;
        self.appends += 1;
        self.hold(bytes);
        self.gathered.push(id, appending, bytes)
    }

    /// Queues the appends that have gathered.
    pub(super) fn submit(&mut self, shared: &Arc<Shared>, dialect: &'static dyn Dialect) {
        for (bundle, cost) in self.gathered.submit(shared, dialect) {
            self.running.push(Job {
                shared: Arc::clone(shared),
                work: Kind::Appends(bundle),
                cost,
                _counted: Some(shared.metrics.gateway.in_flight.hold(cost.calls)),
                _inside: self.inside.clone(),
            });
        }
    }

    pub(super) fn many(
        &mut self,
        shared: &Arc<Shared>,
        batch: BoxFuture<'static, Batch>,
        cost: Cost,
    ) {
        self.add(shared, Kind::Many(batch), cost);
    }

    fn add(&mut self, shared: &Arc<Shared>, work: Kind, cost: Cost) {
        self.calls += cost.calls;
        self.hold(cost.bytes);
        let counted = Some(shared.metrics.gateway.in_flight.hold(1));
        let may_write = cost.weight == Weight::Light || matches!(work, Kind::Many(_));
        let job = Job {
            shared: Arc::clone(shared),
            work,
            cost,
            _counted: counted,
            _inside: self.inside.clone().filter(|_| may_write),
        };
        match cost.weight {
            Weight::Page if self.pages >= READS_MAX => {
                self.waiting.push_back(job);
            }
            Weight::Page => {
                self.pages += 1;
                self.running.push(job);
            }
            Weight::Wait => {
                self.waits += 1;
                self.running.push(job);
            }
            Weight::Light => self.running.push(job),
        }
    }

    /// Reads what a subscription needs.
    pub(super) fn fetch(&mut self, shared: &Arc<Shared>, fetch: Fetch) {
        let Fetch { at, next, pull } = fetch;
        self.run(shared, Kind::Fetch(Some(next), at, pull));
    }

    /// Reads more of the timelines that were subscribed together.
    pub(super) fn open(&mut self, shared: &Arc<Shared>, rest: Box<Rest>) {
        self.run(shared, Kind::Open(rest.fill().boxed()));
    }

    /// Looks at the user of a subscription to all conversations.
    pub(super) fn look(&mut self, shared: &Arc<Shared>, at: Opening, looking: Looking) {
        self.run(shared, Kind::Look(at, looking));
    }

    /// Decides on subscriptions again.
    pub(super) fn decide(&mut self, shared: &Arc<Shared>, deciding: BoxFuture<'static, Decisions>) {
        self.run(shared, Kind::Decide(deciding));
    }

    /// Reads changes of a stream.
    pub(super) fn read_changes(&mut self, shared: &Arc<Shared>, number: u64, step: Stepping) {
        self.run(shared, Kind::Changes(number, true, step));
    }

    /// Waits for changes of a stream, which takes nothing.
    pub(super) fn wait_for_changes(&mut self, shared: &Arc<Shared>, number: u64, step: Stepping) {
        self.spawn(shared, Kind::Changes(number, false, step));
    }

    fn run(&mut self, shared: &Arc<Shared>, work: Kind) {
        self.fetches += 1;
        self.spawn(shared, work);
    }

    fn spawn(&mut self, shared: &Arc<Shared>, work: Kind) {
        let cost = Cost {
            calls: 0,
            bytes: 0,
            weight: Weight::Light,
        };
        self.running.push(Job {
            shared: Arc::clone(shared),
            work,
            cost,
            _counted: None,
            _inside: None,
        });
    }

    /// What is whole is taken, whatever the bound of all says: it was in memory before.
    fn hold(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.share.force(self.bytes);
    }

    fn finished(&mut self, cost: Cost) {
        self.calls -= cost.calls;
        self.bytes -= cost.bytes;
        self.share.force(self.bytes);
        match cost.weight {
            Weight::Light => {}
            Weight::Wait => self.waits -= 1,
            Weight::Page => match self.waiting.pop_front() {
                Some(next) => self.running.push(next),
                None => self.pages -= 1,
            },
        }
    }
}

impl Session {
    /// Puts the answers of finished calls into the outbox, while it has room.
    pub(super) fn poll_jobs(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        while self.outbox.has_room() {
            let Poll::Ready(Some(done)) = self.jobs.running.poll_next_unpin(context) else {
                break;
            };
            moved = true;
            match done {
                Done::One(reply, opened, cost) => {
                    self.jobs.finished(cost);
                    reply.into_iter().for_each(|reply| self.send(reply));
                    self.answered(opened);
                }
                Done::Appends(replies, cost) => {
                    self.jobs.finished(cost);
                    self.jobs.appends -= cost.calls;
                    self.count_sent(replies.iter().map(Bytes::len).sum());
                    replies
                        .into_iter()
                        .for_each(|reply| self.outbox.push(reply));
                }
                Done::Many(Batch { reply, opened }, cost) => {
                    self.jobs.finished(cost);
                    reply.into_iter().for_each(|reply| self.send(reply));
                    opened.into_iter().for_each(|opened| self.answered(opened));
                }
                Done::Fetched(at, next, pull) => {
                    self.jobs.fetches -= 1;
                    let form = self.form();
                    let limit = self.shared.options.limits.outbound_frame_bytes_max;
                    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                    let Session {
                        subscriptions,
                        outbox,
                        ..
                    } = self;
                    subscriptions.arrived(at, next, pull, outbox, form, limit);
                }
                Done::Looked(at, looked) => {
                    self.jobs.fetches -= 1;
                    let form = self.form();
                    let outbox = &mut self.outbox;
                    self.subscriptions
                        .looked_at_user(&self.shared, at, looked, outbox, form);
                }
                Done::Decided(decisions) => {
                    self.jobs.fetches -= 1;
                    let form = self.form();
                    self.subscriptions
                        .decided(decisions, &mut self.outbox, form);
                }
                Done::Changes(number, reads, step) => {
                    self.jobs.fetches -= usize::from(reads);
                    let form = self.form();
                    self.streams.done(number, step, &mut self.outbox, form);
                }
                Done::Filled((parts, rest)) => {
                    self.jobs.fetches -= 1;
                    let form = self.form();
                    self.subscriptions
                        .filled(parts, rest, &mut self.outbox, form);
                }
            }
        }
        moved
    }

    pub(super) fn send(&mut self, reply: Bytes) {
        self.count_sent(reply.len());
        self.outbox.push(reply);
    }

    fn count_sent(&self, bytes: usize) {
        let sent = &self.shared.metrics.gateway.sent_bytes;
        sent.increment(bytes as u64);
    }
}

/// Pages that a connection's subscriptions read at the same time.
const FETCHES_MAX: usize = 2;
/// Reads of one connection that run at the same time; the others wait their turn. Half of what the store runs, so that
/// one client does not take all of it.
const READS_MAX: usize = 8;
/// Waiting syncs of one connection; further ones are refused. A client needs one: a sync waits for many timelines.
pub(super) const WAITS_MAX: usize = 16;
