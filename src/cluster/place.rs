//! Where a reader of the log is, and what the next frame must be.
//!
//! Owns: the rule by which a frame takes effect, is void or is wrong, the same for owner, standby and rebuild.
//! Promises: readers that took the same frames have equal places. Must not: know time, roles or how frames come.
//!
//! A frame of a lower term than the last claim is *void*: it counts as a position and does nothing. Its place in the
//! chain is not looked at, since it may follow frames that were never stored; the next frame follows the last one that
//! is not void. A frame is void only with the right log ID and position, and close behind a claim: otherwise a foreign
//! stream of low terms would be passed over in silence.

use tideline_base::ids::{HistoryId, Position};
use xxhash_rust::xxh3::xxh3_128;

use crate::frame::{Claim, Content, Draft, Sealed};
use crate::plant::{Plant, is_planted};

/// A place in the log. A node keeps it with its mirror, and a snapshot brings it along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of which log.
    pub log: HistoryId,
    /// The last frame that was taken.
    pub position: Position,
    /// The CRCs of the last frames, the newest last; at most [`RECENT_MAX`].
    pub recent: Vec<u32>,
    /// The CRC of the last frame that is not void.
    pub chained: u32,
    /// The present term.
    pub term: u64,
    /// Where it was claimed.
    pub claimed: Position,
    /// Who owns the log; `None` before the first claim and after a resignation.
    pub owner: Option<Claim>,
    /// The longest read lease that any claim named.
    pub lease_ms_max: u32,
    /// 128 bits of all frames since the genesis.
    pub digest: u128,
    /// Frames up to here may be gone.
    pub trimmed: Position,
    /// Where the genesis is; zero before it.
    pub began: Position,
    /// The log was closed for good.
    pub is_ended: bool,
}

/// What the next frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It takes effect.
    Next,
    /// It counts as a position.
    Void,
    /// It was taken already.
    Old,
    /// Others are missing before it.
    Ahead,
    /// It attests another digest than that of the frames here.
    Digest,
    /// It cannot belong here.
    Wrong(&'static str),
}

/// A look compares so many frames to tell one history from another: more than a cluster has nodes. In a stream that
/// lost its end, each node can store again only the one frame that it had in flight.
pub const RECENT_MAX: usize = 8;

/// No writer of any version has more frames in flight. A deposed writer's first one lost its position to the claim; the
/// others can be void, each at the position that it was sealed for. A frame of the old term further behind belongs to a
/// history without this claim: the claim was lost, and the stream is another one.
const IN_FLIGHT_MAX: u64 = 4;

impl Place {
    /// In front of a log's genesis, behind a last frame (of a log that is adopted) or nothing (0, CRC 0, term 0).
    #[must_use]
    pub fn before_genesis(log: HistoryId, position: Position, crc: u32, term: u64) -> Place {
        Place {
            log,
            position,
            recent: vec![crc],
            chained: crc,
            term,
            claimed: position,
            owner: None,
            lease_ms_max: 0,
            digest: 0,
            trimmed: position,
            began: Position::ZERO,
            is_ended: false,
        }
    }

