//! One world: three hosts with their clocks and disks, clients, a network, a stream, faults, all from a seed.
//!
//! Owns: its state, the queue of what happens, and its end. Promises: one thread, no time but its own. Must not: help a
//! node: it gets events and has its commands done, through a network that loses, delays and repeats.

mod faults;
mod host;
mod network;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;

use tideline_base::ids::{HistoryId, Position};

use super::checker::Checker;
use super::random::Random;
use super::stream::{Publish, Stream};
use super::{genesis, seal};
use crate::attach::StreamFacts;
use crate::frame::{Content, Sealed};
use crate::lease::{ReadProof, SteadyMs};
use crate::node::{Node, OWNER_SILENCE_MS_MIN};
use crate::place::Place;
use crate::settle::Answer;
use crate::watch::Beat;

const MS: u64 = 1_000;
const HOSTS: usize = 3;
/// A lost owner is back after so many ms, and a world goes on for so long behind its successor's first ack.
const BACK: u64 = 12_000;
const NAMES: [&str; HOSTS] = ["a", "b", "c"];
/// Faults happen before this time, µs.
const FAULTS_UNTIL: u64 = 6_000 * MS;
/// By then all must be well again.
const WELL_UNTIL: u64 = FAULTS_UNTIL + 25_000 * MS;

/// What kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything fails, but the stream keeps what it has.
    Usual,
    /// The same, and what all images have goes from the stream.
    Trims,
    /// Leases are long, and owners are cut off, followed and followed again within them.
    Tense,
    /// The stream is cut, made anew or replaced, once.
    Disaster,
    /// Nothing happens but that the owner is lost, once, and is back a little later.
    Loses(Loss),
    /// The owner is well. Standbys are not always, and the stream changes its leader.
    Well,
    /// The same; nobody writes, so that beats alone are a word of the owner, and none of them is lost.
    Quiet,
}

/// How an owner is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Killed,
    /// And a standby's clock is off.
    KilledClockOff,
    /// With the stream's leader.
    KilledWithStream,
    /// Its process stands still, and wakes.
    Frozen,
    /// Cut off from everybody.
    CutOff,
    /// It hears everything, and nothing that it says arrives.
    Mute,
    /// The others hear it, and its frames do not arrive.
    Stalled,
    /// It hands over.
    HandsOver,
    /// It is told to resign to nobody.
    Resigns,
}

#[derive(Debug)]
enum Event {
    Tick,
    Client,
    Sync,
    Answered(Position, Answer),
    Deliver(u64, Position, Sealed),
    Fetched(Position, Option<Sealed>),
    Looked(StreamFacts),
    Heard(Beat),
    Refused(usize),
    Connected,
}

#[derive(Debug)]
enum Happening {
    /// For a host's process, of this boot.
    To(usize, u64, Event),
    Arrive(Publish),
    Look(Look),
    Commit(u64),
    Pump(usize, u64),
    Start(usize),
    Fault,
    Cut(usize, u64),
    Uncut(usize),
    TakeOver(usize),
    Person,
    Disaster,
    Lose(Loss),
    Calm,
    End,
}

/// A look under way.
#[derive(Clone, Debug)]
struct Look {
    host: usize,
    boot: u64,
    number: u64,
    positions: Vec<Position>,
    until: u64,
}

struct Process {
    node: Node,
    consumer: u64,
    next: Position,
    delivered_at: u64,
    queue: VecDeque<u64>,
    /// The hash of the frame that was sent last.
    sent: Option<u128>,
    /// The batch that was sent: position, hash, write.
    in_flight: Option<(Position, u128, u64)>,
    unanswered: BTreeMap<Position, u64>,
    /// When each came by the host's clock, and what was acknowledged by then.
    reads: Vec<(SteadyMs, Position)>,
    /// What others said to be in the stream.
    heard: Position,
}

struct Host {
    boot: u64,
    process: Option<Process>,
    /// How fast its clock runs, in millionths of true time.
    rate: u64,
    offset: u64,
    wall_off_ms: i64,
    /// It does nothing before this time.
    stopped_until: u64,
    is_cut: bool,
    /// It is cut off with the server that it talks to: it hears itself.
    is_apart: bool,
    /// What it publishes does not arrive.
    is_stalled: bool,
    /// Nor does what it says.
    is_mute: bool,
    disk: Place,
    lease_ms: u32,
    /// Boot and number of the look that is under way.
    looks: (u64, u64),
}

