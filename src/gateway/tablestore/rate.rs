//! Capacity units: how many were used, and how fast one partition key may use them.
//!
//! Owns: the units that each partition key has left. Promises: with no limit configured no key is looked at; a key that
//! has used up a second's units is refused until time has given some back, whatever a single request costs; keys that
//! rest take no memory. Must not: know what an operation costs.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tideline_base::metrics::{Counter, Metrics};
use tideline_model::{Consumed, KeyValue};
use tideline_table::Table;
use tideline_wire::tablestore::{Code, Failure};

/// The rates of all partition keys.
pub(super) struct Rates {
    /// Units per second; 0 = no limit.
    units_max: f64,
    hasher: RandomState,
    accounts: Mutex<Accounts>,
    read: Counter,
    written: Counter,
    refused: Counter,
}

#[derive(Default)]
struct Accounts {
    /// By the hash of table and partition key: two keys that share one share their rate too, once in many millions.
    left: HashMap<u64, Account>,
    /// At so many accounts those that are full again are let go.
    sweep_at: usize,
}

struct Account {
    /// Below zero = in debt: what a request costs is known only when it is done.
    units: f64,
    at: Instant,
}

/// One request's or row's account.
pub(crate) struct Meter<'r> {
    rates: &'r Rates,
    account: Option<u64>,
}

const SWEEP_AT_LEAST: usize = 1_024;
/// The limit's name in the configuration.
pub(super) const LIMIT: &str = "tablestore_partition_key_units_max";

impl Rates {
    pub(super) fn new(units_max: u32, metrics: &Metrics) -> Rates {
        Rates {
            units_max: f64::from(units_max),
            hasher: RandomState::new(),
            accounts: Mutex::default(),
            read: metrics.families.capacity_units.of(&["read"]),
            written: metrics.families.capacity_units.of(&["write"]),
            refused: metrics.families.refusals.of(&[LIMIT]),
        }
    }

    /// The account of the partition key that `key` begins with. A range that begins with an infinity has none.
    ///
    /// # Errors
    /// `OTSCapacityUnitExhausted` if nothing is left on it.
    pub(super) fn meter(
        &self,
        table: &Table,
        key: &[(String, KeyValue)],
    ) -> Result<Meter<'_>, Failure> {
        let account = match key.first() {
            Some((_, value)) if self.units_max > 0.0 && !value.is_infinite() => {
                Some(self.hasher.hash_one((table.id, value)))
            }
            _ => None,
        };
        if let Some(account) = account
            && self.move_units(account, 0.0, Instant::now()) <= 0.0
        {
            self.refused.increment(1);
            return Err(Failure::new(Code::CapacityUnitExhausted));
        }
        Ok(Meter {
            rates: self,
            account,
        })
    }

    /// Counts units that are of no partition key's account.
    pub(super) fn count(&self, consumed: Consumed) {
        self.read.increment(consumed.read.into());
        self.written.increment(consumed.write.into());
    }

    /// Takes units from an account; gives what is left.
    fn move_units(&self, account: u64, units: f64, now: Instant) -> f64 {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let per_second = self.units_max;
        if accounts.left.len() >= accounts.sweep_at.max(SWEEP_AT_LEAST) {
            let rests = |account: &Account| account.after(now, per_second) >= per_second;
            accounts.left.retain(|_, account| !rests(account));
            accounts.sweep_at = 2 * accounts.left.len();
        }
        let account = accounts.left.entry(account).or_insert(Account {
            units: per_second,
            at: now,
        });
        account.units = account.after(now, per_second) - units;
        account.at = now;
        account.units
    }
}

impl Account {
    fn after(&self, now: Instant, per_second: f64) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        per_second.min(self.units + since * per_second)
    }
}

impl Meter<'_> {
    /// Takes what the request used.
    pub(crate) fn spend(self, consumed: Consumed) {
        self.rates.count(consumed);
        if let Some(account) = self.account {
            let units = f64::from(consumed.read) + f64::from(consumed.write);
            self.rates.move_units(account, units, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_used_up_comes_back_with_time() {
        let (rates, begin) = (Rates::new(10, &Metrics::default()), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        assert!(rates.move_units(1, 0.0, at(0)) > 0.0);
        assert!(rates.move_units(1, 25.0, at(0)) < 0.0);
        assert!(rates.move_units(2, 0.0, at(0)) > 0.0, "keys are alone");
        assert!(rates.move_units(1, 0.0, at(1_400)) <= 0.0);
        assert!(rates.move_units(1, 0.0, at(1_600)) > 0.0);
        let rested = rates.move_units(1, 0.0, at(60_000));
        assert!(
            (rested - 10.0).abs() < 1e-9,
            "not more than a second's units"
        );
    }

    #[test]
    fn keys_that_rest_take_no_memory() {
        let (rates, begin) = (Rates::new(1, &Metrics::default()), Instant::now());
        for second in 0..10 {
            let now = begin + Duration::from_secs(10 * second);
            for key in 0..SWEEP_AT_LEAST as u64 {
                rates.move_units(second << 32 | key, 1.0, now);
            }
        }
        let accounts = rates.accounts.lock().unwrap();
        assert!(accounts.left.len() <= 2 * SWEEP_AT_LEAST);
    }
}
