//! What comes to the followers of one thread: counted, timed, and compared with what was sent.
//!
//! Owns: the latencies and counts of these followers. Promises: every message is one that was sent, and of so many
//! pushes one is parsed whole and compared; the latency of what a resumed subscription begins with is not counted, as
//! it waited by choice. Must not: cost much: it shares the machine with the server.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::{Ledger, Numbering};
use crate::exit::Stop;
use crate::follower::{Event, Follower, Heard};
use crate::recorder::{Recorder, Window};

/// So many connections are opened at a time.
const WAVE: usize = 64;

/// See the top.
pub struct Intake {
    /// The run's.
    pub ledger: Arc<Ledger>,
    /// Which of the ledger's threads this is.
    lane: usize,
    window: Arc<Window>,
    /// Latency of deliveries, if they have one.
    delivery: Option<Rc<Recorder>>,
    /// Latency of acknowledgements, if followers append, too.
    acks: Option<Rc<Recorder>>,
    /// Of so many pushes one is compared whole.
    sample: u64,
    counts: Cell<Counts>,
}

/// What an intake counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages.
    pub deliveries: u64,
    /// Of these, that came in the measurement.
    pub measured: u64,
    /// Replies and pushes that brought them.
    pub pushes: u64,
    /// Of these, compared whole.
    pub compared: u64,
}

impl Counts {
    /// Takes in another thread's.
    pub fn add(&mut self, other: Counts) {
        self.deliveries += other.deliveries;
        self.measured += other.measured;
        self.pushes += other.pushes;
        self.compared += other.compared;
    }

    /// Messages in a push.
    #[must_use]
    pub fn together(&self) -> f64 {
        self.deliveries as f64 / self.pushes.max(1) as f64
    }
}

impl Intake {
    /// Of one of the ledger's threads; each has one only.
    #[must_use]
    pub fn new(ledger: &Arc<Ledger>, lane: usize, window: &Arc<Window>, sample: u64) -> Intake {
        Intake {
            ledger: Arc::clone(ledger),
            lane,
            window: Arc::clone(window),
            delivery: None,
            acks: None,
            sample,
            counts: Cell::default(),
        }
    }

    /// Measures deliveries.
    #[must_use]
    pub fn timing(mut self, delivery: Rc<Recorder>) -> Intake {
        self.delivery = Some(delivery);
        self
    }

    /// Takes answers to appends.
    #[must_use]
    pub fn acking(mut self, acks: Rc<Recorder>) -> Intake {
        self.acks = Some(acks);
        self
    }

    /// Something came to a follower.
    ///
    /// # Errors
    ///
    /// It is not what was to come.
    pub fn hear(&self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Joined { timeline, head, .. } => {
                let sent = self.ledger.sent_to(*timeline);
                if *head > sent {
                    return Err(format!("a head of {head} after {sent} messages"));
                }
                Ok(())
            }
            Event::Heard(heard) if heard.in_order => self.heard(heard),
            // The follower has entered the fault.
            Event::Heard(_) => Ok(()),
            Event::Answered(number, answer, now) if self.acks.is_some() => {
                let scheduled = self.ledger.answered(*number, answer)?;
                if let (Some(scheduled), Some(acks)) = (scheduled, &self.acks) {
                    acks.record(scheduled, *now);
                }
                Ok(())
            }
            other => other.expected(),
        }
    }

    fn heard(&self, heard: &Heard<'_>) -> Result<(), String> {
        let sent = self.ledger.sent_to(heard.timeline);
        if heard.last > sent {
            return Err(format!("{} came after {sent} were sent", heard.last));
        }
        let mut counts = self.counts.get();
        counts.deliveries += heard.count;
        if self.window.offset(heard.now).is_some() {
            counts.measured += heard.count;
        }
        counts.pushes += 1;
        let compare = (counts.pushes - 1).is_multiple_of(self.sample);
        counts.compared += u64::from(compare);
        self.counts.set(counts);
        match self.ledger.numbering {
            Numbering::InOrder => self.in_order(heard)?,
            Numbering::ById => self.by_id(heard)?,
            Numbering::Unknown => {}
        }
        if compare {
            self.ledger.compare(heard)?;
        }
        Ok(())
    }

    fn in_order(&self, heard: &Heard<'_>) -> Result<(), String> {
        let (Some(delivery), true) = (&self.delivery, heard.live) else {
            return Ok(());
        };
        self.ledger.time_of(heard.first)?;
        // Messages that were sent together have one time: most pushes are one entry in the histogram.
        let micros = |number: u64| self.ledger.slot(number).load(Ordering::Acquire);
        let mut number = heard.first;
        while number <= heard.last {
            let (sent, mut next) = (micros(number), number + 1);
            while next <= heard.last && micros(next) == sent {
                next += 1;
            }
            delivery.record_many(self.ledger.time(sent), heard.now, next - number);
            number = next;
        }
        Ok(())
    }

    fn by_id(&self, heard: &Heard<'_>) -> Result<(), String> {
        let (mut sequence, mut outcome) = (heard.first, Ok(()));
        heard.ids(|id| {
            let one = self.identified(heard, sequence, id);
            sequence += 1;
            if let Err(fault) = one {
                outcome = Err(fault);
            }
        })?;
        outcome
    }

    fn identified(&self, heard: &Heard<'_>, sequence: u64, id: &str) -> Result<(), String> {
        let message = self.ledger.message(id);
        let message = message.filter(|(timeline, _)| *timeline == heard.timeline);
        let (timeline, number) = message.ok_or_else(|| format!("{id} was not sent there"))?;
        self.ledger.place(timeline, number, sequence)?;
        if let (Some(delivery), true) = (&self.delivery, heard.live) {
            delivery.record(self.ledger.time_of(number)?, heard.now);
        }
        Ok(())
    }

    /// Everything that came to a follower at once is taken: others may know.
    pub fn settle(&self, follower: &mut Follower) {
        for fault in follower.faults() {
            self.ledger.fault(fault);
        }
        let deliveries = self.counts.get().deliveries;
        let lane = &self.ledger.lanes[self.lane];
        lane.deliveries.store(deliveries, Ordering::Relaxed);
    }

    /// Reads once for a follower. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The connection ended.
    pub async fn read(&self, follower: &mut Follower) -> io::Result<()> {
        let read = follower.read(|event| self.hear(&event)).await;
        self.settle(follower);
        read
    }

    /// Connects a follower, and waits until all of its subscriptions are answered.
    ///
    /// # Errors
    ///
    /// There is no connection, or a subscription was refused.
    pub async fn subscribed(
        &self,
        mut follower: Follower,
        url: &str,
        receive_bytes: Option<u32>,
    ) -> Result<Follower, Stop> {
        let opening = async {
            follower.connect(url, receive_bytes).await?;
            follower.join_all();
            while !follower.is_live() {
                self.read(&mut follower).await?;
                if let Some(fault) = self.ledger.first_fault() {
                    return Err(io::Error::other(fault));
                }
            }
            Ok(())
        };
        let lost = |error| Stop::Unreachable(format!("a follower: {error}"));
        opening.await.map_err(lost)?;
        Ok(follower)
    }

    /// As `subscribed` for many, some at a time. They stay in their order.
    ///
    /// # Errors
    ///
    /// As `subscribed`.
    pub async fn all_subscribed(
        &self,
        followers: impl IntoIterator<Item = Follower>,
        url: &str,
    ) -> Result<Vec<Follower>, Stop> {
        let opening = followers
            .into_iter()
            .map(|follower| self.subscribed(follower, url, None));
        stream::iter(opening).buffered(WAVE).try_collect().await
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }
}
