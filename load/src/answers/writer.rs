//! A writer: sends the tokens of one timeline's answers as they fall due, and repeats what was not answered.
//!
//! Owns: the client's half of "once": after a lost connection the same parts go out again with the same numbers.
//! Promises: what was acknowledged stays, or it is a fault: it is looked up by its ID after each loss, and read now and
//! then right after its acknowledgement. Must not: hide a refusal that the protocol does not allow.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::book::{Book, Lane};
use super::viewer::{Shown, check};
use crate::client::pipe::Way;
use crate::client::rpc::{Answer, put_request};
use crate::exit::Stop;
use crate::follower::{Event, Follower, OWN, Timelines};
use crate::trial::wait;

/// What was asked, as the number of a request; to those from `EXTEND` on a number of parts is added.
const APPEND: u64 = 0;
const FINISH: u64 = 1;
const EXTEND: u64 = 1 << 20;
const AGAIN: u64 = 2 << 20;
const LOOK: u64 = 3 << 20;

/// How long nothing may be answered.
const PATIENCE: Duration = Duration::from_secs(60);
/// Before a refused request is made again.
const PAUSE: Duration = Duration::from_millis(20);

struct Writer<'a> {
    book: &'a Book,
    lane: &'a Lane,
    /// The answer that is written, from 1.
    answer: u64,
    /// Its parts that are acknowledged.
    acknowledged: u64,
    link: Link,
    /// When the server took the connection, or answered last.
    heard: Instant,
}

/// What a connection has done.
#[derive(Default)]
struct Link {
    /// Whether the answer's append has been sent, and is answered with its number.
    is_asked: bool,
    is_open: bool,
    /// Parts that were sent on it, or were acknowledged before.
    sent: u64,
    /// Those that were acknowledged before one below them: answers have no order.
    early: BTreeSet<u64>,
    is_finishing: bool,
    on_the_way: u64,
    /// Something was refused for now: all begins anew.
    is_broken: bool,
}

#[derive(Deserialize)]
struct Opened {
    sequence: u64,
    duplicate: bool,
    #[serde(default)]
    parts: Option<u64>,
}

#[derive(Deserialize)]
struct Extended {
    parts: u64,
    duplicate: bool,
}

#[derive(Deserialize)]
struct Whole {
    message: Shown,
}

/// Writes until nothing is due any more, and all is closed.
pub(super) async fn run(book: &Book, lane: &Lane) -> Result<(), Stop> {
    let mut writer = Writer {
        book,
        lane,
        answer: 1,
        acknowledged: 0,
        link: Link::default(),
        heard: Instant::now(),
    };
    while let Err(error) = writer.session().await {
        book.run.add("reconnects", 1);
        wait(writer.heard, &error).await?;
    }
    lane.is_over.set(true);
    Ok(())
}

