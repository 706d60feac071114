//! A writer: sends messages pipelined over one connection, keeps those unanswered, and repeats them in order.
//!
//! Owns: the client's half of "known outcome": after a lost connection or a refusal that allows it, the same messages
//! go out again with the same IDs. Promises: per timeline the order of the source is kept; a run ends only when every
//! message of the source is answered, or with the reason. Must not: hide a refusal that the protocol does not allow.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use serde_json::json;
use tideline_history::{Digest, What};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Outgoing, PATIENCE, Source, Trial, wait};
use crate::client::pipe::Way;
use crate::client::rpc::{Appended, Refusal, put_request};
use crate::exit::Stop;
use crate::follower::{Event, Follower, OWN};
use crate::recording::{append, reason};

struct Writer<'a> {
    trial: &'a Trial,
    /// Its name in the history.
    name: String,
    source: Source,
    /// How many messages so far. The request number of a message is its index.
    sent: usize,
    /// Not acknowledged, by index, each with when it was first sent.
    open: BTreeMap<usize, (Outgoing, Instant)>,
    /// Which of these are on the way. While there are others (refused, or lost with a connection) nothing new is sent.
    on_the_way: BTreeSet<usize>,
    /// The pause before they go out again.
    fence: Duration,
    /// When the next new message may be sent.
    due: Instant,
    /// When the server last took the connection or answered an append.
    heard: Instant,
}

/// Sends all messages of a source, whatever happens to the connection; ends when all are answered.
pub(super) async fn run(trial: &Trial, number: usize, source: Source) -> Result<(), Stop> {
    let mut writer = Writer::new(trial, number, source);
    while let Err(error) = writer.session().await {
        trial.run.add("reconnects", 1);
        wait(writer.heard, &error).await?;
    }
    Ok(())
}

