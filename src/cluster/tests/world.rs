//! One world: three hosts with their clocks and disks, clients, a network, a stream, faults, all from a seed.
//!
//! Owns: what happens when. Promises: one thread, one queue of events, no time but its own. Must not: help a node: it
//! gives events and does commands, and loses, delays and repeats what a network may.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::Write;

use tideline_base::ids::{HistoryId, Position};

use super::checker::Checker;
use super::random::Random;
use super::stream::{Publish, Stream};
use super::{genesis, seal};
use crate::attach::StreamFacts;
use crate::frame::{Content, Draft, Genesis, Sealed};
use crate::halt::Halt;
use crate::lease::{ReadProof, SteadyMs};
use crate::node::{Command, Node, OWNER_SILENCE_MS_MIN, Options, Reading};
use crate::place::Place;
use crate::plant::{Plant, is_planted};
use crate::settle::Answer;
use crate::watch::Beat;

const MS: u64 = 1_000;
const HOSTS: usize = 3;
/// Faults happen before this time, µs.
const FAULTS_UNTIL: u64 = 6_000 * MS;
/// By then all must be well again.
const WELL_UNTIL: u64 = FAULTS_UNTIL + 25_000 * MS;

/// What kind of world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    /// The stream is cut, made anew or replaced, once.
    pub(crate) is_disaster: bool,
    /// Leases are long, and owners are cut off, followed and followed again within them.
    pub(crate) is_tense: bool,
    /// Nothing happens but that the owner is killed, or cut off from everybody, once.
    pub(crate) loses: Option<Loss>,
}

/// How an owner goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    Killed,
    CutOff,
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
}

struct Scheduled(u64, u64, Happening);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct Process {
    node: Node,
    consumer: u64,
    next: Position,
    delivered_at: u64,
    queue: VecDeque<u64>,
    /// The batch that was sent: position, hash, write.
    in_flight: Option<(Position, u128, u64)>,
    unanswered: BTreeMap<Position, u64>,
    /// When they came by the host's clock, and what was acknowledged by then.
    reads: Vec<(SteadyMs, Position)>,
    /// What others said to be in the stream.
    heard: Position,
}

struct Host {
    boot: u64,
    process: Option<Process>,
    /// Of its clock, in millionths of true time.
    rate: u64,
    offset: u64,
    wall_off_ms: i64,
    /// Stopped until then; with its clock, if it is a machine that stands still.
    stopped_until: u64,
    is_cut: bool,
    disk: Place,
    lease_ms: u32,
}

