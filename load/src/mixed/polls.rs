//! Clients that keep no subscription and poll with sync positions.
//!
//! Owns: their positions. Promises: what a poll brings must go on right behind the position it was asked with; at the
//! end one more round must bring each timeline to what was acknowledged. Must not: wait in the server: `poll` is the
//! profile for that.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::exit::Stop;
use crate::request::{Ask, at_slot, put_request, read};
use crate::rpc::{Client, Refusal};
use crate::run::Run;
use crate::template::{SLOT_BASE, timeline_name};

/// Messages that a poll may bring of one timeline.
const LIMIT: u32 = 100;

/// One connection.
pub(super) struct Polls {
    run: Rc<Run>,
    timelines: Vec<u64>,
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    positions: Vec<u64>,
    /// By slot: the positions that were asked with.
    asked: Vec<Vec<u64>>,
}

#[derive(Serialize)]
struct Params<'a> {
    positions: BTreeMap<&'a str, u64>,
    limit: u32,
}

#[derive(Deserialize)]
struct News {
    timelines: HashMap<String, One>,
    more: bool,
}

#[derive(Deserialize)]
struct One {
    messages: Vec<Numbered>,
    position: u64,
    more: bool,
    state: String,
}

#[derive(Deserialize)]
struct Numbered {
    sequence: u64,
}

impl Polls {
    pub(super) fn new(run: &Rc<Run>, prefix: &str, timelines: Vec<u64>) -> Polls {
        let names: Vec<String> = timelines
            .iter()
            .map(|timeline| timeline_name(prefix, *timeline))
            .collect();
        Polls {
            run: Rc::clone(run),
            by_name: names
                .iter()
                .enumerate()
                .map(|(at, name)| (name.clone(), at))
                .collect(),
            positions: vec![0; names.len()],
            names,
            timelines,
            asked: Vec::new(),
        }
    }

    fn params(&self) -> Params<'_> {
        let names = self.names.iter().map(String::as_str);
        Params {
            positions: names.zip(self.positions.iter().copied()).collect(),
            limit: LIMIT,
        }
    }

    /// Checks what came, and moves on.
    fn news(&mut self, asked: &[u64], news: &News) {
        let checks = &self.run.checks;
        for (name, one) in &news.timelines {
            let Some(at) = self.by_name.get(name).copied() else {
                checks.fault(format_args!(
                    "a poll brought {name}, which was not asked for"
                ));
                continue;
            };
            let (after, got) = (asked[at], one.messages.len() as u64);
            let in_order = one
                .messages
                .iter()
                .map(|message| message.sequence)
                .eq(after + 1..after + 1 + got);
            if !in_order || one.state != "ok" || one.position != after + got {
                let (state, position) = (&one.state, one.position);
                checks.fault(format_args!(
                    "{name}: a poll after {after} brought {got} up to {position}, {state}, in order: {in_order}"
                ));
            }
            // Polls of a connection may overlap: an older one's answer never moves back.
            self.positions[at] = self.positions[at].max(one.position);
            checks.made("messages polled in order", got);
        }
        checks.made("polls", 1);
    }

    /// Polls until nothing is new; then each timeline must be where it was written to.
    pub(super) async fn catch_up(mut self, acked: &[u64]) -> Result<(), Stop> {
        let unreachable = |error| Stop::Unreachable(format!("a poll: {error}"));
        let mut client = Client::open(&self.run.url).await.map_err(unreachable)?;
        loop {
            let asked = self.positions.clone();
            let news: News = client
                .call("sync", self.params())
                .await
                .map_err(unreachable)?;
            self.news(&asked, &news);
            let moved = self.positions != asked;
            if !moved || !(news.more || news.timelines.values().any(|one| one.more)) {
                break;
            }
        }
        for (at, timeline) in self.timelines.iter().enumerate() {
            let (position, length) = (self.positions[at], acked[*timeline as usize]);
            if position != length {
                let name = &self.names[at];
                self.run.checks.fault(format_args!(
                    "{name}: polled as far as {position} of {length}"
                ));
            }
        }
        self.run.checks.made(
            "polled timelines up to the end",
            self.timelines.len() as u64,
        );
        Ok(())
    }
}

impl Ask for Polls {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        put_request(out, SLOT_BASE + slot as u64, "sync", &self.params());
        at_slot(&mut self.asked, slot).clone_from(&self.positions);
    }

    fn take(&mut self, slot: usize, outcome: Result<&[u8], Refusal>) -> Option<usize> {
        let run = Rc::clone(&self.run);
        match outcome.map(read) {
            Ok(Ok(news)) => {
                let asked = std::mem::take(&mut self.asked[slot]);
                self.news(&asked, &news);
                return Some(0);
            }
            Ok(Err(fault)) => run.checks.fault(fault),
            Err(refusal) if refusal.data.retry => run.checks.made("polls refused for now", 1),
            Err(refusal) => run
                .checks
                .fault(format_args!("a poll was refused: {}", refusal.message)),
        }
        None
    }
}
