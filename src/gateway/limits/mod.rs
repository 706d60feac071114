//! What one address, one user and one API key may take of the server.
//!
//! Owns: the counts of their connections and the rates of what they do. Promises: without limits nothing is looked up;
//! what is remembered of them is bounded; changed limits leave the counts as they are. Must not: know what a user or a
//! key may do.

mod rate;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use super::entrance::address::block;
use rate::Rate;
use tideline_base::bounds::Holder;
use tideline_base::metrics::{
    ADDRESS_CONNECTIONS, ADDRESS_FAILURES, ADDRESS_HANDSHAKES, KEY_BYTES, KEY_CONNECTIONS,
    KEY_REQUESTS, USER_BYTES, USER_CONNECTIONS, USER_REQUESTS,
};
use tideline_model::access::{Asker, Identity};
use tideline_wire::centrifuge::ANONYMOUS;
use tideline_wire::{Call, Failure, Incoming, Reason};

/// Limits, as `[limits]` says them; 0 = none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitOptions {
    /// Of one address.
    pub address: AddressLimits,
    /// Of one user.
    pub user: CallerLimits,
    /// Of one API key.
    pub key: CallerLimits,
}

/// What one address may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AddressLimits {
    /// Open connections.
    pub connections: u32,
    /// Connections that it opens in a second.
    pub handshakes_per_s: u32,
    /// Credentials that are refused in a minute.
    pub failures_per_min: u32,
}

impl Default for AddressLimits {
    fn default() -> AddressLimits {
        AddressLimits {
            connections: 0,
            handshakes_per_s: 0,
            failures_per_min: 60,
        }
    }
}

/// What one user or key may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallerLimits {
    /// Open WebSocket connections.
    pub connections: u32,
    /// Calls in a second.
    pub requests_per_s: u32,
    /// Bytes of calls in a second.
    pub bytes_per_s: u32,
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) limit: &'static str,
    max: u32,
    pub(super) retry_after: Duration,
}

impl Reached {
    /// For `Retry-After`.
    pub(super) fn retry_after_s(&self) -> u64 {
        self.retry_after
            .as_millis()
            .div_ceil(1_000)
            .max(1)
            .try_into()
            .unwrap_or(u64::MAX)
    }
}

impl From<Reached> for Failure {
    fn from(reached: Reached) -> Failure {
        let max = u64::from(reached.max);
        let wait_ms = u32::try_from(reached.retry_after.as_millis()).unwrap_or(u32::MAX);
        Failure::new(Reason::RateLimited)
            .saying(format!("more than [limits] {} allows", reached.limit))
            .over(max, max + 1)
            .named(reached.limit)
            .retry_after(wait_ms.saturating_add(1))
    }
}

/// The limits in force, and what counts against them.
pub(super) struct Limits {
    rules: ArcSwap<Rules>,
    hasher: RandomState,
    addresses: Arc<Counts>,
    users: Arc<Counts>,
    keys: Arc<Counts>,
}

struct Rules {
    options: LimitOptions,
    handshakes: Option<Rate>,
    failures: Option<Rate>,
    user: Rates,
    key: Rates,
}

/// How fast one user or key may call.
struct Rates {
    requests: Option<Rate>,
    bytes: Option<Rate>,
}

/// Whose limits calls count against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payer<'p> {
    pub(super) user: Option<&'p str>,
    /// The ID of a key.
    pub(super) key: Option<&'p str>,
}

impl<'p> From<&'p Asker> for Payer<'p> {
    fn from(asker: &'p Asker) -> Payer<'p> {
        Payer {
            user: Some(asker.user()).filter(|user| !user.is_empty()),
            key: asker.claim().and_then(|claim| claim.identity().key()),
        }
    }
}

impl<'p> Payer<'p> {
    /// The rates that there are, each with the name that it counts by.
    fn counted_by(self, rules: &Rules) -> impl Iterator<Item = (&Rates, &'p str)> {
        let both = [(&rules.user, self.user), (&rules.key, self.key)];
        let counted = both.into_iter().filter(|(rates, _)| !rates.are_none());
        counted.filter_map(|(rates, of)| Some((rates, of?)))
    }
}

