//! Which nodes are heard, and when a standby claims by itself.
//!
//! Owns: the beats of all nodes, ranks, the guess that an owner is gone. Promises: a wrong guess costs a pause and
//! nothing else, because the log decides a claim; standbys do not claim all at once. Must not: decide whether a write
//! counts.

use std::collections::BTreeMap;

use tideline_base::ids::{HistoryId, Position};

use crate::lease::SteadyMs;
use crate::place::Place;

/// What a node says of itself every 200 ms, over NATS and over the links between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The log that it speaks of.
    pub log: HistoryId,
    /// Where that log's genesis is: a rebuilt stream has another one.
    pub began: Position,
    /// Its name.
    pub node: String,
    /// The highest term that it has seen.
    pub term: u64,
    /// It owns this term.
    pub is_owner: bool,
    /// A frame that it knows to be in the stream.
    pub stored: Position,
    /// Up to where its image has everything.
    pub covered: Position,
    /// For how long the stream has not answered it, in ms; 0 if nothing waits.
    pub stalled_ms: u64,
    /// Its time of day, ms since 1970.
    pub wall_ms: u64,
}

/// Between two beats of a node.
pub(crate) const BEAT_MS: u64 = 200;
/// Standbys claim so far apart, by rank.
const RANK_MS: u64 = 300;
/// A standby may follow an owner that the stream has not answered for so long.
const STALLED_MS: u64 = 1_000;
/// A node claims nothing if its time of day is further than this from the others' median.
const OFF_MS: u64 = 2_000;
/// That median is of nodes that were heard within this time.
const PRESENT_MS: u64 = 10_000;
/// More names are not kept; no cluster has as many.
const MEMBERS_MAX: usize = 64;

/// What is known of one node.
#[derive(Clone, Copy, Debug)]
struct Member {
    heard: SteadyMs,
    /// By how much its time of day is ahead of this node's.
    off_ms: i64,
}

/// What a node has heard of others.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    me: String,
    silence_ms: u64,
    members: BTreeMap<String, Member>,
    /// When the owner was last heard, or the owner changed.
    owner_heard: SteadyMs,
    /// The owner's process refuses connections.
    is_refused: bool,
    /// The owner says that the stream does not answer it.
    is_stalled: bool,
    /// When the stream last answered this node.
    passed: Option<SteadyMs>,
    /// The highest position that other nodes said to be in the stream.
    stored: Position,
}

impl Watch {
    pub(crate) fn new(me: String, silence_ms: u32, now: SteadyMs) -> Watch {
        Watch {
            me,
            silence_ms: silence_ms.into(),
            members: BTreeMap::new(),
            owner_heard: now,
            is_refused: false,
            is_stalled: false,
            passed: None,
            stored: Position::ZERO,
        }
    }

    pub(crate) fn stored(&self) -> Position {
        self.stored
    }

    pub(crate) fn heard(&mut self, beat: &Beat, place: &Place, now: SteadyMs, wall_ms: u64) {
        self.stored = self.stored.max(beat.stored);
        if self.members.contains_key(&beat.node) || self.members.len() < MEMBERS_MAX {
            let off_ms = beat.wall_ms.cast_signed() - wall_ms.cast_signed();
            let member = Member { heard: now, off_ms };
            self.members.insert(beat.node.clone(), member);
        }
        if beat.is_owner && beat.term >= place.term {
            self.owner_heard = now;
            self.is_refused = false;
            self.is_stalled = beat.stalled_ms >= STALLED_MS;
        }
    }

    /// An owner began or ended: the time of its silence counts anew.
    pub(crate) fn changed(&mut self, now: SteadyMs) {
        self.owner_heard = now;
        self.is_refused = false;
        self.is_stalled = false;
    }

    /// The link to this node broke, and a new one is refused: its process is gone.
    pub(crate) fn refused(&mut self, node: &str, place: &Place) {
        let owner = place.owner.as_ref();
        self.is_refused |= owner.is_some_and(|owner| owner.node == node);
    }

    /// The stream answered this node.
    pub(crate) fn passed(&mut self, now: SteadyMs) {
        self.passed = Some(now);
    }

