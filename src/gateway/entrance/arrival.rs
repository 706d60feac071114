//! Connections of strangers: they have asked for nothing yet, or on a server with `[auth]` are WebSockets that have
//! shown no credential.
//!
//! Owns: how many there are. Promises: more of them wait before they are accepted, and slow strangers make room for
//! them. Must not: know what is asked.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use tideline_base::metrics::{ARRIVALS, Metrics};

/// The places of such connections.
pub(in super::super) struct Arrivals {
    places: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

/// A connection, from when it was accepted until its first request has come; of a WebSocket on a server with `[auth]`,
/// until its credential has.
pub(in super::super) struct Arrival {
    place: Mutex<Option<OwnedSemaphorePermit>>,
    places: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Arrivals {
    pub(in super::super) fn new(metrics: &Arc<Metrics>) -> Arrivals {
        Arrivals {
            places: Arc::new(Semaphore::new(ARRIVALS_MAX)),
            metrics: Arc::clone(metrics),
        }
    }

    /// Waits for a place.
    pub(in super::super) async fn next(&self) -> Arrival {
        let place = Arc::clone(&self.places).acquire_owned().await;
        Arrival {
            // Never closed.
            place: Mutex::new(place.ok()),
            places: Arc::clone(&self.places),
            metrics: Arc::clone(&self.metrics),
        }
    }
}

impl Arrival {
    /// What was waited for has come: the place is free.
    pub(in super::super) fn arrived(&self) {
        let place = self.place.lock();
        place.unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The connection becomes a WebSocket without a credential after other requests: it takes a place again. `false` =
    /// there is none.
    pub(in super::super) fn returns(&self) -> bool {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            *place = Arc::clone(&self.places).try_acquire_owned().ok();
        }
        if place.is_none() {
            self.metrics.refused(ARRIVALS, 1);
        }
        place.is_some()
    }

    fn has_arrived(&self) -> bool {
        let place = self.place.lock();
        place.unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether others wait for its place; if so, its connection is to leave.
    pub(in super::super) fn is_in_the_way(&self) -> bool {
        !self.has_arrived() && self.places.available_permits() == 0
    }

    /// Ends if it has taken its time while others waited for its place.
    pub(in super::super) async fn outstays(&self) {
        loop {
            sleep(PATIENCE).await;
            if self.has_arrived() {
                return pending().await;
            }
            if self.is_in_the_way() {
                return self.metrics.refused(ARRIVALS, 1);
            }
        }
    }
}

/// Each takes a TLS handshake's memory, and any stranger can open one.
const ARRIVALS_MAX: usize = 1_024;
/// What a stranger is given while others wait; a handshake and a request take a fraction of it.
pub(in super::super) const PATIENCE: Duration = Duration::from_secs(1);
