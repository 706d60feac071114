//! What was sent, and what came of it: one account for all members of an audience.
//!
//! Owns: each message as it was sent, how long each timeline is, the counts. Promises: a number of a timeline is that
//! of one message only, and each follower has just the messages that are acknowledged, or it is a fault. Must not:
//! allocate for a push, or parse one that it does not compare.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Member;
use super::sent::{Log, Sent, Written};
use crate::follower::{Event, Follower, Heard, OWN, Timelines};
use crate::machine::wall_micros;
use crate::pipe::Way;
use crate::random::Random;
use crate::recorder::{self, Recorder};
use crate::rpc::{Answer, Appended, Message, Refusal, put_request};
use crate::run::{Phase, Run};

/// Of so many pushes one is compared whole, where pushes are many.
const SAMPLE: u64 = 64;

/// Who appends. That decides how the account knows which message has which number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// One member, which sends the messages in their order.
    One,
    /// Many members: the message's ID says it.
    Many,
    /// No member; `expect` says how long timelines are.
    Others,
}

/// See the top.
pub(crate) struct Account {
    pub(crate) run: Rc<Run>,
    pub(crate) timelines: Arc<Timelines>,
    /// Messages go out by the clock.
    pub(super) by_clock: bool,
    pub(super) writers: Writers,
    pub(super) entry: Value,
    pub(super) acks: Option<Rc<Recorder>>,
    pub(super) delivery: Option<Rc<Recorder>>,
    /// By member.
    pub(super) desks: Vec<Desk>,
    pub(super) sent: RefCell<Log<Sent>>,
    /// By timeline.
    pub(super) written: Vec<Written>,
    pub(crate) counts: Counts,
    /// A message has reached all its followers.
    pub(crate) news: Notify,
    /// When sending has ended: the deadline for what is still missing.
    pub(super) over: watch::Sender<Option<Instant>>,
}

/// What a member is to send.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) frames: RefCell<Vec<u8>>,
    pub(super) news: Notify,
}

/// What came, to all members together.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) answered: Cell<u64>,
    pub(crate) acked: Cell<u64>,
    /// Messages that all their followers have.
    pub(crate) reached: Cell<u64>,
    /// Messages that came; of these, what subscriptions resumed with.
    pub(crate) deliveries: Cell<u64>,
    pub(crate) resumed: Cell<u64>,
    /// Messages that came in the measurement.
    pub(super) measured: Cell<u64>,
    /// Replies and pushes that brought them.
    pub(super) pushes: Cell<u64>,
    /// In the measurement: subscriptions that went on from a position.
    pub(crate) resumes: Cell<u64>,
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

impl Account {
    /// For these timelines and members, by what each follows; one that follows nothing only appends. Entries have
    /// `size` bytes of text. `measured` says which latencies count; `None` = none are recorded.
    pub(crate) fn new(
        run: &Rc<Run>,
        writers: Writers,
        measured: Option<recorder::Counts>,
        size: usize,
        timelines: impl IntoIterator<Item = String>,
        follows: impl IntoIterator<Item = Vec<u64>>,
    ) -> (Rc<Account>, Vec<Member>) {
        let (timelines, follows) = (Timelines::new(timelines), Vec::from_iter(follows));
        let mut written: Vec<_> = timelines.iter().map(|_| Written::default()).collect();
        for timeline in follows.iter().flatten() {
            written[*timeline as usize].followers += 1;
        }
        let acking = measured.filter(|_| writers != Writers::Others);
        let account = Rc::new(Account {
            run: Rc::clone(run),
            timelines,
            by_clock: measured == Some(recorder::Counts::Scheduled),
            writers,
            entry: json!({ "text": Random::new(run.seed).text(size) }),
            acks: acking.map(|counts| run.recorder("ack", counts)),
            delivery: measured.map(|counts| run.recorder("delivery", counts)),
            desks: follows.iter().map(|_| Desk::default()).collect(),
            sent: RefCell::default(),
            written,
            counts: Counts::default(),
            news: Notify::new(),
            over: watch::Sender::new(None),
        });
        let member = |(number, follows): (usize, Vec<u64>)| Member {
            account: Rc::clone(&account),
            follower: Follower::new(&account.timelines, follows.iter().map(|one| *one as usize)),
            timed: true,
            way: Way::Plain,
            number,
        };
        let members = follows.into_iter().enumerate().map(member).collect();
        (account, members)
    }

    /// Has a member send one more message to a timeline, soon.
    pub(crate) fn put(&self, member: usize, timeline: usize, scheduled: Instant) {
        let (written, desk) = (&self.written[timeline], &self.desks[member]);
        let mut sent = self.sent.borrow_mut();
        sent.kept.push_back(Sent {
            timeline,
            scheduled,
            answered: false,
            left: written.followers,
        });
        add(&written.sent, 1);
        // With one writer it is known at once which number it has.
        if self.writers == Writers::One {
            written.numbers.borrow_mut().kept.push_back(sent.len());
        }
        let (name, id) = (&self.timelines[timeline], self.message_id(sent.len()));
        let params = json!({ "timeline": name, "message_id": id, "entry": self.entry });
        let (out, id) = (&mut desk.frames.borrow_mut(), OWN + sent.len() as u64);
        put_request(out, id, "message.append", &params);
        desk.news.notify_one();
    }

