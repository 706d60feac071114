//! A room on NATS: subscribers over its WebSocket listener, and a connection that publishes, all on one thread.
//!
//! Owns: the closed loop of the load tool's `room`, spoken in NATS' language: at most so many messages have not reached
//! everybody. Promises: every subscriber gets every message once and in order, or it is a fault; reading a delivery
//! costs what it costs in `room`: frames from the same shared buffer, numbers compared, nothing copied. Must not:
//! measure Tideline.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use serde::Serialize;
use tideline_load::client::frame::{put_text, streamed, upgrade};
use tideline_load::client::pipe::{Pipe, Way};
use tideline_load::client::template::{DIGITS, NUMBER, Template};
use tideline_load::exit::Stop;
use tideline_load::profile::{Profile, need_files};
use tideline_load::random::Random;
use tideline_load::run::{Phase, Run};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::appends::{HELLO, PONG, find};

/// The load of a room.
#[derive(clap::Args, Serialize)]
pub(crate) struct Room {
    #[arg(long)]
    subscribers: u64,
    #[arg(long)]
    in_flight: u64,
    #[arg(long)]
    size: usize,
}

impl Profile for Room {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.subscribers)?;
        let hall = Rc::new(Hall::new(run, self.subscribers));
        let text = Random::new(run.seed).text(self.size.saturating_sub(DIGITS));
        let size = text.len() + DIGITS;
        let message = Template::framed(&format!("PUB room {size}\r\n{NUMBER}{text}\r\n"));
        let mut publishing = Some((message, self.in_flight as usize));
        for _ in 0..=self.subscribers {
            let lost = |error| Stop::Unreachable(format!("NATS: {error}"));
            let pipe = upgrade(&run.url, Way::Plain).await.map_err(lost)?;
            spawn_local(Rc::clone(&hall).client(pipe, publishing.take()));
        }
        let is_ready = || hall.ready.get() > self.subscribers;
        run.wait_for("subscriptions", is_ready).await;
        hall.is_open.set(true);
        hall.moved.notify_one();
        run.pass(run.setup.warm_up).await;
        run.begin().await;
        let before = hall.deliveries.get();
        run.pass(run.setup.seconds).await;
        let measured = hall.deliveries.get() - before;
        run.finish().await;
        run.rate("deliveries_per_second", measured);
        let is_delivered = || hall.lacking.borrow().is_empty();
        run.wait_for("deliveries", is_delivered).await;
        Ok(())
    }
}

/// What all connections share.
struct Hall {
    run: Rc<Run>,
    subscribers: u64,
    /// Connections that the server has answered: subscribers and the publisher.
    ready: Cell<u64>,
    /// All are ready.
    is_open: Cell<bool>,
    deliveries: Cell<u64>,
    /// Messages that everybody has.
    reached: Cell<u64>,
    /// For each later message: how many subscribers lack it.
    lacking: RefCell<VecDeque<u64>>,
    /// There may be room for more messages.
    moved: Notify,
}

impl Hall {
    fn new(run: &Rc<Run>, subscribers: u64) -> Hall {
        Hall {
            run: Rc::clone(run),
            subscribers,
            ready: Cell::default(),
            is_open: Cell::default(),
            deliveries: Cell::default(),
            reached: Cell::default(),
            lacking: RefCell::default(),
            moved: Notify::new(),
        }
    }

    /// A message has come to one more.
    fn deliver(&self, number: u64) {
        let mut lacking = self.lacking.borrow_mut();
        let place = number.wrapping_sub(self.reached.get() + 1) as usize;
        let Some(left) = lacking.get_mut(place).filter(|left| **left > 0) else {
            return self
                .run
                .fault(&format!("message {number} was not sent, or came once more"));
        };
        self.deliveries.update(|count| count + 1);
        *left -= 1;
        if *left == 0 {
            // Each gets them in order: it is the first one.
            lacking.pop_front();
            self.reached.update(|count| count + 1);
            self.moved.notify_one();
        }
    }

