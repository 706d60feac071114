//! What the stream brings: answers to what was sent, frames of the consumer and of direct gets, looks.
//!
//! Owns: what each of them changes in a node. Promises: a frame is judged in one place, however it comes, and decides
//! what was in flight for its position; only the ack of the node's own frame needs no judgement. Must not: act on time;
//! `time.rs` does.

use tideline_base::ids::Position;

use super::succeed::BACK_OFF_MS;
use super::{Command, FULL_MS, FULL_MS_MAX, Node, Role};
use crate::attach::{StreamFacts, differs};
use crate::frame::{Content, Sealed};
use crate::halt::Halt;
use crate::lease::{Lease, SteadyMs};
use crate::place::Verdict;
use crate::plant::{Plant, is_planted};
use crate::settle::{Answer, Settle, Step};

/// A node stops at so many wrong frames in a row.
const REFUSED_MAX: u8 = 3;
/// Between two requests for missing frames.
const ASK_MS: u64 = 100;

impl Node {
    /// The stream answered to a copy of the frame at this position.
    pub fn answered(&mut self, position: Position, answer: Answer, now: SteadyMs) {
        if answer != Answer::Failed {
            self.watch.passed(now);
        }
        if let Answer::WrongLast(last) = answer
            && last.next() < position
        {
            // Another history may grow up to this position, and then a copy of this frame would be stored there.
            self.attach.doubt(self.place.ends(), now);
        }
        let sending = self.sending.as_mut();
        let Some(settle) = sending.filter(|settle| settle.frame.position == position) else {
            return;
        };
        let step = settle.answered(answer, now);
        self.follow_step(step, now);
    }

    pub(super) fn follow_step(&mut self, step: Step, now: SteadyMs) {
        let Some(settle) = &self.sending else {
            return;
        };
        let frame = settle.frame.clone();
        match step {
            Step::Wait => {}
            Step::Send => self.commands.push(Command::Send(frame)),
            Step::Fetch => self.commands.push(Command::Fetch(frame.position)),
            Step::Stored => self.take(frame, false, now),
            Step::Full => self.give_up(now),
            Step::Halt(halt) => self.stop(halt),
        }
    }

    /// The frame in flight was not written, for want of room.
    fn give_up(&mut self, now: SteadyMs) {
        let Some(settle) = self.sending.take() else {
            return;
        };
        match settle.frame.content {
            Content::Batch => self.commands.push(Command::Full(settle.frame.position)),
            Content::Claim(_) => self.role = Role::Follower,
            _ => {}
        }
        self.pause_until = now.plus(self.full_ms);
        self.full_ms = FULL_MS_MAX.min(2 * self.full_ms);
    }

    /// A frame came, by the consumer. Any copy of the stream may have it: that it takes more is not shown.
    pub fn received(&mut self, sequence: Position, frame: Sealed, now: SteadyMs) {
        if self.stopped().is_some() {
            return;
        }
        self.ahead = self.ahead.max(sequence);
        if let Content::Genesis(found) = &frame.content
            && let Some(what) = differs(found, &self.options.genesis)
        {
            return self.stop(Halt::Foreign { what });
        }
        match self.place.judge(sequence, &frame) {
            Verdict::Next => self.take(frame, false, now),
            Verdict::Void => self.take(frame, true, now),
            Verdict::Old => {}
            Verdict::Ahead => self.ask(now),
            Verdict::Digest => self.stop(Halt::Digest { position: sequence }),
            Verdict::Wrong(what) => self.wrong(sequence, what, now),
        }
    }

    /// What came from this position is no frame.
    pub fn unreadable(&mut self, sequence: Position, now: SteadyMs) {
        if self.stopped().is_some() {
            return;
        }
        self.ahead = self.ahead.max(sequence);
        match sequence > self.place.position.next() {
            true => self.ask(now),
            false => self.wrong(sequence, "no whole frame", now),
        }
    }

    fn wrong(&mut self, sequence: Position, what: &'static str, now: SteadyMs) {
        self.refused += 1;
        match self.refused < REFUSED_MAX {
            true => self.ask(now),
            false if sequence <= self.place.position => {
                self.stop(Halt::OtherHistory { position: sequence });
            }
            false => self.stop(Halt::Damaged {
                position: sequence,
                what,
            }),
        }
    }

    /// A direct get was answered, perhaps by a replica that does not have the frame yet.
    pub fn fetched(&mut self, position: Position, found: Option<Sealed>, now: SteadyMs) {
        match found {
            Some(frame) => self.received(position, frame, now),
            // That nothing was found proves nothing.
            None if is_planted(Plant::AbsenceIsFailure) => {
                let sending = self.sending.as_ref();
                if sending.is_some_and(|settle| settle.frame.position == position) {
                    self.give_up(now);
                }
            }
            None => {}
        }
    }

    /// Asks for the next frame in other ways: by a new consumer and by a direct get.
    pub(super) fn ask(&mut self, now: SteadyMs) {
        if self.asked.is_some_and(|asked| now.since(asked) < ASK_MS) {
            return;
        }
        self.asked = Some(now);
        let next = self.place.position.next();
        self.commands.push(Command::Follow(self.place.position));
        self.commands.push(Command::Fetch(next));
    }

