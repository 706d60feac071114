//! What an owner that hands the log over does with requests that it refuses because of that: their clients have come to
//! it, and its successor answers them.
//!
//! Owns: what is kept of requests for it. Promises: only what this node has not begun is passed on, once; else its own
//! refusal stands. Must not: pass on what another node has passed on: that one asks the successor itself.

use std::sync::{Arc, OnceLock};

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, UPGRADE};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::super::Shared;
use super::super::entrance::Ends;
use super::super::http::kept::{KEPT_BYTES, Kept};
use super::super::http::respond::{Answer, NotBegun, set};
use super::NodeRole;
use super::hail::Hail;
use super::pass::{Passer, Passing};
use super::passed::is_anothers;

/// See the file's opening.
pub(in super::super) struct Successor {
    /// Made once somebody needs it.
    passer: OnceLock<Arc<Passer>>,
    room: Arc<Semaphore>,
}

impl Default for Successor {
    fn default() -> Successor {
        Successor {
            passer: OnceLock::new(),
            room: Arc::new(Semaphore::new(KEPT_BYTES)),
        }
    }
}

impl Successor {
    /// Keeps a request, before it is looked at. `None` = it is for this node alone.
    pub(in super::super) fn keep(
        &self,
        request: &mut Request<Incoming>,
        shared: &Shared,
    ) -> Option<Arc<Kept>> {
        let is_kept = shared.options.nodes.is_some() && !request.headers().contains_key(UPGRADE);
        is_kept.then(|| Kept::of(request, &self.room))
    }

    /// An answer; in place of a refusal the successor's, if there is one.
    pub(in super::super) async fn answer(
        &self,
        answer: Answer,
        kept: Option<Arc<Kept>>,
        (ends, shared): (&Ends, &Shared),
    ) -> Answer {
        let Some(kept) = kept else {
            return answer;
        };
        let mut answer = match answer.extensions().get::<NotBegun>().is_some() {
            true => self.anothers(&kept, (ends, shared)).await.unwrap_or(answer),
            false => answer,
        };
        if shared.draining.is_cancelled() {
            // The next request must not cross with the close.
            set(&mut answer, CONNECTION, "close");
        }
        answer
    }

    async fn anothers(&self, kept: &Kept, (ends, shared): (&Ends, &Shared)) -> Option<Answer> {
        let (head, body) = kept.whole()?;
        let nodes = shared.options.nodes.as_ref()?;
        let cluster = shared.options.cluster.as_ref()?;
        // One that ends without a successor is still the owner.
        if !is_anothers(shared).await || cluster.status().role == NodeRole::Owner {
            return None;
        }
        let passer = self.passer.get_or_init(|| {
            let options = &shared.options;
            let by = (TaskTracker::new(), shared.cut.clone());
            Arc::new(Passer::new(
                Arc::clone(cluster),
                Arc::clone(nodes),
                (options.request_time_max, options.metrics.cluster()),
                by,
            ))
        });
        let hail = Hail {
            node: passer.me().to_owned(),
            client: ends.peer,
            local: ends.local,
            is_secure: ends.is_secure,
            certificates: ends.certificates.to_vec(),
        };
        let passing = Passing::new(Arc::clone(passer), hail);
        passing.pass_refused(head, body).await
    }
}
