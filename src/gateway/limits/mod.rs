//! What one address and one user may take of the server.
//!
//! Owns: the counts of their connections and the rates of what they do. Promises: without limits nothing is looked up;
//! what is remembered of addresses and users is bounded; other limits than before leave the counts as they are. Must
//! not: know who a user is.

mod rate;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::address::block;
use crate::metrics::{
    ADDRESS_CONNECTIONS, ADDRESS_HANDSHAKES, USER_BYTES, USER_CONNECTIONS, USER_REQUESTS,
};
use crate::wire::{Failure, Incoming, Reason};
use rate::Rate;

/// Limits; 0 = none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitOptions {
    /// Open connections of one address.
    pub address_connections: u32,
    /// Connections that one address opens in a second.
    pub address_handshakes_per_s: u32,
    /// Open WebSocket connections of one user.
    pub user_connections: u32,
    /// Calls of one user in a second.
    pub user_requests_per_s: u32,
    /// Bytes of one user's calls in a second.
    pub user_bytes_per_s: u32,
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
}

struct Rules {
    options: LimitOptions,
    handshakes: Option<Rate>,
    requests: Option<Rate>,
    bytes: Option<Rate>,
}

impl Limits {
    pub(super) fn new(options: LimitOptions) -> Limits {
        Limits {
            rules: ArcSwap::from_pointee(Rules::new(options)),
            hasher: RandomState::new(),
            addresses: Arc::default(),
            users: Arc::default(),
        }
    }

    /// Puts other limits in force. What was used up of a rate is forgotten.
    pub(super) fn set(&self, options: LimitOptions) {
        if self.rules.load().options != options {
            self.rules.store(Arc::new(Rules::new(options)));
        }
    }

    /// An address opens a connection.
    pub(super) fn arrive(&self, ip: IpAddr) -> Result<Place, Reached> {
        let rules = self.rules.load();
        let key = self.key(&block(ip));
        if let Some(rate) = &rules.handshakes {
            rate.take(key, 1)?;
        }
        let max = rules.options.address_connections;
        Counts::enter(&self.addresses, key, ADDRESS_CONNECTIONS, max)
    }

    /// A connection becomes one of a user.
    pub(super) fn enter(&self, user: &str) -> Result<Place, Reached> {
        let max = self.rules.load().options.user_connections;
        Counts::enter(&self.users, self.key(user), USER_CONNECTIONS, max)
    }

    /// Refuses those calls of a user that go too far; they came in so many bytes.
    pub(super) fn bound(&self, user: &str, incoming: &mut Incoming, bytes: usize) {
        if user.is_empty() {
            return;
        }
        let rules = self.rules.load();
        let rates = [
            (&rules.requests, 1),
            (&rules.bytes, bytes / incoming.calls().len().max(1)),
        ];
        if rates.iter().all(|(rate, _)| rate.is_none()) {
            return;
        }
        let key = self.key(user);
        for call in incoming.calls_mut() {
            for (rate, count) in &rates {
                if let (Some(rate), Ok(_)) = (rate, &call.request)
                    && let Err(reached) = rate.take(key, *count)
                {
                    call.request = Err(reached.into());
                }
            }
        }
    }

    /// Two names that share a key share their limits too, once in many millions.
    fn key(&self, of: &(impl Hash + ?Sized)) -> u64 {
        self.hasher.hash_one(of)
    }
}

impl Rules {
    fn new(options: LimitOptions) -> Rules {
        Rules {
            options,
            handshakes: Rate::new(ADDRESS_HANDSHAKES, options.address_handshakes_per_s),
            requests: Rate::new(USER_REQUESTS, options.user_requests_per_s),
            bytes: Rate::new(USER_BYTES, options.user_bytes_per_s),
        }
    }
}

/// How many connections there are of each.
#[derive(Debug, Default)]
struct Counts(Mutex<HashMap<u64, u32>>);

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    counts: Arc<Counts>,
    key: u64,
}

impl Counts {
    fn enter(
        counts: &Arc<Counts>,
        key: u64,
        limit: &'static str,
        max: u32,
    ) -> Result<Place, Reached> {
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
        Ok(Place {
            counts: Arc::clone(counts),
            key,
        })
    }
}

impl Drop for Place {
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
        let options = LimitOptions {
            address_connections: 2,
            ..LimitOptions::default()
        };
        let limits = Limits::new(LimitOptions::default());
        let many: Vec<Place> = (0..9).map(|_| limits.arrive(ip("::1")).unwrap()).collect();
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