    /// Takes the next frame of a mirror that this process finds on its disk; whether it is void. What is wrong with it
    /// is an error: the mirror ends before it.
    pub fn replay(&mut self, frame: &Sealed) -> Result<bool, &'static str> {
        let is_void = match self.judge(frame.position, frame) {
            Verdict::Next => false,
            Verdict::Void => true,
            Verdict::Old => return Err("it was there before"),
            Verdict::Ahead => return Err("others are missing before it"),
            Verdict::Digest => return Err("it attests another digest"),
            Verdict::Wrong(what) => return Err(what),
        };
        self.take(frame, is_void);
        Ok(is_void)
    }

    /// The last frames' positions and CRCs, the newest first.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (Position, u32)> {
        let positions = (0..=self.position.0).rev().map(Position);
        positions.zip(self.recent.iter().rev().copied())
    }

    /// Judges what the stream has at `sequence`.
    pub(crate) fn judge(&self, sequence: Position, frame: &Sealed) -> Verdict {
        let next = self.position.next();
        if sequence <= self.position {
            let mut taken = self.ends().filter(|(position, _)| *position == sequence);
            return match taken.next() {
                Some((_, crc)) if crc != frame.crc => {
                    Verdict::Wrong("another frame than the one that was taken here")
                }
                _ => Verdict::Old,
            };
        }
        if sequence > next && !is_planted(Plant::SkipsGap) {
            return Verdict::Ahead;
        }
        if frame.log != self.log {
            return Verdict::Wrong("of another log");
        }
        if frame.position != sequence && !is_planted(Plant::SkipsGap) {
            return Verdict::Wrong("sealed for another position");
        }
        if frame.term < self.term && !is_planted(Plant::NoVoidRule) {
            return match sequence.0 < self.claimed.0 + IN_FLIGHT_MAX {
                true => Verdict::Void,
                false => Verdict::Wrong("of a term that ended before it was sent"),
            };
        }
        self.judge_valid(frame)
    }

    fn judge_valid(&self, frame: &Sealed) -> Verdict {
        let is_loose = is_planted(Plant::NoVoidRule) || is_planted(Plant::SkipsGap);
        if frame.previous_crc != self.chained && !is_loose {
            return Verdict::Wrong("it does not follow the frame before it");
        }
        if self.is_ended {
            return Verdict::Wrong("behind the end of a closed log");
        }
        let is_begun = self.began > Position::ZERO;
        match &frame.content {
            Content::Genesis(_) if !is_begun && frame.term == self.term => Verdict::Next,
            _ if !is_begun => Verdict::Wrong("not a genesis, which comes first"),
            Content::Genesis(_) => Verdict::Wrong("a second genesis"),
            Content::Claim(_) if frame.term == self.term + 1 => Verdict::Next,
            Content::Claim(_) => Verdict::Wrong("a claim of a term that is not the next one"),
            _ if frame.term > self.term => Verdict::Wrong("of a term that nobody claimed"),
            _ if self.owner.is_none() && !is_loose => Verdict::Wrong("of a term that has no owner"),
            Content::Attest { digest } if *digest != self.digest && !is_loose => Verdict::Digest,
            _ => Verdict::Next,
        }
    }

    /// Goes on behind a frame that was judged `Next` or `Void`.
    pub(crate) fn take(&mut self, frame: &Sealed, is_void: bool) {
        self.position = frame.position;
        if self.recent.len() >= RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push(frame.crc);
        let mut both = [0; 32];
        both[..16].copy_from_slice(&self.digest.to_be_bytes());
        both[16..].copy_from_slice(&frame.hash.to_be_bytes());
        self.digest = xxh3_128(&both);
        if is_void {
            return;
        }
        self.chained = frame.crc;
        match &frame.content {
            Content::Genesis(_) => self.began = frame.position,
            Content::Claim(claim) => {
                self.term = frame.term;
                self.claimed = frame.position;
                self.lease_ms_max = self.lease_ms_max.max(claim.lease_ms);
                self.owner = Some(claim.clone());
            }
            Content::Resign { .. } => self.owner = None,
            Content::Trimmed { to } => self.trimmed = self.trimmed.max(*to),
            Content::Ends => self.is_ended = true,
            Content::Batch | Content::Beat | Content::Attest { .. } => {}
        }
    }

    /// What a next frame of the present term must be; a claim is of the next one.
    #[must_use]
    pub fn draft(&self, content: Content) -> Draft {
        Draft {
            log: self.log,
            position: self.position.next(),
            term: self.term + u64::from(matches!(content, Content::Claim(_))),
            previous_crc: self.chained,
            content,
        }
    }

    /// Whether a frame was sealed for this place.
    pub(crate) fn fits(&self, frame: &Sealed) -> bool {
        let draft = self.draft(frame.content.clone());
        draft.sealed(frame.crc, frame.hash) == *frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{genesis, seal};

    /// Behind a genesis and a claim of term 1, at position 2.
    fn claimed() -> Place {
        let mut place = Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 0);
        let claim = Claim {
            node: "a".to_owned(),
            boot: 1,
            lease_ms: 500,
        };
        for content in [Content::Genesis(genesis()), Content::Claim(claim)] {
            let frame = seal(place.draft(content), 0);
            assert_eq!(place.judge(frame.position, &frame), Verdict::Next);
            place.take(&frame, false);
        }
        place
    }

    #[test]
    fn only_the_frame_that_follows_takes_effect() {
        let place = claimed();
        let good = seal(place.draft(Content::Batch), 1);
        let judge = |change: &dyn Fn(&mut Sealed)| {
            let mut frame = good.clone();
            change(&mut frame);
            place.judge(frame.position, &frame)
        };
        assert_eq!(judge(&|_| {}), Verdict::Next);
        assert_eq!(judge(&|frame| frame.position = Position(4)), Verdict::Ahead);
        let taken = place.ends().nth(1).expect("the genesis");
        let old = judge(&|frame| (frame.position, frame.crc) = taken);
        assert_eq!(old, Verdict::Old);
        let changes: &[&dyn Fn(&mut Sealed)] = &[
            &|frame| frame.position = Position(1),
            &|frame| frame.position = Position(2),
            &|frame| frame.log = HistoryId([8; 16]),
            &|frame| frame.previous_crc ^= 1,
            &|frame| frame.term = 2,
            &|frame| frame.content = Content::Genesis(genesis()),
            &|frame| frame.content = Content::Claim(place.owner.clone().expect("claimed")),
        ];
        for change in changes {
            assert!(matches!(judge(change), Verdict::Wrong(_)));
        }
        assert!(matches!(
            place.judge(Position(3), &seal(claimed().draft(Content::Ends), 2)),
            Verdict::Next
        ));
        let attest = Content::Attest { digest: 1 };
        let attest = seal(place.draft(attest), 3);
        assert_eq!(place.judge(Position(3), &attest), Verdict::Digest);
    }

    #[test]
    fn a_void_frame_is_a_position_and_the_chain_goes_around_it() {
        let mut place = claimed();
        let old = place.clone();
        let claim = place.draft(Content::Claim(place.owner.clone().expect("claimed")));
        place.take(&seal(claim, 4), false);
        let mut void = seal(old.draft(Content::Batch), 5);
        void.position = Position(4);
        assert_eq!(place.judge(Position(4), &void), Verdict::Void);
        let next = place.draft(Content::Batch).previous_crc;
        place.take(&void, true);
        assert_eq!(place.draft(Content::Batch).previous_crc, next);
        assert_eq!((place.position, place.term), (Position(4), 2));
        // One of another log, or far behind the claim, is not passed over.
        void.position = Position(5);
        void.log = HistoryId([8; 16]);
        assert!(matches!(place.judge(Position(5), &void), Verdict::Wrong(_)));
        place.position = Position(40);
        let mut late = seal(old.draft(Content::Batch), 6);
        late.position = Position(41);
        assert!(matches!(
            place.judge(Position(41), &late),
            Verdict::Wrong(_)
        ));
    }

    /// Why one frame is in flight: behind a void frame in the place of a first one, a second one fits the stream.
    #[test]
    fn a_second_frame_in_flight_would_be_stored_without_the_first() {
        let mut place = claimed();
        let mut writer = place.clone();
        let first = seal(writer.draft(Content::Batch), 10);
        writer.take(&first, false);
        let second = seal(writer.draft(Content::Batch), 11);
        let mut void = seal(place.draft(Content::Batch), 12);
        void.term = 0;
        assert_eq!(place.judge(Position(3), &void), Verdict::Void);
        place.take(&void, true);
        assert_eq!(second.position, place.position.next());
        let broken = Verdict::Wrong("it does not follow the frame before it");
        assert_eq!(place.judge(Position(4), &second), broken);
    }

    #[test]
    fn nobody_writes_where_nobody_owns() {
        let mut place = claimed();
        place.take(&seal(place.draft(Content::Resign { to: None }), 7), false);
        let batch = seal(place.draft(Content::Batch), 8);
        assert!(matches!(
            place.judge(batch.position, &batch),
            Verdict::Wrong(_)
        ));
        let before = Place::before_genesis(HistoryId([7; 16]), Position(9), 3, 1);
        let batch = seal(before.draft(Content::Batch), 9);
        assert!(matches!(
            before.judge(Position(10), &batch),
            Verdict::Wrong(_)
        ));
    }
}
