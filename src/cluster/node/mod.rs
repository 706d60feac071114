//! One node's part in one log: it follows, claims, owns, resigns or has stopped.
//!
//! Owns: how settling, following, claiming and leasing go together. Promises: commands are complete and in order; a
//! frame is acknowledged only when it is in the log, all leases of others are over and the stream is the right one; a
//! deposed owner's unwritten frame is named as such. Must not: block, read a clock, or keep a command back.
//!
//! The driver calls a node for each event with the time of its steady clock, takes the [`Node::commands`] and does them
//! in order. It calls [`Node::tick`] about every 10 ms. It reads the time before it sends a frame, and after it has
//! received one.

mod stream;
mod succeed;
mod time;

use std::collections::BTreeMap;

pub use succeed::{BACK_OFF_MS, Standing, Unready};
use tideline_base::ids::Position;

use crate::attach::Attach;
use crate::frame::{Content, Draft, Genesis, Sealed};
use crate::halt::Halt;
use crate::lease::{Hold, Lease, ReadProof, SteadyMs};
use crate::place::Place;
use crate::plant::{Plant, is_planted};
use crate::settle::Settle;
use crate::trim::{Trim, TrimOptions};
use crate::watch::{Beat, Watch};

/// A node's settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name.
    pub node: String,
    /// A random number of this process.
    pub boot: u64,
    /// What the log's genesis must say.
    pub genesis: Genesis,
    /// How reads are proven while it owns.
    pub read_proof: ReadProof,
    /// How long its read lease lasts.
    pub read_lease_ms: u32,
    /// It claims by itself when the owner is silent.
    pub is_automatic: bool,
    /// A person has drained it: it claims only if it is told to.
    pub is_drained: bool,
    /// It does not claim by itself before it has run for so long, ms.
    pub grace_ms: u64,
    /// It claims by itself if an earlier process of this node was the last owner.
    pub claims_again: bool,
    /// It claims a log that nobody has ever owned.
    pub claims_new: bool,
    /// So long an owner may be silent; at least [`OWNER_SILENCE_MS_MIN`].
    pub owner_silence_ms: u32,
    /// An owner attests after so many frames …
    pub attest_frames: u64,
    /// … or, if there were any, after so many ms.
    pub attest_ms: u64,
    /// When frames may go from the stream, and the names of all nodes: what others say is dropped, if there are any.
    pub trim: TrimOptions,
    /// Digests of the settings that all nodes must have alike, by their names.
    pub settings: BTreeMap<String, String>,
}

/// Three beats: below that, standbys would claim from an owner that is well.
pub const OWNER_SILENCE_MS_MIN: u32 = 600;

/// What a node's driver does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Seal this control frame, and hand it to [`Node::send`].
    Seal(Draft),
    /// Publish this frame, if the stream's last sequence is the one before the frame's position.
    Send(Sealed),
    /// Get the frame at this position directly, of any replica, for [`Node::fetched`].
    Fetch(Position),
    /// Drop the consumer, and begin another one behind this position, for [`Node::received`].
    Follow(Position),
    /// Look at the stream, and at the frames at these positions, for [`Node::looked`].
    Look {
        /// The look's number, which its facts repeat.
        number: u64,
        /// Each once, in any order.
        positions: Vec<Position>,
    },
    /// This frame was taken: write it to the mirror, and apply it unless it is void.
    Take {
        /// The frame.
        frame: Sealed,
        /// It counts as a position, and does nothing.
        is_void: bool,
    },
    /// The node owns the log: it may send batches.
    Own,
    /// Answer the writes of its own frames up to here.
    Acknowledge(Position),
    /// The node owns the log no longer. What is queued was not written, and neither was its batch at this position.
    Moved(Option<Position>),
    /// The batch sealed for this position was not written: seal it again.
    Again(Position),
    /// The batch at this position was not written: there is no room.
    Full(Position),
    /// Send this to all nodes.
    Say(Beat),
    /// Purge the stream up to here, this frame included. It is said again as long as it was not done.
    Purge(Position),
    /// The node has stopped for good. Writes that were not answered have an unknown outcome.
    Stop(Halt),
}

/// What may become of a read whose view was just taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It shows every write that was acknowledged before it came.
    Proven,
    /// Not yet: take another view after the next command or tick.
    Wait,
    /// This node does not own the log.
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    Claiming,
    Owner,
    Resigning(Option<String>),
    Stopped(Halt),
}

/// A person's wish that this node owns the log. It is for the owner of then: a later one ends it, and so does time.
#[derive(Debug)]
struct Wish {
    /// What was known to be in the log.
    behind: Position,
    until: SteadyMs,
}

/// A frame that found no room is followed by the next after so long, and then after twice the time of before …
const FULL_MS: u64 = 100;
/// … but not after more than this.
const FULL_MS_MAX: u64 = 2_000;
/// A wish lasts so long.
const WISH_MS: u64 = 60_000;

/// See the file's opening.
#[derive(Debug)]
pub struct Node {
    options: Options,
    place: Place,
    role: Role,
    sending: Option<Settle>,
    lease: Lease,
    hold: Hold,
    attach: Attach,
    watch: Watch,
    /// How many wrong frames came since the last one that was taken.
    refused: u8,
    /// The highest position that frames, looks and beats have shown to be in the stream.
    ahead: Position,
    /// When missing frames were asked for last.
    asked: Option<SteadyMs>,
    /// A person wants this node to claim.
    wish: Option<Wish>,
    /// The last owner resigned in favour of this node.
    is_invited: bool,
    /// A person has drained this node.
    is_drained: bool,
    /// It does not claim by itself before this time.
    guesses_from: SteadyMs,
    wants_beat: bool,
    /// The log is to be closed for good, while this node owns it.
    wants_end: bool,
    said: Option<SteadyMs>,
    /// No frame is sent before this time, because the last one found no room.
    pause_until: SteadyMs,
    /// The next such pause.
    full_ms: u64,
    attested: (Position, SteadyMs),
    /// Its last own frame in the log.
    stored: Position,
    /// The last one that it acknowledged.
    acknowledged: Position,
    /// From when it may acknowledge and answer reads: earlier owners' leases are over.
    acknowledge_from: SteadyMs,
    trim: Trim,
    /// Frames up to here may go, of which the log does not say so yet.
    trim_to: Option<Position>,
    commands: Vec<Command>,
}

