//! When a node claims the log, and when it hands it over.
//!
//! Owns: who asks it to claim, when it does so by itself, why it does not. Promises: a claim is wanted only behind
//! everything that is known to be in the log; one that was a guess goes out again only while the owner is gone; who has
//! just let go of the log, or has just begun, lets others go first. Must not: decide who owns: the log does.

use std::fmt;

use tideline_base::ids::Position;

use super::{Node, Options, Role, WISH_MS, Wish};
use crate::frame::Claim;
use crate::lease::{ReadProof, SteadyMs};
use crate::plant::{Plant, is_planted};

/// Who has resigned, or was deposed, does not claim by itself for so long.
pub const BACK_OFF_MS: u64 = 10_000;

/// How a node stands to the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// For how long nobody has heard the owner, in ms; `None` = this node owns the log, or can't tell.
    pub silent_ms: Option<u64>,
    /// How many other standbys have their turn before it.
    pub rank: u64,
    /// Why it would not claim by itself.
    pub unready: Option<Unready>,
    /// A node that has other settings than this one, where all must be alike, and which.
    pub differs: Option<(String, String)>,
}

/// Why a node does not claim the log by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// A person says who owns it.
    ByHand,
    /// A person has drained it.
    Drained,
    /// Nobody has owned this log yet, or it was closed.
    Unowned,
    /// It has not taken all that is known to be in the log.
    Behind,
    /// It does not know whether the stream is the right one.
    Unsure,
    /// Its time of day is off the others' by so many ms.
    Clock(u64),
    /// It does not hear itself over NATS.
    Deaf,
    /// It has just let go of the log, or has just begun: others come first for so many ms more.
    Rests(u64),
}

impl fmt::Display for Unready {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unready::ByHand => write!(out, "take_over is \"by hand\""),
            Unready::Drained => write!(out, "it is drained"),
            Unready::Unowned => write!(out, "nobody has owned this log yet"),
            Unready::Behind => write!(out, "it has not all of the log yet"),
            Unready::Unsure => write!(out, "it has not seen yet that the stream is the right one"),
            Unready::Clock(off_ms) => {
                write!(out, "its clock is off the other nodes' by {off_ms} ms")
            }
            Unready::Deaf => write!(out, "it hears nothing over NATS, not even itself"),
            Unready::Rests(ms) => write!(out, "other nodes come first for {ms} ms more"),
        }
    }
}

impl Node {
    /// A person wants this node to own the log. It claims when it has taken all frames that it knows of, unless a
    /// minute has passed before, or another node has claimed or resigned behind them.
    pub fn take_over(&mut self, now: SteadyMs) {
        self.is_drained = false;
        self.wish = (!self.owns()).then(|| Wish {
            behind: self.known(),
            until: now.plus(WISH_MS),
        });
    }

    /// Hands the log over: no read is answered from now on, and no further batch is taken.
    pub fn resign(&mut self, to: Option<String>) {
        if self.role == Role::Owner {
            self.role = Role::Resigning(to);
        }
    }

    /// The same, to a standby that could own the log at once. `None`: there is none, or this node does not own it.
    pub fn hand_over(&mut self, now: SteadyMs) -> Option<String> {
        let to = self.watch.successor(now)?.to_owned();
        if self.role != Role::Owner || self.place.is_ended {
            return None;
        }
        self.resign(Some(to.clone()));
        Some(to)
    }

    /// A person drains it, or ends that: while it is drained it claims only if it is told to.
    pub fn drain(&mut self, is_drained: bool) {
        self.is_drained = is_drained;
    }

    /// How it stands to the owner.
    #[must_use]
    pub fn standing(&self, now: SteadyMs) -> Standing {
        let is_owner = self.owns();
        Standing {
            silent_ms: self.watch.silent_ms(now).filter(|_| !is_owner),
            rank: self.watch.rank(&self.place, now),
            unready: self.unready(now).filter(|_| !is_owner),
            differs: self.watch.differs(&self.options.settings, now),
        }
    }

    /// Why it could not own the log now. A drain is named last: a person's word ends it.
    pub(super) fn unable(&self, now: SteadyMs) -> Option<Unready> {
        let place = &self.place;
        if place.began == Position::ZERO || place.is_ended {
            return Some(Unready::Unowned);
        }
        if let Some(off_ms) = self.watch.off_ms(now) {
            return Some(Unready::Clock(off_ms));
        }
        if self.ahead > place.position {
            return Some(Unready::Behind);
        }
        if !self.attach.is_right() {
            return Some(Unready::Unsure);
        }
        self.is_drained.then_some(Unready::Drained)
    }

    /// Why it does not claim by itself, whatever it hears.
    fn unready(&self, now: SteadyMs) -> Option<Unready> {
        if let Some(unable) = self.unable(now) {
            return Some(unable);
        }
        if self.watch.silent_ms(now).is_none() {
            return Some(Unready::Deaf);
        }
        if !self.options.is_automatic {
            return Some(Unready::ByHand);
        }
        // The first owner of a log is named by a person, or by who begins the nodes.
        if self.is_new() {
            return Some(Unready::Unowned);
        }
        let rests_ms = self.guesses_from.since(now);
        (rests_ms > 0).then_some(Unready::Rests(rests_ms))
    }

    /// Whether nobody has ever owned the log.
    fn is_new(&self) -> bool {
        self.place.claimed <= self.place.began
    }

    /// Whether it is told to claim.
    fn is_asked(&self, now: SteadyMs) -> bool {
        let Options { node, boot, .. } = &self.options;
        let is_mine = |claim: &Claim| claim.node == *node && claim.boot != *boot;
        let owner = self.place.owner.as_ref();
        let is_again = self.options.claims_again && owner.is_some_and(is_mine);
        let is_first = self.options.claims_new && self.is_new();
        let is_wanted = self.wish.as_ref().is_some_and(|wish| now < wish.until);
        // A node that is drained, or about to end, owns the log only if a person says so.
        is_wanted || !self.is_drained && (self.is_invited || is_again || is_first)
    }

    pub(super) fn may_claim(&self, now: SteadyMs) -> bool {
        match self.is_asked(now) {
            true => matches!(self.unable(now), None | Some(Unready::Drained)),
            false => self.unready(now).is_none() && self.watch.is_due(&self.place, now),
        }
    }

    /// Whether the claim that is on its way was a guess that would not be made now: the owner is heard. It may be
    /// stored yet, so it stays the frame for its position; but it is not sent again, unless it is due anew.
    pub(super) fn waits(&self, now: SteadyMs) -> bool {
        let is_guess = self.role == Role::Claiming && !self.is_asked(now);
        is_guess && !self.watch.is_due(&self.place, now) && !is_planted(Plant::ClaimGoesOn)
    }

    pub(super) fn claim(&self) -> Claim {
        let has_lease = self.options.read_proof == ReadProof::Lease;
        Claim {
            node: self.options.node.clone(),
            boot: self.options.boot,
            lease_ms: u32::from(has_lease) * self.options.read_lease_ms,
        }
    }
}