/// One WebSocket, counted among those of its user and of its key.
#[derive(Debug, Default)]
pub(super) struct CallerGuards {
    user: Option<ConnectionGuard>,
    key: Option<ConnectionGuard>,
}

impl Limits {
    pub(super) fn new(options: LimitOptions) -> Limits {
        Limits {
            rules: ArcSwap::from_pointee(Rules::new(options)),
            hasher: RandomState::new(),
            addresses: Arc::default(),
            users: Arc::default(),
            keys: Arc::default(),
        }
    }

    /// Puts other limits in force. What was used up of a rate is forgotten.
    pub(super) fn set(&self, options: LimitOptions) {
        if self.rules.load().options != options {
            self.rules.store(Arc::new(Rules::new(options)));
        }
    }

    /// An address opens a connection.
    pub(super) fn arrive(&self, ip: IpAddr) -> Result<ConnectionGuard, Reached> {
        let rules = self.rules.load();
        let key = self.key(&block(ip));
        if let Some(rate) = &rules.handshakes {
            rate.take(key, 1)?;
        }
        let max = rules.options.address.connections;
        Counts::enter(&self.addresses, key, ADDRESS_CONNECTIONS, max)
    }

    /// A credential of an address was refused.
    pub(super) fn fail(&self, ip: IpAddr) -> Result<(), Reached> {
        match &self.rules.load().failures {
            Some(rate) => rate.take(self.key(&block(ip)), 1),
            None => Ok(()),
        }
    }

    /// A connection becomes one of a user.
    pub(super) fn enter(&self, user: &str, guards: &mut CallerGuards) -> Result<(), Reached> {
        let max = self.rules.load().options.user.connections;
        let guard = Counts::enter(&self.users, self.key(user), USER_CONNECTIONS, max)?;
        guards.user = Some(guard);
        Ok(())
    }

    /// A connection becomes one of a user, a key, or a key that acts for a user.
    pub(super) fn enter_as(&self, identity: &Identity) -> Result<CallerGuards, Reached> {
        let mut guards = CallerGuards::default();
        if let Some(user) = identity.user() {
            self.enter(user, &mut guards)?;
        }
        if let Some(id) = identity.key() {
            let max = self.rules.load().options.key.connections;
            let guard = Counts::enter(&self.keys, self.key(id), KEY_CONNECTIONS, max)?;
            guards.key = Some(guard);
        }
        Ok(guards)
    }

    /// Refuses those calls that go too far for their user or their key; they came in so many bytes.
    pub(super) fn bound(&self, payer: Payer<'_>, incoming: &mut Incoming, bytes: usize) {
        let bytes = bytes / incoming.calls().len().max(1);
        for call in incoming.calls_mut() {
            self.bound_one(payer, call, bytes);
        }
    }

    /// Refuses a call of so many bytes if it goes too far for its user or its key.
    pub(super) fn bound_one(&self, payer: Payer<'_>, call: &mut Call, bytes: usize) {
        if call.request.is_ok()
            && let Err(reached) = self.take(payer, bytes)
        {
            call.request = Err(reached.into());
        }
    }

    /// A call of so many bytes.
    pub(super) fn take(&self, payer: Payer<'_>, bytes: usize) -> Result<(), Reached> {
        let rules = self.rules.load();
        let mut counted = payer.counted_by(&rules);
        counted.try_for_each(|(rates, of)| rates.take(self.key(of), bytes))
    }

    /// The holder in whose shares the calls of an asker count; `None` = the asker is not known.
    pub(super) fn holder(&self, asker: &Asker) -> Option<Holder> {
        match asker.claim() {
            Some(claim) => self.holder_of(claim.identity()),
            None => self.holder_by(None, Some(asker.user())),
        }
    }

    /// The same of a caller that has shown a credential.
    pub(super) fn holder_of(&self, identity: &Identity) -> Option<Holder> {
        self.holder_by(identity.key(), identity.user())
    }

