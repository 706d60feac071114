//! What must hold in every world, checked from outside of all nodes.
//!
//! Owns: the promises, in its own words. Promises: the first thing that is wrong is kept, with the time. Must not: use
//! the code that it checks; the rule of void frames is written here a second time.

use std::collections::{BTreeMap, BTreeSet};

use tideline_base::ids::Position;

use super::stream::Stream;
use crate::frame::{Content, Sealed};
use crate::halt::Halt;

/// See the file's opening.
#[derive(Default)]
pub(crate) struct Checker {
    pub(crate) wrong: Option<String>,
    /// By position: the host that acknowledged, and the write.
    acknowledged: BTreeMap<Position, (usize, u64)>,
    /// By number.
    writes: BTreeMap<u64, Write>,
    /// Answered as not written.
    moved: BTreeSet<u64>,
    /// Of each frame in the stream, in order: whether it takes effect.
    valid: Vec<bool>,
    term: u64,
    /// The stream before a disaster, and where it was cut.
    pub(crate) disaster: Option<Disaster>,
    pub(crate) reads: u64,
    pub(crate) acks: u64,
    pub(crate) claims: u64,
    pub(crate) voids: u64,
}

#[derive(Default)]
struct Write {
    /// The highest position that was acknowledged before it came.
    after: Position,
    /// Of its frames, one for each time that it was sealed.
    hashes: BTreeSet<u128>,
    acknowledged: Option<Position>,
}

/// What happened to the stream.
pub(crate) struct Disaster {
    before: Stream,
    floor: Position,
    /// Nodes may not have noticed a loss before this time, if no server knows of it: their next look comes by then.
    unseen_until: u64,
    /// Hosts that had more than the cut stream has.
    pub(crate) knowing: Vec<usize>,
}

impl Disaster {
    /// All that was lost is there again: it was still in flight, and was sent again.
    pub(crate) fn is_mended(&self, stream: &Stream) -> bool {
        stream.base == self.before.base && stream.frames.starts_with(&self.before.frames)
    }
}

impl Checker {
    pub(crate) fn fail(&mut self, time: u64, what: &str) {
        let text = || format!("{}.{:06} s: {what}", time / 1_000_000, time % 1_000_000);
        self.wrong.get_or_insert_with(text);
    }

    /// Up to where anything was acknowledged; after a disaster, before it.
    pub(crate) fn acknowledged(&self) -> Position {
        if let Some(disaster) = &self.disaster {
            return disaster.floor;
        }
        let last = self.acknowledged.last_key_value();
        last.map_or(Position::ZERO, |(position, _)| *position)
    }

    /// A client asked for a write.
    pub(crate) fn wrote(&mut self, write: u64) {
        let after = self.acknowledged();
        let write = self.writes.entry(write).or_default();
        write.after = after;
    }

    /// A write was sealed, perhaps not for the first time.
    pub(crate) fn sealed(&mut self, write: u64, frame: &Sealed) {
        let write = self.writes.entry(write).or_default();
        write.hashes.insert(frame.hash);
    }

    /// Judges what has come into the stream.
    pub(crate) fn committed(&mut self, stream: &Stream) {
        for frame in &stream.frames[self.valid.len().min(stream.frames.len())..] {
            let is_valid = frame.term >= self.term;
            if is_valid {
                self.term = frame.term;
            }
            self.claims += u64::from(is_valid && matches!(frame.content, Content::Claim(_)));
            self.voids += u64::from(!is_valid);
            self.valid.push(is_valid);
        }
    }

    /// A host took a frame.
    pub(crate) fn took(
        &mut self,
        time: u64,
        host: usize,
        stream: &Stream,
        frame: &Sealed,
        is_void: bool,
    ) {
        if self.disaster.is_some() {
            return;
        }
        let is_same = stream.at(frame.position).is_some_and(|at| at == frame);
        let index = stream.index(frame.position);
        let is_valid = index.and_then(|index| self.valid.get(index));
        if !is_same || is_valid != Some(&!is_void) {
            let position = frame.position;
            self.fail(
                time,
                &format!("host {host} took another frame at {position} than the stream has"),
            );
        }
    }

