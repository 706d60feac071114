//! Calls that wait for news.
//!
//! Owns: what such a call holds while it waits. Promises: every waiting call, whichever way it comes, counts among the
//! watched timelines of the server and in its caller's share of them. Must not: know what is waited for.

use tokio::sync::watch;

use super::super::entrance::door::Door;
use super::{Shared, refusal};
use tideline_base::bounds::{Full, Share};
use tideline_base::metrics::Held;
use tideline_model::access::Asker;
use tideline_wire::{Failure, Reason};

/// A call that waits.
pub(in super::super) struct Wait {
    /// Changes when the rules do.
    pub(in super::super) turns: Option<watch::Receiver<u64>>,
    watched: Share,
    _counted: Held,
}

impl Wait {
    /// Begins to wait for news of so many timelines.
    pub(in super::super) fn begin(
        shared: &Shared,
        asker: &Asker,
        timelines: usize,
    ) -> Result<Wait, Failure> {
        let mut wait = Wait {
            turns: shared.door.as_ref().map(Door::turns),
            watched: shared.watched.share(shared.per_client.holder(asker)),
            _counted: shared.metrics.feed.waits.hold(1),
        };
        wait.follow(timelines)?;
        Ok(wait)
    }

    /// It waits for news of so many timelines now.
    pub(super) fn follow(&mut self, timelines: usize) -> Result<(), Failure> {
        // The call itself counts too.
        let watched = self.watched.change(timelines + 1);
        watched.map_err(|full| too_many(&self.watched, full))
    }

    /// It ends without news, if there is none.
    pub(in super::super) async fn ends<T>(self, shared: &Shared, none: T) -> Result<T, Failure> {
        shared.timelines.proof().await.map_err(refusal)?;
        Ok(none)
    }
}

/// The answer to a call that has waited. If the log was handed over meanwhile, nobody can look again here: the answer
/// is then what the call saw first, of which it had proof.
pub(super) fn unless_handed_over<T>(
    shared: &Shared,
    waited: Result<T, Failure>,
    first: T,
) -> Result<T, Failure> {
    match waited {
        Err(failure) if failure.reason == Reason::Unavailable && shared.gate.is_shut() => Ok(first),
        waited => waited,
    }
}

/// The refusal of a caller that would hold too much. It is counted with the call's answer.
pub(in super::super) fn too_many(share: &Share, full: Full) -> Failure {
    let bound = share.bound();
    let name = bound.resource.name();
    match full {
        Full::Everything => {
            let failure = Failure::new(Reason::Busy).saying("all that callers may hold is in use");
            failure.named(name).retry_after(PAUSE_MS)
        }
        Full::Share => {
            let limit = bound.share_max as u64;
            let failure = Failure::new(Reason::TooMany).saying("more than one caller may hold");
            failure.named(name).over(limit, limit + 1)
        }
    }
}

/// How long to wait is a guess: nobody knows when others end.
const PAUSE_MS: u32 = 1_000;
