//! What all users of a chat share: what was sent, where it ended up, and how long it took to each reader.
//!
//! Owns: the numbers of each timeline's messages and their scheduled times. Promises: each number of a timeline is
//! given to one message only; a delivery that comes before its acknowledgement is counted when that tells whose it is.
//! Must not: search: times are found by number.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::Deserialize;
use tokio::time::Instant;

use crate::checks::Follower;
use crate::push;
use crate::recorder::{Counts, Recorder};
use crate::request::Answer;
use crate::rpc::{Appended, Message};
use crate::run::Run;

/// Of so many pushes one is parsed whole and compared with what was sent.
const SAMPLE: u64 = 64;

/// See the top.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    prefix: String,
    text: String,
    delivery: Rc<Recorder>,
    acks: Rc<Recorder>,
    inner: RefCell<Inner>,
    /// Sent and not answered.
    pub(super) unanswered: Rc<Cell<f64>>,
}

struct Inner {
    timelines: Vec<Timeline>,
    /// By request number.
    sent: Vec<(usize, Instant)>,
    tally: Tally,
}

#[derive(Default)]
struct Timeline {
    members: u64,
    epoch: Option<String>,
    acked: u64,
    /// Request and scheduled time of message k, at k - 1; None as long as its answer has not come.
    messages: Vec<Option<(u64, Instant)>>,
    /// Deliveries of messages that are not known yet.
    early: Vec<(u64, Instant)>,
}

/// Counts of the whole run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Tally {
    pub(super) acked: u64,
    pub(super) busy: u64,
    pub(super) delivered: u64,
    /// Deliveries that there must be in the end.
    pub(super) owed: u64,
    pub(super) pushes: u64,
    pub(super) compared: u64,
}

/// What one user follows: its position by timeline.
pub(super) type Follows = std::collections::HashMap<usize, Follower>;

impl Timeline {
    fn at(&mut self, sequence: u64) -> &mut Option<(u64, Instant)> {
        let place = sequence.saturating_sub(1) as usize;
        if self.messages.len() <= place {
            self.messages.resize(place + 1, None);
        }
        &mut self.messages[place]
    }
}

impl Board {
    pub(super) fn new(run: &Rc<Run>, groups: &[Vec<usize>], size: usize) -> Board {
        let timeline = |group: &Vec<usize>| Timeline {
            members: group.len() as u64,
            ..Timeline::default()
        };
        Board {
            run: Rc::clone(run),
            prefix: format!("chat-{}/", run.tag),
            text: crate::random::Random::new(run.seed).text(size),
            delivery: run.recorder("delivery", Counts::Scheduled),
            acks: run.recorder("ack", Counts::Scheduled),
            unanswered: run.gauge("unanswered"),
            inner: RefCell::new(Inner {
                timelines: groups.iter().map(timeline).collect(),
                sent: Vec::new(),
                tally: Tally::default(),
            }),
        }
    }

    pub(super) fn name(&self, timeline: usize) -> String {
        format!("{}{timeline}", self.prefix)
    }

    /// A message is to be sent: its request number and parameters.
    pub(super) fn put(&self, timeline: usize, scheduled: Instant) -> (u64, serde_json::Value) {
        let mut inner = self.inner.borrow_mut();
        let id = inner.sent.len() as u64;
        inner.sent.push((timeline, scheduled));
        self.unanswered.set(self.unanswered.get() + 1.0);
        let params = serde_json::json!({
            "timeline": self.name(timeline),
            "message_id": self.message_id(id),
            "entry": { "text": self.text },
        });
        (id, params)
    }

    fn message_id(&self, id: u64) -> String {
        format!("{}-{id}", self.run.tag)
    }

    /// A subscription stands: all of a timeline are told one epoch, before its first message.
    pub(super) fn subscribed(&self, timeline: usize, epoch: &str, head: u64) {
        let epochs = &mut self.inner.borrow_mut().timelines[timeline].epoch;
        let first = epochs.get_or_insert_with(|| epoch.to_owned());
        if (first.as_str(), 0) != (epoch, head) {
            let name = self.name(timeline);
            self.run.checks.fault(format_args!(
                "{name} is new, and a subscriber was told head {head}, epoch {epoch}"
            ));
        }
    }

    /// A text came for a user.
    pub(super) fn take(&self, text: &[u8], now: Instant, follows: &mut Follows) {
        let taken = match Answer::read(text) {
            Some(answer) => self.answered(&answer, now),
            None => self.pushed(text, now, follows),
        };
        if let Err(fault) = taken {
            let text = String::from_utf8_lossy(text);
            self.run
                .checks
                .fault(format_args!("{fault}, with {text:.300}"));
        }
    }