impl<'a> Writer<'a> {
    fn new(trial: &'a Trial, number: usize, source: Source) -> Writer<'a> {
        let now = Instant::now();
        Writer {
            trial,
            name: format!("writer-{number}"),
            source,
            sent: 0,
            open: BTreeMap::new(),
            on_the_way: BTreeSet::new(),
            fence: Duration::ZERO,
            due: now,
            heard: now,
        }
    }

    /// One connection's life; it ends without error when all is answered.
    async fn session(&mut self) -> io::Result<()> {
        let Trial { run, timelines, .. } = self.trial;
        self.on_the_way.clear();
        let mut follower = Follower::new(timelines, []);
        follower.user = Some(self.source.user.clone());
        follower.connect(&run.url, Way::Plain).await?;
        self.heard = Instant::now();
        loop {
            if self.on_the_way.is_empty() && !self.open.is_empty() {
                sleep(std::mem::take(&mut self.fence)).await;
                self.repeat(follower.out());
            }
            if self.fill(follower.out()) && self.open.is_empty() {
                return Ok(());
            }
            self.trial.recording.flush();
            let late = self.heard + PATIENCE;
            let is_early = self.due > Instant::now();
            let until = if is_early { self.due.min(late) } else { late };
            let fault = |what| run.checks.fault(what);
            let read = follower.read(|event| self.take(&event), fault);
            match timeout_at(until, read).await {
                Ok(read) => read?,
                // No append was answered for so long.
                Err(silence) if until == late => return Err(silence.into()),
                Err(_) => {}
            }
        }
    }

    /// Sends again, in order, what has to go out again.
    fn repeat(&mut self, out: &mut Vec<u8>) {
        for (index, (message, _)) in &self.open {
            self.put(out, *index, message);
        }
        self.on_the_way.extend(self.open.keys());
    }

    /// Sends new messages while there is room. Returns whether the source has no more.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        let (now, in_flight) = (Instant::now(), self.source.in_flight);
        while self.open.len() == self.on_the_way.len()
            && self.open.len() < in_flight
            && self.due <= now
        {
            let Some(message) = self.source.messages.next() else {
                return true;
            };
            self.due += self.source.pause;
            let index = self.sent;
            self.sent += 1;
            self.put(out, index, &message);
            let Outgoing {
                id,
                entry,
                expect_head,
                ..
            } = &message;
            let timeline = &self.trial.timelines[message.timeline];
            let digest = Digest::of(entry);
            let call = append(timeline, &self.source.user, id, digest, *expect_head);
            let what = What::Invoke(index as u64, vec![call]);
            self.trial.recording.event(&self.name, what);
            self.open.insert(index, (message, Instant::now()));
            self.on_the_way.insert(index);
        }
        false
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
        put_request(out, OWN + index as u64, "message.append", &append);
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Answered(number, answer, now) => {
                let index = *number as usize;
                if !self.on_the_way.remove(&index) {
                    return Err("a reply to what is not on the way".into());
                }
                match &answer.outcome {
                    Ok(_) => {
                        let asked = self.open.remove(&index).ok_or("not asked")?;
                        self.acknowledged(index, asked, &answer.result()?, *now)
                    }
                    Err(refusal) => self.refused(index, refusal),
                }
            }
            Event::Draining => Ok(()),
            other => other.expected(),
        }
    }

    fn acknowledged(
        &mut self,
        index: usize,
        (message, sent): (Outgoing, Instant),
        appended: &Appended,
        now: Instant,
    ) -> Result<(), String> {
        let trial = self.trial;
        self.heard = now;
        let answer = tideline_history::Answer {
            sequence: Some(appended.sequence),
            timestamp: Some(appended.timestamp),
            ..tideline_history::Answer::default()
        };
        let what = What::Ok(index as u64, vec![answer]);
        trial.recording.event(&self.name, what);
        trial.acks.record(sent, now);
        trial.acknowledged[message.timeline].update(|so_far| so_far + 1);
        trial.run.add("duplicates", u64::from(appended.duplicate));
        let (id, kept, epoch) = (&message.id, &appended.message_id, &appended.epoch);
        if id != kept || !trial.timelines.is_epoch(message.timeline, epoch) {
            return Err(format!("{id} was acknowledged as {kept} in epoch {epoch}"));
        }
        Ok(())
    }

    fn refused(&mut self, index: usize, refusal: &Refusal) -> Result<(), String> {
        let timeline = self.open.get(&index).ok_or("not asked")?.0.timeline;
        let data = &refusal.data;
        let recording = &self.trial.recording;
        // A conditional append behind a refused one of its timeline must fail too; it goes out again behind it.
        let mut before = self.open.range(..index);
        let behind = data.reason == "condition_failed"
            && before.any(|(index, (message, _))| {
                message.timeline == timeline && !self.on_the_way.contains(index)
            });
        if behind || refusal.may_repeat() {
            let what = What::Unknown(index as u64, reason(refusal));
            recording.event(&self.name, what);
            self.trial.run.add("refusals", 1);
            self.fence = Duration::from_millis(data.retry_after_ms.unwrap_or(20).min(1_000));
            return Ok(());
        }
        recording.event(&self.name, What::Fail(index as u64, reason(refusal)));
        self.open.remove(&index);
        let name = &self.trial.timelines[timeline];
        Err(format!("{name}: refused: {refusal}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::rpc::Answer;
    use crate::recording::{Recorded, Recording};
    use crate::run::Run;
    use crate::run::setup::plain;

    /// A writer of four messages, three of them on the way.
    fn with_writer(test: impl FnOnce(&mut Writer<'_>)) {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let recording = Recording::new(&Recorded { history: None }).expect("a file");
        let trial = Trial::new(&run, vec![("t".into(), 4)], recording);
        let message = |number: u64| Outgoing {
            timeline: 0,
            id: format!("m{number}"),
            entry: json!({ "number": number }),
            expect_head: Some(number),
        };
        let source = Source {
            user: "u".into(),
            in_flight: 3,
            pause: Duration::ZERO,
            messages: Box::new((0..4).map(message)),
        };
        let mut writer = Writer::new(&trial, 0, source);
        writer.fill(&mut Vec::new());
        test(&mut writer);
    }

    fn answer(writer: &mut Writer<'_>, number: u64, body: &str) -> Result<(), String> {
        let index = number - 1;
        let text = format!(r#"{{"id":{},{body}}}"#, OWN + index);
        let answer = Answer::read(text.as_bytes()).expect("an answer");
        writer.take(&Event::Answered(index, &answer, Instant::now()))
    }

    fn acknowledged(writer: &mut Writer<'_>, number: u64, id: &str) -> Result<(), String> {
        let result = json!({ "sequence": number, "timestamp": 1, "message_id": id, "epoch": "e", "duplicate": false });
        answer(writer, number, &format!(r#""result":{result}"#))
    }

    fn refused(
        writer: &mut Writer<'_>,
        number: u64,
        reason: &str,
        retry: bool,
    ) -> Result<(), String> {
        let error =
            json!({ "code": 1, "message": "m", "data": { "reason": reason, "retry": retry } });
        answer(writer, number, &format!(r#""error":{error}"#))
    }

    #[test]
    fn answers_that_fit_no_message_or_another_are_faults() {
        with_writer(|writer| {
            assert_eq!(acknowledged(writer, 1, "m0"), Ok(()));
            assert!(acknowledged(writer, 1, "m0").is_err(), "twice");
            assert!(acknowledged(writer, 4, "m3").is_err(), "it is not sent");
            assert!(acknowledged(writer, 2, "other").is_err());
            let other = r#""result":{"sequence":3,"timestamp":1,"message_id":"m2","epoch":"f","duplicate":false}"#;
            assert!(answer(writer, 3, other).is_err(), "another epoch");
            writer.fill(&mut Vec::new());
            assert!(answer(writer, 4, r#""result":{}"#).is_err());
            assert_eq!(writer.trial.acknowledged[0].get(), 3);
            assert!(writer.open.is_empty() && writer.sent == 4);
        });
    }

    #[test]
    fn what_is_refused_goes_out_again_in_order_before_anything_new() {
        with_writer(|writer| {
            assert_eq!(refused(writer, 1, "busy", true), Ok(()));
            // Behind the refused one it could not but fail.
            assert_eq!(refused(writer, 2, "condition_failed", false), Ok(()));
            assert_eq!(acknowledged(writer, 3, "m2"), Ok(()));
            let (mut again, mut new) = (Vec::new(), Vec::new());
            writer.fill(&mut new);
            assert!(writer.on_the_way.is_empty() && new.is_empty());
            writer.repeat(&mut again);
            let text = String::from_utf8_lossy(&again);
            assert!(
                text.find("\"m0\"") < text.find("\"m1\"") && text.contains("m1"),
                "{text}"
            );
            writer.fill(&mut new);
            assert_eq!(writer.sent, 4);
            assert!(
                refused(writer, 1, "condition_failed", false).is_err(),
                "nothing before it"
            );
            assert!(refused(writer, 2, "forbidden", false).is_err());
        });
    }
}
