//! A viewer: follows one timeline with its parts, and holds every one against what was written.
//!
//! Owns: a reader's copy of each answer: how many parts it has. Promises: of each push and reply the texts are compared
//! byte by byte, parts and messages must be the ones behind the last; what is not is a fault. A viewer that loses its
//! connection tells where it was, and goes on there. Must not: mend anything.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, interval};

use super::book::{Book, Lane};
use crate::client::rpc::{CallError, Client};
use crate::exit::Stop;
use crate::random::Random;
use crate::run::Phase;
use crate::trial::wait;

/// How often it looks what is due.
const LOOK: Duration = Duration::from_millis(50);
/// Without news for so long after the writing it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Viewer {
    book: Rc<Book>,
    /// Of its timeline.
    lane: usize,
    /// It loses its connection again and again; its latency does not count.
    is_cut: bool,
    random: Random,
    copy: Copy,
    epoch: Option<String>,
    /// When something came, or it connected.
    heard: Instant,
}

/// What a reader has.
#[derive(Default)]
struct Copy {
    /// The last message's number, and the last change's.
    position: u64,
    changes: u64,
    /// Parts of the open messages.
    open: BTreeMap<u64, u64>,
    closed: u64,
}

/// A message, as it comes.
#[derive(Deserialize)]
pub(super) struct Shown {
    pub(super) sequence: u64,
    pub(super) message_id: String,
    #[serde(default)]
    pub(super) open: bool,
    #[serde(default)]
    pub(super) parts: u64,
    pub(super) outcome: Option<String>,
    pub(super) entry: Option<Entry>,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    #[serde(default)]
    pub(super) text: String,
}

#[derive(Deserialize)]
struct Grown {
    sequence: u64,
    from: u64,
    parts: u64,
    text: String,
}

/// What a reply or a push says.
#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    epoch: String,
    state: Option<String>,
    #[serde(default)]
    messages: Vec<Shown>,
    #[serde(default, deserialize_with = "none_is_empty")]
    changed: Vec<Shown>,
    #[serde(default)]
    grown: Vec<Grown>,
    change_head: Option<u64>,
}

fn none_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Shown>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Deserialize)]
struct Push<'a> {
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

impl Viewer {
    pub(super) fn new(book: &Rc<Book>, lane: usize, number: u64, is_cut: bool) -> Viewer {
        let part = (lane as u64) << 20 | number;
        Viewer {
            book: Rc::clone(book),
            lane,
            is_cut,
            random: Random::new(book.run.seed_of(1 << 40 | part)),
            copy: Copy::default(),
            epoch: None,
            heard: Instant::now(),
        }
    }

    /// Follows until it has all that was written.
    pub(super) async fn run(mut self) -> Result<(), Stop> {
        while !self.is_through() {
            if let Err(error) = self.session().await {
                wait(self.heard, &error).await?;
            }
        }
        Ok(())
    }

    fn lane(&self) -> &Lane {
        &self.book.lanes[self.lane]
    }

    fn is_through(&self) -> bool {
        let (run, lane) = (&self.book.run, self.lane());
        if !lane.is_over.get() {
            return false;
        }
        let (due, closed) = (lane.closed.borrow().len() as u64, self.copy.closed);
        let is_whole = closed == due;
        if !is_whole && run.checks.faults() == 0 {
            if self.heard.elapsed() < PATIENCE {
                return false;
            }
            let name = &lane.timeline;
            let what = format_args!("{name}: a viewer has {closed} of {due} answers whole");
            run.checks.fault(what);
        }
        true
    }

