//! A writer: sends messages pipelined over one connection, keeps those unanswered, and repeats them in order.
//!
//! Owns: the client's half of "known outcome": after a lost connection or a refusal that allows it, the same messages
//! go out again with the same IDs. Promises: per timeline the order of the source is kept; a run ends only when every
//! message of the source is answered, or with the reason. Must not: hide a refusal that the protocol does not allow.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{Outgoing, PATIENCE, Source, Trial};
use crate::exit::Stop;
use crate::follower::{Event, Follower, OWN};
use crate::history::{Ack, Sent, digest};
use crate::rpc::{Appended, Refusal, put_request};

/// All that was sent, in order, each with its timeline.
pub(super) type Wrote = Vec<(usize, Sent)>;

struct Writer<'a> {
    trial: &'a Trial,
    number: usize,
    source: Source,
    /// All of the source so far. A message's index in it and 1 are its request's number; 0 is the session's.
    sent: Wrote,
    /// Sent and not answered, by index.
    on_the_way: BTreeMap<usize, Outgoing>,
    /// Refused, or lost with a connection, by index: nothing new is sent before these went out again.
    again: BTreeMap<usize, Outgoing>,
    /// Before that.
    pause: Duration,
    /// The answer to `session.open`.
    opened: Option<Result<IgnoredAny, String>>,
}

/// Sends all messages of a source, whatever happens to the connection; ends when all are answered.
pub(super) async fn run(trial: &Trial, number: usize, source: Source) -> Result<Wrote, Stop> {
    let mut writer = Writer {
        trial,
        number,
        source,
        sent: Vec::new(),
        on_the_way: BTreeMap::new(),
        again: BTreeMap::new(),
        pause: Duration::ZERO,
        opened: None,
    };
    let mut away = None;
    while let Err(error) = writer.session(&mut away).await {
        trial.count("reconnects", 1);
        trial.wait(&mut away, &error).await?;
    }
    Ok(writer.sent)
}

impl Writer<'_> {
    /// One connection's life; it ends without error when all is answered.
    async fn session(&mut self, away: &mut Option<Instant>) -> io::Result<()> {
        let Trial { run, timelines, .. } = self.trial;
        self.again.append(&mut self.on_the_way);
        let mut follower = Follower::new(timelines, []);
        follower.connect(&run.url, None).await?;
        // It says who the session's user is: nothing is sent before it is answered.
        self.opened = None;
        let user = json!({ "user": self.source.user });
        put_request(follower.out(), OWN, "session.open", &user);
        loop {
            if let Some(opened) = &self.opened {
                if let Err(why) = opened {
                    return Err(io::Error::other(why.clone()));
                }
                if self.on_the_way.is_empty() && !self.again.is_empty() {
                    sleep(std::mem::take(&mut self.pause)).await;
                    self.repeat(follower.out());
                }
                self.fill(follower.out());
                if self.on_the_way.is_empty() {
                    return Ok(());
                }
            }
            let read = timeout(PATIENCE, follower.read(|event| self.take(&event))).await;
            follower.faults().for_each(|what| run.checks.fault(what));
            read??;
            *away = None;
        }
    }

    /// Sends again, in order, what has to go out again.
    fn repeat(&mut self, out: &mut Vec<u8>) {
        std::mem::swap(&mut self.on_the_way, &mut self.again);
        for (index, message) in &self.on_the_way {
            self.put(out, *index, message);
        }
    }

    /// Sends new messages while there is room.
    fn fill(&mut self, out: &mut Vec<u8>) {
        while self.again.is_empty() && self.on_the_way.len() < self.source.in_flight {
            let Some(message) = self.source.messages.next() else {
                return;
            };
            let index = self.sent.len();
            self.put(out, index, &message);
            let user = Some(self.source.user.as_str());
            let sent = Sent {
                id: message.id.clone(),
                writer: self.number,
                digest: digest(user, &message.id, Some(&message.entry)),
                sent_ns: self.ns(Instant::now()),
                ack: None,
                refused: false,
            };
            self.sent.push((message.timeline, sent));
            self.on_the_way.insert(index, message);
        }
    }

    fn put(&self, out: &mut Vec<u8>, index: usize, message: &Outgoing) {
        let mut append = json!({
            "timeline": self.trial.timelines[message.timeline],
            "entry": message.entry,
            "message_id": message.id,
        });
        if let Some(head) = message.expect_head {
            append["expect_head"] = head.into();
        }
        put_request(out, OWN + 1 + index as u64, "message.append", &append);
    }

    fn ns(&self, at: Instant) -> u64 {
        (at - self.trial.began).as_nanos() as u64
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Answered(0, answer, _) => {
                self.opened = Some(answer.result());
                Ok(())
            }
            Event::Answered(number, answer, now) => {
                let index = *number as usize - 1;
                let message = self.on_the_way.remove(&index);
                let message = message.ok_or("a reply to what is not on the way")?;
                match &answer.outcome {
                    Ok(_) => self.acknowledged(index, &message, &answer.result()?, *now),
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
        appended: &Appended,
        now: Instant,
    ) -> Result<(), String> {
        let (trial, at_ns) = (self.trial, self.ns(now));
        let sent = &mut self.sent[index].1;
        sent.ack = Some(Ack {
            sequence: appended.sequence,
            timestamp: appended.timestamp,
            at_ns,
        });
        trial
            .acks
            .record(trial.began + Duration::from_nanos(sent.sent_ns), now);
        let acknowledged = &trial.acknowledged[message.timeline];
        acknowledged.set(acknowledged.get() + 1);
        trial.count("duplicates", u64::from(appended.duplicate));
        let (id, kept) = (&sent.id, &appended.message_id);
        if id != kept {
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
            self.trial.count("refusals", 1);
            self.pause = Duration::from_millis(data.retry_after_ms.unwrap_or(20).min(1_000));
            self.again.insert(index, message);
            return Ok(());
        }
        let name = &self.trial.timelines[timeline];
        Err(format!("{name}: refused: {refusal}"))
    }
}
