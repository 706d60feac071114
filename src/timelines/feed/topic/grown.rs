//! Parts of open messages, kept for a while so that subscribers need not read them back from the store.
//!
//! Owns: of each message that grows, how many parts the log has brought and the newest of them; and how far a
//! subscription is in each. Promises: a group is encoded at most once in each form; what does not fit is left to the
//! store. Must not: read the store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::super::ephemeral::Held;
use super::fresh::FORMS_MAX;
use crate::timeline::Growth;

/// Parts of one message that follow each other.
#[derive(Debug)]
pub struct Grown {
    /// Of the timeline.
    pub epoch: Arc<str>,
    /// Which message.
    pub sequence: u64,
    /// The first of the parts.
    pub from: u64,
    /// The last of them.
    pub parts: u64,
    /// Their texts, one behind the other.
    pub text: String,
    frames: [OnceLock<Bytes>; FORMS_MAX],
    /// `None` = it is not kept.
    _held: Option<Held>,
}

impl Grown {
    /// Parts for one reader.
    pub(in super::super) fn of(growth: Growth) -> Grown {
        Grown {
            epoch: Arc::from(growth.epoch),
            sequence: growth.sequence,
            from: growth.from,
            parts: growth.parts,
            text: growth.text,
            frames: Default::default(),
            _held: None,
        }
    }

    /// The push frame in a form (a number below [`FORMS_MAX`]), made by `encode` for the first reader.
    pub fn frame(&self, form: usize, encode: impl FnOnce(&Grown) -> Bytes) -> Bytes {
        self.frames[form].get_or_init(|| encode(self)).clone()
    }
}

/// The bytes that the kept parts of all timelines hold.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct GrownTotal(Arc<AtomicUsize>);

impl GrownTotal {
    /// How many there are.
    pub(in super::super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// So many that all are to be forgotten.
    pub(in super::super) fn is_full(&self) -> bool {
        self.bytes() > TOTAL_BYTES_MAX
    }
}

/// The open messages of a timeline that have grown since somebody watches it.
#[derive(Debug, Default)]
pub(in super::super) struct Growths {
    /// Of what is known here.
    epoch: Option<Arc<str>>,
    by_sequence: BTreeMap<u64, Ring>,
}

/// The newest parts of a message.
#[derive(Debug, Default)]
struct Ring {
    /// How many parts the log has told of.
    parts: u64,
    /// Of these, how many are not kept.
    gone: u64,
    /// The texts of the others, one behind the other.
    text: String,
    /// Where parts end that came together.
    ends: VecDeque<End>,
    /// What readers are sent at the moment: each reaches to the last part.
    made: Vec<Arc<Grown>>,
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    /// The last of the parts.
    parts: u64,
    /// Behind it in the text.
    at: usize,
}

impl Ring {
    /// Keeps none of them: they are left to the store.
    fn forget(&mut self) {
        *self = Ring {
            parts: self.parts,
            gone: self.parts,
            ..Ring::default()
        };
    }

    fn take(&mut self, growth: &Growth, total: &GrownTotal) {
        self.made.clear();
        if self.parts + 1 != growth.from {
            self.parts = growth.from.saturating_sub(1);
            self.forget();
        }
        self.parts = growth.parts;
        self.text.push_str(&growth.text);
        let at = self.text.len();
        self.ends.push_back(End {
            parts: growth.parts,
            at,
        });
        while self.ends.len() > GROUPS_MAX || self.text.len() > TEXT_BYTES_MAX {
            self.forget_half();
        }
        let bytes =
            size_of::<Ring>() + self.text.capacity() + self.ends.capacity() * size_of::<End>();
        if self.held.as_ref().is_none_or(|held| held.bytes() != bytes) {
            self.held = Some(Held::of(&total.0, bytes));
        }
    }