    /// Whether the owner says that the stream does not answer it.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Whether a standby is to claim by itself.
    pub(crate) fn is_due(&self, place: &Place, now: SteadyMs) -> bool {
        let owner = place.owner.as_ref().map(|owner| owner.node.as_str());
        let standbys = self.members.keys().map(String::as_str);
        let before = standbys.filter(|node| *node < self.me.as_str() && Some(*node) != owner);
        let apart_ms = RANK_MS * before.count() as u64;
        let passes = |passed: SteadyMs| now.since(passed) < STALLED_MS;
        // An earlier process of this node owns the log, and is gone.
        let is_own = owner == Some(self.me.as_str());
        self.is_refused
            || is_own
            || self.is_stalled && self.passed.is_some_and(passes)
            || now.since(self.owner_heard) >= self.silence_ms + apart_ms
    }

    /// Whether this node's time of day is too far from the others' to claim: frames have times.
    pub(crate) fn is_off(&self, now: SteadyMs) -> bool {
        let present = self.members.iter();
        let present = present
            .filter(|(node, member)| **node != self.me && now.since(member.heard) < PRESENT_MS);
        let mut off: Vec<i64> = present.map(|(_, member)| member.off_ms).collect();
        off.push(0);
        off.sort_unstable();
        // Both middle ones of an even number: two clocks alone do not show which of them is wrong.
        let middle = [off[(off.len() - 1) / 2], off[off.len() / 2]];
        middle.iter().all(|off_ms| off_ms.unsigned_abs() > OFF_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Claim;

    fn place() -> Place {
        let mut place = Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 1);
        place.owner = Some(Claim {
            node: "a".to_owned(),
            boot: 1,
            lease_ms: 500,
        });
        place
    }

    fn beat(node: &str, wall_ms: u64) -> Beat {
        Beat {
            log: HistoryId([7; 16]),
            began: Position::ZERO,
            node: node.to_owned(),
            term: 1,
            is_owner: node == "a",
            stored: Position(5),
            covered: Position::ZERO,
            stalled_ms: 0,
            wall_ms,
        }
    }

    #[test]
    fn standbys_guess_one_after_the_other() {
        let mut watch = Watch::new("c".to_owned(), 800, SteadyMs(0));
        for node in ["a", "b", "c"] {
            watch.heard(&beat(node, 0), &place(), SteadyMs(1_000), 0);
        }
        assert_eq!(watch.stored(), Position(5));
        assert!(!watch.is_due(&place(), SteadyMs(2_099)));
        assert!(watch.is_due(&place(), SteadyMs(2_100)));
        watch.changed(SteadyMs(2_100));
        assert!(!watch.is_due(&place(), SteadyMs(2_200)));
        watch.refused("b", &place());
        assert!(!watch.is_due(&place(), SteadyMs(2_200)));
        watch.refused("a", &place());
        assert!(watch.is_due(&place(), SteadyMs(2_200)));
    }

    #[test]
    fn an_owner_that_cannot_write_is_followed_by_one_that_can() {
        let mut watch = Watch::new("b".to_owned(), 800, SteadyMs(0));
        let stalled_ms = 1_000;
        let stalled = Beat {
            stalled_ms,
            ..beat("a", 0)
        };
        watch.heard(&stalled, &place(), SteadyMs(5_000), 0);
        assert!(!watch.is_due(&place(), SteadyMs(5_001)));
        watch.passed(SteadyMs(5_000));
        assert!(watch.is_due(&place(), SteadyMs(5_001)));
        watch.heard(&beat("a", 0), &place(), SteadyMs(5_002), 0);
        assert!(!watch.is_due(&place(), SteadyMs(5_003)));
    }

    #[test]
    fn the_clock_that_is_off_is_ours_only_if_most_say_so() {
        let mut watch = Watch::new("c".to_owned(), 800, SteadyMs(0));
        watch.heard(&beat("a", 9_000), &place(), SteadyMs(1), 1_000);
        assert!(!watch.is_off(SteadyMs(1)), "one against one");
        watch.heard(&beat("b", 9_000), &place(), SteadyMs(1), 1_000);
        assert!(watch.is_off(SteadyMs(1)));
        watch.heard(&beat("b", 1_500), &place(), SteadyMs(1), 1_000);
        assert!(!watch.is_off(SteadyMs(1)));
    }
}
