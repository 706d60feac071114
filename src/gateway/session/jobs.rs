//! What is under way on one connection: calls that are not answered yet, and what is read for pushes.
//!
//! Owns: how much that is, counted in calls and bytes; whose turn it is to read the store. Promises: never more in
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

use super::super::dispatch::shape::size;
use super::super::dispatch::timelines::message::Appending;
use super::super::{REQUESTS_BYTES_MAX, Shared};
use super::Session;
use super::answer::{Begun, Weight};
use super::appends::{Bundle, gather};
use super::batch;
use super::subscriptions::parts::{Filled, Opened, Opening};
use tideline_base::bounds::Share;
use tideline_base::metrics::Held;
use tideline_table::FollowError;
use tideline_timelines::feed::{self, ChangeGroup, ChangeReader, Next, Pull};
use tideline_timelines::people::OwnSide;
use tideline_timelines::reshape::Inside;
use tideline_timelines::timeline::Error;
use tideline_wire::{Dialect, Id, Together};

/// Everything under way on one connection.
pub(super) struct Jobs {
    gathered: Vec<Bundle>,
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
    kind: Kind,
    cost: Cost,
    _counted: Option<Held>,
    /// Of calls that may write: a change of partitions waits for them.
    _inside: Option<Inside>,
}

enum Kind {
    Call(Begun),
    /// Anything else, which is in a box already.
    Boxed(BoxFuture<'static, Done>),
}

/// What a job takes while it is under way.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    calls: usize,
    bytes: usize,
    weight: Weight,
}

impl Cost {
    pub(super) fn new(calls: usize, bytes: usize, weight: Weight) -> Cost {
        Cost {
            calls,
            bytes,
            weight,
        }
    }
}

/// What a job has come to.
pub(super) enum Done {
    /// The answer of calls, and what waited for it.
    Answered(Option<Bytes>, Vec<Opened>),
    /// The answers of appends.
    Appended(Vec<Bytes>),
    /// What a subscription needs.
    Fetched(Opening, Next, Pull),
    /// Timelines of a subscribe.
    Filled(Filled),
    /// A look at the user of a subscription to all conversations.
    Looked(Opening, Result<OwnSide, Error>),
    /// What a look has decided, of each subscription.
    Decided(Vec<(Opening, Option<feed::Decided>)>),
    /// There is news of a stream of changes; `None` = the stream was closed.
    News(u64, Option<Box<ChangeReader>>),
    /// Changes of a stream.
    Changes(u64, Box<ChangeReader>, Result<ChangeGroup, FollowError>),
}

impl Job {
    fn new(kind: Kind, cost: Cost, counted: Option<Held>, inside: Option<&Inside>) -> Job {
        // Calls that wait for news end by themselves, but among several there may be one that writes.
        let is_short = cost.calls > 1 || cost.weight != Weight::Wait;
        Job {
            kind,
            cost,
            _counted: counted,
            _inside: inside.filter(|_| is_short).cloned(),
        }
    }
}

impl Future for Job {
    type Output = (Done, Cost);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Done, Cost)> {
        let done = match &mut self.kind {
            Kind::Call(begun) => {
                let (outcome, opened) = ready!(begun.poll_unpin(context));
                Done::Answered(begun.encode(&outcome), opened)
            }
            Kind::Boxed(work) => ready!(work.as_mut().poll(context)),
        };
        Poll::Ready((done, self.cost))
    }
}

