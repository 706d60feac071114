//! The relay's task of one partition: reads its log and feeds the routes.
//!
//! Owns: the routes that begin in this partition, and its log's hold. Promises: each batch is derived from once for all
//! routes that are at it; a route that fails or is full holds up only itself, and the log is held for the slowest. Must
//! not: hold up commits: it only reads, and bounded much at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Backlog;
use super::route::{Route, Work};
use super::target::{CannotDerive, Derived, Target};
use super::work::{Outcome, Step};
#[cfg(any(test, feature = "faults"))]
use super::{Faults, Point};
use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_base::metrics::{self, Counter};
use tideline_store::partition::caught;
use tideline_table::{Batch, Change, Holder, Partitions, ReadError, Tail};

/// How much of the log is read at once.
const READ_BYTES: usize = 1 << 20;

pub(super) struct Source {
    pub(super) source: PartitionId,
    pub(super) partitions: Partitions,
    pub(super) tail: Tail,
    pub(super) targets: Arc<[Arc<dyn Target>]>,
    /// Of each target.
    pub(super) metrics: Vec<metrics::Relay>,
    pub(super) routes: Vec<Route>,
    pub(super) backlog: Arc<Backlog>,
    pub(super) panics: Counter,
    #[cfg(any(test, feature = "faults"))]
    pub(super) faults: Arc<Faults>,
}

/// What is under way, each with its route's number.
type Running = FuturesUnordered<BoxFuture<'static, (usize, Outcome)>>;

/// Why a task ends.
struct End;

