//! How a run goes on from phase to phase, and what is done in each beside what clients choose.
//!
//! Owns: the end of the faults, what must be accepted after it, splits and merges. Promises: a phase ends when all that
//! it waits for has come, or is a finding after [`PATIENCE`]. Must not: judge what clients saw.

use serde_json::{Value, json};
use tideline_history::What;

use super::{Comes, LATE, MS, PATIENCE, Phase, SECOND, SETTLES, World};
use crate::client::{Client, Line, Waits};
use crate::plan::Ends;

impl World<'_> {
    /// Has partitions split or merged: first the back end asks which there are.
    pub(super) fn reshape(&mut self) {
        let back_end = self.plan.clients;
        let is_time = matches!(self.phase, Phase::Works | Phase::Calms);
        if is_time && self.clients[back_end].line == Line::Up {
            self.clients[back_end].request("partition.list", &json!({}), Waits::Partitions);
            self.flush(back_end);
        }
    }

    /// One of them is split, or two neighbours are merged.
    pub(super) fn reshape_some(&mut self, at: usize, message: &Value) {
        let all = message["result"]["partitions"].as_array();
        let all = all.map_or(&[][..], Vec::as_slice);
        if all.is_empty() {
            return;
        }
        let one = self.random.below(all.len() as u64) as usize;
        let number = |at: usize| all[at]["partition"].clone();
        let (method, params) = match one + 1 < all.len() && self.random.percent(40) {
            true => (
                "partition.merge",
                json!({"partition": number(one), "with": number(one + 1)}),
            ),
            false => ("partition.split", json!({"partition": number(one)})),
        };
        self.is_reshaped = true;
        self.clients[at].request(method, &params, Waits::Nothing);
        self.flush(at);
    }

    /// Goes on to the next phase when it is time; until then it looks again and again.
    pub(super) fn next_phase(&mut self) {
        let is_late = self.deadline > 0 && self.now > self.deadline;
        let mut soon = 200 * MS;
        match self.phase {
            Phase::Works => {
                self.phase = Phase::Calms;
                self.deadline = self.now + PATIENCE;
            }
            Phase::Calms if is_late => {
                let busy = self.clients.iter().filter(|client| !client.is_idle());
                let names: Vec<_> = busy
                    .map(|client| format!("{} {:?}", client.name, client.line))
                    .collect();
                self.fault(format!("no answer after all faults: {}", names.join(", ")));
                self.phase = Phase::Over;
                return;
            }
            Phase::Calms => {
                soon = 20 * MS;
                self.restart_what_stopped();
                if self.plan.reshapes_last && self.clients[self.plan.clients].line == Line::Up {
                    self.plan.reshapes_last = false;
                    self.reshape();
                }
                if self.calm() {
                    self.phase = Phase::Settles;
                    self.late_follower();
                    soon = SETTLES;
                }
            }
            Phase::Settles => {
                self.settled();
                soon = 200 * MS;
            }
            Phase::Reads if is_late => {
                self.fault("not all could be read".to_owned());
                self.phase = Phase::Over;
            }
            Phase::Reads => {
                // A fault that came late may have stopped the image.
                self.restart_what_stopped();
                self.ask_dump();
            }
            Phase::Over => {}
        }
        self.come(soon, Comes::Next);
    }

    /// A partition that a failing disk has stopped is back after a restart.
    fn restart_what_stopped(&mut self) {
        let log = std::fs::read(self.task.folder.join("server.log")).unwrap_or_default();
        let stops = String::from_utf8_lossy(&log)
            .matches("the partition stops")
            .count();
        if stops > self.stops && self.machine.is_some() {
            self.stops = stops;
            self.end(Ends::Kill);
        }
    }

    /// Nobody is shown anything more; one reader comes.
    fn settled(&mut self) {
        for at in 0..self.clients.len() {
            self.note(at, What::Settled);
        }
        self.judge_scheduled();
        self.phase = Phase::Reads;
        self.clients.clear();
        let reader = Client::new("end".to_owned(), "end".to_owned());
        self.clients.push(reader);
        for connection in std::mem::take(&mut self.sockets).into_keys() {
            self.acts.reset(connection);
        }
        let is_over = |what: &Comes| matches!(what, Comes::Dial(_) | Comes::Step(_) | Comes::Reset);
        self.coming.retain(|_, what| !is_over(what));
        if let Some(how) = self.plan.last_end {
            self.end(how);
        }
        self.come(2 * SECOND, Comes::Dial(0));
        self.deadline = self.now + PATIENCE;
    }

    /// One who begins where nothing comes any more sees everything, too.
    fn late_follower(&mut self) {
        let mut late = Client::new(LATE.to_owned(), LATE.to_owned());
        for timeline in &self.plan.timelines {
            late.follows.insert(timeline.clone(), (0, false));
        }
        self.clients.push(late);
        self.come(0, Comes::Dial(self.clients.len() - 1));
    }

    /// Every client must have some more appends accepted.
    fn calm(&mut self) -> bool {
        let mut all = self.machine.is_some();
        for at in 0..self.plan.clients {
            let client = &self.clients[at];
            if !client.is_idle() {
                all = false;
                continue;
            }
            let before = *self.plan.accepted.entry(at).or_insert(client.appended);
            if client.appended >= before + self.plan.last_appends {
                continue;
            }
            all = false;
            self.ask(at, |chooser, client| {
                let timeline = chooser.random.one(chooser.timelines).clone();
                chooser.append(client, &timeline, 1)
            });
            self.flush(at);
        }
        all
    }
}