    /// A subscriber, or the publisher, until its connection ends with the run.
    async fn client(self: Rc<Hall>, mut pipe: Pipe, publishing: Option<(Template, usize)>) {
        let (mut heard, mut out) = (Heard::default(), Vec::new());
        let follow = publishing.as_ref().map_or("SUB room 1\r\n", |_| "");
        put_text(&mut out, format!("{HELLO}{follow}PING\r\n").as_bytes());
        loop {
            if let Some((message, in_flight)) = &publishing
                && self.is_open.get()
                && self.run.phase() != Phase::Ending
            {
                let mut lacking = self.lacking.borrow_mut();
                while lacking.len() < *in_flight {
                    lacking.push_back(self.subscribers);
                    message.stamp(&mut out, &[self.reached.get() + lacking.len() as u64]);
                }
            }
            let exchanged = pipe.exchange(&mut out, |bytes, out| {
                streamed(bytes, |payload| {
                    if let Err(error) = heard.take(payload, out, &self) {
                        self.run.fault(&error.to_string());
                    }
                })
            });
            let exchanged = tokio::select! {
                exchanged = exchanged => exchanged,
                () = self.moved.notified(), if publishing.is_some() => Ok(()),
            };
            if let Err(error) = exchanged {
                return self.run.fault(&format!("a subscriber: {error}"));
            }
        }
    }
}

/// What one connection has heard.
#[derive(Default)]
struct Heard {
    position: u64,
    /// An operation whose end the next frame brings.
    rest: Vec<u8>,
}

impl Heard {
    /// Takes the operations of a frame.
    fn take(&mut self, payload: &[u8], out: &mut Vec<u8>, hall: &Hall) -> io::Result<()> {
        let mut whole = std::mem::take(&mut self.rest);
        let mut bytes = payload;
        if !whole.is_empty() {
            whole.extend_from_slice(payload);
            bytes = &whole;
        }
        while let Some(unit) = find(bytes)? {
            bytes = &bytes[unit.length..];
            if unit.subject()?.is_some() {
                let digits = unit.body.get(..DIGITS).unwrap_or_default();
                let digit = |sum, digit: &u8| sum * 10 + u64::from(digit & 15);
                let number = digits.iter().fold(0, digit);
                let before = std::mem::replace(&mut self.position, number);
                if number == before + 1 {
                    hall.deliver(number);
                } else {
                    hall.run.fault(&format!("message {number} after {before}"));
                }
            } else if unit.line == b"PING" {
                put_text(out, PONG);
            } else if unit.line == b"PONG" {
                hall.ready.update(|count| count + 1);
            }
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tideline_load::run::setup::Setup;

    use super::*;

    #[test]
    fn deliveries_are_counted_in_frames_that_cut_them_and_a_lost_one_is_a_fault() {
        let setup = Setup::parse_from(["test", "--quiet"]);
        let stream = b"PING\r\nMSG room 1 11\r\n000000001xx\r\nMSG room 1 11\r\n000000002xx\r\n";
        for cut in 1..stream.len() {
            let hall = Hall::new(&Run::new(&setup, "ws://nowhere".into(), None), 2);
            hall.lacking.borrow_mut().extend([2, 2]);
            let (mut heard, mut out) = (Heard::default(), Vec::new());
            for part in [&stream[..cut], &stream[cut..]] {
                heard.take(part, &mut out, &hall).expect("legal");
            }
            assert_eq!((hall.deliveries.get(), heard.position), (2, 2));
            assert_eq!(hall.reached.get(), 0, "the other one has nothing");
            let mut slow = Heard::default();
            slow.take(&stream[..37], &mut out, &hall).expect("legal");
            assert_eq!((hall.reached.get(), hall.lacking.borrow().len()), (1, 1));
            assert!(heard.rest.is_empty() && hall.run.checks.faults() == 0);
            assert!(!out.is_empty(), "the ping is answered");
            let lost = b"MSG room 1 9\r\n000000004\r\n";
            heard.take(lost, &mut out, &hall).expect("legal");
            assert_eq!(hall.run.checks.faults(), 1);
        }
    }
}
