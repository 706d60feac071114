//! What a profile sends, what must come of it, and what did: one account for all of its connections and threads.
//!
//! Owns: the messages as they are sent (numbers, scheduled times, IDs, entry), their acknowledgements, the count of
//! deliveries that are owed, the faults. Promises: each number of a timeline belongs to one message only; at the end
//! every message that was acknowledged has come to each follower of its timeline once, or it is a fault. Must not: lock
//! anything for what comes in a timeline with one writer, or count a delivery before a follower handed it over.
//!
//! Use: `Desk::put` sends a message; each thread has an [`Intake`], which takes the events of its followers; `complete`
//! tells when nothing is on its way any more, `close` enters what was checked.

mod desk;
mod intake;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checks::Checks;
use crate::follower::{Heard, OWN, Timelines};
use crate::rpc::{Answer, Appended, put_request};
use crate::run::Run;
pub use desk::{Desk, by_the_clock};
pub use intake::{Counts, Intake};

/// So many messages may be on the way, if their latency is to be measured.
pub const WAY_MAX: u64 = 1 << 18;
/// More faults of the same run say nothing new.
const FAULTS_MAX: usize = 20;

/// How it is known which message has a number of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// One connection appends to the only timeline: the message sent as the k-th is number k.
    InOrder,
    /// Many append: the message's ID says it.
    ById,
    /// Others append, with IDs of their own.
    Unknown,
}

/// See the top.
pub struct Ledger {
    /// The timelines.
    pub timelines: Arc<Timelines>,
    numbering: Numbering,
    /// The first part of message IDs.
    tag: String,
    entry: Box<RawValue>,
    began: Instant,
    /// When message k was sent, or was to be sent: µs since `began`, at k modulo `WAY_MAX`.
    sent_at: Vec<AtomicU64>,
    /// By timeline.
    written: Vec<Written>,
    sent: AtomicU64,
    answered: AtomicU64,
    busy: AtomicU64,
    /// Deliveries that there must be in the end.
    owed: AtomicU64,
    lanes: Vec<Lane>,
    /// A thread's followers got further, or something failed.
    pub news: Notify,
    failed: AtomicBool,
    faults: Mutex<Vec<String>>,
}

/// One timeline.
struct Written {
    followers: u64,
    sent: AtomicU64,
    acked: AtomicU64,
    /// With `Numbering::ById`: which message has number k, at k - 1; 0 as long as that is not known.
    messages: Mutex<Vec<u64>>,
}

/// One thread of followers. As far apart as cache lines that are fetched in pairs, so that threads do not disturb each
/// other.
#[derive(Default)]
#[repr(align(128))]
struct Lane {
    /// All of its followers have the messages up to this one.
    minimum: AtomicU64,
    /// Messages that came to all of them together.
    deliveries: AtomicU64,
}

#[derive(Serialize)]
struct Append<'a> {
    timeline: &'a str,
    message_id: &'a str,
    entry: &'a RawValue,
}

impl Ledger {
    /// For a run on these timelines, each with so many followers, spread over so many threads; entries have `size`
    /// bytes of text.
    #[must_use]
    pub fn new(
        run: &Run,
        timelines: impl IntoIterator<Item = (String, u64)>,
        numbering: Numbering,
        lanes: usize,
        size: usize,
    ) -> Arc<Ledger> {
        let (names, followers): (Vec<String>, Vec<u64>) = timelines.into_iter().unzip();
        let written = |followers| Written {
            followers,
            sent: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            messages: Mutex::default(),
        };
        let entry = json!({ "text": crate::random::Random::new(run.seed).text(size) });
        let timed = if numbering == Numbering::Unknown {
            0
        } else {
            WAY_MAX
        };
        Arc::new(Ledger {
            timelines: Timelines::new(names),
            numbering,
            tag: run.tag.clone(),
            entry: serde_json::value::to_raw_value(&entry).expect("a text has a JSON form"),
            began: Instant::now(),
            sent_at: (0..timed).map(|_| AtomicU64::new(0)).collect(),
            written: followers.into_iter().map(written).collect(),
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            owed: AtomicU64::new(0),
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            news: Notify::new(),
            failed: AtomicBool::new(false),
            faults: Mutex::default(),
        })
    }

