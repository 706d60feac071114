//! Clients that keep no subscription and poll with sync positions.
//!
//! Owns: their positions. Promises: what a poll brings must go on right behind the position it was asked with; at the
//! end one more round must bring each timeline to what was acknowledged. Must not: wait in the server: `poll` is the
//! profile for that.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::Stop;
use crate::follower::Timelines;
use crate::request::{Ask, at_slot};
use crate::rpc::{Client, Refusal, put_request, read};
use crate::run::Run;
use crate::template::SLOT_BASE;

/// Messages that a poll may bring of one timeline.
const LIMIT: u32 = 100;

/// One connection.
pub(super) struct Polls {
    run: Rc<Run>,
    timelines: Arc<Timelines>,
    /// By timeline.
    positions: BTreeMap<usize, u64>,
    /// By slot: the positions that were asked with.
    asked: Vec<BTreeMap<usize, u64>>,
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
    pub(super) fn new(run: &Rc<Run>, timelines: &Arc<Timelines>, follows: Vec<u64>) -> Polls {
        let position = |timeline| (timeline as usize, 0);
        Polls {
            run: Rc::clone(run),
            timelines: Arc::clone(timelines),
            positions: follows.into_iter().map(position).collect(),
            asked: Vec::new(),
        }
    }

    fn params(&self) -> Params<'_> {
        let position = |(timeline, after): (&usize, &u64)| (&*self.timelines[*timeline], *after);
        Params {
            positions: self.positions.iter().map(position).collect(),
            limit: LIMIT,
        }
    }

    /// Checks what came, and moves on.
    fn news(&mut self, asked: &BTreeMap<usize, u64>, news: &News) {
        let checks = &self.run.checks;
        for (name, one) in &news.timelines {
            let timeline = self.timelines.number(name);
            let place = timeline.and_then(|it| Some((it, *asked.get(&it)?)));
            let Some((timeline, after)) = place else {
                let what = format_args!("a poll brought {name}, which was not asked for");
                checks.fault(what);
                continue;
            };
            let got = one.messages.len() as u64;
            let sequences = one.messages.iter().map(|message| message.sequence);
            let in_order = sequences.eq(after + 1..=after + got);
            if !in_order || one.state != "ok" || one.position != after + got {
                let (state, position) = (&one.state, one.position);
                checks.fault(format_args!(
                    "{name}: a poll after {after} brought {got} up to {position}, {state}, in order: {in_order}"
                ));
            }
            // Polls of a connection may overlap: an older one's answer never moves back.
            let position = self.positions.entry(timeline).or_default();
            *position = one.position.max(*position);
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
            let news: Result<News, _> = client.call("sync", self.params()).await;
            let news = news.map_err(unreachable)?;
            self.news(&asked, &news);
            let moved = self.positions != asked;
            if !moved || !(news.more || news.timelines.values().any(|one| one.more)) {
                break;
            }
        }
        let checks = &self.run.checks;
        for (timeline, position) in &self.positions {
            let (name, length) = (&self.timelines[*timeline], acked[*timeline]);
            if *position != length {
                checks.fault(format_args!(
                    "{name}: polled as far as {position} of {length}"
                ));
            }
        }
        let count = self.positions.len() as u64;
        checks.made("polled timelines up to the end", count);
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