impl Node {
    /// A node that begins at a place, with what it has on disk.
    #[must_use]
    pub fn new(options: Options, place: Place, now: SteadyMs) -> Node {
        let silence_ms = options.owner_silence_ms;
        let watch = Watch::new(options.node.clone(), options.boot, silence_ms, now);
        let mut attach = Attach::begin(now);
        attach.doubt(place.ends(), now);
        Node {
            role: Role::Follower,
            sending: None,
            lease: Lease::default(),
            hold: Hold::woken(now, place.lease_ms_max),
            attach,
            watch,
            refused: 0,
            ahead: place.position,
            asked: None,
            wish: None,
            is_invited: false,
            is_drained: options.is_drained,
            guesses_from: now.plus(options.grace_ms),
            wants_beat: false,
            wants_end: false,
            said: None,
            pause_until: now,
            full_ms: FULL_MS,
            attested: (place.position, now),
            stored: Position::ZERO,
            acknowledged: Position::ZERO,
            acknowledge_from: now,
            trim: Trim::new(now),
            trim_to: None,
            commands: vec![Command::Follow(place.position)],
            options,
            place,
        }
    }

    /// This node's image has everything up to there, durably.
    pub fn covers(&mut self, covered: Position) {
        self.trim.covers(covered);
    }

    /// What is to be done since the last call.
    pub fn commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Where it is in the log.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Why it has stopped.
    #[must_use]
    pub fn stopped(&self) -> Option<&Halt> {
        match &self.role {
            Role::Stopped(halt) => Some(halt),
            _ => None,
        }
    }

    /// Whether it owns the log, as far as it knows.
    #[must_use]
    pub fn owns(&self) -> bool {
        matches!(self.role, Role::Owner | Role::Resigning(_))
    }

    /// The highest position that is known to be in the log.
    #[must_use]
    pub fn known(&self) -> Position {
        self.ahead.max(self.place.position)
    }

    /// Until when a read is [`Reading::Proven`] without asking, if this node's process looks at its clock after it took
    /// the view.
    #[must_use]
    pub fn proves_until(&self, now: SteadyMs) -> SteadyMs {
        let may =
            self.role == Role::Owner && now >= self.acknowledge_from && self.attach.is_right();
        match self.options.read_proof {
            _ if !may => SteadyMs(0),
            ReadProof::Lease => self.lease.until(),
            ReadProof::Log => SteadyMs(0),
            ReadProof::None => SteadyMs(u64::MAX),
        }
    }

    /// Whether a look has found the right stream, and all that is known to be in it was taken.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.attach.is_right() && self.ahead <= self.place.position
    }

    /// What a next frame must be; `None` if the node may not write one now.
    #[must_use]
    pub fn draft(&self, content: Content, now: SteadyMs) -> Option<Draft> {
        let is_free = self.role == Role::Owner && self.sending.is_none() && !self.place.is_ended;
        // During a doubt only acks speak for its frames, and a look judges the first of them: no further one goes out.
        let may = is_free && self.attach.is_right() && now >= self.pause_until;
        may.then(|| self.place.draft(content))
    }

    /// Sends a sealed frame. `false`: it was sealed for another moment, and is not sent.
    pub fn send(&mut self, frame: Sealed, now: SteadyMs) -> bool {
        let may = match (&frame.content, &self.role) {
            (Content::Genesis(_), _) => false,
            (Content::Claim(claim), Role::Follower) => *claim == self.claim(),
            (Content::Claim(_), _) => false,
            (Content::Resign { to }, Role::Resigning(wanted)) => to == wanted,
            (_, role) => *role == Role::Owner,
        };
        if !may || self.sending.is_some() || !self.place.fits(&frame) {
            return false;
        }
        if matches!(frame.content, Content::Claim(_)) {
            self.role = Role::Claiming;
        }
        self.wants_beat = false;
        self.commands.push(Command::Send(frame.clone()));
        self.sending = Some(Settle::begin(frame, now));
        true
    }

    /// What may become of a read that came at `asked`, and whose view was taken before `now` was read. An owner whose
    /// lease has lapsed appends one beat for all reads that wait.
    pub fn read(&mut self, asked: SteadyMs, now: SteadyMs) -> Reading {
        let is_late = matches!(self.role, Role::Resigning(_)) && is_planted(Plant::ResignLate);
        if self.role != Role::Owner && !is_late {
            return Reading::Elsewhere;
        }
        if now < self.acknowledge_from || !self.attach.is_right() {
            return Reading::Wait;
        }
        if self.options.read_proof == ReadProof::None || self.lease.proves(asked, now) {
            return Reading::Proven;
        }
        let in_flight = self.sending.as_ref();
        if in_flight.is_none_or(|settle| settle.first_sent <= asked) {
            self.wants_beat = true;
        }
        Reading::Wait
    }

    fn stop(&mut self, halt: Halt) {
        self.sending = None;
        self.lease = Lease::default();
        self.role = Role::Stopped(halt.clone());
        self.commands.push(Command::Stop(halt));
    }
}