    /// Keeps the newer half, so that to move it is nothing for each part.
    fn forget_half(&mut self) {
        let half = self.ends.len().div_ceil(2);
        let Some(last) = self.ends.drain(..half).last() else {
            return;
        };
        self.gone = last.parts;
        self.text.drain(..last.at);
        self.ends.iter_mut().for_each(|end| end.at -= last.at);
    }

    /// Where the text behind so many parts begins; `None` = it is not kept.
    fn behind(&self, parts: u64) -> Option<usize> {
        if parts == self.gone {
            return Some(0);
        }
        let end = self.ends.binary_search_by_key(&parts, |end| end.parts);
        end.ok().map(|end| self.ends[end].at)
    }
}

/// What comes next of a message for a reader.
pub(in super::super) enum Found {
    /// Nothing.
    None,
    /// These parts.
    Parts(Arc<Grown>),
    /// The store knows.
    Gone,
}

impl Growths {
    /// Takes parts out of the log.
    pub(in super::super) fn take(&mut self, growth: &Growth, total: &GrownTotal) {
        if self.epoch.as_deref() != Some(growth.epoch.as_str()) {
            self.by_sequence.clear();
            self.epoch = Some(Arc::from(growth.epoch.as_str()));
        }
        let ring = self.by_sequence.entry(growth.sequence).or_default();
        ring.take(growth, total);
    }

    /// All that comes behind so many parts of a message.
    pub(in super::super) fn behind(
        &mut self,
        epoch: &str,
        (sequence, parts): (u64, u64),
        total: &GrownTotal,
    ) -> Found {
        let Some(ring) = self.by_sequence.get_mut(&sequence) else {
            return Found::None;
        };
        let Some(epoch) = self.epoch.as_ref().filter(|known| ***known == *epoch) else {
            return Found::None;
        };
        if ring.parts <= parts {
            return Found::None;
        }
        if let Some(made) = ring.made.iter().find(|made| made.from == parts + 1) {
            return Found::Parts(Arc::clone(made));
        }
        let Some(at) = ring.behind(parts) else {
            return Found::Gone;
        };
        let text = ring.text[at..].to_owned();
        let is_shared = ring.made.len() < MADE_MAX;
        let grown = Arc::new(Grown {
            epoch: Arc::clone(epoch),
            sequence,
            from: parts + 1,
            parts: ring.parts,
            _held: is_shared.then(|| Held::of(&total.0, weight(&text))),
            text,
            frames: Default::default(),
        });
        if is_shared {
            ring.made.push(Arc::clone(&grown));
        }
        Found::Parts(grown)
    }

    /// Keeps no part: a reader that lags gets them from the store.
    pub(in super::super) fn empty(&mut self) {
        self.by_sequence.values_mut().for_each(Ring::forget);
    }

    /// Forgets messages that were changed or are below the floor: readers get them whole.
    pub(in super::super) fn forget(&mut self, changed: &[u64], floor: u64) {
        for sequence in changed {
            self.by_sequence.remove(sequence);
        }
        drop_below(&mut self.by_sequence, floor);
    }

    /// The same of messages that come whole.
    pub(in super::super) fn forget_whole(&mut self, sequences: impl Iterator<Item = u64>) {
        if !self.by_sequence.is_empty() {
            sequences.for_each(|sequence| drop(self.by_sequence.remove(&sequence)));
        }
    }

