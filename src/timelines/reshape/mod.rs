//! Splits and merges of partitions while they are served.
//!
//! Owns: which change is under way, how it ends, and when one begins by itself. Promises: one change at a time; calls
//! wait for a second at most, or the cut is tried again later; whenever the process ends, all parents or all children
//! count. Must not: know how a child is made (`src/store/partition/split/making.rs`), or what a row means.

mod auto;
mod handover;
mod observe;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::feed::Feed;
use crate::people::Jobs;
use crate::relay::Relay;
use handover::Cut;
pub use observe::{Live, Shown};
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_base::metrics;
pub use tideline_store::partition::{Gate, Holder, Inside, State};
use tideline_store::partition::{Making, Map, OpenError, Partitions, Reshape, Round};
use tideline_table::Tables;

/// When partitions are split by themselves; 0 = never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// One whose rows take more bytes than this.
    pub split_bytes: u64,
    /// One whose log grows by more bytes than this a second, for a minute.
    pub split_bytes_per_s: u64,
}

/// Partitions that are served at most.
pub const PARTITIONS_MAX: usize = 64;

/// Splits and merges partitions. Cheap to clone.
#[derive(Clone)]
pub struct Reshaper {
    inner: Arc<Inner>,
}

struct Inner {
    partitions: Partitions,
    tables: Tables,
    relay: Relay,
    feed: Feed,
    jobs: Arc<Jobs>,
    clock: Arc<Clock>,
    metrics: metrics::Reshapes,
    /// The change under way, or the last one.
    change: Mutex<Option<Change>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This partition becomes two halves.
    Split(PartitionId),
    /// These two, which are neighbours, become one.
    Merge(PartitionId, PartitionId),
}

/// Why a change does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such partition, or it owns a single hash.
    NoSuchPartition,
    /// Their ranges of hashes do not touch.
    NotNeighbours,
    /// There are [`PARTITIONS_MAX`] already.
    TooMany,
    /// Another change is under way.
    Busy,
}

/// A change, under way or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What was asked for.
    pub asked: Asked,
    /// When, ms.
    pub since: u64,
    /// How far it is.
    pub stage: Stage,
    /// How many cuts were given up.
    pub given_up: u64,
}

/// How far a change is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The parents' rows are copied.
    Copies,
    /// What was written since is taken over.
    CatchesUp,
    /// Calls wait, and the children take over.
    Cuts,
    /// Done; calls have waited so long.
    Done(Duration),
    /// The parents go on, for this reason.
    Failed(String),
}

/// How often the cut is tried.
const ATTEMPTS: u32 = 10;
/// So many bytes of log may be left for the cut, in which calls wait.
const LEFT_MAX: u64 = 1 << 20;
/// Writers wait so many steps before each batch at most.
const STEPS_MAX: u16 = 1_024;
/// After so many rounds in a row that gained nothing it is given up.
const LOST_MAX: u32 = 60;
/// How long parents stay readable after the cut, for readers that still hold one.
const KEPT: Duration = Duration::from_secs(60);

impl Reshaper {
    /// Starts it on the current runtime. It begins splits by itself, if the options say so.
    #[must_use]
    pub fn start(
        (partitions, tables): (&Partitions, &Tables),
        (relay, jobs, feed): (&Relay, &Arc<Jobs>, &Feed),
        clock: &Arc<Clock>,
        options: Options,
        tasks: &TaskTracker,
    ) -> Reshaper {
        let inner = Arc::new(Inner {
            metrics: partitions.metrics().reshapes(),
            partitions: partitions.clone(),
            tables: tables.clone(),
            relay: relay.clone(),
            feed: feed.clone(),
            jobs: Arc::clone(jobs),
            clock: Arc::clone(clock),
            change: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: tasks.clone(),
        });
        let reshaper = Reshaper { inner };
        if options != Options::default() {
            tasks.spawn(auto::watch(reshaper.clone(), options));
        }
        reshaper
    }

    /// Gives up the change under way: the parents go on. A cut that has begun is finished first.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }

    /// Begins a change, which goes on without its caller; [`Reshaper::last`] says how far it is.
    pub fn begin(&self, asked: Asked) -> Result<(), Refused> {
        let inner = &self.inner;
        let reshape = inner.enter(asked)?;
        inner.metrics.running.count(1);
        inner.tasks.spawn(Arc::clone(inner).run(asked, reshape));
        Ok(())
    }

    /// Where calls wait.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.inner.partitions.gate().clone()
    }

    /// The change that is under way, or the last one since the start.
    #[must_use]
    pub fn last(&self) -> Option<Change> {
        self.inner.change().clone()
    }
}

impl Change {
    /// Whether it is neither done nor failed.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Done(_) | Stage::Failed(_))
    }
}