    /// The same of a key that signs.
    pub(super) fn holder_of_key(&self, id: &str) -> Option<Holder> {
        self.holder_by(Some(id), None)
    }

    /// A key's calls are the key's, for whomever it acts: it may name as many users as it likes.
    fn holder_by(&self, key: Option<&str>, user: Option<&str>) -> Option<Holder> {
        let by = match (key, user) {
            (Some(id), _) => self.key(&(true, id)),
            (None, Some(user)) if !user.is_empty() && user != ANONYMOUS => self.key(&(false, user)),
            _ => return None,
        };
        Some(Holder(by))
    }

    /// A hash in place of the name. Two names with the same hash share a limit: that is rarer than one in a million.
    fn key(&self, of: &(impl Hash + ?Sized)) -> u64 {
        self.hasher.hash_one(of)
    }
}

impl Rules {
    fn new(options: LimitOptions) -> Rules {
        Rules {
            options,
            handshakes: Rate::new(ADDRESS_HANDSHAKES, options.address.handshakes_per_s),
            failures: Rate::per_minute(ADDRESS_FAILURES, options.address.failures_per_min),
            user: Rates {
                requests: Rate::new(USER_REQUESTS, options.user.requests_per_s),
                bytes: Rate::new(USER_BYTES, options.user.bytes_per_s),
            },
            key: Rates {
                requests: Rate::new(KEY_REQUESTS, options.key.requests_per_s),
                bytes: Rate::new(KEY_BYTES, options.key.bytes_per_s),
            },
        }
    }
}

impl Rates {
    fn are_none(&self) -> bool {
        self.requests.is_none() && self.bytes.is_none()
    }

    /// A call of so many bytes.
    fn take(&self, key: u64, bytes: usize) -> Result<(), Reached> {
        for (rate, count) in [(&self.requests, 1), (&self.bytes, bytes)] {
            if let Some(rate) = rate {
                rate.take(key, count)?;
            }
        }
        Ok(())
    }
}

/// How many connections there are of each.
#[derive(Debug, Default)]
struct Counts(Mutex<HashMap<u64, u32>>);

/// A connection is counted until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    counts: Arc<Counts>,
    key: u64,
}

impl Counts {
    fn enter(
        counts: &Arc<Counts>,
        key: u64,
        limit: &'static str,
        max: u32,
    ) -> Result<ConnectionGuard, Reached> {
        let mut open = counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.entry(key).or_default();
        if max > 0 && *open >= max {
            return Err(Reached {
                limit,
                max,
                retry_after: CONNECTIONS_PAUSE,
            });
        }
        *open += 1;
        Ok(ConnectionGuard {
            counts: Arc::clone(counts),
            key,
        })
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut open = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = open.entry(self.key) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// Nobody knows when a connection will be closed.
const CONNECTIONS_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_of_an_address_are_counted_until_they_are_closed() {
        let mut options = LimitOptions::default();
        options.address.connections = 2;
        let limits = Limits::new(LimitOptions::default());
        let many: Vec<ConnectionGuard> =
            (0..9).map(|_| limits.arrive(ip("::1")).unwrap()).collect();
        limits.set(options);
        assert!(
            limits.arrive(ip("::2")).is_err(),
            "counted before, and of the same /64"
        );
        drop(many);
        let one = limits.arrive(ip("192.0.2.1")).unwrap();
        let _two = limits.arrive(ip("192.0.2.1")).unwrap();
        let reached = limits.arrive(ip("192.0.2.1")).unwrap_err();
        assert_eq!(
            (reached.limit, reached.retry_after_s()),
            (ADDRESS_CONNECTIONS, 5)
        );
        let _other = limits.arrive(ip("192.0.2.2")).unwrap();
        drop(one);
        let _again = limits.arrive(ip("192.0.2.1")).unwrap();
        drop((_two, _other, _again));
        assert!(
            limits.addresses.0.lock().unwrap().is_empty(),
            "nothing is kept"
        );
    }
}
