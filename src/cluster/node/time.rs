//! What a node does because of time, other nodes and persons: beats, resignations, looks.
//!
//! Owns: when a node wants to write a control frame, and which. Promises: one is wanted only while the stream is the
//! right one. Must not: judge frames; `stream.rs` does; or decide when to claim; `succeed.rs` does.

use tideline_base::ids::Position;

use super::{Command, Node, Options, Role};
use crate::frame::Content;
use crate::lease::SteadyMs;
use crate::watch::{BEAT_MS, Beat};

impl Node {
    /// The connection to the stream's servers is new, or the consumer ended without being dropped: the stream may be
    /// another one by now.
    pub fn connected(&mut self, now: SteadyMs) {
        if self.stopped().is_none() {
            self.attach.connected();
            self.attach.doubt(self.place.ends(), now);
            self.commands.push(Command::Follow(self.place.position));
        }
    }

    /// Whether a beat counts for nothing: its node is in no setting, and does not own the log.
    #[must_use]
    pub fn is_stranger(&self, beat: &Beat) -> bool {
        let nodes = &self.options.trim.nodes;
        let owner = self.place.owner.as_ref();
        let is_owner = owner.is_some_and(|owner| owner.node == beat.node);
        !nodes.is_empty() && !nodes.contains(&beat.node) && !is_owner
    }

    /// Another node said something. `wall_ms` is the time of day here.
    pub fn heard(&mut self, beat: &Beat, now: SteadyMs, wall_ms: u64) {
        // A node with a directory from before a rebuild may have more, and its frames count no longer.
        let is_same_log = beat.log == self.place.log && beat.began == self.place.began;
        if !is_same_log || self.is_stranger(beat) {
            return;
        }
        self.watch.heard(beat, &self.place, now, wall_ms);
        if self.watch.is_me(beat) {
            return;
        }
        let options = &self.options.trim;
        self.trim.heard(&beat.node, beat.covered, options, now);
        // An owner has all of the log but its frame in flight. If another node has more, there is another owner, or the
        // stream is another one.
        let in_flight = u64::from(self.sending.is_some());
        let is_more = beat.stored.0 > self.place.position.0 + in_flight;
        if self.owns() && (beat.term > self.place.term || is_more) {
            self.attach.doubt(self.place.ends(), now);
        }
        self.ahead = self.ahead.max(beat.stored);
    }

    /// A connection to a node is refused.
    pub fn refused(&mut self, node: &str) {
        self.watch.refused(node, &self.place);
    }

    /// Closes the log for good, if this node owns it: no frame comes behind the one that says so.
    pub fn end(&mut self) {
        self.wants_end = self.role == Role::Owner;
    }

    /// Time has passed. `wall_ms` is the time of day.
    pub fn tick(&mut self, now: SteadyMs, wall_ms: u64) {
        if self.stopped().is_some() {
            return;
        }
        if self.watch.wants_look(now) {
            self.attach.hurry(now);
        }
        let look = self.attach.tick(&self.place, self.watch.stored(), now);
        if let Some((number, positions)) = look {
            self.commands.push(Command::Look { number, positions });
        }
        let waits = self.waits(now);
        if let Some(settle) = self.sending.as_mut().filter(|_| !waits) {
            let step = settle.tick(now);
            self.follow_step(step, now);
        }
        self.acknowledge(now);
        let Options { node, trim, .. } = &self.options;
        let looked = self.trim.look(node, self.place.position, trim, now);
        let trims = |to: &Position| self.role == Role::Owner && *to > self.place.trimmed;
        self.trim_to = looked.or(self.trim_to).filter(trims);
        if self.ahead > self.place.position && (self.sending.is_none() || waits) {
            self.ask(now);
        }
        if self.sending.is_none() && now >= self.pause_until && self.attach.is_right() {
            let wanted = self.wanted(now);
            let draft = wanted.map(|content| self.place.draft(content));
            self.commands.extend(draft.map(Command::Seal));
        }
        if self.said.is_none_or(|said| now.since(said) >= BEAT_MS) {
            self.said = Some(now);
            let beat = self.beat(now, wall_ms);
            self.commands.push(Command::Say(beat));
        }
    }

    /// The control frame that this node wants to write now.
    fn wanted(&self, now: SteadyMs) -> Option<Content> {
        let (attested, attested_at) = self.attested;
        let frames = self.place.position.0 - attested.0;
        let is_old = now.since(attested_at) >= self.options.attest_ms;
        match &self.role {
            Role::Resigning(to) => Some(Content::Resign { to: to.clone() }),
            Role::Owner if self.place.is_ended => None,
            Role::Owner if self.wants_end => Some(Content::Ends),
            Role::Owner if self.wants_beat => Some(Content::Beat),
            Role::Owner if let Some(to) = self.trim_to => Some(Content::Trimmed { to }),
            Role::Owner if frames >= self.options.attest_frames || frames > 0 && is_old => {
                let digest = self.place.digest;
                Some(Content::Attest { digest })
            }
            Role::Follower if self.may_claim(now) => Some(Content::Claim(self.claim())),
            _ => None,
        }
    }

    fn beat(&self, now: SteadyMs, wall_ms: u64) -> Beat {
        let waited = self.sending.as_ref();
        let waited_ms = waited.map_or(0, |settle| settle.waited_ms(now));
        // An owner that does not know its stream for its own writes nothing either.
        let unsure_ms = match self.owns() {
            true => self.attach.unsure_ms(now),
            false => 0,
        };
        Beat {
            log: self.place.log,
            began: self.place.began,
            node: self.options.node.clone(),
            term: self.place.term,
            is_owner: self.owns(),
            stored: self.place.position,
            covered: self.trim.covered(),
            boot: self.options.boot,
            stalled_ms: waited_ms.max(unsure_ms),
            owner_silent_ms: self.watch.owner_silent_ms(now).filter(|_| !self.owns()),
            can_own: self.unable(now).is_none(),
            settings: self.options.settings.clone(),
            wall_ms,
        }
    }
}
