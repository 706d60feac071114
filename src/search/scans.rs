//! The sessions of scans: what was found at the first step stays until the last one.
//!
//! Owns: a snapshot of its index for each session. Promises: so many are kept, each for its caller; one that nobody
//! goes on with expires. Must not: know what is scanned.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tideline_base::bounds::{Bound, Holder, Share};
use tideline_base::ids::TableId;
use tideline_model::Error;
use tideline_model::search::InvalidSearch;

use crate::follow::Snapshot;

/// A session that no step has begun yet.
const ALIVE: Duration = Duration::from_secs(60);

/// See the top.
#[derive(Default)]
pub(crate) struct Scans {
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    /// Of the newest one.
    number: u64,
    by_id: BTreeMap<Vec<u8>, Session>,
}

struct Session {
    index: TableId,
    snapshot: Option<Snapshot>,
    until: Instant,
    _place: Share,
}

impl Scans {
    /// Begins a session of a caller.
    pub(crate) fn begin(
        &self,
        index: TableId,
        (bound, holder): (&Arc<Bound>, Option<Holder>),
    ) -> Result<Vec<u8>, Error> {
        // Those that have expired give their places back.
        let mut sessions = self.lock();
        let place = bound.take(holder, 1).map_err(|_| Error::Busy)?;
        sessions.number += 1;
        let id = format!("{}-{}", random(), sessions.number).into_bytes();
        let session = Session {
            index,
            snapshot: None,
            until: Instant::now() + ALIVE,
            _place: place,
        };
        sessions.by_id.insert(id.clone(), session);
        Ok(id)
    }

    /// What a session has found before, if it has; it lives on for so long.
    pub(crate) fn step(
        &self,
        id: &[u8],
        index: TableId,
        alive: Duration,
    ) -> Result<Option<Snapshot>, Error> {
        let mut sessions = self.lock();
        let session = sessions.by_id.get_mut(id);
        let session = session.filter(|session| session.index == index);
        let session = session.ok_or(Error::Search(InvalidSearch::Session))?;
        session.until = Instant::now() + alive;
        Ok(session.snapshot.clone())
    }

    /// Keeps what the first step of a session reads.
    pub(crate) fn keep(&self, id: &[u8], snapshot: Snapshot) {
        if let Some(session) = self.lock().by_id.get_mut(id) {
            session.snapshot = Some(snapshot);
        }
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &[u8]) {
        self.lock().by_id.remove(id);
    }

    /// Without those that have expired.
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        sessions.by_id.retain(|_, session| session.until > now);
        sessions
    }
}

/// Not to be guessed, nor met again after a restart.
fn random() -> String {
    tideline_base::ids::HistoryId::random().to_string()
}

#[cfg(test)]
mod tests {
    use tideline_base::bounds::{Bounds, Costs, Resource};
    use tideline_base::metrics::Metrics;

    use super::*;

    #[test]
    fn one_caller_leaves_sessions_to_others_and_gets_back_those_that_have_expired() {
        let bounds = Bounds::new(|_| 4, 50, Costs::UNBOUNDED, &Metrics::default());
        let (scans, index) = (Scans::default(), TableId(1));
        let begin = |caller| {
            let of = (bounds.of(Resource::Scans), Some(Holder(caller)));
            scans.begin(index, of)
        };
        let first = begin(1).unwrap();
        begin(1).unwrap();
        assert_eq!(begin(1), Err(Error::Busy));
        begin(2).unwrap();
        scans.step(&first, index, Duration::ZERO).unwrap();
        begin(1).unwrap();
        begin(2).unwrap();
        assert_eq!(begin(3), Err(Error::Busy));
    }
}
