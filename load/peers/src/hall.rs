//! A room on NATS: one publisher over TCP, subscribers over the WebSocket listener, all on one thread.
//!
//! Owns: the closed loop of the load tool's `room`, spoken in NATS' language: at most so many messages have not reached
//! every subscriber. Promises: every subscriber gets every message once and in order, or it is a fault; reading a
//! delivery costs what it costs in `room`: frames from the same shared buffer, numbers compared, nothing copied. Must
//! not: measure Tideline.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tideline_load::exit::Stop;
use tideline_load::frame::{put_text, streamed, upgrade};
use tideline_load::outcome::Better;
use tideline_load::pipe::Pipe;
use tideline_load::profile::{Profile, need_files};
use tideline_load::random::Random;
use tideline_load::run::{Phase, Run};
use tideline_load::setup::Setup;
use tideline_load::template::{DIGITS, NUMBER, Template};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::nats::{HELLO, Said, find, refused};

/// Messages that may not have reached every subscriber are told apart by their numbers modulo this.
const WAY: usize = 1 << 12;
/// So many connections are opened at a time.
const WAVE: usize = 64;
/// How long the last message may take to the last subscriber.
const PATIENCE: Duration = Duration::from_secs(30);
/// The subject of all messages.
const SUBJECT: &str = "room";

/// The load of a room; `setup.url` is the WebSocket listener.
#[derive(Serialize)]
pub(crate) struct Room {
    #[serde(flatten)]
    pub(crate) setup: Setup,
    /// `host:port` of NATS' own protocol.
    #[serde(skip)]
    pub(crate) address: String,
    pub(crate) subscribers: usize,
    pub(crate) in_flight: u64,
    pub(crate) size: usize,
}

impl Profile for Room {
    const NAME: &'static str = "nats-room";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.subscribers as u64)?;
        let lost = |error: io::Error| Stop::Unreachable(format!("NATS: {error}"));
        let hall = Rc::new(RefCell::new(Hall::new(self.subscribers)));
        let mut left = self.subscribers;
        while left > 0 {
            let wave = left.min(WAVE);
            for opened in join_all((0..wave).map(|_| subscribe(&run.url))).await {
                spawn_local(follow(opened.map_err(lost)?, Rc::clone(&hall)));
            }
            left -= wave;
        }
        let mut publisher = Publisher::open(self, run, &hall).await.map_err(lost)?;
        let publishing = async {
            let worked = publisher.work().await;
            // After an error nothing is left to measure.
            run.end_early();
            worked
        };
        let measuring = async {
            run.pass(self.setup.warm_up).await;
            run.begin().await;
            let before = hall.borrow().deliveries;
            run.pass(self.setup.seconds).await;
            let after = hall.borrow().deliveries;
            run.finish().await;
            run.rate("deliveries_per_second", after - before);
        };
        let (worked, ()) = tokio::join!(publishing, measuring);
        worked.map_err(lost)?;
        let hall = hall.borrow();
        run.figure("messages", hall.minimum as f64, "1", Better::Neither);
        for fault in &hall.faults {
            run.checks.fault(fault);
        }
        Ok(())
    }
}

/// What all connections share.
struct Hall {
    subscribers: usize,
    /// How many have got message n, at n modulo `WAY`.
    got: Vec<usize>,
    /// Every subscriber has everything up to here.
    minimum: u64,
    deliveries: u64,
    moved: Rc<Notify>,
    faults: Vec<String>,
}

impl Hall {
    fn new(subscribers: usize) -> Hall {
        Hall {
            subscribers,
            got: vec![0; WAY],
            minimum: 0,
            deliveries: 0,
            moved: Rc::new(Notify::new()),
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, what: String) {
        if self.faults.len() < 20 {
            self.faults.push(what);
        }
        self.moved.notify_one();
    }

    /// A subscriber whose position was `before` got message `number`.
    fn deliver(&mut self, before: u64, number: u64) {
        if number != before + 1 {
            return self.fault(format!("message {number} after {before}"));
        }
        self.deliveries += 1;
        let got = &mut self.got[number as usize % WAY];
        *got += 1;
        if *got == self.subscribers {
            *got = 0;
            // Each gets them in order: one that has this message has all before it.
            self.minimum = number;
            self.moved.notify_one();
        }
    }
}

/// One connection over WebSocket, subscribed.
async fn subscribe(url: &str) -> io::Result<Pipe> {
    let mut pipe = upgrade(url, None).await?;
    let mut out = Vec::new();
    put_text(
        &mut out,
        format!("{HELLO}SUB {SUBJECT} 1\r\nPING\r\n").as_bytes(),
    );
    pipe.write(&out).await?;
    // The server's PONG says that it has the subscription.
    let mut stream = Vec::new();
    loop {
        let taken = streamed(pipe.bytes(), |payload| stream.extend_from_slice(payload))?;
        pipe.take(taken);
        while let Some((said, length)) = find(&stream)? {
            let is_pong = said == Said::Pong;
            stream.drain(..length);
            if is_pong {
                return Ok(pipe);
            }
        }
        pipe.more().await?;
    }
}

/// One subscriber, until its connection ends with the run.
async fn follow(mut pipe: Pipe, hall: Rc<RefCell<Hall>>) {
    let (mut hearer, mut out) = (Hearer::default(), Vec::new());
    loop {
        let heard = pipe.exchange(&mut out, |bytes, out| {
            let (mut hall, mut wrong) = (hall.borrow_mut(), Ok(()));
            let taken = streamed(bytes, |payload| {
                let heard = hearer.hear(payload, out, &mut hall);
                wrong = std::mem::replace(&mut wrong, Ok(())).and(heard);
            })?;
            wrong.map(|()| taken)
        });
        if let Err(error) = heard.await {
            return hall.borrow_mut().fault(format!("a subscriber: {error}"));
        }
    }
}

/// What one subscriber has heard.
#[derive(Default)]
struct Hearer {
    position: u64,
    /// An operation whose end the next frame brings.
    rest: Vec<u8>,
}

impl Hearer {
    /// Takes the operations of a frame.
    fn hear(&mut self, payload: &[u8], out: &mut Vec<u8>, hall: &mut Hall) -> io::Result<()> {
        let mut whole = std::mem::take(&mut self.rest);
        let bytes = if whole.is_empty() {
            payload
        } else {
            whole.extend_from_slice(payload);
            &whole
        };
        let mut taken = 0;
        while let Some((said, length)) = find(&bytes[taken..])? {
            taken += length;
            match said {
                Said::Message { payload, .. } => {
                    let digits = payload.get(..DIGITS).unwrap_or_default();
                    let digit = |sum, digit: &u8| sum * 10 + u64::from(digit & 15);
                    let number = digits.iter().fold(0, digit);
                    hall.deliver(self.position, number);
                    self.position = number;
                }
                Said::Ping => drop(put_text(out, b"PONG\r\n")),
                Said::Pong | Said::Noise => {}
                Said::Error(why) => return Err(refused(why)),
            }
        }
        self.rest.extend_from_slice(&bytes[taken..]);
        Ok(())
    }
}

/// The connection that publishes.
struct Publisher<'a> {
    run: &'a Run,
    hall: &'a RefCell<Hall>,
    pipe: Pipe,
    operation: Template,
    in_flight: u64,
    sent: u64,
}

