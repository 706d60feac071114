//! What was sent, and what came of it: one account for all members of an audience.
//!
//! Owns: each message as it was sent, how long each timeline is, the counts. Promises: a number of a timeline is that
//! of one message only, and each follower has just the messages that are acknowledged, or it is a fault. Must not:
//! allocate for a push, or parse one that it does not compare.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Member;
use super::sent::{Log, Sent, Written};
use crate::client::pipe::Way;
use crate::client::rpc::{Answer, Appended, Message};
use crate::client::template::{DIGITS, Template, timeline_name};
use crate::follower::{Event, Follower, Heard, OWN, Timelines};
use crate::outcome::recorder;
use crate::outcome::recorder::Recorder;
use crate::run::machine::wall_micros;
use crate::run::{Phase, Run};
use crate::texts::Texts;

/// Of so many pushes one is compared whole, where pushes are many.
const SAMPLE: u64 = 64;
/// The place of an append's number: those from [`OWN`] on have ten digits, and no run has a billion messages.
const REQUEST: &str = "\0\0\0\0\0\0\0\0\0\0";

/// What appends. That decides how the account knows which message has which number.
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
    /// Appends an entry.
    append: Template,
    pub(super) texts: Texts,
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
    pub(super) over: watch::Sender<Instant>,
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
    /// Messages that came; of these, in the measurement.
    pub(crate) deliveries: Cell<u64>,
    pub(super) measured: Cell<u64>,
    /// Replies and pushes that brought them; of these, compared whole.
    pub(super) pushes: Cell<u64>,
    pub(super) compared: Cell<u64>,
}

