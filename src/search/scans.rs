//! The sessions of scans: what was found at the first step stays until the last one.
//!
//! Owns: a snapshot of its index for each session. Promises: so many are kept for an index and in all; one that nobody
//! goes on with expires. Must not: know what is scanned.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tideline_base::bounds::Holder;
use tideline_base::ids::TableId;
use tideline_model::Error;
use tideline_model::search::InvalidSearch;

use crate::follow::Snapshot;

/// Sessions of one index, and of all; one caller has half of them at most.
const OF_INDEX_MAX: usize = 10;
const ALL_MAX: usize = 100;
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
    holder: Option<Holder>,
    snapshot: Option<Snapshot>,
    until: Instant,
}

impl Scans {
    /// Begins a session of a caller.
    pub(crate) fn begin(&self, index: TableId, holder: Option<Holder>) -> Result<Vec<u8>, Error> {
        let mut sessions = self.lock();
        let count = |is: &dyn Fn(&Session) -> bool| {
            let sessions = sessions.by_id.values();
            sessions.filter(|session| is(session)).count()
        };
        let is_own = |session: &Session| holder.is_some() && session.holder == holder;
        let is_full = count(&|session| session.index == index) >= OF_INDEX_MAX
            || count(&|session| session.index == index && is_own(session)) >= OF_INDEX_MAX / 2
            || count(&|_| true) >= ALL_MAX
            || count(&is_own) >= ALL_MAX / 2;
        if is_full {
            return Err(Error::Busy);
        }
        sessions.number += 1;
        let id = format!("{}-{}", random(), sessions.number).into_bytes();
        let session = Session {
            index,
            holder,
            snapshot: None,
            until: Instant::now() + ALIVE,
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
    use super::*;

    #[test]
    fn one_caller_leaves_half_of_the_sessions_to_others() {
        let (scans, index) = (Scans::default(), TableId(1));
        let (one, other) = (Some(Holder(1)), Some(Holder(2)));
        for _ in 0..OF_INDEX_MAX / 2 {
            scans.begin(index, one).unwrap();
        }
        assert_eq!(scans.begin(index, one), Err(Error::Busy));
        scans.begin(TableId(2), one).unwrap();
        for _ in 0..OF_INDEX_MAX / 2 {
            scans.begin(index, other).unwrap();
        }
        assert_eq!(scans.begin(index, Some(Holder(3))), Err(Error::Busy));
    }
}