    pub(super) fn message_id(&self, number: usize) -> String {
        format!("{}-{number}", self.run.tag)
    }

    fn message(&self, number: usize) -> Option<Sent> {
        self.sent.borrow_mut().get_mut(number).copied()
    }

    /// Forgets messages that are done, and the numbers of this timeline that only they needed.
    fn forget(&self, timeline: usize) {
        let (mut sent, written) = (self.sent.borrow_mut(), &self.written[timeline]);
        sent.forget(Sent::is_done);
        let mut done = |number| sent.get_mut(number).is_none_or(|sent| sent.is_done());
        let mut numbers = written.numbers.borrow_mut();
        numbers.forget(|number| *number > 0 && done(*number));
    }

    /// Sets how long the timelines will be, if no member appends.
    pub(crate) fn expect(&self, length: impl Fn(usize) -> u64) {
        for (timeline, written) in self.written.iter().enumerate() {
            written.sent.set(length(timeline));
            written.length.set(length(timeline));
        }
    }

    /// Something came to a member. The error is a fault.
    pub(super) fn hear(&self, event: &Event<'_>, timed: bool) -> Result<(), String> {
        match event {
            Event::Joined {
                timeline,
                after,
                head,
            } => {
                let most = self.written[*timeline].sent.get();
                if *head > most {
                    return Err(format!("a head of {head} after {most} messages"));
                }
                let resumes = *after > 0 && self.run.phase() == Phase::Measuring;
                add(&self.counts.resumes, resumes.into());
                Ok(())
            }
            Event::Heard(heard) if heard.in_order => self.heard(heard, timed),
            // The follower has entered the fault.
            Event::Heard(_) => Ok(()),
            Event::Answered(number, answer, now) => self.answered(*number, answer, *now),
            other => other.expected(),
        }
    }

    /// The answer to an append came.
    fn answered(&self, number: u64, answer: &Answer<'_>, now: Instant) -> Result<(), String> {
        // With one writer a message that is not appended would shift the numbers of those behind it.
        let may_be = self.writers == Writers::Many;
        let busy = |refusal: &Refusal| may_be && refusal.data.reason == "busy";
        let busy = answer.outcome.as_ref().is_err_and(busy);
        let message = |sent: &mut Log<Sent>| {
            let message = sent.get_mut(number as usize).filter(|one| !one.answered)?;
            message.answered = true;
            if busy {
                message.left = 0;
            }
            Some(*message)
        };
        let sent = message(&mut self.sent.borrow_mut());
        let sent = sent.ok_or("an answer to what was not asked, or is answered")?;
        add(&self.counts.answered, 1);
        if !busy {
            let appended: Appended = answer.result()?;
            let placed = self.place(sent.timeline, &appended.message_id, appended.sequence)?;
            let same = self.timelines.is_epoch(sent.timeline, &appended.epoch);
            if placed as u64 != number || appended.duplicate || !same {
                return Err(format!("the answer to message {number} is of another"));
            }
            add(&self.written[sent.timeline].length, 1);
            add(&self.counts.acked, 1);
            if let Some(acks) = &self.acks {
                acks.record(sent.scheduled, now);
            }
        }
        self.forget(sent.timeline);
        Ok(())
    }

    /// The message with this ID has this number in this timeline, and no other has. Returns which message it is.
    fn place(&self, timeline: usize, id: &str, sequence: u64) -> Result<usize, String> {
        let digits = id.strip_prefix(self.run.tag.as_str());
        let digits = digits.and_then(|rest| rest.strip_prefix('-'));
        let number = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let sent = self.message(number);
        if sent.is_none_or(|sent| sent.timeline != timeline) {
            return Err(format!("{id} was not sent there"));
        }
        let (written, place) = (&self.written[timeline], sequence as usize);
        let mut numbers = written.numbers.borrow_mut();
        if sequence <= written.sent.get() && place > numbers.len() {
            let kept = place - numbers.forgotten;
            numbers.kept.resize(kept, 0);
        }
        let known = numbers.get_mut(place);
        let known = known.filter(|known| [0, number].contains(known));
        *known.ok_or_else(|| format!("{sequence} is not the number of {id}"))? = number;
        Ok(number)
    }

