//! What callers may hold of the server: for each resource one bound over all callers, and a share of it for each.
//!
//! Owns: which resources there are, and how much of each every caller has in use. Promises: no caller gets more than
//! the bound over all callers leaves, or more than its own share; only [`Share::force`], for what exists already, goes
//! above. What was held is given back when the [`Share`] is dropped; a caller that holds nothing takes no memory. Must
//! not: wait, or know what a resource is used for; the caller of [`Share::resize`] decides what a refusal means.
//!
//! A new resource is a line of `resources!`. The compiler then asks for its setting (`src/config/layers.rs`); tests ask
//! for its line in docs/OPERATIONS.md and for an attack on it in `tests/tablestore/misuse.py`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metrics::{Counter, Gauge, Metrics};

macro_rules! resources {
    ($( $(#[doc = $doc:literal])+ $resource:ident = $name:literal, least $least:expr, free $free:expr; )+) => {
        /// Something that callers hold.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Resource { $( $(#[doc = $doc])+ $resource, )+ }

        impl Resource {
            /// All of them.
            pub const ALL: &[Resource] = &[$( Resource::$resource, )+];

            /// The name of its bound: a setting, and the label `limit` of metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Resource::$resource => $name, )+ }
            }

            /// The smallest bound, and the smallest share of a caller: what one call may need.
            #[must_use]
            pub const fn least(self) -> usize {
                match self { $( Resource::$resource => $least, )+ }
            }

            /// A [`Share`] up to this size does not count.
            const fn free(self) -> usize {
                match self { $( Resource::$resource => $free, )+ }
            }
        }
    };
}

resources! {
    /// Open connections.
    Connections = "connections_max", least 1, free 0;
    /// Bytes of requests that come in or are not answered yet.
    InboundBytes = "inbound_bytes_max", least 16 << 20, free SMALL_BYTES;
    /// Bytes of answers that their clients have not read.
    AnswersBytes = "answers_bytes_max", least 128 << 20, free SMALL_BYTES;
    /// Timelines that subscriptions follow or that waiting calls wait for.
    WatchedTimelines = "watched_timelines_max", least 10_001, free 0;
    /// Tickets that were not shown yet.
    Tickets = "tickets_max", least 1, free 0;
    /// Reads of tables with expressions that run or wait for their turn.
    CostlyReads = "tablestore_costly_reads_max", least 1, free 0;
    /// Open transactions of tables.
    Transactions = "tablestore_transactions_max", least 1, free 0;
    /// Bytes of memory that the writes of open transactions take.
    TransactionBytes = "tablestore_transaction_bytes_max", least 32 << 20, free 0;
    /// Searches that run or wait for their turn.
    Searches = "searches_max", least 1, free 0;
    /// Searches of messages and timelines that run or wait, each with the reading of what it has found.
    MessageSearches = "message_searches_max", least 1, free 0;
    /// Bytes of memory that searches hold while they run.
    SearchBytes = "search_memory_bytes_max", least 64 << 20, free 0;
    /// Sessions of scans of search indexes.
    Scans = "search_scans_max", least 1, free 0;
}

/// Up to so many bytes of a connection do not count: one that sends or reads little is never refused.
pub const SMALL_BYTES: usize = 16 << 10;

/// The holder of something: a hash of the API key's ID, or of the user's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder(pub u64);

/// The bounds of all resources.
#[derive(Debug)]
pub struct Bounds {
    all: Vec<Arc<Bound>>,
    /// What expressions may cost.
    pub costs: Costs,
}

/// What reads and conditions with expressions may cost.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Of one request. Each expression costs the bytes of text that it looks at, times its own size in units of 4 KiB.
    pub expression_bytes_max: u64,
    /// Percent of a processor that the costly reads of one caller may take on average; from 100 on there is no bound.
    pub costly_percent: u32,
}

impl Costs {
    /// Expressions may cost whatever they do.
    pub const UNBOUNDED: Costs = Costs {
        expression_bytes_max: u64::MAX,
        costly_percent: 100,
    };
}