    pub(in super::super) fn clear(&mut self) {
        *self = Growths::default();
    }
}

/// How far a subscription was told of each open message that it knows.
#[derive(Debug, Default)]
pub(in super::super) struct Told {
    by_sequence: BTreeMap<u64, Place>,
    /// The message that got its turn last.
    last: u64,
    /// Pushes of parts since the last fresh message.
    pub(in super::super) ahead: u8,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    parts: u64,
    /// The topic's doubt that the store has settled.
    doubt: u64,
}

/// What a subscription gets next of open messages.
pub(in super::super) enum NextParts {
    /// Nothing.
    None,
    /// These parts.
    Parts(Arc<Grown>),
    /// The store has to be asked for those behind so many of a message; `doubt` is settled by that.
    Read {
        sequence: u64,
        after: u64,
        doubt: u64,
    },
}

/// No doubt of a topic: the store has to be asked whether there is more.
pub(in super::super) const UNSETTLED: u64 = u64::MAX;

impl Told {
    /// The subscription was told of a message: if it is open, of so many parts.
    pub(in super::super) fn of(&mut self, sequence: u64, parts: Option<u64>, doubt: u64) {
        match parts {
            Some(parts) => {
                self.by_sequence.insert(sequence, Place { parts, doubt });
            }
            None => {
                self.by_sequence.remove(&sequence);
            }
        }
    }

    /// So many pushes of parts have gone out that the next message does not wait for more.
    pub(in super::super) fn is_ahead(&mut self) -> bool {
        self.ahead >= AHEAD_MAX
    }

    /// The store is to be asked of all of them.
    pub(in super::super) fn doubt_all(&mut self) {
        for place in self.by_sequence.values_mut() {
            place.doubt = UNSETTLED;
        }
    }

    /// The next parts, of one message after the other.
    pub(super) fn next(
        &mut self,
        growths: &mut Growths,
        (epoch, floor, doubt): (&str, u64, u64),
        total: &GrownTotal,
    ) -> NextParts {
        drop_below(&mut self.by_sequence, floor);
        let behind = self.by_sequence.range(self.last + 1..);
        for (&sequence, place) in behind.chain(self.by_sequence.range(..=self.last)) {
            let read = NextParts::Read {
                sequence,
                after: place.parts,
                doubt,
            };
            let next = match growths.behind(epoch, (sequence, place.parts), total) {
                _ if place.doubt != doubt => read,
                Found::None => continue,
                Found::Parts(grown) => NextParts::Parts(grown),
                Found::Gone => read,
            };
            self.last = sequence;
            return next;
        }
        NextParts::None
    }
}

fn drop_below<T>(by_sequence: &mut BTreeMap<u64, T>, floor: u64) {
    if by_sequence.range(..floor).next().is_some() {
        *by_sequence = by_sequence.split_off(&floor);
    }
}

/// Bytes that parts hold: their text, and about twice as much in frames.
fn weight(text: &str) -> usize {
    size_of::<Grown>() + 3 * text.len()
}

/// Parts of one message that are kept, those that came together counted once: the newer half of them is what comes
/// within a window at 1,000 a second.
const GROUPS_MAX: usize = 2_048;
/// Bytes of their text.
const TEXT_BYTES_MAX: usize = 128 << 10;
/// Pushes of parts that gathered, before a message that came behind them.
const AHEAD_MAX: u8 = 64;
/// Readers at so many places share what they are sent.
const MADE_MAX: usize = 4;
/// Beyond so many bytes of all timelines together all parts are let go: what grows gets room again, what is idle loses
/// it.
const TOTAL_BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(sequence: u64, from: u64, parts: u64) -> Growth {
        let text = (from..=parts).map(|part| format!("{part},")).collect();
        Growth {
            timeline: "t".to_owned(),
            epoch: "A".to_owned(),
            sequence,
            from,
            parts,
            text,
        }
    }

    fn next(
        told: &mut Told,
        (growths, total): (&mut Growths, &GrownTotal),
        floor: u64,
        doubt: u64,
    ) -> Option<(u64, String)> {
        match told.next(growths, ("A", floor, doubt), total) {
            NextParts::None => None,
            NextParts::Parts(grown) => {
                told.of(grown.sequence, Some(grown.parts), doubt);
                Some((grown.sequence, grown.text.clone()))
            }
            NextParts::Read {
                sequence, after, ..
            } => Some((sequence, format!("read {after}"))),
        }
    }