    /// Appends the request for one more message to `out`.
    fn put(&self, timeline: usize, scheduled: Instant, out: &mut Vec<u8>) {
        let number = self.sent() + 1;
        let micros = scheduled.saturating_duration_since(self.began).as_micros();
        self.slot(number).store(micros as u64, Ordering::Release);
        self.written[timeline].sent.fetch_add(1, Ordering::Release);
        self.sent.store(number, Ordering::Release);
        let params = Append {
            timeline: &self.timelines[timeline],
            message_id: &self.message_id(timeline, number),
            entry: &self.entry,
        };
        put_request(out, OWN + number, "message.append", &params);
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.sent_at[(number % WAY_MAX) as usize]
    }

    fn message_id(&self, timeline: usize, number: u64) -> String {
        format!("{}-{timeline}-{number}", self.tag)
    }

    /// Timeline and number of the message with this ID, if it is one of ours.
    fn message(&self, id: &str) -> Option<(usize, u64)> {
        let rest = id.strip_prefix(self.tag.as_str())?.strip_prefix('-')?;
        let (timeline, number) = rest.split_once('-')?;
        Some((timeline.parse().ok()?, number.parse().ok()?))
    }

    /// Others are about to append so many messages to each timeline.
    pub fn expect(&self, each: u64) {
        for written in &self.written {
            written.sent.fetch_add(each, Ordering::Release);
            let owed = written.followers * each;
            self.owed.fetch_add(owed, Ordering::Relaxed);
        }
    }

    /// The answer to append `number` came. Returns when that was scheduled; `None` if the server was too busy.
    fn answered(&self, number: u64, answer: &Answer<'_>) -> Result<Option<Instant>, String> {
        self.answered.fetch_add(1, Ordering::Release);
        // A message that is not appended would shift the numbers of those behind it.
        if let Err(refusal) = &answer.outcome
            && refusal.data.reason == "busy"
            && self.numbering == Numbering::ById
        {
            self.busy.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let appended: Appended = answer.result()?;
        let (timeline, _) = self
            .message(&appended.message_id)
            .filter(|(_, echoed)| *echoed == number && !appended.duplicate)
            .ok_or_else(|| format!("the answer to message {number} is of another"))?;
        self.place(timeline, number, appended.sequence)?;
        let written = &self.written[timeline];
        written.acked.fetch_add(1, Ordering::Relaxed);
        self.owed.fetch_add(written.followers, Ordering::Release);
        self.time_of(number).map(Some)
    }

    /// A message has this number in its timeline; no other has, and it has no other.
    fn place(&self, timeline: usize, number: u64, sequence: u64) -> Result<(), String> {
        let written = self.written.get(timeline).ok_or("no such timeline")?;
        let fits = match self.numbering {
            Numbering::InOrder => sequence == number,
            Numbering::ById => {
                let mut messages = lock(&written.messages);
                let place = sequence.checked_sub(1);
                let place = place.filter(|place| *place < written.sent.load(Ordering::Acquire));
                let place = place.ok_or_else(|| format!("no message has number {sequence}"))?;
                let length = messages.len().max(place as usize + 1);
                messages.resize(length, 0);
                let known = &mut messages[place as usize];
                if *known == 0 {
                    *known = number;
                }
                *known == number
            }
            Numbering::Unknown => true,
        };
        if fits {
            return Ok(());
        }
        let name = &self.timelines[timeline];
        Err(format!(
            "{name}: {sequence} is the number of message {number}, and of another"
        ))
    }

    /// When a message was sent, or was to be sent.
    fn time_of(&self, number: u64) -> Result<Instant, String> {
        let sent = self.sent();
        if number == 0 || number > sent || number + WAY_MAX <= sent {
            return Err(format!("message {number} of {sent} is not on its way"));
        }
        Ok(self.time(self.slot(number).load(Ordering::Acquire)))
    }

    fn time(&self, micros: u64) -> Instant {
        self.began + Duration::from_micros(micros)
    }

    /// Whether the messages are, in every part, what was sent.
    fn compare(&self, heard: &Heard<'_>) -> Result<(), String> {
        let parse = |entry: &RawValue| serde_json::from_str::<Value>(entry.get()).ok();
        let same = |entry: &RawValue| {
            entry.get() == self.entry.get() || parse(entry) == parse(&self.entry)
        };
        for message in heard.messages()?.iter() {
            let sequence = message.sequence;
            let known = self.message(&message.message_id);
            let its_own = match self.numbering {
                Numbering::InOrder => known == Some((heard.timeline, sequence)),
                Numbering::ById => known.is_some_and(|(timeline, _)| timeline == heard.timeline),
                Numbering::Unknown => true,
            };
            if !its_own || !message.entry.as_deref().is_some_and(same) {
                return Err(format!("{sequence} was not sent so"));
            }
        }
        Ok(())
    }

    /// Messages that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Messages that were sent to a timeline, or are expected there.
    #[must_use]
    pub fn sent_to(&self, timeline: usize) -> u64 {
        self.written[timeline].sent.load(Ordering::Acquire)
    }

    /// Sent and not answered.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.sent() - self.answered.load(Ordering::Acquire)
    }

