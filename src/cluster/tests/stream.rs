//! A model of one JetStream stream, with the promises that are relied on and none beyond.
//!
//! Owns: sequences, expected sequences, leaders, proposals that get lost. Promises: what is committed stays, but for
//! disasters; a publish is checked against all that was proposed before it; a new leader has everything that was
//! committed, keeps any part of what was proposed, and answers for none of it. Must not: deliver; the world does.

use std::collections::VecDeque;

use tideline_base::ids::Position;

use super::random::Random;
use crate::frame::Sealed;
use crate::settle::Answer;

/// A publish on its way.
#[derive(Clone, Debug)]
pub(crate) struct Publish {
    pub(crate) host: usize,
    pub(crate) boot: u64,
    pub(crate) frame: Sealed,
    pub(crate) expected: Option<Position>,
}

/// See the file's opening.
#[derive(Clone)]
pub(crate) struct Stream {
    /// The sequence before the first: a log that was adopted goes on where it was.
    pub(crate) base: u64,
    pub(crate) frames: Vec<Sealed>,
    /// What was purged; the checker still sees it.
    pub(crate) purged: Position,
    pub(crate) proposed: VecDeque<Publish>,
    /// Of the leader.
    pub(crate) reign: u64,
    /// No leader before this time, µs.
    pub(crate) leaderless_until: u64,
    pub(crate) is_full: bool,
}

impl Stream {
    pub(crate) fn new(first: Sealed) -> Stream {
        Stream {
            base: first.position.0 - 1,
            frames: vec![first],
            purged: Position::ZERO,
            proposed: VecDeque::new(),
            reign: 0,
            leaderless_until: 0,
            is_full: false,
        }
    }

    pub(crate) fn last(&self) -> Position {
        Position(self.base + self.frames.len() as u64)
    }

    pub(crate) fn at(&self, position: Position) -> Option<&Sealed> {
        self.frames.get(self.index(position)?)
    }

    /// The same for who asks the servers.
    pub(crate) fn kept(&self, position: Position) -> Option<&Sealed> {
        self.at(position).filter(|_| position > self.purged)
    }

    pub(crate) fn first(&self) -> Position {
        Position(self.base).max(self.purged).next()
    }

    /// Where it is in `frames`.
    pub(crate) fn index(&self, position: Position) -> Option<usize> {
        let index = position.0.checked_sub(self.base + 1)?;
        usize::try_from(index).ok()
    }

    /// A publish has come; its answer, if there is one already. `None`: it was proposed.
    pub(crate) fn arrived(&mut self, publish: Publish, now: u64) -> Option<Answer> {
        if now < self.leaderless_until {
            return Some(Answer::Failed);
        }
        let last = Position(self.last().0 + self.proposed.len() as u64);
        if publish.expected.is_some_and(|expected| expected != last) {
            return Some(Answer::WrongLast(last));
        }
        if self.is_full {
            return Some(Answer::Full);
        }
        self.proposed.push_back(publish);
        None
    }

    /// The oldest proposal is committed, if its leader still is.
    pub(crate) fn commit(&mut self, reign: u64) -> Option<Publish> {
        if reign != self.reign {
            return None;
        }
        let publish = self.proposed.pop_front()?;
        self.frames.push(publish.frame.clone());
        Some(publish)
    }

    /// The leader is gone: some of what it proposed is committed, and nobody hears of it.
    pub(crate) fn elect(&mut self, until: u64, random: &mut Random) {
        let kept = random.below(self.proposed.len() as u64 + 1) as usize;
        let frames = self.proposed.drain(..).take(kept);
        let frames: Vec<Sealed> = frames.map(|publish| publish.frame).collect();
        self.frames.extend(frames);
        self.reign += 1;
        self.leaderless_until = until;
    }

    /// The stream is replaced by this one.
    pub(crate) fn replace(&mut self, base: u64, frames: Vec<Sealed>) {
        (self.base, self.frames, self.purged) = (base, frames, Position::ZERO);
        self.proposed.clear();
        self.reign += 1;
    }
}
