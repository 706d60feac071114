//! What becomes of one frame that was sent to the stream.
//!
//! Owns: the resends, and what each answer proves. Promises: an answer decides only if it can mean one thing; until
//! then the same bytes go again with the same expected sequence, so that a position never gets two frames of one term.
//! Must not: judge what is at the position; a fetched frame goes the way of every received one.
//!
//! One frame is in flight. Expected sequences do not fence a second one: where a claim takes the position of a deposed
//! owner's frame `k`, that owner's `k + 1` is still stored. It is void, but it takes the position of the new owner's
//! first frame, which is refused, and the new owner's second frame would be stored behind it. This must be solved
//! before more frames are in flight.
//!
//! `Full` decides only because NATS delivers one send at most once.

use tideline_base::ids::Position;

use crate::frame::Sealed;
use crate::halt::Halt;
use crate::lease::SteadyMs;
use crate::plant::{Plant, is_planted};

/// What the stream answered to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Stored, with this sequence.
    Stored(Position),
    /// Refused (10071): the stream's last sequence is this one, not the expected one.
    WrongLast(Position),
    /// Refused, and by no server stored: no room.
    Full,
    /// 503, or the connection was lost: the frame may be stored or not.
    Failed,
}

/// What follows from an answer, or from time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    /// Send the same again.
    Send,
    /// Fetch what is at the position, of any replica.
    Fetch,
    /// It is stored.
    Stored,
    /// It was not stored, and never will be.
    Full,
    Halt(Halt),
}

/// A frame in flight.
#[derive(Clone, Debug)]
pub(crate) struct Settle {
    pub(crate) frame: Sealed,
    pub(crate) first_sent: SteadyMs,
    copies: u32,
    due: SteadyMs,
    /// Since when the stream's answers say that it ends below what was stored.
    short_since: Option<SteadyMs>,
}

/// A copy waits so long for its answer.
const ANSWER_MS: u64 = 400;
/// After a failure the next copy goes sooner.
const FAILED_MS: u64 = 50;
/// A stream may end too early for so long: a replica may be behind.
const SHORT_MS: u64 = 2_000;

impl Settle {
    /// The caller sends the first copy, after it has read `now`.
    pub(crate) fn begin(frame: Sealed, now: SteadyMs) -> Settle {
        Settle {
            frame,
            first_sent: now,
            copies: 1,
            due: now.plus(ANSWER_MS),
            short_since: None,
        }
    }

    /// Ms since it was first sent.
    pub(crate) fn waited_ms(&self, now: SteadyMs) -> u64 {
        now.since(self.first_sent)
    }

    pub(crate) fn tick(&mut self, now: SteadyMs) -> Step {
        if now < self.due {
            return Step::Wait;
        }
        if is_planted(Plant::SilenceIsFailure) {
            return Step::Full;
        }
        self.copies += 1;
        self.due = now.plus(ANSWER_MS);
        Step::Send
    }

    pub(crate) fn answered(&mut self, answer: Answer, now: SteadyMs) -> Step {
        let wanted = self.frame.position;
        match answer {
            Answer::Stored(stored) if stored == wanted => Step::Stored,
            Answer::Stored(stored) => Step::Halt(Halt::Misplaced { wanted, stored }),
            Answer::WrongLast(last) if last >= wanted => {
                self.short_since = None;
                Step::Fetch
            }
            // The stream ends where the copy expected it: the proposal that it was refused for has been lost since.
            Answer::WrongLast(last) if last.next() == wanted => Step::Wait,
            Answer::WrongLast(last) => {
                let since = *self.short_since.get_or_insert(now);
                let known = Position(wanted.0 - 1);
                match now.since(since) >= SHORT_MS {
                    true => Step::Halt(Halt::Shorter { last, known }),
                    false => Step::Wait,
                }
            }
            // Another copy may be stored yet.
            Answer::Full if self.copies > 1 => Step::Wait,
            Answer::Full => Step::Full,
            Answer::Failed => {
                self.due = self.due.min(now.plus(FAILED_MS));
                Step::Wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Content;
    use tideline_base::ids::HistoryId;

    fn begun(position: u64) -> Settle {
        let frame = Sealed {
            log: HistoryId([1; 16]),
            position: Position(position),
            term: 1,
            previous_crc: 0,
            crc: 0,
            hash: 0,
            content: Content::Batch,
        };
        Settle::begin(frame, SteadyMs(1_000))
    }

    #[test]
    fn silence_decides_nothing() {
        let mut settle = begun(5);
        assert_eq!(settle.tick(SteadyMs(1_399)), Step::Wait);
        assert_eq!(settle.tick(SteadyMs(1_400)), Step::Send);
        assert_eq!(settle.answered(Answer::Failed, SteadyMs(1_450)), Step::Wait);
        assert_eq!(settle.tick(SteadyMs(1_500)), Step::Send);
        let stored = Answer::Stored(Position(5));
        assert_eq!(settle.answered(stored, SteadyMs(90_000)), Step::Stored);
        assert_eq!(settle.waited_ms(SteadyMs(90_000)), 89_000);
    }

    #[test]
    fn no_room_is_believed_of_the_only_copy() {
        assert_eq!(begun(5).answered(Answer::Full, SteadyMs(1_001)), Step::Full);
        let mut settle = begun(5);
        assert_eq!(settle.tick(SteadyMs(1_400)), Step::Send);
        assert_eq!(settle.answered(Answer::Full, SteadyMs(1_401)), Step::Wait);
    }

    #[test]
    fn a_stream_that_stays_too_short_has_lost_frames() {
        let mut settle = begun(5);
        let short = Answer::WrongLast(Position(3));
        assert_eq!(settle.answered(short, SteadyMs(1_001)), Step::Wait);
        let taken = Answer::WrongLast(Position(5));
        assert_eq!(settle.answered(taken, SteadyMs(2_000)), Step::Fetch);
        assert_eq!(settle.answered(short, SteadyMs(3_002)), Step::Wait);
        let Step::Halt(why) = settle.answered(short, SteadyMs(5_002)) else {
            panic!("for 2 s");
        };
        assert!(why.to_string().contains("ends at 3, but 4 was in it"));
        let elsewhere = settle.answered(Answer::Stored(Position(6)), SteadyMs(5_002));
        assert!(matches!(elsewhere, Step::Halt(Halt::Misplaced { .. })));
    }
}
