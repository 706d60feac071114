//! The one publisher of a room: when the next message goes out, and what the server says to it.
//!
//! Owns: the closed loop and the open one. Promises: message k is the k-th one sent, and the server said so for each of
//! them; in the open loop each message carries the time for which it was scheduled, however late it went out. Must
//! not: have so many appends unanswered that the server stops reading, which would stop reading the answers too.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::board::{Board, WAY_MAX};
use super::{Room, Subject};
use crate::exit::Stop;
use crate::frame::{Lean, put_text};
use crate::pace::{Gaps, Pace};
use crate::recorder::{Counts, Recorder};
use crate::rpc::{Appended, CallError, Incoming, decode, read};
use crate::run::{Phase, Run};

/// Appends without an answer: below the protocol's 256 requests in flight.
const UNANSWERED_MAX: u64 = 200;
/// How long the subscribers may take to get the last message once nothing more is sent.
const PATIENCE: Duration = Duration::from_secs(30);
/// Phases change by themselves: nothing is waited for longer.
const GLANCE: Duration = Duration::from_millis(1);

/// What was sent and came.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) messages: u64,
    pub(super) deliveries: u64,
}

/// The publisher's state.
pub(super) struct Publisher {
    run: Rc<Run>,
    socket: Lean,
    subject: Arc<Subject>,
    board: Arc<Board>,
    acks: Rc<Recorder>,
    in_flight: u64,
    pace: Option<Pace>,
    /// Scheduled and not sent yet.
    due: VecDeque<Instant>,
    sent: u64,
    answered: u64,
    out: Vec<u8>,
}

impl Publisher {
    pub(super) async fn open(
        args: &Room,
        run: &Rc<Run>,
        subject: Arc<Subject>,
        board: Arc<Board>,
    ) -> Result<Publisher, Stop> {
        let lost = |error| Stop::Unreachable(format!("the publisher: {error}"));
        Ok(Publisher {
            run: Rc::clone(run),
            socket: Lean::open(&run.url).await.map_err(lost)?,
            subject,
            board,
            acks: run.recorder("ack", args.counts()),
            in_flight: args.in_flight,
            pace: args.rate.map(|rate| run.pace(rate, Gaps::Fixed, 0)),
            due: VecDeque::new(),
            sent: 0,
            answered: 0,
            out: Vec::new(),
        })
    }

    /// Publishes until the run's end and then until everybody has everything. Returns the measured counts and what was
    /// sent over all.
    pub(super) async fn work(mut self) -> Result<(Counted, u64), Stop> {
        let before = self.publish(Phase::WarmingUp).await?;
        self.board.begin(Instant::now());
        let after = self.publish(Phase::Measuring).await?;
        self.board.end(Instant::now());
        if let Some(pace) = self.pace.take() {
            self.run.paced(&pace);
        }
        self.finish().await?;
        let counted = Counted {
            messages: after.messages - before.messages,
            deliveries: after.deliveries - before.deliveries,
        };
        Ok((counted, self.sent))
    }

    /// Sends as long as the run is in this phase, or nothing failed. Returns the counts at its end.
    async fn publish(&mut self, phase: Phase) -> Result<Counted, Stop> {
        while self.run.phase() == phase && !self.board.failed() {
            let now = Instant::now();
            while let Some(scheduled) = self.pace.as_mut().and_then(|pace| pace.due(now)) {
                self.due.push_back(scheduled);
            }
            self.send(now).await?;
            let glance = now + GLANCE;
            let next = self
                .pace
                .as_ref()
                .map_or(glance, |pace| pace.next().min(glance));
            self.wait(next).await?;
        }
        if self.board.failed() {
            self.run.end_early();
        }
        Ok(Counted {
            messages: self.sent,
            deliveries: self.board.deliveries(),
        })
    }