impl Jobs {
    pub(super) fn new(share: Share) -> Jobs {
        Jobs {
            gathered: Vec::new(),
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

    /// Takes a call that has begun, which came in so many bytes.
    pub(super) fn call(&mut self, begun: Begun, bytes: usize) {
        let cost = Cost::new(1, bytes, begun.pending.weight());
        let counted = begun.shared.metrics.gateway.in_flight.hold(1);
        let inside = self.inside.as_ref();
        self.add(Job::new(Kind::Call(begun), cost, Some(counted), inside));
    }

    /// Takes calls that are answered together: so many came, in so many bytes, and these have begun.
    pub(super) fn many(
        &mut self,
        shared: &Shared,
        (calls, bytes): (usize, usize),
        begun: Vec<Begun>,
        together: Box<dyn Together>,
    ) {
        let is_page = |begun: &Begun| begun.pending.weight() == Weight::Page;
        let weight = match begun.iter().any(is_page) {
            true => Weight::Page,
            false => Weight::Light,
        };
        let answered = batch::all(begun, together);
        let answered = answered.map(|(reply, opened)| Done::Answered(reply, opened));
        self.boxed(shared, Cost::new(calls, bytes, weight), answered.boxed());
    }

    /// Takes calls that are answered by one future.
    pub(super) fn boxed(
        &mut self,
        shared: &Shared,
        cost: Cost,
        answered: BoxFuture<'static, Done>,
    ) {
        let counted = shared.metrics.gateway.in_flight.hold(1);
        let inside = self.inside.as_ref();
        self.add(Job::new(Kind::Boxed(answered), cost, Some(counted), inside));
    }

    /// Does something that no call waits for.
    pub(super) fn run(&mut self, weight: Weight, work: BoxFuture<'static, Done>) {
        self.add(Job::new(
            Kind::Boxed(work),
            Cost::new(0, 0, weight),
            None,
            None,
        ));
    }

    fn add(&mut self, job: Job) {
        self.count(job.cost.calls, job.cost.bytes);
        match job.cost.weight {
            Weight::Page if self.pages >= READS_MAX => return self.waiting.push_back(job),
            Weight::Page => self.pages += 1,
            Weight::Fetch => self.fetches += 1,
            Weight::Wait => self.waits += 1,
            Weight::Light | Weight::Append => {}
        }
        self.running.push(job);
    }

    /// Takes an append, to be queued with those around it by [`Jobs::submit`]; whether it is time for that. `bytes`: of
    /// its frame.
    #[must_use]
    pub(super) fn append(&mut self, id: Option<Id>, appending: Appending, bytes: usize) -> bool {
        self.appends += 1;
        self.count(1, bytes);
        gather(&mut self.gathered, id, appending, bytes)
    }

    /// Queues the appends that have gathered.
    pub(super) fn submit(&mut self, shared: &Arc<Shared>, dialect: &'static dyn Dialect) {
        for bundle in self.gathered.drain(..) {
            let cost = Cost::new(bundle.calls(), bundle.bytes, Weight::Append);
            let counted = shared.metrics.gateway.in_flight.hold(cost.calls);
            let answered = bundle.submit(shared, dialect).map(Done::Appended);
            let (kind, inside) = (Kind::Boxed(answered.boxed()), self.inside.as_ref());
            let job = Job::new(kind, cost, Some(counted), inside);
            self.running.push(job);
        }
    }

    /// What is whole is taken, whatever the bound of all says: it was in memory before.
    fn count(&mut self, calls: usize, bytes: usize) {
        self.calls += calls;
        self.bytes += bytes;
        self.share.force(self.bytes);
    }

    fn finished(&mut self, cost: Cost) {
        self.calls -= cost.calls;
        self.bytes -= cost.bytes;
        self.share.force(self.bytes);
        match cost.weight {
            Weight::Light => {}
            Weight::Append => self.appends -= cost.calls,
            Weight::Fetch => self.fetches -= 1,
            Weight::Wait => self.waits -= 1,
            Weight::Page => match self.waiting.pop_front() {
                Some(next) => self.running.push(next),
                None => self.pages -= 1,
            },
        }
    }
}

impl Session {
    /// Puts what jobs have come to into the outbox, while it has room.
    pub(super) fn poll_jobs(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        while self.outbox.has_room() {
            let Poll::Ready(Some((done, cost))) = self.jobs.running.poll_next_unpin(context) else {
                break;
            };
            moved = true;
            self.jobs.finished(cost);
            let form = self.form();
            let Session {
                shared,
                subscriptions,
                streams,
                outbox,
                ..
            } = self;
            match done {
                Done::Answered(reply, opened) => {
                    reply.into_iter().for_each(|reply| self.send(reply));
                    self.answered(opened);
                }
                Done::Appended(replies) => {
                    self.count_sent(replies.iter().map(Bytes::len).sum());
                    for reply in replies {
                        self.outbox.push(reply);
                    }
                }
                Done::Fetched(at, next, pull) => {
                    let limit = size(shared.options.limits.outbound_frame_bytes_max);
                    subscriptions.arrived(at, next, pull, outbox, form, limit);
                }
                Done::Filled(filled) => {
                    let opened = subscriptions.filled(filled, outbox, form);
                    self.answered(opened);
                }
                Done::Looked(at, looked) => {
                    subscriptions.looked_at_user(shared, at, looked, outbox, form);
                }
                Done::Decided(decisions) => subscriptions.decided(decisions, outbox, form),
                Done::News(number, reader) => streams.news(number, reader),
                Done::Changes(number, reader, group) => {
                    streams.told(number, reader, group, outbox, form);
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