impl Source {
    /// Runs until `stop` or until the partition closes.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let _ended = stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&mut self) -> Result<(), End> {
        let mut running = Running::new();
        loop {
            self.start_works(&mut running);
            while let Some(Some((route, outcome))) = running.next().now_or_never() {
                self.finish(route, outcome)?;
                self.start_works(&mut running);
            }
            // After all that has ended: else a caller that waits for it would not wake until the next batch.
            self.publish()?;
            let next = self.next_to_read();
            if let Some(after) = next
                && after < self.tail.position()
            {
                self.take(after).await?;
                continue;
            }
            let retry_at = self.routes.iter().filter_map(Route::retry_at).min();
            // A cursor that is behind holds the log, which may ask for room without a batch to say so.
            let is_behind = self.routes.iter().any(Route::is_behind);
            let look_at = is_behind.then(|| Instant::now() + LOOK_EVERY);
            let retry_at = retry_at.into_iter().chain(look_at).min();
            let past = self.tail.past(next.unwrap_or_default());
            tokio::select! {
                Some((route, outcome)) = running.next(), if !running.is_empty() => {
                    self.finish(route, outcome)?;
                }
                is_there = past, if next.is_some() => {
                    if !is_there {
                        return Ok(());
                    }
                }
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {}
            }
        }
    }

    /// The lowest position that an open route has read.
    fn next_to_read(&self) -> Option<Position> {
        let open = self.routes.iter().filter(|route| route.is_open());
        open.map(Route::read).min()
    }

    /// Reads the log behind `after`, and hands it to the routes that are there.
    async fn take(&mut self, after: Position) -> Result<(), End> {
        let batches = match self.tail.next(after, READ_BYTES).await {
            Ok(batches) => batches,
            Err(error) => {
                tracing::error!(partition = %self.source, error = error.0, "the relay lost its place in the log");
                let is_lost = |route: &&mut Route| route.is_open() && route.read() == after;
                let lost = self.routes.iter_mut().filter(is_lost);
                lost.for_each(Route::close);
                return Ok(());
            }
        };
        #[cfg(any(test, feature = "faults"))]
        self.reach(Point::Read)?;
        let mut derived = match self.derive(&batches).await {
            Ok(derived) => derived,
            Err(error) => {
                tracing::error!(partition = %self.source, error = error.0, "the relay can't derive; tried again");
                tokio::time::sleep(REST).await;
                return Ok(());
            }
        };
        #[cfg(any(test, feature = "faults"))]
        self.reach(Point::Derived)?;
        for (index, batch) in batches.iter().enumerate() {
            for target in 0..self.targets.len() {
                let derived = derived.remove(&(index, target)).unwrap_or_default();
                self.hand_out(target, batch, derived);
            }
        }
        Ok(())
    }

    /// What the batches lead to, by their indexes and those of the targets that have routes at them.
    async fn derive(&self, batches: &[Arc<Batch>]) -> Result<All, ReadError> {
        let mut touched = Vec::new();
        for (index, batch) in batches.iter().enumerate() {
            let tables = changed_tables(batch);
            for (target, one) in self.targets.iter().enumerate() {
                let first = batches[0].position;
                let is_at = |route: &Route| {
                    let next = route.read().next();
                    route.target == target
                        && route.is_open()
                        && (first..=batch.position).contains(&next)
                };
                let is_touched = one.kind().tables.iter().any(|table| tables.contains(table));
                if is_touched && self.routes.iter().any(is_at) {
                    touched.push((index, target, Arc::clone(one), Arc::clone(batch)));
                }
            }
        }
        if touched.is_empty() {
            return Ok(All::new());
        }
        let (source, panics) = (self.source, self.panics.clone());
        let read = self.partitions.read(source, move |view| {
            let mut all = All::new();
            for (index, target, one, batch) in touched {
                let mut derived = Vec::new();
                let told = caught("deriving from a batch", || {
                    one.derive(source, &batch, view, &mut derived)
                });
                // The same batch would end the same way for ever, and with it everything behind it.
                match told {
                    Some(Ok(())) => {}
                    Some(Err(CannotDerive::Read(error))) => return Err(error),
                    Some(Err(CannotDerive::Malformed)) => {
                        let (target, position) = (one.kind().name, batch.position.0);
                        tracing::error!(target, partition = %source, position, "a committed batch can't be read");
                        derived.clear();
                    }
                    None => {
                        panics.increment(1);
                        derived.clear();
                    }
                }
                all.insert((index, target), derived);
            }
            Ok(all)
        });
        let all = read.await?;
        for ((_, target), derived) in &all {
            self.metrics[*target]
                .effects
                .increment(derived.len() as u64);
        }
        Ok(all)
    }

    /// Hands what a batch leads to to the routes of a target that are at it.
    fn hand_out(&mut self, target: usize, batch: &Batch, derived: Vec<Derived>) {
        let is_at = |route: &Route| {
            route.target == target && route.is_open() && route.read().next() == batch.position
        };
        let mut parts = by_destination(derived);
        for route in self.routes.iter_mut().filter(|route| is_at(route)) {
            let part = parts.remove(&route.destination).unwrap_or_default();
            route.take(batch.position, batch.bytes(), part.into_iter());
        }
    }

    fn start_works(&mut self, running: &mut Running) {
        let (now, asked) = (Instant::now(), self.tail.asked());
        for index in 0..self.routes.len() {
            let Some(work) = self.routes[index].next_work(now, asked) else {
                continue;
            };
            let route = &self.routes[index];
            let step = Step {
                partitions: self.partitions.clone(),
                target: Arc::clone(&self.targets[route.target]),
                source: self.source,
                destination: route.destination,
                key: route.key.clone(),
                #[cfg(any(test, feature = "faults"))]
                faults: Arc::clone(&self.faults),
            };
            let cursor = route.cursor;
            running.push(Box::pin(async move {
                let outcome = match work {
                    Work::Open => step.open().await,
                    Work::Anew(since) => step.anew(cursor, since).await,
                    Work::Write(piece) => step.write(piece).await,
                };
                (index, outcome)
            }));
        }
    }

    fn finish(&mut self, index: usize, outcome: Outcome) -> Result<(), End> {
        let since = self.tail.position();
        let route = &mut self.routes[index];
        let target = self.targets[route.target].kind().name;
        match outcome {
            Outcome::Follows {
                cursor,
                from,
                published_bytes,
            } => route.follow(cursor, from, published_bytes),
            Outcome::Unknown { cursor } => {
                tracing::info!(target, partition = %self.source, destination = %route.destination, "making anew what was derived");
                route.begin_anew(cursor, since);
            }
            Outcome::Wrote => route.wrote(),
            Outcome::Moved => route.moved(),
            Outcome::Failed(error) => {
                self.metrics[route.target].failures.increment(1);
                tracing::debug!(target, partition = %self.source, destination = %route.destination, error = error.as_str(), "kept back");
                route.failed();
            }
            #[cfg(any(test, feature = "faults"))]
            Outcome::Ended => return Err(End),
        }
        Ok(())
    }

    /// Tells everybody how far the routes are.
    fn publish(&mut self) -> Result<(), End> {
        let held = self.routes.iter().map(Route::held).min();
        if held.is_some() {
            self.tail.hold(Holder::Relay, held);
        }
        #[cfg(any(test, feature = "faults"))]
        self.reach(Point::Held)?;
        for (target, done) in self.backlog.done.iter().enumerate() {
            let routes = self.routes.iter().filter(|route| route.target == target);
            let all: Option<Vec<_>> = routes.map(Route::progress).collect();
            let Some(all) = all else { continue };
            let read = all.iter().map(|(read, _)| *read).min();
            let left: i64 = all.iter().map(|(_, left)| left).sum();
            done.store(read.unwrap_or_default() - left, Ordering::Relaxed);
        }
        self.routes.iter().for_each(Route::announce);
        Ok(())
    }

    #[cfg(any(test, feature = "faults"))]
    fn reach(&self, point: Point) -> Result<(), End> {
        match self.faults.ends(point) {
            true => Err(End),
            false => Ok(()),
        }
    }
}

/// The tables that a batch has change records of.
fn changed_tables(batch: &Batch) -> Vec<TableId> {
    let mut tables = Vec::new();
    for record in batch.changes() {
        // One that can't be read is the targets' to report.
        if let Ok(Change { table, .. }) = Change::decode(record)
            && !tables.contains(&table)
        {
            tables.push(table);
        }
    }
    tables
}

/// What batches lead to, by batch and target.
type All = HashMap<(usize, usize), Vec<Derived>>;

/// What is derived by its destination, in order.
fn by_destination(derived: Vec<Derived>) -> HashMap<PartitionId, Vec<Derived>> {
    let mut parts: HashMap<PartitionId, Vec<Derived>> = HashMap::new();
    for one in derived {
        parts.entry(one.destination).or_default().push(one);
    }
    parts
}

/// Between two looks whether the log asks for room.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After what the source's partition could not read.
const REST: Duration = Duration::from_millis(200);
