//! Reads with expressions: among all others while they are cheap, in a queue of their own when they are not.
//!
//! Owns: what a request may spend on expressions, and where. Promises: a read that takes long on a processor keeps only
//! others of its kind waiting; of these a caller may have a share, in which each counts until it has ended, and a part
//! of a processor (`pace.rs`); one that nobody waits for any more ends. Must not: know how an expression is evaluated;
//! `model/filter.rs` does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tideline_base::bounds::{Full, Resource, Share};
use tideline_base::ids::PartitionId;
use tideline_model::{Asking, Effort, Error};
use tideline_store::partition::View;

use super::super::tables::Tables;

/// What expressions may look at among all other reads: 50 ms of a processor at the very worst.
pub(in super::super) const LIGHT_EFFORT: u64 = 64 << 10;

/// For so long a read that comes too early is held up before it is refused.
const EARLY: Duration = Duration::from_secs(1);

impl Tables {
    /// What the expressions of one request may look at.
    pub(in super::super) fn effort(&self) -> Effort {
        Effort::new(self.partitions().bounds().costs.expression_bytes_max)
    }

    /// One more of a resource for the caller.
    pub(in super::super) fn take(&self, resource: Resource) -> Result<Share, Error> {
        let bounds = self.partitions().bounds();
        let taken = bounds.of(resource).take(self.holder(), 1);
        taken.map_err(|_: Full| Error::Busy)
    }

    /// Runs a read of rows: with little effort first, and if that is not enough, again among the costly reads.
    pub(in super::super) async fn read_rows<R: Send + 'static>(
        &self,
        at: PartitionId,
        effort: &Effort,
        read: impl Fn(&View, &Asking<'_>) -> Result<R, Error> + Send + Sync + 'static,
    ) -> Result<R, Error> {
        let read = Arc::new(read);
        let again = Arc::clone(&read);
        let light = move |view: &View| {
            let effort = Effort::new(LIGHT_EFFORT);
            Ok(read(view, &Asking::light(&effort)))
        };
        match self.partitions().read(at, light).await? {
            Err(Error::ExpressionsTooCostly { .. }) => {}
            done => return done,
        }
        let effort = effort.clone();
        let costly = move |view: &View, is_asked: &dyn Fn() -> bool| {
            again(view, &Asking::whole(&effort, is_asked))
        };
        self.read_costly(at, costly).await?
    }

    /// Runs a read among the costly ones; `Busy` if the caller's have taken too much of a processor lately.
    pub(in super::super) async fn read_costly<R: Send + 'static>(
        &self,
        at: PartitionId,
        read: impl FnOnce(&View, &dyn Fn() -> bool) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let (pace, holder) = (Arc::clone(self.pace()), self.holder());
        if !pace.allows(holder, Instant::now()) {
            // Without a place. A caller that is refused at once and asks again keeps a processor busy with that alone.
            tokio::time::sleep(EARLY).await;
        }
        let place = self.take(Resource::CostlyReads)?;
        let bound = Arc::clone(self.partitions().bounds().of(Resource::CostlyReads));
        let read = move |view: &View, is_asked: &dyn Fn() -> bool| {
            // Not given back when the caller leaves: the processor is taken until the read ends.
            let _place = place;
            // Those that waited with it have perhaps taken all by now.
            if !pace.allows(holder, Instant::now()) {
                bound.refuse();
                return Ok(Err(Error::Busy));
            }
            let began = processor_time();
            let read = read(view, is_asked);
            let time = processor_time().saturating_sub(began);
            pace.took(holder, time, Instant::now());
            Ok(Ok(read))
        };
        self.partitions().read_costly(at, read).await?
    }
}

/// What this thread has taken of a processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