/// See the file's opening.
pub(crate) struct World {
    random: Random,
    now: u64,
    count: u64,
    /// By time and count.
    queue: BTreeMap<(u64, u64), Happening>,
    hosts: Vec<Host>,
    pub(crate) stream: Stream,
    pub(crate) checker: Checker,
    kind: Kind,
    proof: ReadProof,
    is_automatic: bool,
    silence_ms: u32,
    /// So many of a hundred answers get lost.
    lost: u64,
    sync_ms: u64,
    /// The network may bring a publish twice. Then the stream is never full: nodes believe that answer if they sent one
    /// copy.
    repeats: bool,
    links: [[bool; HOSTS]; HOSTS],
    writes: u64,
    is_calm: bool,
    /// The first write after all faults, and whether it or a later one was acknowledged.
    late: u64,
    late_acked: bool,
    is_over: bool,
    /// The owner that was lost, its boot, and when. Once it is back it may be the first that the stream answers: its
    /// new process follows the lost one as any other would.
    lost_owner: Option<(usize, u64, u64)>,
    /// For how long nothing was acknowledged then, µs.
    pub(crate) pause: Option<u64>,
    /// No fault before this time.
    quiet_until: u64,
    /// What happens is printed.
    pub(crate) is_printed: bool,
}

impl World {
    pub(crate) fn new(seed: u64, kind: Kind) -> World {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9) ^ 0x5eed);
        let log = HistoryId([7; 16]);
        let before = match random.percent(50) {
            true => Place::before_genesis(log, Position::ZERO, 0, 0),
            false => Place::before_genesis(log, Position(1_000), 77, 1),
        };
        let first = seal(before.draft(Content::Genesis(genesis())), 0);
        let is_tense = kind == Kind::Tense;
        let rates: &[u64] = match is_tense {
            true => &[955_000, 1_045_000],
            false => &[955_000, 1_000_000, 1_045_000],
        };
        let lease = match is_tense {
            true => 2_000,
            false => *random.one(&[500, 500, 2_000]),
        };
        let leases = match random.percent(50) {
            true => [lease; HOSTS],
            false => [200, 1_500, lease],
        };
        let hosts = (0..HOSTS).map(|at| Host {
            boot: 0,
            process: None,
            rate: *random.one(rates),
            offset: 1_000_000_000 + random.below(5_000_000),
            wall_off_ms: random.below(200) as i64,
            stopped_until: 0,
            is_cut: false,
            is_apart: false,
            is_stalled: false,
            is_mute: false,
            disk: before.clone(),
            lease_ms: leases[at],
            looks: (0, 0),
        });
        let hosts = hosts.collect();
        let proof = match random.percent(75) || is_tense {
            true => ReadProof::Lease,
            false => ReadProof::Log,
        };
        World {
            now: 0,
            count: 0,
            queue: BTreeMap::new(),
            hosts,
            stream: Stream::new(first),
            checker: Checker::default(),
            kind,
            proof,
            is_automatic: random.percent(70),
            silence_ms: *random.one(&[OWNER_SILENCE_MS_MIN, 800]),
            lost: *random.one(&[0, 0, 5, 30]),
            sync_ms: *random.one(&[20, 1_000]),
            repeats: random.percent(50),
            links: [[true; HOSTS]; HOSTS],
            writes: 0,
            is_calm: false,
            late: u64::MAX,
            late_acked: false,
            is_over: false,
            lost_owner: None,
            pause: None,
            quiet_until: 0,
            is_printed: false,
            random,
        }
    }

    /// Runs it to its end; what was wrong, if anything was.
    pub(crate) fn run(&mut self) -> Option<String> {
        for host in 0..HOSTS {
            self.after(host as u64, Happening::Start(host));
        }
        self.after(300 * MS, Happening::Fault);
        self.after(200 * MS, Happening::Person);
        match self.kind {
            Kind::Loses(_) => {}
            Kind::Well | Kind::Quiet => self.after(3 * FAULTS_UNTIL, Happening::Calm),
            _ => self.after(FAULTS_UNTIL, Happening::Calm),
        }
        if self.kind == Kind::Disaster {
            let at = 2_000 * MS + self.random.below(3_000) * MS;
            self.after(at, Happening::Disaster);
        }
        if matches!(self.kind, Kind::Loses(_) | Kind::Well | Kind::Quiet) {
            self.is_automatic = true;
            (self.lost, self.silence_ms, self.proof) = (0, 800, ReadProof::Lease);
            self.hosts.iter_mut().for_each(|host| host.lease_ms = 500);
        }
        if let Kind::Loses(loss) = self.kind {
            self.quiet_until = u64::MAX;
            self.after(3_000 * MS, Happening::Lose(loss));
        }
        self.checker.committed(&self.stream);
        while let Some(((time, _), happening)) = self.queue.pop_first() {
            self.now = time;
            self.happen(happening);
            if self.checker.wrong.is_some() || self.is_over {
                break;
            }
            if time > WELL_UNTIL {
                let state = self.state();
                let what = format!("not well again: {state}");
                self.checker.fail(time, &what);
            }
        }
        if self.is_owner_well() && self.checker.claims > 1 {
            self.checker
                .fail(self.now, "an owner that was well was followed");
        }
        self.checker.end(self.now, &self.stream);
        self.checker.wrong.take()
    }

    fn is_owner_well(&self) -> bool {
        matches!(self.kind, Kind::Well | Kind::Quiet)
    }

    fn state(&self) -> String {
        let last = self.stream.last();
        let hosts = self.hosts.iter().map(|host| match &host.process {
            Some(process) => {
                let at = process.node.place().position;
                let role = match process.node.stopped() {
                    Some(halt) => halt.to_string(),
                    None => format!("owns: {}", process.node.owns()),
                };
                format!("at {at}, {role}")
            }
            None => "down".to_owned(),
        });
        let hosts: Vec<String> = hosts.collect();
        format!("stream at {last}; {}", hosts.join("; "))
    }

    fn after(&mut self, delay: u64, happening: Happening) {
        self.count += 1;
        self.queue.insert((self.now + delay, self.count), happening);
    }

    fn steady(&self, host: usize) -> SteadyMs {
        let host = &self.hosts[host];
        SteadyMs((host.offset + self.now * host.rate / 1_000_000) / MS)
    }

    fn wall_ms(&self, host: usize) -> u64 {
        let wall = 1_800_000_000_000 + (self.now / MS) as i64 + self.hosts[host].wall_off_ms;
        wall.cast_unsigned()
    }

    fn print(&self, what: &str) {
        if self.is_printed {
            let _ = writeln!(std::io::stderr(), "{:>10} {what}", self.now);
        }
    }

    /// Whether answers may come late.
    fn is_rough(&self) -> bool {
        !self.is_calm && !matches!(self.kind, Kind::Loses(_))
    }

    /// To a process of a host, by the network between it and the stream.
    fn to(&mut self, host: usize, delay: u64, event: Event) {
        let boot = self.hosts[host].boot;
        self.after(delay, Happening::To(host, boot, event));
    }

    fn happen(&mut self, happening: Happening) {
        if self.is_printed
            && !matches!(
                happening,
                Happening::Pump(..)
                    | Happening::To(
                        _,
                        _,
                        Event::Tick | Event::Client | Event::Heard(_) | Event::Sync
                    )
            )
        {
            self.print(&format!("{happening:?}"));
        }
        match happening {
            Happening::To(host, boot, event) => self.deliver(host, boot, event),
            Happening::Arrive(publish) => self.arrive(publish),
            Happening::Look(look) => self.look(look),
            Happening::Commit(reign) => self.commit(reign),
            Happening::Pump(host, consumer) => self.pump(host, consumer),
            Happening::Start(host) => self.start(host),
            Happening::Fault => self.fault(),
            Happening::Cut(host, lasts) => self.cut(host, lasts),
            Happening::Uncut(host) => self.uncut(host),
            Happening::TakeOver(host) => self.take_over(host),
            Happening::Person => self.person(),
            Happening::Disaster => self.disaster(),
            Happening::Lose(loss) => self.lose(loss),
            Happening::Calm => self.calm(),
            Happening::End => self.end(),
        }
    }

    /// An owner was lost, and followed by one other, which nobody followed.
    fn end(&mut self) {
        self.is_over = true;
        if self.checker.claims != 2 {
            let what = format!("{} claims where two are enough", self.checker.claims);
            self.checker.fail(self.now, &what);
        }
    }

    /// Whether there is nothing more to be seen.
    fn look_for_the_end(&mut self) {
        if !self.is_calm || matches!(self.kind, Kind::Loses(_)) {
            return;
        }
        let node = |host: &usize| self.hosts[*host].process.as_ref().map(|at| &at.node);
        if let Some(disaster) = &self.checker.disaster {
            self.is_over |= disaster.is_mended(&self.stream);
            let mut knowing = disaster.knowing.iter();
            self.is_over |=
                knowing.all(|host| node(host).is_some_and(|node| node.stopped().is_some()));
            return;
        }
        let last = self.stream.last();
        let has_all = |host| node(&host).is_some_and(|node| node.place().position == last);
        let owners = (0..HOSTS).filter(|host| node(host).is_some_and(Node::owns));
        let is_quiet = self.stream.proposed.is_empty() && owners.count() == 1;
        self.is_over |= self.late_acked && is_quiet && (0..HOSTS).all(has_all);
    }
}
