//! What a subscriber is told before it listens and what it gives back: habits, goals, options, outcomes.
//!
//! Owns: these types, between the profiles that plan an audience and `subscriber`, which is one of it. Promises: an
//! outcome holds what came as it came. Must not: hold any of the listening.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::history::Watched;

/// When and how a subscriber listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// From before the first message to the end.
    FromTheStart,
    /// Joins when a part of a timeline is written, leaves it later, and resumes.
    Midway,
    /// Loses its connection again and again, and resumes.
    Cut,
}

/// What tells subscribers how far the run is.
pub struct Goal {
    /// The writers are done and `lengths` are final.
    pub written: AtomicBool,
    /// Final length per timeline; read once `written` is set.
    pub lengths: Vec<AtomicU64>,
}

/// How one subscriber works.
pub struct Options {
    /// Its name in the reports.
    pub name: String,
    /// Its habit.
    pub habit: Habit,
    /// The timelines it follows: index in the run's list, expected length (a guess, for joining midway).
    pub follows: Vec<(usize, u64)>,
    /// For the times of its cuts.
    pub seed: u64,
    /// How often a cut one is cut while it has not caught up for good.
    pub cuts: u32,
    /// Without news for this long it gives up, and the checker sees what is missing.
    pub patience: Duration,
}

/// What a subscriber saw.
pub struct Outcome {
    /// By timeline.
    pub watched: Vec<(usize, Watched)>,
    /// Epochs it was told, by timeline.
    pub epochs: Vec<(usize, String)>,
    /// Broken promises that are seen here only.
    pub complaints: Vec<String>,
    /// Subscriptions that went on from a position.
    pub resumes: u64,
    /// Messages received.
    pub received: u64,
}
