//! What a run checked and what was wrong: every profile counts both, so that "no faults" says of how many.
//!
//! Owns: the counts by kind of check, and the first faults in words. Promises: a run with a fault is a broken promise,
//! whatever else it found. Must not: cost more than a counter per operation.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How long what is on its way may take to come when nothing more is sent.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many faults are kept in words; the count goes on.
const TOLD_MAX: usize = 40;

/// The checks of a run that goes on.
#[derive(Debug, Default)]
pub struct Checks(RefCell<Checked>);

/// What was checked, and what was found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// What was checked, and how often.
    pub made: BTreeMap<String, u64>,
    /// How often a promise was broken.
    pub faults: u64,
    /// The first faults in words.
    pub told: Vec<String>,
}

impl Checks {
    /// So many more checks of a kind were made, whatever came out. The kind is a few words: "messages in order".
    pub fn made(&self, kind: &'static str, count: u64) {
        let made = &mut self.0.borrow_mut().made;
        match made.get_mut(kind) {
            Some(so_far) => *so_far += count,
            None => drop(made.insert(kind.to_owned(), count)),
        }
    }

    /// How many checks of a kind were made so far.
    pub(crate) fn count(&self, kind: &str) -> u64 {
        self.0.borrow().made.get(kind).copied().unwrap_or(0)
    }

    /// A promise was broken.
    pub fn fault(&self, what: impl fmt::Display) {
        let Checked { faults, told, .. } = &mut *self.0.borrow_mut();
        *faults += 1;
        if told.len() < TOLD_MAX {
            told.push(what.to_string());
        }
    }

    /// Faults so far.
    pub fn faults(&self) -> u64 {
        self.0.borrow().faults
    }

    /// Waits until what is on its way has come; gives up on a fault, or after half a minute.
    pub async fn wait_for(&self, complete: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !complete() && Instant::now() < until && self.faults() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// All of it.
    pub fn checked(&self) -> Checked {
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_faults_are_told_up_to_a_bound() {
        let checks = Checks::default();
        checks.made("messages in order", 3);
        checks.made("messages in order", 4);
        for number in 0..100 {
            checks.fault(format_args!("fault {number}"));
        }
        let checked = checks.checked();
        assert_eq!(checked.made["messages in order"], 7);
        assert_eq!((checked.faults, checked.told.len()), (100, TOLD_MAX));
    }
}
