//! Whether what this node shows is all that there is.
//!
//! Owns: the proof that every answer needs where another node may own the log by now. Promises: what was acknowledged
//! before the call, on whatever node, is shown when it is given; a node that can't say so gives none. Must not: wait
//! where nobody shares the log, or where the owner's lease lasts.

use std::future::Future;
use std::time::{Duration, Instant};

use super::super::shared::Shared;
use super::super::{Partitions, ReadError, Tail, View};
use super::ONLY;
use tideline_base::faults;

/// What an owner's log has is shown within this time, or the read fails.
const SHOWN_WAIT: Duration = Duration::from_secs(5);

impl Shared {
    /// Whether all that was acknowledged before this call is shown here, without asking the log.
    pub(in super::super) fn proves(&self) -> bool {
        let line = self.line.as_ref();
        line.is_none_or(|line| line.proves() || faults::is_named("member_proves_itself"))
    }

    /// Has that so, and asks the log for it if need be. `Err` also where another node has to be asked. Blocks.
    pub(in super::super) fn prove(&self) -> Result<(), ReadError> {
        let Some(line) = self.line.as_ref().filter(|_| !self.proves()) else {
            return Ok(());
        };
        let elsewhere = || ReadError::new("this node of the cluster does not own the log");
        let upto = line.read().ok_or_else(elsewhere)?;
        let began = Instant::now();
        while self.tail() < upto {
            // It is in the log here, and is about to be shown.
            if began.elapsed() > SHOWN_WAIT {
                return Err(ReadError::new("the cluster's log goes on too slowly"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Takes a view that shows all that was acknowledged before this call. Blocks.
    pub(in super::super) fn proven(&self) -> Result<View, ReadError> {
        // Before: what was acknowledged until then is shown. After: no other node had written when the view was taken.
        let was_proven = self.proves();
        let view = self.view()?;
        if was_proven && self.proves() {
            return Ok(view);
        }
        self.prove()?;
        self.view()
    }
}

impl Partitions {
    /// Waits until all that was acknowledged before this call, on whatever node, is shown here: for answers that no
    /// view gives. `Err` where another node has to be asked.
    pub fn proof(&self) -> impl Future<Output = Result<(), ReadError>> + Send + use<> {
        let set = self.inner.set.load();
        let is_proven = set.at(ONLY).is_none_or(|partition| partition.proves());
        // It is asked again there, as for all reads of logs.
        let asking = (!is_proven).then(|| self.read_logs(|| Ok(())));
        async move {
            match asking {
                Some(asking) => asking.await,
                None => Ok(()),
            }
        }
    }
}

impl Tail {
    /// Whether all that was acknowledged before this call is shown here. `false`: a view of a read proves it.
    #[must_use]
    pub fn proves(&self) -> bool {
        self.live_partition()
            .is_none_or(|partition| partition.proves())
    }
}