    /// One connection's life; ends without error when it is cut on purpose or all is through.
    async fn session(&mut self) -> Result<(), CallError> {
        let run = Rc::clone(&self.book.run);
        let mut client = Client::open(&run.url).await?;
        let places = self.copy.open.iter().rev().take(64);
        let open: BTreeMap<String, u64> =
            places.map(|(at, parts)| (at.to_string(), *parts)).collect();
        let (after, changes_after) = (self.copy.position, self.copy.changes);
        let mut params = json!({
            "timeline": self.lane().timeline, "after": after, "changes_after": changes_after, "open": open, "with": ["parts"],
        });
        if let Some(epoch) = &self.epoch {
            params["epoch"] = epoch.as_str().into();
        }
        if self.book.ways.window_ms > 0 {
            params["window_ms"] = self.book.ways.window_ms.into();
        }
        let mut pushes = Vec::new();
        let hear = |text: &[u8]| pushes.push(text.to_vec());
        let reply: Box<RawValue> = client.call_hearing("subscribe", params, hear).await?;
        self.heard = Instant::now();
        self.book.came(reply.get().len());
        let taken = self.take_reply(reply.get());
        self.fault_if(taken, reply.get().as_bytes());
        match after {
            0 if self.epoch.is_none() => self.book.following.update(|so_far| so_far + 1),
            _ => run.add("resumes", 1),
        }
        self.epoch = self.epoch.take().or_else(|| epoch_of(reply.get()));
        pushes.iter().for_each(|text| self.hear(text));
        let cut_at = Instant::now() + Duration::from_millis(50 + self.random.below(1_500));
        let mut look = interval(LOOK);
        loop {
            tokio::select! {
                heard = client.hear_some(|text| self.hear(text)) => {
                    heard.map_err(|error| CallError::Lost(error.to_string()))?;
                }
                now = look.tick() => {
                    let is_due = self.is_cut && now >= cut_at && run.phase() != Phase::Ending;
                    if is_due || self.is_through() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn hear(&mut self, text: &[u8]) {
        self.heard = Instant::now();
        self.book.came(text.len());
        let taken = self.take_push(text);
        self.fault_if(taken, text);
    }

    fn fault_if(&self, taken: Result<(), String>, text: &[u8]) {
        if let Err(what) = taken {
            let (name, text) = (&self.lane().timeline, String::from_utf8_lossy(text));
            self.book
                .run
                .checks
                .fault(format_args!("{name}: {what}, with {text:.300}"));
        }
    }

    fn take_reply(&mut self, text: &str) -> Result<(), String> {
        let told: Told = serde_json::from_str(text).map_err(|odd| format!("no reply: {odd}"))?;
        let is_other = self
            .epoch
            .as_ref()
            .is_some_and(|epoch| *epoch != told.epoch);
        if is_other || told.state.as_deref() != Some("ok") {
            return Err(format!("state {:?} in epoch {}", told.state, told.epoch));
        }
        self.take(told)
    }

    fn take_push(&mut self, text: &[u8]) -> Result<(), String> {
        let Push { method, params } =
            serde_json::from_slice(text).map_err(|odd| format!("no push: {odd}"))?;
        let odd = |odd| format!("not what {method} brings: {odd}");
        match method {
            "message" => self.take(serde_json::from_str(params.get()).map_err(odd)?),
            "message.changed" => {
                let mut told: Told = serde_json::from_str(params.get()).map_err(odd)?;
                told.changed = std::mem::take(&mut told.messages);
                self.take(told)
            }
            "message.extended" => self.grow(&serde_json::from_str(params.get()).map_err(odd)?),
            "draining" => Ok(()),
            other => Err(format!("a push {other}")),
        }
    }

    fn take(&mut self, told: Told) -> Result<(), String> {
        for message in &told.messages {
            if message.sequence != self.copy.position + 1 {
                return Err(format!(
                    "message {} behind {}",
                    message.sequence, self.copy.position
                ));
            }
            self.copy.position += 1;
            self.whole(message, None)?;
        }
        for message in &told.changed {
            let Some(parts) = self.copy.open.get(&message.sequence).copied() else {
                return Err(format!(
                    "a change of {}, which is not open here",
                    message.sequence
                ));
            };
            self.whole(message, Some(parts))?;
        }
        for grown in &told.grown {
            self.grow(grown)?;
        }
        if let Some(change_head) = told.change_head {
            self.copy.changes = self.copy.changes.max(change_head);
        }
        Ok(())
    }

    /// A message came in its newest form; `known` parts of it are here.
    fn whole(&mut self, message: &Shown, known: Option<u64>) -> Result<(), String> {
        let (sequence, parts) = (message.sequence, message.parts);
        check(self.lane(), message)?;
        if parts < known.unwrap_or(0) {
            return Err(format!("{sequence} has {parts} parts, and had {known:?}"));
        }
        self.deliver(sequence, known.unwrap_or(0) + 1, parts)?;
        if message.open {
            self.copy.open.insert(sequence, parts);
            return Ok(());
        }
        if message.outcome.as_deref() != Some("done") {
            return Err(format!("{sequence} has ended as {:?}", message.outcome));
        }
        self.copy.open.remove(&sequence);
        self.copy.closed += 1;
        self.book.run.checks.made("answers whole at a viewer", 1);
        Ok(())
    }

    fn grow(&mut self, grown: &Grown) -> Result<(), String> {
        let (sequence, from, parts) = (grown.sequence, grown.from, grown.parts);
        let known = self.copy.open.get(&sequence).copied();
        if known != Some(from.wrapping_sub(1)) || parts < from {
            return Err(format!(
                "parts {from} to {parts} of {sequence}, which has {known:?}"
            ));
        }
        if self.lane().text(sequence, from, parts).as_ref() != Some(&grown.text) {
            return Err(format!("parts {from} to {parts} of {sequence} are others"));
        }
        self.copy.open.insert(sequence, parts);
        self.deliver(sequence, from, parts)
    }

    /// These parts are shown now.
    fn deliver(&self, answer: u64, from: u64, parts: u64) -> Result<(), String> {
        let now = Instant::now();
        let times = self.lane().times(answer, from, parts);
        let times = times
            .ok_or_else(|| format!("parts {from} to {parts} of {answer} were never written"))?;
        if !self.is_cut {
            for due in times.iter() {
                self.book.shown.record(*due, now);
            }
        }
        let count = times.len() as u64;
        self.book.count(&self.book.deliveries, count);
        self.book
            .run
            .checks
            .made("tokens shown once and in order", count);
        Ok(())
    }
}

/// Whether a message is the answer of its number, with the text of its parts.
pub(super) fn check(lane: &Lane, message: &Shown) -> Result<(), String> {
    let (sequence, parts) = (message.sequence, message.parts);
    if message.message_id != lane.id(sequence) {
        return Err(format!("{sequence} is {}", message.message_id));
    }
    let text = message.entry.as_ref().map(|entry| &entry.text);
    if text != lane.text(sequence, 1, parts).as_ref() {
        return Err(format!("the text of {sequence} is not its {parts} parts"));
    }
    Ok(())
}

fn epoch_of(reply: &str) -> Option<String> {
    let told: Told = serde_json::from_str(reply).ok()?;
    Some(told.epoch)
}