    /// Takes a frame that is in the log at the next position.
    fn take(&mut self, frame: Sealed, is_void: bool, now: SteadyMs) {
        let sent = self.sending.take();
        let is_own = sent.as_ref().is_some_and(|sent| sent.frame == frame);
        let is_second = self.owns() && !is_void && !is_own && frame.term == self.place.term;
        if is_second {
            return self.stop(Halt::Damaged {
                position: frame.position,
                what: "a second frame of the term that this node owns",
            });
        }
        let is_claimed = is_own && matches!(frame.content, Content::Claim(_));
        if is_void || is_claimed {
            // A void frame does no harm, but no owner of today leaves one behind: frames may have been lost here. A new
            // owner answers nothing before it has looked at the frame behind which it claimed.
            self.attach.doubt(self.place.ends(), now);
        }
        if !is_void {
            self.follow_leases(&frame.content, is_own, now);
            // What is read of a past that this node has missed is no word of the owner.
            let is_new = self.attach.is_right() && frame.position >= self.ahead;
            if is_new || is_own {
                if !is_own {
                    self.watch.wrote(now);
                }
                if let Content::Claim(claim) = &frame.content {
                    self.watch.claimed(&claim.node, now);
                }
            }
        }
        self.place.take(&frame, is_void);
        self.refused = 0;
        let (position, content) = (frame.position, frame.content.clone());
        self.commands.push(Command::Take { frame, is_void });
        match sent {
            Some(sent) if is_own => self.own_is_stored(&sent, now),
            sent if is_void => self.void_took(sent),
            sent => self.others_is_stored(sent, (position, content), now),
        }
        self.acknowledge(now);
    }

    /// Notes what a frame says of other owners' leases. This node's own lease ends with its role.
    fn follow_leases(&mut self, content: &Content, is_own: bool, now: SteadyMs) {
        let lease_ms = match content {
            Content::Claim(claim) => {
                self.hold.claimed();
                claim.lease_ms
            }
            Content::Resign { .. } => return self.hold.resigned(),
            _ => self.place.owner.as_ref().map_or(0, |owner| owner.lease_ms),
        };
        if !is_own {
            let is_naive = is_planted(Plant::OwnLease) && lease_ms > 0;
            let lease_ms = if is_naive {
                self.options.read_lease_ms
            } else {
                lease_ms
            };
            self.hold.received(now, lease_ms);
        }
    }

    fn own_is_stored(&mut self, sent: &Settle, now: SteadyMs) {
        let position = sent.frame.position;
        self.stored = position;
        self.full_ms = FULL_MS;
        self.attach.stored((position, sent.frame.crc));
        match &sent.frame.content {
            Content::Claim(claim) => {
                self.role = Role::Owner;
                (self.wish, self.is_invited) = (None, false);
                self.wants_end = false;
                self.lease = Lease::new(claim.lease_ms);
                self.acknowledge_from = self.hold.until();
                self.attested = (position, now);
                // The others hear it at once.
                self.said = None;
                self.commands.push(Command::Own);
            }
            Content::Resign { .. } => {
                self.role = Role::Follower;
                self.watch.changed(now);
                // Whatever the reason was, others come first.
                self.guesses_from = now.plus(BACK_OFF_MS);
                self.commands.push(Command::Moved(None));
            }
            Content::Attest { .. } => self.attested = (position, now),
            Content::Trimmed { to } => self.commands.push(Command::Purge(*to)),
            _ => {}
        }
        self.lease.stored(sent.first_sent, now);
    }

    /// A void frame took the position that this node wanted. The node still owns the log, if it did.
    fn void_took(&mut self, sent: Option<Settle>) {
        let Some(sent) = sent else {
            return;
        };
        match sent.frame.content {
            Content::Batch => self.commands.push(Command::Again(sent.frame.position)),
            Content::Claim(_) => self.role = Role::Follower,
            _ => {}
        }
    }

    fn others_is_stored(
        &mut self,
        sent: Option<Settle>,
        (position, content): (Position, Content),
        now: SteadyMs,
    ) {
        if self.owns() {
            let batch = sent.filter(|sent| sent.frame.content == Content::Batch);
            let unwritten = batch.map(|sent| sent.frame.position);
            self.commands.push(Command::Moved(unwritten));
        }
        self.role = Role::Follower;
        if matches!(content, Content::Claim(_) | Content::Resign { .. }) {
            self.wish.take_if(|wish| position > wish.behind);
        }
        match content {
            Content::Claim(_) => {
                self.watch.changed(now);
                self.is_invited = false;
            }
            Content::Resign { to } => {
                self.watch.changed(now);
                self.is_invited = to.is_some_and(|to| to == self.options.node);
            }
            _ => {}
        }
    }

    /// Acknowledges what is stored, as soon as it may. A node that was deposed since may do so, too: what it stored is
    /// in the log, and the wait is for leases of earlier owners.
    pub(super) fn acknowledge(&mut self, now: SteadyMs) {
        let may =
            now >= self.acknowledge_from && self.attach.is_right() && self.stopped().is_none();
        if may && self.stored > self.acknowledged {
            self.acknowledged = self.stored;
            self.commands.push(Command::Acknowledge(self.stored));
        }
    }

    /// A look at the stream was answered.
    pub fn looked(&mut self, facts: &StreamFacts, now: SteadyMs) {
        if self.stopped().is_some() {
            return;
        }
        self.watch.passed(now);
        self.ahead = self.ahead.max(facts.last);
        let expected = &self.options.genesis;
        match self.attach.looked(facts, &self.place, expected, now) {
            Ok(()) => {
                self.acknowledge(now);
                let trimmed = self.place.trimmed;
                if self.role == Role::Owner && self.attach.is_right() && facts.first <= trimmed {
                    self.commands.push(Command::Purge(trimmed));
                }
            }
            Err(halt) => self.stop(halt),
        }
    }
}