impl Account {
    /// For members by the timelines that each follows; one that follows nothing only appends. Entries have `size` bytes
    /// of text. `measured` says which latencies count; `None` = none are recorded.
    pub(crate) fn new(
        run: &Rc<Run>,
        writers: Writers,
        measured: Option<recorder::Counts>,
        size: usize,
        prefix: &str,
        follows: impl IntoIterator<Item = Vec<u64>>,
    ) -> (Rc<Account>, Vec<Member>) {
        let follows = Vec::from_iter(follows);
        let most = follows.iter().flatten().max().map_or(0, |last| last + 1);
        let timelines = Timelines::new((0..most).map(|number| timeline_name(prefix, number)));
        let mut written: Vec<_> = timelines.iter().map(|_| Written::default()).collect();
        for timeline in follows.iter().flatten() {
            written[*timeline as usize].followers += 1;
        }
        let (forgotten, kept) = (0, VecDeque::new());
        let texts = Texts::new(run.seed, size);
        let acking = measured.filter(|_| writers != Writers::Others);
        let account = Rc::new(Account {
            run: Rc::clone(run),
            timelines,
            by_clock: measured == Some(recorder::Counts::Scheduled),
            writers,
            append: Template::append(REQUEST, prefix, Some(&run.tag), texts.at(0)),
            texts,
            acks: acking.map(|counts| run.recorder("ack", counts)),
            delivery: measured.map(|counts| run.recorder("delivery", counts)),
            desks: follows.iter().map(|_| Desk::default()).collect(),
            sent: RefCell::new(Log { forgotten, kept }),
            written,
            counts: Counts::default(),
            news: Notify::new(),
            over: watch::Sender::new(Instant::now()),
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

    /// Whether members that lose their connections come again.
    pub(super) fn returns(&self) -> bool {
        self.writers == Writers::Others && self.run.is_cluster()
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
        let number = sent.len();
        written.sent.update(|count| count + 1);
        // With one writer it is known at once which number it has.
        if self.writers == Writers::One {
            written.numbers.borrow_mut().kept.push_back(number);
        }
        let numbers = [OWN + number as u64, timeline as u64, number as u64];
        self.append.stamp(&mut desk.frames.borrow_mut(), &numbers);
        desk.news.notify_one();
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
            Event::Joined { timeline, head, .. } => {
                let most = self.written[*timeline].sent.get();
                let fits = (*head <= most).then_some(());
                fits.ok_or_else(|| format!("a head of {head} after {most} messages"))
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
        let busy = matches!(&answer.outcome, Err(refusal) if refusal.data.reason == "busy")
            && self.writers == Writers::Many;
        let mut log = self.sent.borrow_mut();
        let message = log.get_mut(number as usize).filter(|one| !one.answered);
        let message = message.ok_or("an answer to what was not asked, or is answered")?;
        message.answered = true;
        message.left = if busy { 0 } else { message.left };
        let sent = *message;
        drop(log);
        self.counts.answered.update(|count| count + 1);
        if !busy {
            let appended: Appended = answer.result()?;
            let placed = self.place(sent.timeline, &appended.message_id, appended.sequence)?;
            let same = self.timelines.is_epoch(sent.timeline, &appended.epoch);
            if placed as u64 != number || appended.duplicate || !same {
                return Err(format!("the answer to message {number} is of another"));
            }
            self.written[sent.timeline].length.update(|count| count + 1);
            self.counts.acked.update(|count| count + 1);
            if let Some(acks) = &self.acks {
                acks.record(sent.scheduled, now);
            }
        }
        self.forget(sent.timeline);
        Ok(())
    }

    /// The message with this ID has this number in this timeline, and no other has. Returns which message it is.
    fn place(&self, timeline: usize, id: &str, sequence: u64) -> Result<usize, String> {
        let digits = id.strip_prefix(&*self.run.tag);
        let digits = digits.filter(|digits| digits.len() == DIGITS);
        let number = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let sent = self.sent.borrow_mut().get_mut(number).copied();
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
        counts.pushes.update(|count| count + 1);
        counts.deliveries.update(|count| count + heard.count);
        if self.run.phase() == Phase::Measuring {
            counts.measured.update(|count| count + heard.count);
        }
        if compare {
            counts.compared.update(|count| count + 1);
            // As it is written by everybody: `{"text":"…"}`.
            let same = |one: &Message| {
                let entry = one.entry.as_deref().map(RawValue::get);
                let text = entry
                    .and_then(|entry| entry.strip_prefix(r#"{"text":""#)?.strip_suffix(r#""}"#));
                text.is_some_and(|text| self.texts.has(text))
            };
            if !heard.messages()?.iter().all(same) {
                return Err("an entry was not sent so".into());
            }
        }
        if !others && (compare || self.writers == Writers::Many) {
            // Each has the ID of one that was sent there.
            let place = |sequence, id: &str| self.place(heard.timeline, id, sequence);
            heard.ids(|sequence, id| place(sequence, id).map(drop))?;
        }
        // What a subscription resumes with has no latency: it waited by choice.
        let delivery = self.delivery.as_deref().filter(|_| timed && heard.live);
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

    /// Ticks the messages off, and times them.
    fn deliver(&self, heard: &Heard<'_>, delivery: Option<&Recorder>) -> Result<(), String> {
        let record = |scheduled, count| {
            if let Some(delivery) = delivery.filter(|_| count > 0) {
                delivery.record_many(scheduled, heard.now, count);
            }
        };
        let reached = &self.counts.reached;
        let before = reached.get();
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
            reached.update(|count| count + u64::from(message.left == 0));
            if message.scheduled != scheduled {
                record(scheduled, count);
                (scheduled, count) = (message.scheduled, 0);
            }
            count += 1;
        }
        record(scheduled, count);
        drop((numbers, sent));
        if reached.get() > before {
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

    /// Something is wrong with what a member hears.
    pub(super) fn fault(&self, member: usize, what: impl fmt::Display) {
        let checks = &self.run.checks;
        checks.fault(format_args!("follower {member}: {what}"));
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
                    let what = format_args!("{name} came as far as {position} of {length}");
                    self.fault(member.number, what);
                }
            }
            checks.made("subscriptions up to the end", places.len() as u64);
        }
        checks.made("deliveries in order", self.counts.deliveries.get());
        checks.made("pushes compared whole", self.counts.compared.get());
    }
}