    /// Sends what may go out now.
    async fn send(&mut self, now: Instant) -> Result<(), Stop> {
        let unanswered = self.sent - self.answered;
        let on_way = self.sent - self.board.minimum();
        let open = self.pace.is_some() || !self.due.is_empty();
        let count = if open {
            (self.due.len() as u64).min(WAY_MAX / 2 - on_way)
        } else {
            self.in_flight.saturating_sub(on_way)
        };
        for _ in 0..count.min(UNANSWERED_MAX - unanswered) {
            self.sent += 1;
            let at = self.due.pop_front().unwrap_or(now);
            self.board.stamp(self.sent, self.board.micros(at));
            put_text(&mut self.out, self.subject.append(self.sent)?.as_bytes());
        }
        if self.out.is_empty() {
            return Ok(());
        }
        let written = self.socket.write(&self.out).await;
        self.out.clear();
        written.map_err(|error| Stop::Unreachable(format!("the publisher: {error}")))
    }

    /// Waits for answers, for listeners, or for the time.
    async fn wait(&mut self, until: Instant) -> Result<(), Stop> {
        let Publisher {
            socket,
            board,
            acks,
            answered,
            ..
        } = self;
        let mut wrong = None;
        let reading = socket.read(|text| match answer(text) {
            // Each append is answered with its own number, as one connection's writes take effect in order.
            Ok((id, sequence)) if id == sequence => {
                *answered += 1;
                acks.record(board.instant(board.stamped(id)), Instant::now());
            }
            Ok((id, sequence)) => {
                board.fault(format!("message {id} of one publisher became {sequence}"));
            }
            Err(error) => wrong = Some(error),
        });
        let read = tokio::select! {
            read = reading => read,
            () = board.news.notified() => Ok(()),
            () = tokio::time::sleep_until(until) => Ok(()),
        };
        let lost = |error: String| Stop::Unreachable(format!("the publisher: {error}"));
        match (read, wrong) {
            (Err(error), _) => Err(lost(error.to_string())),
            (Ok(()), Some(refused @ CallError::Refused(_))) => {
                board.fault(format!("an append was refused: {refused}"));
                Ok(())
            }
            (Ok(()), Some(error)) => Err(lost(error.to_string())),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Sends what was scheduled and is left, and waits until every subscriber has every message.
    async fn finish(&mut self) -> Result<(), Stop> {
        let until = Instant::now() + PATIENCE;
        while !self.board.failed() {
            if !self.due.is_empty() {
                self.send(Instant::now()).await?;
            } else if self.board.minimum().min(self.answered) == self.sent {
                return Ok(());
            }
            if Instant::now() >= until {
                return self.give_up();
            }
            self.wait(until).await?;
        }
        Ok(())
    }

    fn give_up(&self) -> Result<(), Stop> {
        let (sent, answered, minimum) = (self.sent, self.answered, self.board.minimum());
        if self.due.is_empty() {
            self.board.fault(format!(
                "{PATIENCE:?} after the end {sent} are sent, {answered} answered, and one subscriber has {minimum}"
            ));
        } else {
            let left = self.due.len();
            self.run.invalid(format!(
                "{PATIENCE:?} after the end {left} scheduled messages are not sent: the rate is above what goes through"
            ));
        }
        Ok(())
    }
}

impl Room {
    /// What belongs to the measurement.
    pub(super) fn counts(&self) -> Counts {
        if self.rate.is_some() {
            Counts::Scheduled
        } else {
            Counts::Ended
        }
    }
}

/// The request's number and the sequence it got.
fn answer(text: &[u8]) -> Result<(u64, u64), CallError> {
    match decode(text)? {
        Incoming::Reply(id, result) => {
            let appended: Appended = read(&result.map_err(CallError::Refused)?)?;
            Ok((id, appended.sequence))
        }
        Incoming::Push(method, _) => Err(CallError::Lost(format!("{method} for a publisher"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_refusals_are_told_apart() {
        let good = br#"{"jsonrpc":"2.0","id":7,"result":{"sequence":7,"timestamp":1,"message_id":"a","epoch":"e","duplicate":false}}"#;
        assert!(matches!(answer(good), Ok((7, 7))));
        let refused = br#"{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"m","data":{"reason":"busy","retry":true}}}"#;
        assert!(matches!(answer(refused), Err(CallError::Refused(_))));
        assert!(matches!(answer(b"{}"), Err(CallError::Lost(_))));
    }
}
