//! What goes wrong in a world, and what persons do.
//!
//! Owns: kills, stops, cuts, elections, clocks set wrong, resignations, disasters. Promises: after `calm` nothing goes
//! wrong. Must not: touch a node but as a person may.

use tideline_base::ids::{HistoryId, Position};

use super::super::{genesis, seal};
use super::{BACK, Event, HOSTS, Happening, Kind, Loss, MS, NAMES, World};
use crate::frame::{Content, Genesis};
use crate::lease::ReadProof;
use crate::place::Place;
use crate::plant::{Plant, is_planted};

impl World {
    /// Of the hosts that believe to own the log, the one with the highest term.
    fn owner(&self) -> Option<usize> {
        let term = |host: &usize| {
            let node = self.hosts[*host].process.as_ref().map(|at| &at.node);
            node.filter(|node| node.owns())
                .map(|node| node.place().term)
        };
        let owners = (0..HOSTS).filter(|host| term(host).is_some());
        owners.max_by_key(term)
    }

    pub(super) fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let pause = match self.kind == Kind::Tense {
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
        if self.kind == Kind::Tense {
            return self.tense_fault(victim);
        }
        if self.is_owner_well() {
            return self.harmless_fault(lasts);
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

    pub(super) fn lose(&mut self, loss: Loss) {
        let Some(owner) = self.owner() else {
            return;
        };
        self.lost_owner = Some((owner, self.hosts[owner].boot, self.now));
        let lasts = BACK / 2 * MS;
        match loss {
            Loss::Killed => self.kill(owner, lasts),
            Loss::KilledClockOff => {
                let off = *self.random.one(&[-10_000, 10_000]);
                let first = (0..HOSTS).find(|host| *host != owner);
                self.hosts[first.unwrap_or(owner)].wall_off_ms = off;
                self.after(500 * MS, Happening::Lose(Loss::Killed));
            }
            Loss::KilledWithStream => {
                self.kill(owner, lasts);
                let until = self.now + (4_000 + self.random.below(5_000)) * MS;
                self.stream.elect(until, &mut self.random);
                self.grown();
            }
            Loss::Frozen => self.hosts[owner].stopped_until = self.now + lasts,
            Loss::CutOff => {
                self.cut(owner, lasts);
                self.links = [[false; HOSTS]; HOSTS];
            }
            Loss::Mute | Loss::Stalled => {
                self.hosts[owner].is_stalled = true;
                self.hosts[owner].is_mute = loss == Loss::Mute;
                self.after(lasts, Happening::Uncut(owner));
            }
            Loss::HandsOver => {
                let now = self.steady(owner);
                let process = self.hosts[owner].process.as_mut();
                if process.is_none_or(|at| at.node.hand_over(now).is_none()) {
                    self.checker
                        .fail(self.now, "there is nobody to hand over to");
                }
            }
            Loss::Resigns => {
                if let Some(process) = &mut self.hosts[owner].process {
                    process.node.resign(None);
                }
            }
        }
    }

    /// What no owner is to be followed for.
    fn harmless_fault(&mut self, lasts: u64) {
        let owner = self.owner();
        let standbys: Vec<usize> = (0..HOSTS).filter(|host| Some(*host) != owner).collect();
        let standby = *self.random.one(&standbys);
        if owner.is_none() || self.checker.claims == 0 {
            return;
        }
        match self.random.below(6) {
            0 => self.kill(standby, lasts),
            1 => {
                let at = &mut self.hosts[standby];
                at.stopped_until = at.stopped_until.max(self.now + lasts);
            }
            2 => {
                self.cut(standby, lasts);
                self.links = [[self.random.percent(50); HOSTS]; HOSTS];
            }
            3 => self.hosts[standby].wall_off_ms = *self.random.one(&[-10_000, 0, 10_000]),
            4 => {
                self.cut(standby, lasts);
                self.hosts[standby].is_apart = true;
                self.links = [[false; HOSTS]; HOSTS];
                // When it is back, nobody has written.
                let until = self.now + lasts + self.random.below(1_500) * MS;
                self.stream.elect(until, &mut self.random);
                self.grown();
                self.quiet_until = until + 3_000 * MS;
            }
            _ => {
                let until = self.now + (500 + self.random.below(8_500)) * MS;
                self.stream.elect(until, &mut self.random);
                self.grown();
                self.quiet_until = until + 3_000 * MS;
            }
        }
    }

    fn tense_fault(&mut self, victim: usize) {
        let other = (victim + 1 + self.random.below(2) as usize) % HOSTS;
        match self.random.below(5) {
            0 => {
                // It may sleep first, and get its ack only after that.
                let sleeps = self.random.below(2) * self.random.below(1_000) * MS;
                let at = &mut self.hosts[victim];
                if is_planted(Plant::ClockStops) {
                    at.offset -= sleeps * at.rate / 1_000_000;
                }
                at.stopped_until = at.stopped_until.max(self.now) + sleeps;
                let lasts = (1_500 + self.random.below(1_500)) * MS;
                self.after(sleeps + 50, Happening::Cut(victim, lasts));
                // By a link it would hear of the other's term.
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

    pub(super) fn cut(&mut self, host: usize, lasts: u64) {
        if self.is_calm {
            return;
        }
        self.hosts[host].is_cut = true;
        self.after(lasts, Happening::Uncut(host));
    }

    pub(super) fn take_over(&mut self, host: usize) {
        let now = self.steady(host);
        if let Some(process) = &mut self.hosts[host].process {
            process.node.take_over(now);
        }
    }

    fn resign(&mut self, host: usize) {
        let to = self.random.below(HOSTS as u64) as usize;
        let to = NAMES[to].to_owned();
        if let Some(process) = &mut self.hosts[host].process {
            process.node.resign(Some(to));
        }
    }

    fn kill(&mut self, host: usize, lasts: u64) {
        self.hosts[host].process = None;
        self.after(lasts, Happening::Start(host));
        for other in (0..HOSTS).filter(|other| *other != host) {
            if self.random.percent(70) || self.lost_owner.is_some() {
                self.to(other, 50 * MS, Event::Refused(host));
            }
        }
    }

    pub(super) fn uncut(&mut self, host: usize) {
        self.hosts[host].is_cut = false;
        (self.hosts[host].is_stalled, self.hosts[host].is_mute) = (false, false);
        self.hosts[host].is_apart = false;
        if self.kind == Kind::Tense {
            self.links = [[true; HOSTS]; HOSTS];
        }
        self.to(host, 0, Event::Connected);
    }

    /// Where nodes do not claim by themselves, and of a log that nobody has owned, a person lets one do so.
    pub(super) fn person(&mut self) {
        self.after(300 * MS, Happening::Person);
        let has_begun = self.is_automatic && self.checker.claims > 0;
        if has_begun || self.owner().is_some() {
            return;
        }
        let host = self.random.below(HOSTS as u64) as usize;
        self.take_over(host);
    }

    /// All faults end.
    pub(super) fn calm(&mut self) {
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
    pub(super) fn disaster(&mut self) {
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
}