    /// Messages came to a member, in order.
    fn heard(&self, heard: &Heard<'_>, timed: bool) -> Result<(), String> {
        let sent = self.written[heard.timeline].sent.get();
        if heard.last > sent {
            return Err(format!("{} came after {sent} were sent", heard.last));
        }
        let (counts, others) = (&self.counts, self.writers == Writers::Others);
        let compare = others || counts.pushes.get().is_multiple_of(SAMPLE);
        add(&counts.pushes, 1);
        add(&counts.deliveries, heard.count);
        if self.run.phase() == Phase::Measuring {
            add(&counts.measured, heard.count);
        }
        if compare {
            let entry = self.entry.to_string();
            let same = |one: &Message| one.entry.as_deref().map(RawValue::get) == Some(&entry);
            if !heard.messages()?.iter().all(same) {
                return Err("an entry was not sent so".into());
            }
        }
        if !others && (compare || self.writers == Writers::Many) {
            self.identify(heard)?;
        }
        // What a subscription resumes with has no latency: it waited by choice.
        let delivery = self.delivery.as_deref().filter(|_| timed && heard.live);
        if !heard.live {
            add(&counts.resumed, heard.count);
        }
        if !others {
            return self.deliver(heard, delivery);
        }
        if let Some(delivery) = delivery {
            // The server's clock is this machine's, in ms.
            let took = wall_micros().saturating_sub(heard.timestamp * 1_000);
            let committed = heard.now.checked_sub(Duration::from_micros(took));
            let committed = committed.unwrap_or(heard.now);
            delivery.record(committed, heard.now);
        }
        Ok(())
    }

    /// Each message has the ID of one that was sent there.
    fn identify(&self, heard: &Heard<'_>) -> Result<(), String> {
        let (mut sequence, mut placed) = (heard.first, Ok(0));
        heard.ids(|id| {
            if placed.is_ok() {
                placed = self.place(heard.timeline, id, sequence);
            }
            sequence += 1;
        })?;
        placed.map(drop)
    }

    /// Ticks the messages off, and times them.
    fn deliver(&self, heard: &Heard<'_>, delivery: Option<&Recorder>) -> Result<(), String> {
        let record = |scheduled, count| {
            if let Some(delivery) = delivery.filter(|_| count > 0) {
                delivery.record_many(scheduled, heard.now, count);
            }
        };
        let reached = self.counts.reached.get();
        let mut numbers = self.written[heard.timeline].numbers.borrow_mut();
        let mut sent = self.sent.borrow_mut();
        // Messages that were sent together have one time: most pushes are one entry in the histogram.
        let (mut scheduled, mut count) = (heard.now, 0);
        for sequence in heard.first..=heard.last {
            let number = numbers.get_mut(sequence as usize);
            let message = number.and_then(|number| sent.get_mut(*number));
            let message = message.filter(|message| message.left > 0);
            let message = message.ok_or_else(|| format!("{sequence} is not due"))?;
            message.left -= 1;
            add(&self.counts.reached, u64::from(message.left == 0));
            if message.scheduled != scheduled {
                record(scheduled, count);
                (scheduled, count) = (message.scheduled, 0);
            }
            count += 1;
        }
        record(scheduled, count);
        drop((numbers, sent));
        if self.counts.reached.get() > reached {
            self.news.notify_one();
            self.forget(heard.timeline);
        }
        Ok(())
    }

    /// Messages that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.borrow().len() as u64
    }

    /// Sent and not answered.
    pub(super) fn unanswered(&self) -> u64 {
        self.sent() - self.counts.answered.get()
    }

    /// So many messages of a timeline are acknowledged.
    pub(super) fn length(&self, timeline: usize) -> u64 {
        self.written[timeline].length.get()
    }

    /// At the end: enters what was checked, and what is missing.
    pub(crate) fn close(&self, members: &[Member]) {
        let (checks, unanswered) = (&self.run.checks, self.unanswered());
        if unanswered > 0 {
            checks.fault(format_args!("{unanswered} appends without an answer"));
        }
        let own = self.timelines.iter().zip(&self.written);
        for (name, written) in own.filter(|_| self.writers != Writers::Others) {
            let (length, numbers) = (written.length.get(), written.numbers.borrow());
            let seen = numbers.len();
            if seen as u64 != length || numbers.kept.contains(&0) {
                checks.fault(format_args!("{name}: {length} appended, {seen} seen"));
            }
            checks.made("messages appended", length);
            checks.made("timelines complete", 1);
        }
        for member in members {
            let places = member.follower.places();
            for place in places {
                let (name, position) = (&self.timelines[place.timeline], place.position);
                let length = self.length(place.timeline);
                if position != length {
                    member.fault(format_args!("{name} came as far as {position} of {length}"));
                }
            }
            checks.made("subscriptions up to the end", places.len() as u64);
        }
        checks.made("deliveries in order", self.counts.deliveries.get());
        let compared = match self.writers {
            Writers::Others => self.counts.pushes.get(),
            _ => self.counts.pushes.get().div_ceil(SAMPLE),
        };
        checks.made("pushes compared whole", compared);
    }
}
