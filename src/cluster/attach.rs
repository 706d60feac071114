//! Whether the stream is still the one that this node has followed.
//!
//! Owns: what a look compares, and for how long a stream may look wrong. Promises: the first look after a stream was
//! deleted, made anew, restored, purged or replaced by another log's finds this, and ten seconds later the node stops.
//! Must not: fetch anything; the node commands a look, and its facts come back as an event.
//!
//! A *look* asks the stream for its ends and for the CRCs at some positions. A *doubt* is any sign that the stream may
//! be another one; a look must follow it. From a doubt until a look finds all right, the node neither acknowledges, nor
//! claims, nor answers reads.

use tideline_base::ids::Position;

use crate::frame::Genesis;
use crate::halt::Halt;
use crate::lease::SteadyMs;
use crate::place::Place;
use crate::plant::{Plant, is_planted};

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// The look's number.
    pub number: u64,
    /// The stream's first sequence; in an empty one the last + 1.
    pub first: Position,
    /// The stream's last sequence.
    pub last: Position,
    /// What its genesis says, if that is still there.
    pub genesis: Option<Genesis>,
    /// The CRCs at the positions that the look was for, in their order; `None` where there is no frame.
    pub crcs: Vec<Option<u32>>,
}

/// The next look at a stream that looks right comes after so long.
const LOOK_MS: u64 = 10_000;
/// The next look at a stream that looks wrong.
const WRONG_LOOK_MS: u64 = 100;
/// One that is only to show that the stream answers comes after so long.
const HURRY_MS: u64 = 500;
/// A look's facts may take so long: frames are large, and links slow. Whoever looks asks again meanwhile for what does
/// not come; another look would only have the same frames sent once more, behind those on their way.
pub const LOOK_PATIENCE_MS: u64 = 30_000;
/// A stream may look wrong for so long: a replica that is behind shows less than there is.
const WRONG_MS: u64 = 10_000;
/// No more frames are kept as doubted; the oldest stay.
const DOUBTED_MAX: usize = 32;

/// The looks at one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attach {
    is_right: bool,
    /// Since when it is not, if it is not.
    unsure_since: SteadyMs,
    wrong_since: Option<SteadyMs>,
    due: SteadyMs,
    /// Frames that the next look must find: the last ones that the node had at each doubt, and its own that were stored
    /// since. Those between may be of either history: a frame's chain shows only what its writer had.
    doubted: Vec<(Position, u32)>,
    looks: u64,
    /// A doubt came after the last look was sent, so that its facts cannot end the doubt.
    is_stale: bool,
    /// The look under way; facts of earlier looks come too late.
    asked: Option<Asked>,
}

/// What a look's facts are compared with: the node's state when the look was sent, since the stream grows meanwhile.
#[derive(Clone, Debug)]
struct Asked {
    /// The doubted frames, and the last ones that the node had.
    had: Vec<(Position, u32)>,
    /// The node's position.
    end: Position,
    /// The highest position that was known to be in the stream.
    known: Position,
}

impl Attach {
    pub(crate) fn begin(now: SteadyMs) -> Attach {
        Attach {
            unsure_since: now,
            ..Attach::default()
        }
    }

    /// Whether the last look found the right stream.
    pub(crate) fn is_right(&self) -> bool {
        self.is_right
    }

    /// For how long it has not been known whether the stream is the right one, in ms.
    pub(crate) fn unsure_ms(&self, now: SteadyMs) -> u64 {
        match self.is_right {
            true => 0,
            false => now.since(self.unsure_since),
        }
    }

    fn unsure(&mut self, now: SteadyMs) {
        if std::mem::replace(&mut self.is_right, false) {
            self.unsure_since = now;
        }
    }

    /// The stream may be another one. The next look is at what this node has now: a frame that it stores later may be
    /// stored in the other history, and a look at that frame would find it there.
    pub(crate) fn doubt(&mut self, had: impl IntoIterator<Item = (Position, u32)>, now: SteadyMs) {
        had.into_iter().for_each(|one| self.suspect(one));
        if self.asked.is_none() {
            self.due = now;
        }
        self.is_stale = true;
        self.unsure(now);
    }

    /// The answers to a look that is under way may have been lost with their connection: another one follows.
    pub(crate) fn connected(&mut self) {
        self.asked = None;
    }

    /// A frame of this node's own was stored; during a doubt only its ack speaks for it.
    pub(crate) fn stored(&mut self, had: (Position, u32)) {
        if !self.is_right {
            self.suspect(had);
        }
    }

