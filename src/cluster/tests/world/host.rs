//! What a host does: its process, the writer and the clients beside the node.
//!
//! Owns: how events reach a node, and how its commands are done. Promises: commands are done in order, and none is left
//! out. Must not: decide when something fails; `faults.rs` does.

use std::collections::{BTreeMap, VecDeque};

use tideline_base::ids::Position;

use super::super::stream::Publish;
use super::super::{genesis, seal};
use super::{BACK, Event, Happening, Kind, Look, MS, NAMES, Process, World};
use crate::attach::LOOK_PATIENCE_MS;
use crate::frame::{Content, Draft, Sealed};
use crate::halt::Halt;
use crate::node::{Command, Node, Options, Reading};
use crate::plant::{Plant, is_planted};
use crate::settle::Answer;
use crate::trim::TrimOptions;

impl World {
    pub(super) fn start(&mut self, host: usize) {
        if self.hosts[host].process.is_some() {
            return;
        }
        let (now, is_automatic, proof) = (self.steady(host), self.is_automatic, self.proof);
        let owner_silence_ms = self.silence_ms;
        // What is on a host's disk is in its image, too, and no host may be left behind.
        let trims = self.kind == Kind::Trims;
        let nodes = NAMES.iter().filter(|_| trims);
        let trim = TrimOptions {
            nodes: nodes.map(|name| (*name).to_owned()).collect(),
            age_ms: 200,
            away_ms: u64::MAX,
            every_ms: 50,
        };
        let at = &mut self.hosts[host];
        at.boot += 1;
        let options = Options {
            node: NAMES[host].to_owned(),
            boot: at.boot * 10 + host as u64,
            genesis: genesis(),
            read_proof: proof,
            read_lease_ms: at.lease_ms,
            is_automatic,
            is_drained: false,
            grace_ms: at.boot.saturating_sub(1).min(1) * 2_000,
            claims_again: false,
            claims_new: false,
            owner_silence_ms,
            attest_frames: 64,
            attest_ms: 2_000,
            trim,
            settings: BTreeMap::new(),
        };
        let mut node = Node::new(options, at.disk.clone(), now);
        node.covers(at.disk.position);
        at.process = Some(Process {
            node,
            consumer: 0,
            next: Position::ZERO,
            delivered_at: 0,
            queue: VecDeque::new(),
            sent: None,
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

    pub(super) fn deliver(&mut self, host: usize, boot: u64, event: Event) {
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
        if let Event::Looked(facts) = &event
            && at.looks == (boot, facts.number)
        {
            at.looks = (boot, 0);
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
                node.covers(place.position);
                self.hosts[host].disk = place;
                self.to(host, self.sync_ms * MS, Event::Sync);
            }
            Event::Answered(position, Answer::Stored(_)) if is_planted(Plant::ClaimAnywhere) => {
                node.answered(position, Answer::Stored(position), now);
            }
            Event::Answered(position, answer) => node.answered(position, answer, now),
            Event::Deliver(consumer, sequence, frame) => {
                if consumer == process.consumer {
                    node.received(sequence, frame, now);
                }
            }
            Event::Fetched(position, found) => node.fetched(position, found, now),
            Event::Looked(facts) => node.looked(&facts, now),
            Event::Heard(mut beat) => {
                if beat.began == node.place().began {
                    process.heard = process.heard.max(beat.stored);
                }
                if is_planted(Plant::HeardIgnored) {
                    beat.stored = Position::ZERO;
                }
                node.heard(&beat, now, wall_ms);
            }
            Event::Refused(other) => node.refused(NAMES[other]),
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
        if self.is_printed && !matches!(command, Command::Say(_)) {
            self.print(&format!("host {host} {command:?}"));
        }
        let now = self.steady(host);
        let latency = self.latency();
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        match command {
            Command::Seal(draft) => {
                self.count += 1;
                process.node.send(seal(draft, self.count), now);
            }
            Command::Send(frame) => self.send(host, frame, latency),
            Command::Fetch(position) => {
                let is_behind = self.random.percent(15) && !self.is_calm;
                let found = self.stream.kept(position).cloned().filter(|_| !is_behind);
                self.to(host, 2 * latency, Event::Fetched(position, found));
            }
            Command::Follow(after) => {
                process.consumer += 1;
                process.next = after.next();
                let consumer = process.consumer;
                self.after(latency, Happening::Pump(host, consumer));
            }
            Command::Look { number, positions } => {
                let boot = self.hosts[host].boot;
                self.hosts[host].looks = (boot, number);
                let until = self.now + LOOK_PATIENCE_MS * MS;
                self.look(Look {
                    host,
                    boot,
                    number,
                    positions,
                    until,
                });
            }
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
            Command::Purge(upto) => self.stream.purged = self.stream.purged.max(upto),
            Command::Stop(halt) => self.stopped(host, &halt),
        }
    }

    fn send(&mut self, host: usize, mut frame: Sealed, latency: u64) {
        let boot = self.hosts[host].boot;
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let is_again = process.sent.replace(frame.hash) == Some(frame.hash);
        if is_again && is_planted(Plant::OtherBytes) {
            frame.hash = frame.hash.wrapping_add(1);
        }
        if !is_again && is_planted(Plant::AckBeforeStored) {
            self.acknowledge(host, frame.position);
        }
        let is_claim = matches!(frame.content, Content::Claim(_));
        let is_anywhere = is_claim && is_planted(Plant::ClaimAnywhere);
        let expected = (!is_anywhere).then_some(Position(frame.position.0 - 1));
        let publish = Publish {
            host,
            boot,
            frame,
            expected,
        };
        self.publish(publish, latency);
    }

    fn taken(&mut self, host: usize, frame: &Sealed, is_void: bool) {
        self.checker
            .took(self.now, host, &self.stream, frame, is_void);
        let is_claim = matches!(frame.content, Content::Claim(_));
        if is_claim && frame.term > 1 && self.random.percent(20) && self.kind != Kind::Disaster {
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

    /// A void frame behind a claim, as of a deposed writer with more than one frame in flight.
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
        let boot = self.hosts[host].boot;
        for (position, write) in answered {
            self.late_acked |= write >= self.late;
            let is_other = |(lost, of, _): &(usize, u64, u64)| (*lost, *of) != (host, boot);
            if let Some((_, _, since)) = self.lost_owner.filter(is_other)
                && self.pause.is_none()
            {
                self.pause = Some(self.now - since);
                self.after(BACK * MS, Happening::End);
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
        let writes = writes && (self.kind != Kind::Quiet || self.is_calm);
        let reads = reads && (self.kind != Kind::Quiet || self.is_calm);
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
        let Some(draft) = process.node.draft(Content::Batch, now) else {
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
}