impl<'a> Publisher<'a> {
    async fn open(room: &Room, run: &'a Run, hall: &'a RefCell<Hall>) -> io::Result<Publisher<'a>> {
        let mut pipe = Pipe::connect(&room.address).await?;
        pipe.write(HELLO.as_bytes()).await?;
        let text = Random::new(run.seed).text(room.size.saturating_sub(DIGITS));
        let size = text.len() + DIGITS;
        Ok(Publisher {
            run,
            hall,
            pipe,
            operation: Template::new(format!("PUB {SUBJECT} {size}\r\n{NUMBER}{text}\r\n")),
            in_flight: room.in_flight.clamp(1, WAY as u64 / 2),
            sent: 0,
        })
    }

    /// Keeps the window full until the run ends or something fails, then waits until all is delivered.
    async fn work(&mut self) -> io::Result<()> {
        let moved = Rc::clone(&self.hall.borrow().moved);
        let (mut out, mut until) = (Vec::new(), None);
        loop {
            let (minimum, failed) = {
                let hall = self.hall.borrow();
                (hall.minimum, !hall.faults.is_empty())
            };
            let is_ending = self.run.phase() == Phase::Ending;
            if failed || is_ending && minimum == self.sent {
                return Ok(());
            }
            while !is_ending && self.sent - minimum < self.in_flight {
                self.sent += 1;
                self.operation.stamp(&mut out, &[self.sent]);
            }
            self.pipe.write(&out).await?;
            out.clear();
            let patience =
                is_ending.then(|| *until.get_or_insert_with(|| Instant::now() + PATIENCE));
            if patience.is_some_and(|until| Instant::now() >= until) {
                let fault = format!("{} are sent, and one subscriber has {minimum}", self.sent);
                self.hall.borrow_mut().fault(fault);
                return Ok(());
            }
            tokio::select! {
                () = moved.notified() => {}
                () = self.run.ended(), if !is_ending => {}
                () = tokio::time::sleep(Duration::from_secs(1)), if is_ending => {}
                more = self.pipe.more() => more?,
            }
            self.answer(&mut out)?;
        }
    }

    /// Answers the server's pings.
    fn answer(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while let Some((said, length)) = find(self.pipe.bytes())? {
            match said {
                Said::Error(why) => return Err(refused(why)),
                Said::Ping => out.extend_from_slice(b"PONG\r\n"),
                _ => {}
            }
            self.pipe.take(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_counted_in_frames_that_cut_them() {
        let mut hall = Hall::new(1);
        let stream = b"PING\r\nMSG room 1 11\r\n000000001xx\r\nMSG room 1 11\r\n000000002xx\r\n";
        for cut in 1..stream.len() {
            hall = Hall::new(1);
            let (mut hearer, mut out) = (Hearer::default(), Vec::new());
            for part in [&stream[..cut], &stream[cut..]] {
                hearer.hear(part, &mut out, &mut hall).expect("legal");
            }
            assert_eq!((hall.deliveries, hall.minimum, hearer.position), (2, 2, 2));
            assert!(hearer.rest.is_empty() && hall.faults.is_empty());
        }
        hall.deliver(2, 4);
        assert_eq!(hall.faults, ["message 4 after 2"]);
    }

    #[test]
    fn all_have_a_message_when_the_last_one_got_it() {
        let mut hall = Hall::new(2);
        hall.deliver(0, 1);
        hall.deliver(1, 2);
        assert_eq!((hall.minimum, hall.deliveries), (0, 2));
        hall.deliver(0, 1);
        assert_eq!(hall.minimum, 1);
        hall.deliver(1, 2);
        assert_eq!((hall.minimum, hall.deliveries), (2, 4));
    }
}