    fn answered(&self, answer: &Answer, now: Instant) -> Result<(), String> {
        self.unanswered.set(self.unanswered.get() - 1.0);
        let mut inner = self.inner.borrow_mut();
        let Inner {
            timelines,
            sent,
            tally,
        } = &mut *inner;
        let (timeline, scheduled) = *sent
            .get(answer.id as usize)
            .ok_or("an answer to what was not asked")?;
        if let Err(refusal) = &answer.outcome
            && refusal.data.reason == "busy"
        {
            tally.busy += 1;
            return Ok(());
        }
        let appended: Appended = answer.result()?;
        let timeline = &mut timelines[timeline];
        let sequence = appended.sequence;
        let place = timeline.at(sequence);
        if place.is_some()
            || appended.duplicate
            || appended.message_id != self.message_id(answer.id)
        {
            return Err(format!("{sequence} is another message's"));
        }
        *place = Some((answer.id, scheduled));
        timeline.acked += 1;
        tally.acked += 1;
        tally.owed += timeline.members;
        self.acks.record(scheduled, now);
        timeline.early.retain(|(early, came)| {
            let known = *early == sequence;
            if known {
                self.delivery.record(scheduled, *came);
            }
            !known
        });
        Ok(())
    }

    fn pushed(&self, text: &[u8], now: Instant, follows: &mut Follows) -> Result<(), String> {
        let Some(found) = push::read(text).filter(|found| found.in_order) else {
            return Err("not messages without hole".into());
        };
        let number = found.timeline.strip_prefix(self.prefix.as_str());
        let number: usize = number
            .and_then(|number| number.parse().ok())
            .ok_or("a timeline of somebody else")?;
        let follower = follows
            .get_mut(&number)
            .ok_or("a timeline that the user does not follow")?;
        let followed = follower.take(found.first);
        follower.position = found.last;
        let mut inner = self.inner.borrow_mut();
        let Inner {
            timelines, tally, ..
        } = &mut *inner;
        let timeline = &mut timelines[number];
        for sequence in found.first..=found.last {
            match *timeline.at(sequence) {
                Some((_, scheduled)) => {
                    self.delivery.record(scheduled, now);
                }
                None => timeline.early.push((sequence, now)),
            }
            tally.delivered += 1;
        }
        tally.pushes += 1;
        if tally.pushes % SAMPLE == 1 {
            tally.compared += 1;
            self.compare(text, timeline)?;
        }
        followed
    }

    /// Whether a push holds what was sent, as far as it is known by now.
    fn compare(&self, text: &[u8], timeline: &Timeline) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Whole {
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            epoch: String,
            messages: Vec<Message>,
        }
        let whole: Whole = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if timeline.epoch.as_ref() != Some(&whole.params.epoch) {
            return Err("another epoch".into());
        }
        for message in whole.params.messages {
            let known = timeline.messages.get(message.sequence as usize - 1);
            let known = known.copied().flatten();
            let other = known.is_some_and(|(id, _)| message.message_id != self.message_id(id));
            if other || message.entry != Some(serde_json::json!({ "text": self.text })) {
                return Err(format!("{} was not sent so", message.sequence));
            }
        }
        Ok(())
    }

    /// Counts so far.
    pub(super) fn tally(&self) -> Tally {
        self.inner.borrow().tally
    }

    /// Whether every message was answered and has reached all readers.
    pub(super) fn complete(&self) -> bool {
        let tally = self.tally();
        self.unanswered.get() <= 0.0 && tally.delivered >= tally.owed
    }

    /// Measured acknowledgements and deliveries.
    pub(super) fn measured(&self) -> (u64, u64) {
        (self.acks.count(), self.delivery.count())
    }

    /// At the end: no timeline has numbers that no message of ours got.
    pub(super) fn close(&self) {
        let checks = &self.run.checks;
        let inner = self.inner.borrow();
        for (number, timeline) in inner.timelines.iter().enumerate() {
            let length = timeline.messages.len() as u64;
            if timeline.acked != length || !timeline.early.is_empty() {
                let (name, acked) = (self.name(number), timeline.acked);
                checks.fault(format_args!("{name}: {acked} appended, {length} seen"));
            }
        }
        let tally = inner.tally;
        if tally.delivered != tally.owed {
            let Tally {
                delivered, owed, ..
            } = tally;
            checks.fault(format_args!("{delivered} deliveries of {owed}"));
        }
        checks.made("messages appended", tally.acked);
        checks.made("deliveries in order", tally.delivered);
        checks.made("pushes compared whole", tally.compared);
        checks.made("timelines complete", inner.timelines.len() as u64);
    }
}