impl Asked {
    fn reshape(self, map: &Map) -> Result<Reshape, Refused> {
        match self {
            Asked::Split(id) => {
                let reshape = Reshape::split(map, id).ok_or(Refused::NoSuchPartition)?;
                match map.ids().len() < PARTITIONS_MAX {
                    true => Ok(reshape),
                    false => Err(Refused::TooMany),
                }
            }
            Asked::Merge(one, other) if map.is_live(one) && map.is_live(other) => {
                Reshape::merge(map, one, other).ok_or(Refused::NotNeighbours)
            }
            Asked::Merge(..) => Err(Refused::NoSuchPartition),
        }
    }
}

impl Inner {
    /// Notes that a change is under way, unless one is already: only one may change the map.
    fn enter(&self, asked: Asked) -> Result<Reshape, Refused> {
        let mut change = self.change();
        if change.as_ref().is_some_and(Change::is_under_way) || self.stop.is_cancelled() {
            return Err(Refused::Busy);
        }
        let reshape = asked.reshape(&self.partitions.map())?;
        *change = Some(Change {
            asked,
            since: self.clock.now_ms(),
            stage: Stage::Copies,
            given_up: 0,
        });
        Ok(reshape)
    }

    async fn run(self: Arc<Inner>, asked: Asked, reshape: Reshape) {
        let done = self.change_to(reshape).await;
        self.metrics.running.count(0);
        match done {
            Ok(pause) => {
                match asked {
                    Asked::Split(_) => &self.metrics.splits,
                    Asked::Merge(..) => &self.metrics.merges,
                }
                .increment(1);
                self.metrics.pause_seconds.record(pause.as_secs_f64());
                let map = self.partitions.map();
                let partitions: Vec<u16> = map.ids().map(|id| id.0).collect();
                let pause_ms = pause.as_secs_f64() * 1e3;
                tracing::info!(
                    ?asked,
                    pause_ms,
                    ?partitions,
                    "partitions were split or merged"
                );
                self.at(Stage::Done(pause));
            }
            Err(error) => {
                self.metrics.failures.increment(1);
                tracing::warn!(?asked, error, "partitions stay as they are");
                self.at(Stage::Failed(error));
            }
        }
    }

    async fn change_to(self: &Arc<Inner>, reshape: Reshape) -> Result<Duration, String> {
        let (partitions, stop) = (self.partitions.clone(), self.stop.clone());
        let begun = blocking(move || Making::begin(&partitions, &reshape, stop)).await;
        let mut making = begun.map_err(told)?;
        let (mut rest, mut reason) = (REST_MIN, "");
        for _ in 0..ATTEMPTS {
            self.at(Stage::CatchesUp);
            // First, so that what is written during this wait is caught up with.
            self.calm(&making.parents().into()).await;
            making = self.catch_up(making).await?;
            self.at(Stage::Cuts);
            match self.cut(making).await {
                Cut::Done(pause) => return Ok(pause),
                Cut::Failed(error) => return Err(told(error)),
                Cut::GivenUp(back, why) => {
                    (making, reason) = (*back, why);
                    self.metrics.given_up.increment(1);
                    tracing::info!(why, ?rest, "calls have waited in vain; it is tried again");
                    if let Some(change) = &mut *self.change() {
                        change.given_up += 1;
                    }
                }
            }
            if self
                .stop
                .run_until_cancelled(tokio::time::sleep(rest))
                .await
                .is_none()
            {
                return Err(STOPS.to_owned());
            }
            rest = (rest * 2).min(REST_MAX);
        }
        Err(format!("{reason}, however often it was tried"))
    }

    /// Takes over what was written meanwhile, round by round, until little is left. Writers are slowed down until a
    /// round takes over twice as much as is written during it.
    async fn catch_up(&self, mut making: Making) -> Result<Making, String> {
        let (mut steps, mut lost) = (0, 0);
        while lost < LOST_MAX {
            let round = blocking(move || {
                let round = making.catch_up();
                (making, round)
            });
            let (back, round) = round.await;
            making = back;
            let Round { taken, came, left } = round.map_err(told)?;
            if left <= LEFT_MAX {
                return Ok(making);
            }
            let gains = came <= taken / 2;
            lost = if gains { 0 } else { lost + 1 };
            steps = match gains {
                false => (steps * 2).clamp(1, STEPS_MAX),
                true if came <= taken / 4 => steps / 2,
                true => steps,
            };
            making.slow_down(steps);
            tracing::debug!(
                taken,
                came,
                left,
                steps,
                "a change of partitions catches up"
            );
        }
        Err("writes come faster than they can be taken over".to_owned())
    }

    /// Notes how far it is.
    fn at(&self, stage: Stage) {
        if let Some(change) = &mut *self.change() {
            change.stage = stage;
        }
    }

    fn change(&self) -> MutexGuard<'_, Option<Change>> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const STOPS: &str = "the server stops";

/// After a cut that was given up.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);

fn told(error: OpenError) -> String {
    error.to_string()
}

async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
