//! What the checker knows at a moment of the history.
//!
//! Owns: the fields that calls, pushes and people share. Promises: nothing is kept of a call that was answered but what
//! is said here. Must not: judge.

use std::collections::{BTreeMap, HashMap};

use crate::cycles::Graph;
use crate::order::Order;
use crate::record::Call;
use crate::report::Place;
use crate::stored::{Names, Stored};

pub(crate) struct State {
    pub(crate) stored: Stored,
    pub(crate) clients: Names,
    /// By client and number.
    pub(crate) open: HashMap<(u32, u64), Open>,
    /// By client and timeline.
    pub(crate) views: BTreeMap<(u32, u32), View>,
    /// Refused appends, by timeline and key.
    pub(crate) failed: HashMap<(u32, u64), Place>,
    /// Messages that were shown and are not stored, by timeline and key: where they were shown, and their ID.
    pub(crate) shown: HashMap<(u32, u64), (Place, String)>,
    pub(crate) graph: Graph,
    pub(crate) people: People,
}

/// An operation without an answer.
pub(crate) struct Open {
    pub(crate) at: u64,
    pub(crate) place: Place,
    /// It was said to be unknown once, so its place among others of its client is open.
    pub(crate) is_unknown: bool,
    pub(crate) calls: Vec<(Call, Asked)>,
}

/// What was known when something was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) timeline: u32,
    pub(crate) key: u64,
    /// Of an append.
    pub(crate) content: u64,
    /// The highest sequence that was acknowledged, to anybody.
    pub(crate) floor: u64,
    /// The highest sequence that this client had seen.
    pub(crate) seen: u64,
    /// Its number among this client's appends to the timeline.
    pub(crate) order: u64,
    /// An edit that begins when the version that is stored in the end was acknowledged.
    pub(crate) is_late: bool,
    /// Of a list: the user's read positions.
    pub(crate) marks: HashMap<u32, Mark>,
}

/// What a client saw of a timeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The highest sequence, and where it was shown.
    pub(crate) seen: u64,
    pub(crate) seen_at: Place,
    /// How far its subscription is, if it has one, and where that began.
    pub(crate) subscription: Option<(Order, Place)>,
    /// How many appends it has begun.
    pub(crate) appends: u64,
    /// Number and sequence of the acknowledged append with the highest number.
    pub(crate) done: (u64, u64),
}

impl View {
    pub(crate) fn see(&mut self, sequence: u64, place: Place) {
        if sequence > self.seen {
            (self.seen, self.seen_at) = (sequence, place);
        }
    }
}

/// Between what a read position may be: what was acknowledged, and what was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// Whether a user is a member.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// By the last change that was acknowledged.
    pub(crate) is_member: bool,
    /// Changes without an answer.
    pub(crate) open: u32,
}

/// What lies at users.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// By user and timeline.
    pub(crate) marks: HashMap<u32, HashMap<u32, Mark>>,
    pub(crate) members: BTreeMap<(u32, u32), Membership>,
}