    fn suspect(&mut self, had: (Position, u32)) {
        if self.doubted.len() < DOUBTED_MAX && !self.doubted.contains(&had) {
            self.doubted.push(had);
        }
    }

    /// The next look comes soon.
    pub(crate) fn hurry(&mut self, now: SteadyMs) {
        if self.asked.is_none() {
            self.due = self.due.min(now.plus(HURRY_MS));
        }
    }

    /// A look's number and positions, if one is due; `known` is the highest position that other nodes say to be in the
    /// stream. One look is under way at a time.
    pub(crate) fn tick(
        &mut self,
        place: &Place,
        known: Position,
        now: SteadyMs,
    ) -> Option<(u64, Vec<Position>)> {
        if now < self.due {
            return None;
        }
        self.due = now.plus(LOOK_PATIENCE_MS);
        let mut had = self.doubted.clone();
        had.extend(place.ends().filter(|one| !self.doubted.contains(one)));
        let positions = had.iter().map(|(position, _)| *position).collect();
        let known = known.max(place.position);
        let end = place.position;
        self.asked = Some(Asked { had, end, known });
        self.looks += 1;
        self.is_stale = false;
        Some((self.looks, positions))
    }

    /// Judges a look.
    pub(crate) fn looked(
        &mut self,
        facts: &StreamFacts,
        place: &Place,
        expected: &Genesis,
        now: SteadyMs,
    ) -> Result<(), Halt> {
        let asked = self.asked.take_if(|_| facts.number == self.looks);
        let Some(asked) = asked else {
            return Ok(());
        };
        let Some(wrong) = wrong(facts, &asked, place, expected) else {
            self.wrong_since = None;
            if self.is_stale {
                self.due = now;
                return Ok(());
            }
            self.is_right = true;
            self.doubted.clear();
            self.due = now.plus(LOOK_MS);
            return Ok(());
        };
        self.unsure(now);
        self.due = now.plus(WRONG_LOOK_MS);
        let since = *self.wrong_since.get_or_insert(now);
        match now.since(since) >= WRONG_MS {
            true => Err(wrong),
            false => Ok(()),
        }
    }
}

/// What a look finds wrong.
fn wrong(facts: &StreamFacts, asked: &Asked, place: &Place, expected: &Genesis) -> Option<Halt> {
    let StreamFacts {
        number: _,
        first,
        last,
        genesis,
        crcs,
    } = facts;
    if is_planted(Plant::NoAttach) {
        return None;
    }
    if let Some(what) = genesis.as_ref().and_then(|found| differs(found, expected)) {
        return Some(Halt::Foreign { what });
    }
    let (last, first, known) = (*last, *first, asked.known);
    if last < known {
        return Some(Halt::Shorter { last, known });
    }
    if first > asked.end.next() {
        return Some(match first.0 - 1 <= place.trimmed.0 {
            true => Halt::LeftBehind { first },
            false => Halt::Purged { first },
        });
    }
    // Frames from before the genesis are not in this stream.
    let begins = first.max(place.began);
    let is_begun = place.began > Position::ZERO;
    let mut had = asked.had.iter().enumerate();
    let other = had.find(|(index, (position, crc))| {
        let found = crcs.get(*index).copied().flatten();
        is_begun && *position >= begins && found != Some(*crc)
    });
    other.map(|(_, (position, _))| Halt::OtherHistory {
        position: *position,
    })
}