impl Bounds {
    /// Bounds of which `max` says how much of a resource there is; one caller may hold `share_percent` of it.
    #[must_use]
    pub fn new(
        max: impl Fn(Resource) -> usize,
        share_percent: u32,
        costs: Costs,
        metrics: &Metrics,
    ) -> Bounds {
        let bound = |resource: &Resource| {
            let (name, max) = (resource.name(), max(*resource));
            let percent = usize::try_from(share_percent).unwrap_or(100);
            let share_max = (max / 100 * percent + max % 100 * percent / 100)
                .max(resource.least())
                .min(max);
            let families = &metrics.families;
            families.limit.of(&[name]).count(max as u64);
            families.share.of(&[name]).count(share_max as u64);
            Arc::new(Bound {
                resource: *resource,
                max,
                share_max,
                state: Mutex::default(),
                gauge: match resource {
                    Resource::InboundBytes => metrics.gateway.inbound.clone(),
                    Resource::AnswersBytes => metrics.gateway.answers.clone(),
                    Resource::Transactions => metrics.transactions.open.clone(),
                    Resource::TransactionBytes => metrics.transactions.bytes.clone(),
                    Resource::SearchBytes => metrics.search().memory,
                    _ => families.held.of(&[name]),
                },
                refused: families.refusals.of(&[name]),
            })
        };
        Bounds {
            all: Resource::ALL.iter().map(bound).collect(),
            costs,
        }
    }

    /// The bound of a resource.
    #[must_use]
    pub fn of(&self, resource: Resource) -> &Arc<Bound> {
        &self.all[resource as usize]
    }
}

/// Nothing is bounded: for tests of single layers, and where no callers are served.
impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::new(|_| usize::MAX, 100, Costs::UNBOUNDED, &Metrics::default())
    }
}

/// The bound of one resource, and how much of it is in use.
#[derive(Debug)]
pub struct Bound {
    /// Of what.
    pub resource: Resource,
    /// Over all callers.
    pub max: usize,
    /// Of one caller.
    pub share_max: usize,
    state: Mutex<State>,
    gauge: Gauge,
    refused: Counter,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// What of it each known caller holds.
    holders: HashMap<Holder, usize>,
}

/// Why nothing more is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All callers together hold everything: it may be free soon.
    Everything,
    /// The caller has its share.
    Share,
}

impl Bound {
    /// An empty share of a caller; `None` = of nobody in particular, for which only the bound over all counts.
    #[must_use]
    pub fn share(self: &Arc<Bound>, holder: Option<Holder>) -> Share {
        Share {
            bound: Arc::clone(self),
            holder,
            held: 0,
        }
    }

    /// A share of this size, or a refusal that is counted.
    ///
    /// # Errors
    /// If there is not so much left.
    pub fn take(self: &Arc<Bound>, holder: Option<Holder>, amount: usize) -> Result<Share, Full> {
        let mut share = self.share(holder);
        match share.change(amount) {
            Ok(()) => Ok(share),
            Err(full) => {
                self.refuse();
                Err(full)
            }
        }
    }

    /// Counts a refusal.
    pub fn refuse(&self) {
        self.refused.increment(1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&self, holder: Option<Holder>) -> usize {
        let held = holder.and_then(|holder| self.holders.get(&holder));
        held.copied().unwrap_or(0)
    }

    fn set(&mut self, holder: Option<Holder>, held: usize) {
        match holder {
            Some(holder) if held == 0 => drop(self.holders.remove(&holder)),
            Some(holder) => drop(self.holders.insert(holder, held)),
            None => {}
        }
    }
}

/// What one holder has of a resource, until it is dropped.
#[derive(Debug)]
pub struct Share {
    bound: Arc<Bound>,
    holder: Option<Holder>,
    /// What counts of its size: 0 while it is small.
    held: usize,
}

impl Share {
    /// Makes the share this large; `false` and no change if there is not so much left.
    pub fn resize(&mut self, amount: usize) -> bool {
        self.change(amount).is_ok()
    }

    /// The same as [`Share::resize`], with the reason of a refusal.
    ///
    /// # Errors
    /// What is full; the share is as it was.
    pub fn change(&mut self, amount: usize) -> Result<(), Full> {
        let wanted = self.counted(amount);
        if wanted <= self.held {
            self.force(amount);
            return Ok(());
        }
        let mut state = self.bound.state();
        let more = wanted - self.held;
        let used = state.used.saturating_add(more);
        let of_holder = state.of(self.holder).saturating_add(more);
        if self.holder.is_some() && of_holder > self.bound.share_max {
            return Err(Full::Share);
        }
        if used > self.bound.max {
            return Err(Full::Everything);
        }
        state.used = used;
        state.set(self.holder, of_holder);
        drop(state);
        self.show(wanted);
        Ok(())
    }

