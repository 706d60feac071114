//! A writer: sends messages pipelined over one connection, keeps those unanswered, and repeats them in order.
//!
//! Owns: the client's half of "known outcome": after a lost connection or a refusal that allows it, the same messages
//! go out again with the same IDs. Promises: per timeline the order of the source is kept; a run ends only when every
//! message of the source is answered, or with the reason. Must not: hide a refusal that the protocol does not allow.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::exit::Stop;
use crate::follower::{Event, Follower, OWN};
use crate::history::{Ack, Rule, Sent, digest};
use crate::judge::{PATIENCE, Shared, Wrote};
use crate::rpc::{Appended, Refusal, put_request};

/// One message to append.
pub(crate) struct Outgoing {
    /// Index of its timeline in the run's list.
    pub(crate) timeline: usize,
    /// Its message ID.
    pub(crate) id: String,
    pub(crate) entry: Value,
    /// Append only behind this head.
    pub(crate) expect_head: Option<u64>,
}

/// How one writer works.
pub(crate) struct Options {
    /// Its number in the histories.
    pub(crate) number: usize,
    /// The user its session opens as.
    pub(crate) user: String,
    /// Messages on the way at once.
    pub(crate) window: usize,
}

struct Writer<'a, S> {
    shared: &'a Shared,
    options: Options,
    source: S,
    finished: bool,
    /// All of the source so far. A message's index in it and 1 are its request's number; 0 is the session's.
    sent: Wrote,
    /// Sent and not answered, by index.
    on_the_way: BTreeMap<usize, Outgoing>,
    /// Refused, or lost with a connection, by index: nothing new is sent before these went out again.
    again: BTreeMap<usize, Outgoing>,
    /// Before what is sent next, if nothing is on the way.
    pause: Duration,
    /// The answer to `session.open`.
    opened: Option<Result<IgnoredAny, String>>,
}

/// Sends all that `source` gives, whatever happens to the connection; ends when all is answered. The source's `None` is
/// its end, `Some(None)` is nothing for now.
pub(crate) async fn run(
    shared: Arc<Shared>,
    options: Options,
    source: impl Iterator<Item = Option<Outgoing>>,
) -> Result<Wrote, Stop> {
    let mut writer = Writer {
        shared: &shared,
        options,
        source,
        finished: false,
        sent: Vec::new(),
        on_the_way: BTreeMap::new(),
        again: BTreeMap::new(),
        pause: Duration::ZERO,
        opened: None,
    };
    let mut away = None;
    while let Err(error) = writer.session(&mut away).await {
        shared.verdict().reconnects += 1;
        shared.wait(&mut away, &error).await?;
    }
    Ok(writer.sent)
}

impl<S: Iterator<Item = Option<Outgoing>>> Writer<'_, S> {
    /// One connection's life.
    async fn session(&mut self, away: &mut Option<Instant>) -> io::Result<()> {
        self.again.append(&mut self.on_the_way);
        let mut follower = Follower::new(&self.shared.timelines, []);
        follower.connect(&self.shared.url, None).await?;
        // Nothing is sent before it is answered: it says who the session's user is.
        self.opened = None;
        let user = json!({ "user": self.options.user });
        put_request(follower.out(), OWN, "session.open", &user);
        loop {
            match &self.opened {
                None => {}
                Some(Err(why)) => return Err(io::Error::other(why.clone())),
                Some(Ok(_)) => {
                    if self.on_the_way.is_empty() && !self.pause.is_zero() {
                        sleep(std::mem::take(&mut self.pause)).await;
                    }
                    self.send(follower.out());
                    if self.on_the_way.is_empty() {
                        if self.finished {
                            return Ok(());
                        }
                        self.pause = Duration::from_millis(2);
                        continue;
                    }
                }
            }
            let read = timeout(PATIENCE, follower.read(|event| self.take(&event))).await;
            for what in follower.faults() {
                self.shared.verdict().fault(Rule::Wire, &what);
            }
            read??;
            *away = None;
        }
    }

    fn send(&mut self, out: &mut Vec<u8>) {
        if self.on_the_way.is_empty() {
            std::mem::swap(&mut self.on_the_way, &mut self.again);
            for (index, message) in &self.on_the_way {
                self.put(out, *index, message);
            }
        }
        while !self.finished && self.again.is_empty() && self.on_the_way.len() < self.options.window
        {
            let message = match self.source.next() {
                Some(Some(message)) => message,
                Some(None) => break,
                None => {
                    self.finished = true;
                    break;
                }
            };
            let index = self.sent.len();
            self.put(out, index, &message);
            let sent = Sent {
                id: message.id.clone(),
                writer: self.options.number,
                digest: digest(Some(&self.options.user), &message.id, Some(&message.entry)),
                sent_ns: self.shared.now_ns(),
                ack: None,
                refused: false,
            };
            self.sent.push((message.timeline, sent));
            self.on_the_way.insert(index, message);
        }
    }

    fn put(&self, out: &mut Vec<u8>, index: usize, message: &Outgoing) {
        let mut append = json!({
            "timeline": self.shared.timelines[message.timeline],
            "entry": message.entry,
            "message_id": message.id,
        });
        if let Some(head) = message.expect_head {
            append["expect_head"] = head.into();
        }
        put_request(out, OWN + 1 + index as u64, "message.append", &append);
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Answered(0, answer, _) => {
                self.opened = Some(answer.result());
                Ok(())
            }
            Event::Answered(number, answer, _) => {
                let index = *number as usize - 1;
                let message = self.on_the_way.remove(&index);
                let message = message
                    .ok_or_else(|| format!("a reply to {number}, which is not on the way"))?;
                match &answer.outcome {
                    Ok(_) => self.acknowledged(index, &message, answer.result()?),
                    Err(refusal) => self.refused(index, message, refusal),
                }
            }
            Event::Draining => Ok(()),
            other => other.expected(),
        }
    }

    fn acknowledged(
        &mut self,
        index: usize,
        message: &Outgoing,
        appended: Appended,
    ) -> Result<(), String> {
        self.sent[index].1.ack = Some(Ack {
            sequence: appended.sequence,
            timestamp: appended.timestamp,
            at_ns: self.shared.now_ns(),
        });
        self.shared.progress[message.timeline].fetch_add(1, Ordering::Relaxed);
        self.shared.bar.inc(1);
        if appended.duplicate {
            self.shared.verdict().duplicates_answered += 1;
        }
        let (id, kept) = (&message.id, appended.message_id);
        if kept != *id {
            return Err(format!("{id} was acknowledged as {kept}"));
        }
        Ok(())
    }

    fn refused(
        &mut self,
        index: usize,
        message: Outgoing,
        refusal: &Refusal,
    ) -> Result<(), String> {
        self.sent[index].1.refused = true;
        let (data, timeline) = (&refusal.data, message.timeline);
        // A conditional append behind a refused one of its timeline must fail too; it goes out again behind it.
        let mut before = self.again.range(..index);
        let behind = data.reason == "condition_failed"
            && before.any(|(_, message)| message.timeline == timeline);
        if data.retry || behind || data.reason == "outcome_unknown" {
            self.shared.verdict().refusals += 1;
            self.pause = Duration::from_millis(data.retry_after_ms.unwrap_or(20).min(1_000));
            self.again.insert(index, message);
            return Ok(());
        }
        let name = &self.shared.timelines[timeline];
        Err(format!("{name}: refused: {refusal}"))
    }
}
