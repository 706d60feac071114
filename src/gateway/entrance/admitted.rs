//! The caller of one HTTP request, for as long as that takes: the native protocol, `/api` and Tablestore's.
//!
//! Owns: the credential and the claim of a request, and what its commands cost of its caller's limits. Promises: a
//! command begins only while the credential counts; what reads or waits ends with the credential, and none of its
//! result is sent; a change that has begun is done to its end and answered, also with others in one body. Must not:
//! know a protocol: each says a refusal in its own words.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::timeout;

use super::super::Shared;
use super::super::limits::Payer;
use super::door::Door;
use crate::credentials::Credential;
use tideline_model::access::{Asker, Rights};
use tideline_wire::{Failure, Incoming, Reason, Request};

/// The caller.
pub(in super::super) struct Admitted {
    shared: Arc<Shared>,
    /// `None` = nobody asks for one: there is no `[auth]`, or the key of the configuration was shown.
    shown: Option<Credential>,
    asker: Asker,
    /// What its limits count by, if it is no API key.
    key: Option<&'static str>,
}

/// What commands do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Does {
    /// It reads or waits.
    Reads,
    /// It changes what is stored, and is answered once it has begun.
    Changes,
    /// Several commands that are answered together, of either kind.
    Both,
}

impl Does {
    /// What the calls of one body do.
    pub(in super::super) fn of(incoming: &Incoming) -> Does {
        let mut requests = incoming.calls().iter().flat_map(|call| &call.request);
        let changes = |request: &Request| request.method().has_effect();
        let first = requests.next().map(changes);
        match first {
            Some(first) if requests.any(|request| changes(request) != first) => Does::Both,
            Some(true) => Does::Changes,
            Some(false) | None => Does::Reads,
        }
    }

    /// The answer must reach the caller: by it the caller learns what was changed.
    pub(in super::super) fn changes(self) -> bool {
        self != Does::Reads
    }
}

impl Admitted {
    /// A caller that has shown a good credential.
    pub(in super::super) fn by(
        shared: &Arc<Shared>,
        door: &Door,
        credential: Credential,
    ) -> Admitted {
        Admitted {
            shared: Arc::clone(shared),
            asker: Asker::with_claim(door.claim_of_request(&credential), Rights::NONE),
            shown: Some(credential),
            key: None,
        }
    }

    /// A caller that is believed: a user, or with `key` a back end that has shown that key of the configuration.
    pub(in super::super) fn believed(
        shared: &Arc<Shared>,
        asker: Asker,
        key: Option<&'static str>,
    ) -> Admitted {
        Admitted {
            shared: Arc::clone(shared),
            shown: None,
            asker,
            key,
        }
    }

    /// What it has shown.
    pub(in super::super) fn shown(&self) -> Option<&Credential> {
        self.shown.as_ref()
    }

    /// The asker, for nothing yet.
    pub(in super::super) fn asker(&self) -> &Asker {
        &self.asker
    }

    fn payer(&self) -> Payer<'_> {
        let payer = Payer::from(&self.asker);
        Payer {
            key: self.key.or(payer.key),
            ..payer
        }
    }

    /// Whether the credential counts.
    pub(in super::super) fn check(&self) -> Result<(), Failure> {
        let (Some(door), Some(credential)) = (&self.shared.door, &self.shown) else {
            return Ok(());
        };
        match door.still_counts(credential, &self.shared.clock) {
            true => Ok(()),
            false => Err(Reason::Unauthenticated.into()),
        }
    }

    /// A command of so many bytes may begin: the credential counts, and the limits allow it.
    pub(in super::super) fn begins(&self, bytes: usize) -> Result<(), Failure> {
        self.check()?;
        let taken = self.shared.per_client.take(self.payer(), bytes);
        Ok(taken.inspect_err(|reached| self.shared.metrics.refused(reached.limit, 1))?)
    }

    /// Refuses those of several calls that are above a limit of their caller; they came in so many bytes.
    pub(in super::super) fn bound(&self, incoming: &mut Incoming, bytes: usize) {
        let limits = &self.shared.per_client;
        limits.bound(self.payer(), incoming, bytes);
    }

    /// Does work that has not begun, while no split, merge or hand-over is about to begin. Those wait for work that
    /// may write, and not for calls that wait for news. `Err` = the credential counts no more.
    pub(in super::super) async fn perform<T>(
        &self,
        does: Does,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let inside = match self.shared.gate.enter() {
            None => {
                // When the server ends, calls that wait here go on: they are refused, and a cluster's next owner is
                // asked.
                let passing = self.shared.gate.clone().pass();
                self.shared.draining.run_until_cancelled(passing).await
            }
            inside => inside,
        };
        let _inside = inside.filter(|_| does.changes());
        // The body, or the gate, may have taken its time.
        self.check()?;
        match does {
            Does::Changes => Ok(work.await),
            Does::Reads => self.while_it_counts(work).await,
            Does::Both => Ok(self.to_its_end(work).await),
        }
    }

    /// The work, unless the credential counts no more before it is done.
    pub(in super::super) async fn while_it_counts<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let mut over = pin!(self.over());
        let mut work = pin!(work);
        let done = poll_fn(|context| match over.as_mut().poll(context) {
            Poll::Ready(failure) => Poll::Ready(Err(failure)),
            Poll::Pending => work.as_mut().poll(context).map(Ok),
        });
        let done = done.await?;
        self.check().map(|()| done)
    }

    /// The work, to its end. If the credential counts no more before that, the claim has ended: what the work decides
    /// or reads from then on is refused, each call by itself.
    async fn to_its_end<T>(&self, work: impl Future<Output = T>) -> T {
        let over = pin!(self.over());
        let work = pin!(work);
        match select(over, work).await {
            Either::Left((_, work)) => work.await,
            Either::Right((done, _)) => done,
        }
    }

    /// Waits until the credential does not count any more.
    async fn over(&self) -> Failure {
        let (Some(door), Some(credential)) = (&self.shared.door, &self.shown) else {
            return std::future::pending().await;
        };
        let mut versions = door.authority.versions();
        while door.still_counts(credential, &self.shared.clock) {
            let ends_at = credential.ends_at.unwrap_or(u64::MAX);
            let rest_ms = ends_at.saturating_sub(self.shared.clock.now_ms());
            // The timeout is no error: it only means to look again.
            let rest = Duration::from_millis(rest_ms.min(LOOK_MS));
            let _ = timeout(rest, versions.changed()).await;
        }
        if let Some(claim) = self.asker.claim() {
            claim.end();
        }
        Reason::Unauthenticated.into()
    }
}

/// The clock may be set meanwhile.
const LOOK_MS: u64 = 60_000;