    /// Makes the share this large, whatever is left: for what exists already.
    pub fn force(&mut self, amount: usize) {
        let wanted = self.counted(amount);
        if wanted != self.held {
            let mut state = self.bound.state();
            state.used = (state.used - self.held).saturating_add(wanted);
            let of_holder = (state.of(self.holder) - self.known()).saturating_add(wanted);
            state.set(self.holder, of_holder);
            drop(state);
            self.show(wanted);
        }
    }

    /// Makes it another caller's, even if that one has its whole share already.
    pub fn belongs_to(&mut self, holder: Option<Holder>) {
        if holder != self.holder {
            let held = self.held;
            self.force(0);
            self.holder = holder;
            self.force(held);
        }
    }

    /// Whether it is so small that it does not count.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.held == 0
    }

    /// Why nothing more is given to its holder, if that is so.
    #[must_use]
    pub fn full(&self) -> Option<Full> {
        let state = self.bound.state();
        if self.holder.is_some() && state.of(self.holder) >= self.bound.share_max {
            return Some(Full::Share);
        }
        (state.used >= self.bound.max).then_some(Full::Everything)
    }

    /// Whether nothing more is given to its holder.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full().is_some()
    }

    /// The bound that it is of.
    #[must_use]
    pub fn bound(&self) -> &Arc<Bound> {
        &self.bound
    }

    /// What is counted of it for its holder.
    fn known(&self) -> usize {
        match self.holder {
            Some(_) => self.held,
            None => 0,
        }
    }

    /// What counts of so much.
    fn counted(&self, amount: usize) -> usize {
        match amount <= self.bound.resource.free() {
            true => 0,
            false => amount,
        }
    }

    #[allow(clippy::cast_precision_loss)] // a gauge
    fn show(&mut self, wanted: usize) {
        self.bound.gauge.increment(wanted as f64 - self.held as f64);
        self.held = wanted;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.force(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(max: usize) -> Arc<Bound> {
        let bounds = Bounds::new(|_| max, 25, Costs::UNBOUNDED, &Metrics::default());
        Arc::clone(bounds.of(Resource::InboundBytes))
    }

    #[test]
    fn a_full_bound_refuses_large_shares_only_and_takes_back_what_is_dropped() {
        let bound = bound(100_000);
        let (mut large, mut other) = (bound.share(None), bound.share(None));
        let is_full = || bound.share(None).is_full();
        assert!(large.resize(90_000) && !is_full());
        assert!(!other.resize(20_000) && other.is_small());
        assert!(other.resize(SMALL_BYTES));
        assert!(large.resize(70_000) && other.resize(20_000));
        assert!(!large.resize(80_001), "the refused share keeps what it had");
        other.force(200_000);
        assert!(is_full() && other.is_full());
        drop(other);
        assert!(large.resize(100_000) && is_full());
        drop(large);
        assert_eq!(bound.state().used, 0);
    }

    #[test]
    fn one_caller_has_a_share_and_leaves_the_rest_to_others() {
        let bound = bound(256 << 20);
        let (ann, ben) = (Some(Holder(1)), Some(Holder(2)));
        let mut one = bound.take(ann, 40 << 20).unwrap();
        assert_eq!(bound.take(ann, 40 << 20).unwrap_err(), Full::Share);
        let two = bound.take(ann, 24 << 20).unwrap();
        assert!(one.is_full() && !one.resize(41 << 20));
        let mut rest: Vec<Share> = (0..3)
            .map(|of| bound.take(Some(Holder(9 + of)), 64 << 20).unwrap())
            .collect();
        assert_eq!(bound.take(ben, 1 << 20).unwrap_err(), Full::Everything);
        drop(two);
        assert!(bound.take(ben, 1 << 20).is_ok());
        // Whose it is becomes known only later.
        let mut late = bound.take(None, 20 << 20).unwrap();
        late.belongs_to(ann);
        assert_eq!(bound.state().of(ann), 60 << 20);
        assert!(!late.resize(30 << 20));
        rest.clear();
        drop((one, late));
        let state = bound.state();
        assert!(state.used == 0 && state.holders.is_empty());
    }

    #[test]
    fn every_resource_is_described_for_operators() {
        let docs = include_str!("../../docs/OPERATIONS.md");
        for resource in Resource::ALL {
            let row = format!("setting `{}`", resource.name());
            assert!(docs.contains(&row), "docs/OPERATIONS.md has no {row}");
        }
    }
}