impl Writer<'_> {
    /// One connection's life; it ends without error when all is written, or can't be.
    async fn session(&mut self) -> io::Result<()> {
        let (run, lane) = (&self.book.run, self.lane);
        self.link = Link::default();
        let mut follower = Follower::new(&Timelines::new([]), []);
        follower.user = Some(format!("writer-{}", lane.number));
        follower.connect(&run.url, Way::Plain).await?;
        self.heard = Instant::now();
        // A lost answer may have been the last one's.
        let mut is_new = self.lane.written(self.answer).0 == 0;
        loop {
            self.fill(follower.out(), &mut is_new);
            let is_done = lane.is_full.get() && lane.due.borrow().is_empty() && !self.link.is_asked;
            if is_done {
                return Ok(());
            }
            if run.checks.faults() > 0 {
                run.end_early();
                return Ok(());
            }
            let mut faults = Vec::new();
            let news = lane.news.notified();
            let read = follower.read(|event| self.take(&event), |fault| faults.push(fault));
            let either = async {
                tokio::select! {
                    read = read => read,
                    () = news => Ok(()),
                }
            };
            let read = timeout(PATIENCE, either).await;
            for fault in faults {
                run.checks.fault(format_args!("{}: {fault}", lane.timeline));
            }
            match read {
                Ok(read) => read?,
                Err(silence) if self.link.on_the_way > 0 => return Err(silence.into()),
                Err(_) => {}
            }
            if self.link.is_broken {
                sleep(PAUSE).await;
                return Err(io::Error::other("refused for now"));
            }
        }
    }

    /// Sends what can be sent.
    fn fill(&mut self, out: &mut Vec<u8>, is_new: &mut bool) {
        let (lane, answer, ways) = (self.lane, self.answer, self.book.ways);
        let mut due = lane.due.borrow_mut();
        if !self.link.is_asked && (!*is_new || !due.is_empty()) {
            self.link.is_asked = true;
            let open = json!({ "idle_ms": 3_600_000 });
            let append = json!({
                "timeline": lane.timeline, "entry": { "role": "assistant" }, "message_id": lane.id(answer), "open": open,
            });
            self.ask(out, APPEND, "message.append", &append);
        }
        *is_new = true;
        if !self.link.is_open {
            return;
        }
        let (written, tokens) = loop {
            let (parts, tokens) = lane.written(answer);
            let room = due.len().min((ways.length - tokens) as usize);
            if room == 0 || ways.is_joined && parts > self.acknowledged {
                break (parts, tokens);
            }
            lane.write(answer, due.drain(..if ways.is_joined { room } else { 1 }));
        };
        let is_full = due.is_empty() && lane.is_full.get();
        drop(due);
        for part in self.link.sent + 1..=written {
            self.extend(out, EXTEND, part);
            if ways.repeats > 0 && part % ways.repeats == 0 {
                self.extend(out, AGAIN, part);
            }
        }
        self.link.sent = self.link.sent.max(written);
        let is_whole = tokens == ways.length || is_full;
        if is_whole && self.acknowledged == written && !self.link.is_finishing {
            self.link.is_finishing = true;
            let finish = json!({ "timeline": lane.timeline, "sequence": answer, "parts": written });
            self.ask(out, FINISH, "message.finish", &finish);
        }
    }

    fn extend(&mut self, out: &mut Vec<u8>, kind: u64, part: u64) {
        let text = self.lane.text(self.answer, part, part);
        let (timeline, sequence) = (&self.lane.timeline, self.answer);
        let extend =
            json!({ "timeline": timeline, "sequence": sequence, "part": part, "text": text });
        self.ask(out, kind + part, "message.extend", &extend);
        if kind == AGAIN {
            // It must show what was acknowledged before it is asked.
            let get = json!({ "timeline": timeline, "sequence": sequence });
            self.ask(out, LOOK + self.acknowledged, "message.get", &get);
        }
    }

    fn ask(&mut self, out: &mut Vec<u8>, number: u64, method: &str, params: &serde_json::Value) {
        self.link.on_the_way += 1;
        put_request(out, OWN + number, method, params);
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        let (number, answer, now) = match event {
            Event::Answered(number, answer, now) => (*number, *answer, *now),
            Event::Draining => return Ok(()),
            other => return other.expected(),
        };
        self.heard = now;
        self.link.on_the_way = self.link.on_the_way.saturating_sub(1);
        if let Err(refusal) = &answer.outcome {
            // What was sent behind a refused part can't but be refused.
            if self.link.is_broken || refusal.may_repeat() {
                self.link.is_broken = true;
                return Ok(());
            }
            return Err(format!("refused: {refusal}"));
        }
        let part = number & (EXTEND - 1);
        match number & !(EXTEND - 1) {
            EXTEND => self.extended(part, &answer.result()?, now),
            AGAIN => {
                let again: Extended = answer.result()?;
                self.book.run.checks.made("repeats answered as such", 1);
                let holds = again.duplicate && again.parts >= part;
                holds
                    .then_some(())
                    .ok_or_else(|| format!("part {part} was taken again"))
            }
            LOOK => self.looked(answer, part),
            _ if number == APPEND => self.opened(&answer.result()?),
            _ => self.finished(&answer.result()?),
        }
    }

    fn opened(&mut self, opened: &Opened) -> Result<(), String> {
        let (sequence, parts) = (opened.sequence, opened.parts);
        if sequence != self.answer {
            return Err(format!("answer {} got the number {sequence}", self.answer));
        }
        if opened.duplicate && parts.is_some_and(|parts| parts < self.acknowledged) {
            let known = self.acknowledged;
            return Err(format!(
                "{sequence} has {parts:?} parts, and {known} were acknowledged"
            ));
        }
        (self.link.is_open, self.link.sent) = (true, self.acknowledged);
        Ok(())
    }

    fn extended(&mut self, part: u64, extended: &Extended, now: Instant) -> Result<(), String> {
        let parts = extended.parts;
        if part <= self.acknowledged || parts < part || (parts > part && !extended.duplicate) {
            return Err(format!("part {part} was acknowledged as one of {parts}"));
        }
        self.link.early.insert(part);
        while self.link.early.remove(&(self.acknowledged + 1)) {
            self.acknowledged += 1;
            let (lane, part) = (self.lane, self.acknowledged);
            let tokens = lane.times(self.answer, part, part);
            let count = tokens.map_or(0, |tokens| tokens.len() as u64);
            self.book.run.checks.made("tokens acknowledged", count);
        }
        let times = self.lane.times(self.answer, part, part);
        for due in times.ok_or("it was not written")?.iter() {
            self.book.acks.record(*due, now);
        }
        let (book, is_repeat) = (self.book, u64::from(extended.duplicate));
        book.count(&book.parts, 1);
        book.run.add("duplicates", is_repeat);
        Ok(())
    }

    /// The message, asked for when so many parts were acknowledged.
    fn looked(&self, answer: &Answer<'_>, acknowledged: u64) -> Result<(), String> {
        let Whole { message } = answer.result()?;
        check(self.lane, &message)?;
        if message.parts < acknowledged {
            let parts = message.parts;
            return Err(format!(
                "it shows {parts} parts, and {acknowledged} were acknowledged"
            ));
        }
        self.book.run.checks.made("answers read while they grow", 1);
        Ok(())
    }

    fn finished(&mut self, finished: &Whole) -> Result<(), String> {
        check(self.lane, &finished.message)?;
        if finished.message.parts != self.acknowledged {
            return Err(format!("it ended with {} parts", finished.message.parts));
        }
        self.lane.closed.borrow_mut().push(self.acknowledged);
        (self.answer, self.acknowledged) = (self.answer + 1, 0);
        self.link = Link {
            on_the_way: self.link.on_the_way,
            ..Link::default()
        };
        Ok(())
    }
}