    /// A host acknowledged a write, having heard that so much was in the stream.
    pub(crate) fn acked(
        &mut self,
        time: u64,
        host: usize,
        heard: Position,
        stream: &Stream,
        (position, write): (Position, u64),
    ) {
        self.acks += 1;
        let index = stream.index(position);
        let in_log = index.and_then(|index| self.valid.get(index));
        // What was stored before a disaster may be acknowledged after it. Only hosts that knew no more than the stream
        // has now may go on in it.
        let before = self.disaster.as_ref().map(|disaster| &disaster.before);
        let is_bound = |disaster: &Disaster| {
            let knows = disaster.knowing.contains(&host) || heard > stream.last();
            knows && !disaster.is_mended(stream)
        };
        let present = Some(stream);
        let present = present.filter(|_| !self.disaster.as_ref().is_some_and(is_bound));
        let known = self.writes.entry(write).or_default();
        let is_there = [before, present].into_iter().flatten().any(|stream| {
            let at = stream.at(position).map(|frame| frame.hash);
            at.is_some_and(|hash| known.hashes.contains(&hash))
        });
        let is_valid = self.disaster.is_some() || in_log == Some(&true);
        let wrong = if !is_there || !is_valid {
            let is_unseen = |disaster: &Disaster| time < disaster.unseen_until;
            if self.disaster.as_ref().is_some_and(is_unseen) {
                return;
            }
            "acknowledged and not in the log"
        } else if known.acknowledged.is_some() {
            "acknowledged twice"
        } else if known.after >= position && self.disaster.is_none() {
            "acknowledged before what was acknowledged before it came"
        } else {
            known.acknowledged = Some(position);
            let other = self.acknowledged.insert(position, (host, write));
            if other.is_none() || self.disaster.is_some() {
                return;
            }
            "a position acknowledged twice"
        };
        self.fail(time, &format!("host {host}, {position}: {wrong}"));
    }

    /// A write was answered as not written.
    pub(crate) fn moved(&mut self, write: u64) {
        self.moved.insert(write);
    }

    /// A host answered a read that came when `floor` was acknowledged.
    pub(crate) fn read(&mut self, time: u64, host: usize, view: Position, floor: Position) {
        self.reads += 1;
        let is_unknowing = |disaster: &Disaster| !disaster.knowing.contains(&host);
        if view < floor && !self.disaster.as_ref().is_some_and(is_unknowing) {
            self.fail(
                time,
                &format!("host {host} read {view} when {floor} was acknowledged"),
            );
        }
    }

    /// A host stopped.
    pub(crate) fn stopped(&mut self, time: u64, host: usize, halt: &Halt) {
        if self.disaster.is_none() {
            self.fail(time, &format!("host {host} stopped: {halt}"));
        }
    }

    /// The stream is about to be replaced by what it was up to `cut`, or by another.
    pub(crate) fn disaster(&mut self, stream: &Stream, knowing: Vec<usize>, unseen_until: u64) {
        let before = stream.clone();
        self.disaster = Some(Disaster {
            before,
            floor: self.acknowledged(),
            unseen_until,
            knowing,
        });
    }

    /// Looks at the whole log at the end.
    pub(crate) fn end(&mut self, time: u64, stream: &Stream) {
        if self.disaster.is_some() {
            return;
        }
        let frames = stream.frames.iter().zip(&self.valid);
        let valid = frames.filter(|(_, is_valid)| **is_valid);
        let valid: BTreeSet<u128> = valid.map(|(frame, _)| frame.hash).collect();
        let mut wrong = None;
        for (number, write) in &self.writes {
            let count = write.hashes.intersection(&valid).count();
            if count > 1 {
                wrong = Some(format!("write {number} is in the log {count} times"));
            }
            if count > 0 && self.moved.contains(number) {
                wrong = Some(format!(
                    "write {number} was answered as not written, and is in the log"
                ));
            }
            if count == 0 && write.acknowledged.is_some() {
                wrong = Some(format!("write {number} was acknowledged, and is lost"));
            }
        }
        if let Some(what) = wrong {
            self.fail(time, &what);
        }
    }
}