/// How two logs differ; `None` if they are the same.
pub(crate) fn differs(found: &Genesis, expected: &Genesis) -> Option<&'static str> {
    let Genesis {
        cluster,
        partition,
        range,
        history,
        format,
        rebuilt,
    } = expected;
    let same = [
        (found.cluster == *cluster, "another cluster"),
        (found.partition == *partition, "another partition"),
        (found.history == *history, "another history"),
        (found.range == *range, "another range of keys"),
        (found.format == *format, "another format of frames"),
        (found.rebuilt == *rebuilt, "another rebuild"),
    ];
    let other = same.into_iter().find(|(is_same, _)| !is_same);
    other.map(|(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::genesis;
    use tideline_base::ids::HistoryId;

    fn at_nine() -> Place {
        let mut place = Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 0);
        (place.position, place.began) = (Position(9), Position(1));
        place.recent = vec![98, 99];
        place
    }

    fn facts() -> StreamFacts {
        StreamFacts {
            number: 0,
            first: Position(1),
            last: Position(12),
            genesis: Some(genesis()),
            crcs: vec![Some(99), Some(98)],
        }
    }

    /// Why a node stops, if the stream looks like this for ten seconds.
    fn ends(change: impl Fn(&mut StreamFacts), known: u64) -> Option<Halt> {
        let (mut attach, place, mut facts) = (Attach::begin(SteadyMs(0)), at_nine(), facts());
        change(&mut facts);
        for look in 0..200 {
            let now = SteadyMs(look * WRONG_LOOK_MS);
            let Some((number, positions)) = attach.tick(&place, Position(known), now) else {
                continue;
            };
            assert_eq!(positions, [Position(9), Position(8)]);
            facts.number = number;
            let looked = attach.looked(&facts, &place, &genesis(), now);
            if let Err(halt) = looked {
                assert!(!attach.is_right() && now.0 >= WRONG_MS);
                return Some(halt);
            }
        }
        assert!(attach.is_right());
        None
    }

    #[test]
    fn a_stream_that_is_another_ends_the_node() {
        assert_eq!(ends(|_| {}, 12), None);
        let (last, known) = (Position(12), Position(13));
        assert_eq!(ends(|_| {}, 13), Some(Halt::Shorter { last, known }));
        let shorter = ends(|facts| facts.last = Position(8), 0);
        assert!(matches!(shorter, Some(Halt::Shorter { .. })));
        let position = Position(9);
        for crc in [None, Some(97)] {
            let other = ends(|facts| facts.crcs[0] = crc, 0);
            assert_eq!(other, Some(Halt::OtherHistory { position }));
            // The last frame is the same, and the one before is not: it was sent again into another history.
            let before = ends(|facts| facts.crcs[1] = crc, 0);
            assert_eq!(
                before,
                Some(Halt::OtherHistory {
                    position: Position(8)
                })
            );
        }
        let purged = ends(|facts| facts.first = Position(11), 0);
        assert!(matches!(purged, Some(Halt::Purged { .. })));
        let cluster = |facts: &mut StreamFacts| {
            let genesis = facts.genesis.as_mut().expect("there is one");
            genesis.cluster = "theirs".to_owned();
        };
        let what = "another cluster";
        assert_eq!(ends(cluster, 0), Some(Halt::Foreign { what }));
        // The genesis may have been trimmed.
        let trimmed = |facts: &mut StreamFacts| {
            (facts.first, facts.genesis) = (Position(5), None);
        };
        assert_eq!(ends(trimmed, 0), None);
    }

    #[test]
    fn one_look_is_under_way_and_may_take_its_time() {
        let (mut attach, place, mut facts) = (Attach::begin(SteadyMs(0)), at_nine(), facts());
        let look = |attach: &mut Attach, at: u64| attach.tick(&place, Position(12), SteadyMs(at));
        let looked = |attach: &mut Attach, facts: &StreamFacts, at: u64| {
            attach
                .looked(facts, &place, &genesis(), SteadyMs(at))
                .expect("right");
        };
        attach.doubt(place.ends(), SteadyMs(0));
        facts.number = look(&mut attach, 0).expect("a doubt").0;
        assert!((1..LOOK_PATIENCE_MS / 10).all(|at| look(&mut attach, 10 * at).is_none()));
        // A doubt meanwhile needs a look of its own, behind this one.
        attach.doubt(place.ends(), SteadyMs(9_000));
        assert_eq!(look(&mut attach, 9_000), None);
        looked(&mut attach, &facts, 9_100);
        assert!(!attach.is_right());
        facts.number = look(&mut attach, 9_100).expect("the doubt goes on").0;
        looked(&mut attach, &facts, 14_000);
        assert!(attach.is_right() && look(&mut attach, 23_999).is_none());
        // What was asked over a connection that is gone is asked again at once.
        let late = look(&mut attach, 24_000).expect("from time to time").0;
        attach.connected();
        attach.doubt(place.ends(), SteadyMs(24_100));
        let again = look(&mut attach, 24_100).expect("a new connection").0;
        assert_eq!(again, late + 1);
        // And so is what was not answered at all.
        assert!(look(&mut attach, 24_100 + LOOK_PATIENCE_MS).is_some());
    }

    #[test]
    fn frames_that_were_trimmed_are_named() {
        let mut place = at_nine();
        place.trimmed = Position(10);
        let mut facts = facts();
        facts.first = Position(11);
        let asked = Asked {
            had: vec![(Position(9), 99)],
            end: Position(9),
            known: Position(9),
        };
        let wrong = wrong(&facts, &asked, &place, &genesis());
        assert!(matches!(wrong, Some(Halt::LeftBehind { .. })));
    }
}