/// See the file's opening.
pub(crate) struct World {
    random: Random,
    now: u64,
    count: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    hosts: Vec<Host>,
    pub(crate) stream: Stream,
    pub(crate) checker: Checker,
    kind: Kind,
    proof: ReadProof,
    is_automatic: bool,
    silence_ms: u32,
    /// Of a hundred answers.
    lost: u64,
    sync_ms: u64,
    /// The network may bring a publish twice. Then the stream is never full: that answer is believed of the only copy.
    repeats: bool,
    links: [[bool; HOSTS]; HOSTS],
    writes: u64,
    is_calm: bool,
    /// Writes that came after all was well.
    late: u64,
    late_acked: bool,
    is_over: bool,
    /// The host that was lost, and when; for how long nothing was acknowledged then, µs.
    lost_host: Option<(usize, u64)>,
    pub(crate) pause: Option<u64>,
    /// No fault before this time.
    quiet_until: u64,
    /// What happens is printed.
    pub(crate) is_told: bool,
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
        let rates: &[u64] = match kind.is_tense {
            true => &[955_000, 1_045_000],
            false => &[955_000, 1_000_000, 1_045_000],
        };
        let lease = match kind.is_tense {
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
            disk: before.clone(),
            lease_ms: leases[at],
        });
        let hosts = hosts.collect();
        let proof = match random.percent(75) || kind.is_tense {
            true => ReadProof::Lease,
            false => ReadProof::Log,
        };
        World {
            now: 0,
            count: 0,
            queue: BinaryHeap::new(),
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
            lost_host: None,
            pause: None,
            quiet_until: 0,
            is_told: false,
            random,
        }
    }

    /// Runs it to its end; what was wrong.
    pub(crate) fn run(&mut self) -> Option<String> {
        for host in 0..HOSTS {
            self.after(host as u64, Happening::Start(host));
        }
        self.after(300 * MS, Happening::Fault);
        self.after(200 * MS, Happening::Person);
        self.after(FAULTS_UNTIL, Happening::Calm);
        if self.kind.is_disaster {
            let at = 2_000 * MS + self.random.below(3_000) * MS;
            self.after(at, Happening::Disaster);
        }
        if let Some(loss) = self.kind.loses {
            self.quiet_until = u64::MAX;
            self.is_automatic = true;
            (self.lost, self.silence_ms, self.proof) = (0, 800, ReadProof::Lease);
            self.hosts.iter_mut().for_each(|host| host.lease_ms = 500);
            self.after(3_000 * MS, Happening::Lose(loss));
        }
        self.checker.committed(&self.stream);
        while let Some(Reverse(Scheduled(time, _, happening))) = self.queue.pop() {
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
        self.checker.end(self.now, &self.stream);
        self.checker.wrong.take()
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
        let at = self.now + delay;
        self.queue
            .push(Reverse(Scheduled(at, self.count, happening)));
    }

    fn steady(&self, host: usize) -> SteadyMs {
        let host = &self.hosts[host];
        SteadyMs((host.offset + self.now * host.rate / 1_000_000) / MS)
    }

    fn wall_ms(&self, host: usize) -> u64 {
        let wall = 1_800_000_000_000 + (self.now / MS) as i64 + self.hosts[host].wall_off_ms;
        wall.cast_unsigned()
    }

    fn tell(&self, what: &str) {
        if self.is_told {
            let _ = writeln!(std::io::stderr(), "{:>10} {what}", self.now);
        }
    }

    /// To a process of a host, by the network between it and the stream.
    fn to(&mut self, host: usize, delay: u64, event: Event) {
        let boot = self.hosts[host].boot;
        self.after(delay, Happening::To(host, boot, event));
    }

    fn latency(&mut self) -> u64 {
        match self.random.percent(3) {
            true if !self.is_calm && self.kind.loses.is_none() => self.random.below(700) * MS,
            _ => 100 + self.random.below(900),
        }
    }

    fn happen(&mut self, happening: Happening) {
        if self.is_told
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
            self.tell(&format!("{happening:?}"));
        }
        match happening {
            Happening::To(host, boot, event) => self.deliver(host, boot, event),
            Happening::Arrive(publish) => self.arrive(publish),
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
        }
    }

    fn start(&mut self, host: usize) {
        if self.hosts[host].process.is_some() {
            return;
        }
        let (now, is_automatic, proof) = (self.steady(host), self.is_automatic, self.proof);
        let owner_silence_ms = self.silence_ms;
        let at = &mut self.hosts[host];
        at.boot += 1;
        let options = Options {
            node: ["a", "b", "c"][host].to_owned(),
            boot: at.boot * 10 + host as u64,
            genesis: genesis(),
            read_proof: proof,
            read_lease_ms: at.lease_ms,
            is_automatic,
            owner_silence_ms,
            attest_frames: 64,
            attest_ms: 2_000,
        };
        at.process = Some(Process {
            node: Node::new(options, at.disk.clone(), now),
            consumer: 0,
            next: Position::ZERO,
            delivered_at: 0,
            queue: VecDeque::new(),
            in_flight: None,
            unanswered: BTreeMap::new(),
            reads: Vec::new(),
            heard: Position::ZERO,
        });
        self.to(host, 0, Event::Tick);
        self.to(host, 1, Event::Client);
        self.to(host, self.sync_ms * MS, Event::Sync);
        self.obey(host);
    }

    fn deliver(&mut self, host: usize, boot: u64, event: Event) {
        let at = &mut self.hosts[host];
        let is_from_stream = matches!(
            event,
            Event::Answered(..) | Event::Deliver(..) | Event::Fetched(..) | Event::Looked(..)
        );
        if at.boot != boot || at.process.is_none() || at.is_cut && is_from_stream {
            return;
        }
        if at.stopped_until > self.now {
            let wait = at.stopped_until - self.now;
            return self.after(wait, Happening::To(host, boot, event));
        }
        let (now, wall_ms) = (self.steady(host), self.wall_ms(host));
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let node = &mut process.node;
        match event {
            Event::Tick => {
                node.tick(now, wall_ms);
                self.to(host, 15 * MS, Event::Tick);
            }
            Event::Client => self.client(host),
            Event::Sync => {
                let place = node.place().clone();
                self.hosts[host].disk = place;
                self.to(host, self.sync_ms * MS, Event::Sync);
            }
            Event::Answered(position, answer) => node.answered(position, answer, now),
            Event::Deliver(consumer, sequence, frame) => {
                if consumer == process.consumer {
                    node.received(sequence, frame, now);
                }
            }
            Event::Fetched(position, found) => node.fetched(position, found, now),
            Event::Looked(facts) => node.looked(&facts, now),
            Event::Heard(beat) => {
                if beat.began == node.place().began {
                    process.heard = process.heard.max(beat.stored);
                }
                node.heard(&beat, now, wall_ms);
            }
            Event::Refused(other) => node.refused(["a", "b", "c"][other]),
            Event::Connected => node.connected(now),
        }
        self.obey(host);
        self.feed_writer(host);
        self.answer_reads(host);
        self.look_for_the_end();
    }

    /// Does what a node commands.
    fn obey(&mut self, host: usize) {
        loop {
            let Some(process) = &mut self.hosts[host].process else {
                return;
            };
            let commands = process.node.commands();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                self.obey_one(host, command);
            }
        }
    }

    fn obey_one(&mut self, host: usize, command: Command) {
        if self.is_told && !matches!(command, Command::Say(_)) {
            self.tell(&format!("host {host} {command:?}"));
        }
        let now = self.steady(host);
        let latency = self.latency();
        let boot = self.hosts[host].boot;
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        match command {
            Command::Seal(draft) => {
                self.count += 1;
                process.node.send(seal(draft, self.count), now);
            }
            Command::Send { frame, expected } => {
                let publish = Publish {
                    host,
                    boot,
                    frame,
                    expected,
                };
                self.publish(publish, latency);
            }
            Command::Fetch(position) => {
                let is_behind = self.random.percent(15) && !self.is_calm;
                let found = self.stream.at(position).cloned().filter(|_| !is_behind);
                self.to(host, 2 * latency, Event::Fetched(position, found));
            }
            Command::Follow(after) => {
                process.consumer += 1;
                process.next = after.next();
                let consumer = process.consumer;
                self.after(latency, Happening::Pump(host, consumer));
            }
            Command::Look { number, positions } => self.look(host, number, &positions, latency),
            Command::Take { frame, is_void } => self.taken(host, &frame, is_void),
            Command::Own => {}
            Command::Acknowledge(upto) => self.acknowledge(host, upto),
            Command::Moved(_) => {
                let in_flight = process.in_flight.take().map(|(_, _, write)| write);
                for write in process.queue.drain(..).chain(in_flight) {
                    self.checker.moved(write);
                }
            }
            Command::Again(_) => {
                let again = process.in_flight.take().map(|(_, _, write)| write);
                again
                    .into_iter()
                    .for_each(|write| process.queue.push_front(write));
            }
            Command::Full(_) => {
                let refused = process.in_flight.take().map(|(_, _, write)| write);
                refused
                    .into_iter()
                    .for_each(|write| self.checker.moved(write));
            }
            Command::Say(beat) => self.say(host, &beat),
            Command::Stop(halt) => self.stopped(host, &halt),
        }
    }

    fn taken(&mut self, host: usize, frame: &Sealed, is_void: bool) {
        self.checker
            .took(self.now, host, &self.stream, frame, is_void);
        let is_claim = matches!(frame.content, Content::Claim(_));
        if is_claim && frame.term > 1 && self.random.percent(20) && !self.kind.is_disaster {
            self.stray(frame);
        }
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let is_own = |sent: &mut (Position, u128, u64)| sent.1 == frame.hash;
        if let Some((position, _, write)) = process.in_flight.take_if(is_own) {
            process.unanswered.insert(position, write);
        }
    }

    /// A writer with more than one frame in flight would have had this one behind the claim.
    fn stray(&mut self, claim: &Sealed) {
        let draft = Draft {
            log: claim.log,
            position: claim.position.next(),
            term: claim.term - 1,
            previous_crc: 1,
            content: Content::Batch,
        };
        self.count += 1;
        let publish = Publish {
            host: 0,
            boot: 0,
            frame: seal(draft, self.count),
            expected: Some(claim.position),
        };
        self.after(50, Happening::Arrive(publish));
    }

    fn acknowledge(&mut self, host: usize, upto: Position) {
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let early = process.in_flight.filter(|(at, _, _)| *at <= upto);
        let later = process.unanswered.split_off(&upto.next());
        let mut answered = std::mem::replace(&mut process.unanswered, later);
        answered.extend(early.map(|(at, _, write)| (at, write)));
        let heard = process.heard;
        for (position, write) in answered {
            self.late_acked |= write >= self.late;
            let lost = self.lost_host.filter(|(lost, _)| *lost != host);
            if let Some((_, since)) = lost {
                self.pause.get_or_insert(self.now - since);
                self.is_over = true;
            }
            self.checker
                .acked(self.now, host, heard, &self.stream, (position, write));
        }
    }

    fn stopped(&mut self, host: usize, halt: &Halt) {
        self.checker.stopped(self.now, host, halt);
        if let Some(process) = &mut self.hosts[host].process {
            process.queue.clear();
            process.unanswered.clear();
            process.in_flight = None;
        }
    }

    fn client(&mut self, host: usize) {
        let floor = self.checker.acknowledged();
        let now = self.steady(host);
        let (writes, reads) = (self.random.percent(40), self.random.percent(70));
        let is_enough = self.late_acked;
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let owns = process.node.owns();
        if owns && !is_enough {
            if writes && process.queue.len() < 4 {
                self.writes += 1;
                process.queue.push_back(self.writes);
                self.checker.wrote(self.writes);
            }
            if reads && process.reads.len() < 4 {
                process.reads.push((now, floor));
            }
        }
        let pause = match owns {
            true => 1 + self.random.below(6),
            false => 20,
        };
        self.to(host, pause * MS, Event::Client);
    }

    fn feed_writer(&mut self, host: usize) {
        let now = self.steady(host);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        if process.in_flight.is_some() || process.queue.is_empty() {
            return;
        }
        let Some(draft) = process.node.draft(Content::Batch) else {
            return;
        };
        let Some(write) = process.queue.pop_front() else {
            return;
        };
        let frame = seal(draft, write);
        self.checker.sealed(write, &frame);
        process.in_flight = Some((frame.position, frame.hash, write));
        assert!(process.node.send(frame, now), "it was made for this moment");
        self.obey(host);
    }

    fn answer_reads(&mut self, host: usize) {
        let now = self.steady(host);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let view = process.node.place().position;
        let node = &mut process.node;
        let (checker, time) = (&mut self.checker, self.now);
        process.reads.retain(|(asked, floor)| {
            let reading = node.read(*asked, now);
            if reading == Reading::Proven {
                checker.read(time, host, view, *floor);
            }
            reading == Reading::Wait
        });
    }

    fn publish(&mut self, publish: Publish, latency: u64) {
        let is_lost = self.random.percent(self.lost / 2);
        if self.hosts[publish.host].is_cut || is_lost {
            return;
        }
        if self.repeats && self.random.percent(5) {
            let late = latency + self.latency();
            self.after(late, Happening::Arrive(publish.clone()));
        }
        self.after(latency, Happening::Arrive(publish));
    }

    fn arrive(&mut self, publish: Publish) {
        let (host, boot, position) = (publish.host, publish.boot, publish.frame.position);
        if self.hosts[host].is_cut && boot > 0 && self.random.percent(50) {
            return;
        }
        match self.stream.arrived(publish, self.now) {
            Some(answer) => self.answer(host, boot, position, answer),
            None => {
                let is_slow = self.random.percent(2) && !self.is_calm && self.kind.loses.is_none();
                let delay = match is_slow {
                    true => self.random.below(600) * MS,
                    false => 100 + self.random.below(1_000),
                };
                self.after(delay, Happening::Commit(self.stream.reign));
            }
        }
    }

    fn answer(&mut self, host: usize, boot: u64, position: Position, answer: Answer) {
        let is_lost = self.random.percent(self.lost);
        let latency = self.latency();
        if !is_lost {
            let event = Event::Answered(position, answer);
            self.after(latency, Happening::To(host, boot, event));
        }
    }

    fn commit(&mut self, reign: u64) {
        let Some(publish) = self.stream.commit(reign) else {
            return;
        };
        let last = self.stream.last();
        let (host, boot, position) = (publish.host, publish.boot, publish.frame.position);
        self.answer(host, boot, position, Answer::Stored(last));
        self.grown();
    }

    /// The stream has more: consumers get it.
    fn grown(&mut self) {
        self.checker.committed(&self.stream);
        for host in 0..HOSTS {
            let consumer = self.hosts[host].process.as_ref().map(|at| at.consumer);
            let latency = self.latency();
            if let Some(consumer) = consumer {
                self.after(latency, Happening::Pump(host, consumer));
            }
        }
    }

    fn pump(&mut self, host: usize, consumer: u64) {
        let is_calm = self.is_calm;
        let at = &mut self.hosts[host];
        let Some(process) = at.process.as_mut().filter(|at| at.consumer == consumer) else {
            return;
        };
        if at.is_cut {
            return;
        }
        let mut due = Vec::new();
        while process.next <= self.stream.last() && due.len() < 50 {
            let next = process.next;
            process.next = next.next();
            let copies = match self.random.below(100) {
                0 if !is_calm => 0,
                1 => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let frame = self.stream.at(next).cloned();
                due.extend(frame.map(|frame| (next, frame)));
            }
        }
        for (sequence, frame) in due {
            let wait = 100 + self.random.below(300);
            let Some(process) = &mut self.hosts[host].process else {
                return;
            };
            process.delivered_at = (process.delivered_at + 1).max(self.now + wait);
            let delay = process.delivered_at - self.now;
            self.to(host, delay, Event::Deliver(consumer, sequence, frame));
        }
    }

    fn look(&mut self, host: usize, number: u64, positions: &[Position], latency: u64) {
        if self.hosts[host].is_cut || self.now < self.stream.leaderless_until {
            return;
        }
        let is_behind = self.random.percent(5) && !self.is_calm;
        let behind = u64::from(is_behind) * self.random.below(4);
        let last = Position(self.stream.last().0.saturating_sub(behind));
        let genesis = self
            .stream
            .frames
            .first()
            .and_then(|frame| match &frame.content {
                Content::Genesis(genesis) => Some(genesis.clone()),
                _ => None,
            });
        let crc = |position: &Position| {
            let at = self.stream.at(*position).filter(|_| *position <= last);
            at.map(|frame| frame.crc)
        };
        let crcs = positions.iter().map(crc).collect();
        let facts = StreamFacts {
            number,
            first: Position(self.stream.base + 1),
            last,
            genesis,
            crcs,
        };
        self.to(host, 2 * latency, Event::Looked(facts));
    }

    fn say(&mut self, host: usize, beat: &Beat) {
        for other in (0..HOSTS).filter(|other| *other != host) {
            let by_stream = !self.hosts[host].is_cut && !self.hosts[other].is_cut;
            let is_heard = by_stream || self.links[host][other];
            if is_heard && !self.random.percent(5) {
                let latency = self.latency();
                self.to(other, latency, Event::Heard(beat.clone()));
            }
        }
    }

    /// Of those that believe to own, the last.
    fn owner(&self) -> Option<usize> {
        let term = |host: &usize| {
            let node = self.hosts[*host].process.as_ref().map(|at| &at.node);
            node.filter(|node| node.owns())
                .map(|node| node.place().term)
        };
        let owners = (0..HOSTS).filter(|host| term(host).is_some());
        owners.max_by_key(term)
    }

    fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let pause = match self.kind.is_tense {
            true => 20 + self.random.below(200),
            false => 50 + self.random.below(450),
        };
        self.after(pause * MS, Happening::Fault);
        if self.now < self.quiet_until {
            return;
        }
        let any = self.random.below(HOSTS as u64) as usize;
        let victim = self
            .owner()
            .filter(|_| self.random.percent(60))
            .unwrap_or(any);
        let lasts = match self.random.percent(30) {
            true => 1_000 + self.random.below(2_500),
            false => 10 + self.random.below(800),
        };
        let lasts = lasts * MS;
        if self.kind.is_tense {
            return self.tense_fault(victim);
        }
        match self.random.below(12) {
            0 => self.kill(victim, lasts),
            1 => {
                let at = &mut self.hosts[victim];
                at.stopped_until = at.stopped_until.max(self.now + lasts);
            }
            2 if self.proof == ReadProof::Log => {
                let at = &mut self.hosts[victim];
                at.stopped_until = at.stopped_until.max(self.now) + lasts;
                at.offset -= lasts * at.rate / 1_000_000;
            }
            2 | 3 => self.cut(victim, lasts),
            4 => {
                let other = self.random.below(HOSTS as u64) as usize;
                self.links[victim][other] = !self.links[victim][other];
            }
            5 => {
                let until = self.now + lasts;
                self.stream.elect(until, &mut self.random);
                self.grown();
            }
            6 => {
                let offs = [-10_000, -1_900, 0, 0, 0, 10_000];
                self.hosts[victim].wall_off_ms = *self.random.one(&offs);
            }
            7 => self.stream.is_full = self.random.percent(30) && !self.repeats,
            8 => self.resign(victim),
            9 => self.take_over(any),
            10 => {
                self.cut(victim, lasts);
                self.take_over((victim + 1) % HOSTS);
            }
            _ => {
                self.resign(victim);
                self.take_over(any);
            }
        }
    }

    fn lose(&mut self, loss: Loss) {
        let Some(owner) = self.owner() else {
            return;
        };
        self.lost_host = Some((owner, self.now));
        match loss {
            Loss::Killed => self.kill(owner, WELL_UNTIL),
            Loss::CutOff => {
                self.cut(owner, WELL_UNTIL);
                self.links = [[false; HOSTS]; HOSTS];
            }
        }
    }

    fn tense_fault(&mut self, victim: usize) {
        let other = (victim + 1 + self.random.below(2) as usize) % HOSTS;
        match self.random.below(5) {
            0 => {
                // It may sleep first, and have its ack only then.
                let sleeps = self.random.below(2) * self.random.below(1_000) * MS;
                let at = &mut self.hosts[victim];
                if is_planted(Plant::ClockStops) {
                    at.offset -= sleeps * at.rate / 1_000_000;
                }
                at.stopped_until = at.stopped_until.max(self.now) + sleeps;
                let lasts = (1_500 + self.random.below(1_500)) * MS;
                self.after(sleeps + 50, Happening::Cut(victim, lasts));
                // By the links it would hear of the other's term.
                self.links = [[self.random.percent(30); HOSTS]; HOSTS];
                self.after(sleeps + 10 * MS, Happening::TakeOver(other));
                if self.random.percent(70) {
                    self.quiet_until = self.now + sleeps + lasts;
                }
            }
            1 => {
                self.resign(victim);
                let (within, lasts) = (self.random.below(20), self.random.below(2_000));
                self.after(within * MS, Happening::Cut(victim, lasts * MS));
            }
            2 => self.resign(victim),
            3 => {
                self.kill(other, MS);
                self.start(other);
                self.take_over(other);
            }
            _ => self.take_over(other),
        }
    }

    fn cut(&mut self, host: usize, lasts: u64) {
        if self.is_calm {
            return;
        }
        self.hosts[host].is_cut = true;
        self.after(lasts, Happening::Uncut(host));
    }

    fn take_over(&mut self, host: usize) {
        if let Some(process) = &mut self.hosts[host].process {
            process.node.take_over();
        }
    }

    fn resign(&mut self, host: usize) {
        let to = self.random.below(HOSTS as u64) as usize;
        let to = ["a", "b", "c"][to].to_owned();
        if let Some(process) = &mut self.hosts[host].process {
            process.node.resign(Some(to));
        }
    }

    fn kill(&mut self, host: usize, lasts: u64) {
        self.hosts[host].process = None;
        self.after(lasts, Happening::Start(host));
        for other in (0..HOSTS).filter(|other| *other != host) {
            if self.random.percent(70) || self.lost_host.is_some() {
                self.to(other, 50 * MS, Event::Refused(host));
            }
        }
    }

    fn uncut(&mut self, host: usize) {
        self.hosts[host].is_cut = false;
        if self.kind.is_tense {
            self.links = [[true; HOSTS]; HOSTS];
        }
        self.to(host, 0, Event::Connected);
    }

    /// Where nodes do not claim by themselves, somebody sees to it.
    fn person(&mut self) {
        self.after(300 * MS, Happening::Person);
        if self.is_automatic || self.owner().is_some() {
            return;
        }
        let host = self.random.below(HOSTS as u64) as usize;
        self.take_over(host);
    }

    /// All faults end.
    fn calm(&mut self) {
        self.is_calm = true;
        self.lost = 0;
        self.links = [[true; HOSTS]; HOSTS];
        self.stream.is_full = false;
        self.stream.leaderless_until = 0;
        self.late = self.writes + 1;
        for host in 0..HOSTS {
            self.hosts[host].wall_off_ms = 0;
            self.start(host);
            if self.hosts[host].is_cut {
                self.uncut(host);
            }
        }
    }

    /// The stream loses its end, is made anew, or is another cluster's.
    fn disaster(&mut self) {
        self.calm();
        let (base, count) = (self.stream.base, self.stream.frames.len());
        let others = |genesis: Genesis| Genesis {
            cluster: "theirs".to_owned(),
            ..genesis
        };
        let (base, frames) = match self.random.below(4) {
            0 => (0, Vec::new()),
            1 => {
                let before = Place::before_genesis(HistoryId([9; 16]), Position::ZERO, 0, 0);
                let first = Content::Genesis(others(genesis()));
                (0, vec![seal(before.draft(first), 0)])
            }
            _ => {
                let lost = 1 + self.random.below(20) as usize;
                let kept = count.saturating_sub(lost).max(1);
                (base, self.stream.frames[..kept].to_vec())
            }
        };
        let last = frames.last().filter(|last| last.log == HistoryId([7; 16]));
        let cut = last.map_or(0, |last| last.position.0);
        let has_more = |host: &usize| {
            let process = self.hosts[*host].process.as_ref();
            process.is_some_and(|at| at.node.place().position.0 > cut)
        };
        let knowing = (0..HOSTS).filter(has_more).collect();
        // Consumers go with their stream, unless its servers have lost its end and do not know it.
        let is_quiet = cut > base && self.random.percent(50);
        let unseen_until = u64::from(is_quiet) * (self.now + 11_000 * MS);
        self.checker.disaster(&self.stream, knowing, unseen_until);
        self.stream.replace(base, frames);
        for host in 0..HOSTS {
            if !is_quiet {
                self.to(host, MS, Event::Connected);
            }
        }
        self.grown();
    }

    /// Whether there is nothing more to be seen.
    fn look_for_the_end(&mut self) {
        if !self.is_calm {
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
