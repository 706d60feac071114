//! The timelines of a run: their names, their numbers, and their histories.
//!
//! Owns: which name has which number; the epoch of each timeline. Promises: a timeline has one epoch, the first that
//! any follower was given; it can be shared by threads. Must not: know positions.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// See the top. As a slice: the names, by number.
pub struct Timelines {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    epochs: Vec<OnceLock<String>>,
}

impl Timelines {
    /// Those with these names.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Arc<Timelines> {
        let names: Vec<String> = names.into_iter().collect();
        let numbers = names.iter().cloned().zip(0..).collect();
        let epochs = names.iter().map(|_| OnceLock::new()).collect();
        Arc::new(Timelines {
            names,
            numbers,
            epochs,
        })
    }

    /// The number of a name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The epoch of a timeline, once a follower was given it.
    #[must_use]
    pub fn epoch(&self, timeline: usize) -> Option<&str> {
        self.epochs[timeline].get().map(String::as_str)
    }

    /// Whether this is the epoch that all followers were given; the first one makes it so.
    pub fn is_epoch(&self, timeline: usize, epoch: &str) -> bool {
        self.epochs[timeline].get_or_init(|| epoch.to_owned()) == epoch
    }
}

impl Deref for Timelines {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.names
    }
}