    #[test]
    fn parts_come_once_in_order_and_several_at_once_for_a_slow_reader() {
        let (mut growths, mut told, total) =
            (Growths::default(), Told::default(), GrownTotal::default());
        told.of(5, Some(0), 0);
        growths.take(&growth(5, 1, 1), &total);
        growths.take(&growth(9, 1, 3), &total);
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((5, "1,".to_owned()))
        );
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            None,
            "nobody told it of 9"
        );
        growths.take(&growth(5, 2, 3), &total);
        growths.take(&growth(5, 4, 4), &total);
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((5, "2,3,4,".to_owned()))
        );
        // In the middle of a group, and behind a hole.
        told.of(5, Some(2), 0);
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((5, "read 2".to_owned()))
        );
        told.of(5, Some(4), 0);
        growths.take(&growth(5, 7, 7), &total);
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((5, "read 4".to_owned()))
        );
        // A reader that is ahead of the log.
        told.of(5, Some(8), 0);
        growths.take(&growth(5, 8, 8), &total);
        assert_eq!(next(&mut told, (&mut growths, &total), 1, 0), None);
        // Another doubt, and a floor.
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 1),
            Some((5, "read 8".to_owned()))
        );
        assert_eq!(next(&mut told, (&mut growths, &total), 6, 1), None);
        assert!(told.by_sequence.is_empty());
        growths.forget(&[9], 6);
        assert!(growths.by_sequence.is_empty());
        drop(growths);
        assert_eq!(total.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn messages_take_turns_and_what_is_kept_is_bounded() {
        let (mut growths, mut told, total) =
            (Growths::default(), Told::default(), GrownTotal::default());
        told.of(1, Some(0), 0);
        told.of(2, Some(0), 0);
        let groups_max = GROUPS_MAX as u64;
        for part in 1..=2 * groups_max {
            growths.take(&growth(1, part, part), &total);
            let ring = &growths.by_sequence[&1];
            assert!(ring.ends.len() <= GROUPS_MAX && ring.parts - ring.gone >= part.min(1_024));
        }
        growths.take(&growth(2, 1, 1), &total);
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((1, "read 0".to_owned()))
        );
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((2, "1,".to_owned()))
        );
        // The newest are there, whatever went.
        told.of(1, Some(2 * groups_max - 2), 0);
        let newest = format!("{},{},", 2 * groups_max - 1, 2 * groups_max);
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((1, newest))
        );
        let mut long = growth(2, 2, 2);
        long.text = "x".repeat(TEXT_BYTES_MAX + 1);
        growths.take(&long, &total);
        assert_eq!(
            next(&mut told, (&mut growths, &total), 1, 0),
            Some((2, "read 1".to_owned()))
        );
    }

    #[test]
    fn readers_at_one_place_share_what_they_are_sent() {
        let (mut growths, total) = (Growths::default(), GrownTotal::default());
        let sent = |growths: &mut Growths, parts| match growths.behind("A", (5, parts), &total) {
            Found::Parts(grown) => grown,
            _ => panic!("they are kept"),
        };
        growths.take(&growth(5, 1, 1), &total);
        growths.take(&growth(5, 2, 2), &total);
        let first = sent(&mut growths, 0);
        assert!(Arc::ptr_eq(&first, &sent(&mut growths, 0)));
        let second = sent(&mut growths, 1);
        assert_eq!((&*first.text, &*second.text), ("1,2,", "2,"));
        growths.take(&growth(5, 3, 3), &total);
        let later = sent(&mut growths, 0);
        assert_eq!((later.from, later.parts, &*later.text), (1, 3, "1,2,3,"));
        let kept = total.bytes();
        growths.empty();
        assert!(total.bytes() < kept);
        assert!(matches!(growths.behind("A", (5, 2), &total), Found::Gone));
        growths.take(&growth(5, 4, 4), &total);
        assert_eq!(&*sent(&mut growths, 3).text, "4,");
        growths.clear();
        drop((first, second, later));
        assert_eq!(total.bytes(), 0);
    }
}
