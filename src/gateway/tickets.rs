//! Tickets: what a page of a browser shows in an address in place of a credential, as it can set no header.
//!
//! Owns: which tickets there are, and of whom. Promises: a ticket counts once, within [`LIFE`], for the credential that
//! asked for it and no longer than that counts; one caller can't take all places. Must not: write a ticket into a log.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::dispatch::wait::too_many;
use crate::credentials::Credential;
use tideline_base::bounds::{Bound, Holder, Share};
use tideline_wire::Failure;

/// How long a ticket counts.
pub(super) const LIFE: Duration = Duration::from_secs(30);

/// Whose a ticket is.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    /// Of a caller that has shown a credential.
    Known(Credential),
    /// Of the user that is believed, where no credential is asked for; empty = of none.
    Believed(String),
}

impl Owner {
    /// What was shown.
    pub(super) fn credential(self) -> Option<Credential> {
        match self {
            Owner::Known(credential) => Some(credential),
            Owner::Believed(_) => None,
        }
    }
}

/// All of them.
pub(super) struct Tickets {
    bound: Arc<Bound>,
    given: Mutex<Given>,
}

#[derive(Default)]
struct Given {
    owners: HashMap<String, (Owner, Share)>,
    /// The oldest first.
    ends: VecDeque<(Instant, String)>,
}

impl Tickets {
    pub(super) fn new(bound: Arc<Bound>) -> Tickets {
        Tickets {
            bound,
            given: Mutex::default(),
        }
    }

    /// A new one.
    pub(super) fn give(&self, owner: Owner, holder: Option<Holder>) -> Result<String, Failure> {
        let now = Instant::now();
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.forget(now);
        let mut share = self.bound.share(holder);
        if let Err(full) = share.change(1) {
            return Err(too_many(&share, full));
        }
        // 122 random bits.
        let ticket = uuid::Uuid::new_v4().simple().to_string();
        given.owners.insert(ticket.clone(), (owner, share));
        given.ends.push_back((now + LIFE, ticket.clone()));
        Ok(ticket)
    }

    /// Takes one: it counts no more.
    pub(super) fn take(&self, ticket: &str) -> Option<Owner> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.forget(Instant::now());
        given.owners.remove(ticket).map(|(owner, _)| owner)
    }
}

impl Given {
    /// Forgets those whose time has ended.
    fn forget(&mut self, now: Instant) {
        while let Some((ends, _)) = self.ends.front()
            && *ends <= now
            && let Some((_, ticket)) = self.ends.pop_front()
        {
            self.owners.remove(&ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tideline_base::bounds::{Bounds, Costs, Resource};
    use tideline_base::metrics::Metrics;
    use tideline_wire::Reason;

    #[test]
    fn a_ticket_counts_once_and_not_for_long() {
        let bounds = Bounds::new(|_| 8, 25, Costs::UNBOUNDED, &Metrics::default());
        let tickets = Tickets::new(Arc::clone(bounds.of(Resource::Tickets)));
        let give = |of: u64| tickets.give(Owner::Believed(of.to_string()), Some(Holder(of)));
        let (one, two) = (give(1).unwrap(), give(1).unwrap());
        assert_eq!(give(1).unwrap_err().reason, Reason::TooMany);
        let other = give(2).unwrap();
        assert!(matches!(tickets.take(&one), Some(Owner::Believed(user)) if user == "1"));
        assert!(tickets.take(&one).is_none() && tickets.take("").is_none());
        let three = give(1).unwrap();
        tickets.given.lock().unwrap().forget(Instant::now() + LIFE);
        for late in [two, three, other] {
            assert!(tickets.take(&late).is_none());
        }
        assert!(give(1).is_ok() && tickets.given.lock().unwrap().ends.len() == 1);
    }
}
