//! Which frames may go from the stream.
//!
//! Owns: what other nodes' images have, and how old positions are. Promises: no frame goes that is not in two images at
//! least and in that of every node that was heard within the time for which an absent one is waited for, nor one that
//! is younger than a time. Must not: write or purge; an owner does, by what is found here.
//!
//! All nodes are known by name. One that this process has never heard counts as heard when it began, so that a new
//! owner waits for those that it does not know yet.

use std::collections::{BTreeMap, VecDeque};

use tideline_base::ids::Position;

use crate::lease::SteadyMs;
use crate::plant::{Plant, is_planted};

/// Whose images are looked at, and the times.
#[derive(Clone, Debug, Default)]
pub struct TrimOptions {
    /// All nodes of the cluster; without any nothing is trimmed.
    pub nodes: Vec<String>,
    /// A frame stays for so long.
    pub age_ms: u64,
    /// A node that was not heard for so long is not waited for.
    pub away_ms: u64,
    /// Between two frames that trim.
    pub every_ms: u64,
}

/// What one node knows for it.
#[derive(Clone, Debug)]
pub(crate) struct Trim {
    began: SteadyMs,
    /// Up to where this node's image has everything.
    covered: Position,
    /// The same of others, and when they said so.
    others: BTreeMap<String, (SteadyMs, Position)>,
    /// Where the log was then.
    marks: VecDeque<(SteadyMs, Position)>,
}

impl Trim {
    pub(crate) fn new(now: SteadyMs) -> Trim {
        Trim {
            began: now,
            covered: Position::ZERO,
            others: BTreeMap::new(),
            marks: VecDeque::new(),
        }
    }

    /// This node's image has everything up to there.
    pub(crate) fn covers(&mut self, covered: Position) {
        self.covered = covered;
    }

    pub(crate) fn covered(&self) -> Position {
        self.covered
    }

    /// Another node said that of its own.
    pub(crate) fn heard(
        &mut self,
        node: &str,
        covered: Position,
        options: &TrimOptions,
        now: SteadyMs,
    ) {
        if options.nodes.iter().any(|one| one == node) {
            self.others.insert(node.to_owned(), (now, covered));
        }
    }

    /// Looks from time to time how far the log is; up to where frames may go, at a look.
    pub(crate) fn look(
        &mut self,
        me: &str,
        log: Position,
        options: &TrimOptions,
        now: SteadyMs,
    ) -> Option<Position> {
        let last = self.marks.back();
        if options.nodes.is_empty() || last.is_some_and(|(at, _)| now.since(*at) < options.every_ms)
        {
            return None;
        }
        self.marks.push_back((now, log));
        let is_aged = |(at, _): &(SteadyMs, Position)| now.since(*at) >= options.age_ms;
        // The newest of those is the first.
        while self.marks.get(1).is_some_and(is_aged) {
            self.marks.pop_front();
        }
        let aged = self.marks.front().filter(|mark| is_aged(mark))?.1;
        if is_planted(Plant::TrimsUncovered) {
            return Some(aged);
        }
        let mut upto = aged.min(self.covered);
        let mut images = 1;
        for node in options.nodes.iter().filter(|node| *node != me) {
            let heard = self.others.get(node);
            let (at, covered) = *heard.unwrap_or(&(self.began, Position::ZERO));
            if now.since(at) < options.away_ms {
                upto = upto.min(covered);
                images += 1;
            }
        }
        (images >= IMAGES_MIN).then_some(upto)
    }
}

/// A frame that goes is in so many images.
const IMAGES_MIN: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> TrimOptions {
        TrimOptions {
            nodes: ["a", "b", "c"].map(str::to_owned).to_vec(),
            age_ms: 1_000,
            away_ms: 3_000,
            every_ms: 100,
        }
    }

    /// What "a" trims, whose log is at its time and covered 10 behind; `said` is what others say at a time.
    fn trims(
        until: u64,
        said: impl Fn(u64) -> Vec<(&'static str, u64)>,
    ) -> Vec<(u64, Option<u64>)> {
        let (options, mut trim) = (options(), Trim::new(SteadyMs(0)));
        let mut looks = Vec::new();
        for at in (0..until).step_by(50) {
            let now = SteadyMs(at);
            for (node, covered) in said(at) {
                trim.heard(node, Position(covered), &options, now);
            }
            trim.covers(Position(at.saturating_sub(10)));
            let found = trim.look("a", Position(at), &options, now);
            looks.push((at, found.map(|found| found.0)));
        }
        looks
    }

    fn last(looks: &[(u64, Option<u64>)]) -> Option<u64> {
        looks.iter().rev().find_map(|(_, found)| *found)
    }

    #[test]
    fn what_all_images_have_goes_once_it_is_old() {
        let both = |at: u64| vec![("b", at.saturating_sub(20)), ("c", at.saturating_sub(30))];
        let looks = trims(2_050, both);
        assert!(
            looks
                .iter()
                .all(|(at, found)| *at >= 1_000 || found.is_none())
        );
        assert_eq!(last(&looks), Some(1_000), "what was there a second ago");
        let slow = trims(2_050, |at| vec![("b", 700), ("c", at)]);
        assert_eq!(last(&slow), Some(700));
    }

    #[test]
    fn an_absent_node_is_waited_for_a_while_and_two_images_are_needed() {
        // Never heard: since the start.
        let alone_with_one = |at: u64| vec![("b", at)];
        let looks = trims(5_050, alone_with_one);
        let waits = looks.iter().filter(|(at, _)| *at < 3_000);
        assert!(waits.into_iter().all(|(_, found)| found.unwrap_or(0) == 0));
        assert_eq!(last(&looks), Some(4_000));
        // Heard at first: what it had then holds, until it counts as away.
        let falls_silent = |at: u64| match at {
            0..=500 => vec![("b", at), ("c", at)],
            _ => vec![("b", at)],
        };
        assert_eq!(last(&trims(3_450, falls_silent)), Some(500));
        assert_eq!(last(&trims(5_050, falls_silent)), Some(4_000));
        // Both are away: this node's image alone is not enough.
        let looks = trims(5_050, |_| Vec::new());
        assert!(looks.iter().all(|(_, found)| found.unwrap_or(0) == 0));
        assert_eq!(looks.last(), Some(&(5_000, None)));
        // Names that are none of the cluster's count for nothing.
        let looks = trims(5_050, |at| vec![("x", at), ("y", at)]);
        assert_eq!(looks.last(), Some(&(5_000, None)));
    }
}
