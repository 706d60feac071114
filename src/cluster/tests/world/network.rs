//! The network between hosts and stream, and between hosts.
//!
//! Owns: what is lost, late, repeated or out of date on its way. Promises: after the faults all arrives, once a
//! consumer asks again. Must not: change what it carries.

use tideline_base::ids::Position;

use super::super::stream::Publish;
use super::{Event, HOSTS, Happening, Kind, Look, MS, World};
use crate::attach::StreamFacts;
use crate::frame::Content;
use crate::settle::Answer;
use crate::watch::Beat;

/// Between two askings of a look, µs.
const ASK_AGAIN: u64 = 450 * MS;

impl World {
    pub(super) fn latency(&mut self) -> u64 {
        match self.random.percent(3) {
            true if self.is_rough() => self.random.below(700) * MS,
            _ => 100 + self.random.below(900),
        }
    }

    pub(super) fn publish(&mut self, publish: Publish, latency: u64) {
        let is_lost = self.random.percent(self.lost / 2);
        let from = &self.hosts[publish.host];
        if from.is_cut || from.is_stalled || is_lost {
            return;
        }
        if self.repeats && self.random.percent(5) {
            let late = latency + self.latency();
            self.after(late, Happening::Arrive(publish.clone()));
        }
        self.after(latency, Happening::Arrive(publish));
    }

    pub(super) fn arrive(&mut self, publish: Publish) {
        let (host, boot, position) = (publish.host, publish.boot, publish.frame.position);
        if self.hosts[host].is_cut && boot > 0 && self.random.percent(50) {
            return;
        }
        match self.stream.arrived(publish, self.now) {
            Some(answer) => self.answer(host, boot, position, answer),
            None => {
                let is_slow = self.random.percent(2) && self.is_rough();
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

    pub(super) fn commit(&mut self, reign: u64) {
        let Some(publish) = self.stream.commit(reign) else {
            return;
        };
        let last = self.stream.last();
        let (host, boot, position) = (publish.host, publish.boot, publish.frame.position);
        self.answer(host, boot, position, Answer::Stored(last));
        self.grown();
    }

    /// The stream has more: consumers get it.
    pub(super) fn grown(&mut self) {
        self.checker.committed(&self.stream);
        for host in 0..HOSTS {
            let consumer = self.hosts[host].process.as_ref().map(|at| at.consumer);
            let latency = self.latency();
            if let Some(consumer) = consumer {
                self.after(latency, Happening::Pump(host, consumer));
            }
        }
    }

    pub(super) fn pump(&mut self, host: usize, consumer: u64) {
        let is_calm = self.is_calm;
        let at = &mut self.hosts[host];
        let Some(process) = at.process.as_mut().filter(|at| at.consumer == consumer) else {
            return;
        };
        if at.is_cut {
            return;
        }
        let mut due = Vec::new();
        // Without a word.
        process.next = process.next.max(self.stream.first());
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

    /// It is asked again until an answer has come, for as long as this look is wanted.
    pub(super) fn look(&mut self, look: Look) {
        let latency = self.latency();
        let Look {
            host,
            boot,
            number,
            positions,
            until,
        } = &look;
        let (host, number) = (*host, *number);
        let is_old = self.now > *until || self.hosts[host].looks != (*boot, number);
        if is_old {
            return;
        }
        self.after(ASK_AGAIN, Happening::Look(look.clone()));
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
            .filter(|frame| frame.position > self.stream.purged)
            .and_then(|frame| match &frame.content {
                Content::Genesis(genesis) => Some(genesis.clone()),
                _ => None,
            });
        let crc = |position: &Position| {
            let at = self.stream.kept(*position);
            at.filter(|_| *position <= last).map(|frame| frame.crc)
        };
        let crcs = positions.iter().map(crc).collect();
        let facts = StreamFacts {
            number,
            first: self.stream.first(),
            last,
            genesis,
            crcs,
        };
        self.to(host, 2 * latency, Event::Looked(facts));
    }

    /// To all, itself too.
    pub(super) fn say(&mut self, host: usize, beat: &Beat) {
        if self.hosts[host].is_mute {
            return;
        }
        for other in 0..HOSTS {
            let by_stream = !self.hosts[host].is_cut && !self.hosts[other].is_cut;
            let is_heard = match other == host {
                true => by_stream || self.hosts[host].is_apart,
                false => by_stream || self.links[host][other],
            };
            let is_lost = self.random.percent(5) && self.kind != Kind::Quiet;
            if is_heard && !is_lost {
                let latency = self.latency();
                self.to(other, latency, Event::Heard(beat.clone()));
            }
        }
    }
}