    /// Messages that were appended.
    #[must_use]
    pub fn acked(&self) -> u64 {
        let one = |written: &Written| written.acked.load(Ordering::Relaxed);
        self.written.iter().map(one).sum()
    }

    /// Messages for which the server was too busy.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Messages that came, to all followers together.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        let one = |lane: &Lane| lane.deliveries.load(Ordering::Relaxed);
        self.lanes.iter().map(one).sum()
    }

    /// Every follower of the only timeline has the messages up to this one, as the threads tell.
    #[must_use]
    pub fn minimum(&self) -> u64 {
        let one = |lane: &Lane| lane.minimum.load(Ordering::Acquire);
        self.lanes.iter().map(one).min().unwrap_or(0)
    }

    /// A thread's followers have the messages up to this one.
    pub fn reached(&self, lane: usize, minimum: u64) {
        if self.lanes[lane].minimum.swap(minimum, Ordering::AcqRel) != minimum {
            self.news.notify_one();
        }
    }

    /// Every message was answered and has come to all followers.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.unanswered() == 0 && self.deliveries() >= self.owed.load(Ordering::Acquire)
    }

    /// Something is wrong.
    pub fn fault(&self, what: String) {
        let mut faults = lock(&self.faults);
        if faults.len() < FAULTS_MAX {
            faults.push(what);
        }
        self.failed.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// Whether something is wrong.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// What was wrong first.
    #[must_use]
    pub fn first_fault(&self) -> Option<String> {
        self.failed().then(|| lock(&self.faults).first().cloned())?
    }

    /// Waits until nothing is on its way any more, or something is wrong, or it takes too long. What came after that
    /// would be too much: for that it waits a little longer.
    pub async fn settled(&self, checks: &Checks) {
        checks.wait_for(|| self.complete() || self.failed()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    /// At the end: enters what was checked, what is missing, and what was wrong.
    pub fn close(&self, checks: &Checks, counts: &Counts) {
        for fault in lock(&self.faults).drain(..) {
            checks.fault(fault);
        }
        if self.unanswered() > 0 {
            checks.fault(format_args!(
                "{} appends without an answer",
                self.unanswered()
            ));
        }
        for (name, written) in self.timelines.iter().zip(&self.written) {
            let acked = written.acked.load(Ordering::Relaxed);
            let messages = lock(&written.messages);
            if self.numbering == Numbering::ById
                && (messages.contains(&0) || messages.len() as u64 != acked)
            {
                let seen = messages.len();
                checks.fault(format_args!("{name}: {acked} appended, {seen} seen"));
            }
        }
        let (came, owed) = (self.deliveries(), self.owed.load(Ordering::Acquire));
        if came != owed {
            checks.fault(format_args!("{came} deliveries of {owed}"));
        }
        checks.made("messages appended", self.acked());
        checks.made("deliveries in order", came);
        checks.made("pushes compared whole", counts.compared);
        checks.made("timelines complete", self.timelines.len() as u64);
    }
}

/// A thread that panicked leaves a list as it is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|dead| dead.into_inner())
}
