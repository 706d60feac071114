//! A room on NATS: one publisher over TCP, subscribers over the WebSocket listener, all on one thread.
//!
//! Owns: the closed loop of `room`, spoken in NATS' language: at most so many messages have not reached everybody.
//! Promises: every subscriber gets every message once and in order, or it is a fault; reading a delivery costs what it
//! costs in Tideline's `room`: frames from the same shared buffer, numbers compared, nothing copied. Must not: measure
//! Tideline.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::nats::{HELLO, Said, find, refused};
use super::programs::Program;
use super::table::Figures;
use crate::exit::Stop;
use crate::frame::{put_text, streamed, upgrade};
use crate::machine::{cpu_seconds, thread_cpu_seconds};
use crate::pipe::Pipe;
use crate::random::Random;
use crate::template::{DIGITS, digits};

/// Messages that may not have reached everybody are told apart by their numbers modulo this.
const WAY: usize = 1 << 12;
/// So many connections are opened at a time.
const WAVE: usize = 64;
/// How long the last message may take to everybody.
const PATIENCE: Duration = Duration::from_secs(30);

/// The load of a room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) subscribers: usize,
    pub(super) in_flight: u64,
    pub(super) size: usize,
    pub(super) seed: u64,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

/// What all connections share.
struct Hall {
    subscribers: usize,
    /// How many have got message n, at n modulo `WAY`.
    got: Vec<usize>,
    /// Everybody has everything up to here.
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
            // In order for each: whoever has this one has all before.
            self.minimum = number;
            self.moved.notify_one();
        }
    }
}

/// Measures; returns the figures (deliveries per second) and faults.
pub(super) async fn run(program: &Program, plan: &Plan) -> Result<(Figures, Vec<String>), Stop> {
    let lost = |error: io::Error| Stop::Unreachable(format!("NATS: {error}"));
    let hall = Rc::new(RefCell::new(Hall::new(plan.subscribers)));
    let url = format!("ws://{}/", program.socket);
    let mut sockets = Vec::with_capacity(plan.subscribers);
    while sockets.len() < plan.subscribers {
        let wave = (plan.subscribers - sockets.len()).min(WAVE);
        for opened in join_all((0..wave).map(|_| subscribe(&url))).await {
            sockets.push(opened.map_err(lost)?);
        }
    }
    let mut publisher = Publisher::open(&program.address, plan)
        .await
        .map_err(lost)?;
    let local = LocalSet::new();
    for pipe in sockets {
        local.spawn_local(follow(pipe, Rc::clone(&hall)));
    }
    let measuring = async {
        publisher.until(&hall, plan.warm_up).await?;
        let look = || (thread_cpu_seconds(), cpu_seconds(program.pid()));
        let (before, began, used) = (hall.borrow().deliveries, Instant::now(), look());
        publisher.until(&hall, plan.measured).await?;
        let (seconds, after) = (began.elapsed().as_secs_f64(), look());
        let rate = (hall.borrow().deliveries - before) as f64 / seconds;
        publisher.finish(&hall).await?;
        let server = used.1.zip(after.1).map(|(a, b)| (b - a) / seconds);
        io::Result::Ok(Figures {
            value: rate,
            per_second: Some(rate),
            generator_cpu: Some((after.0 - used.0) / seconds),
            server_cpu: server,
            ..Figures::default()
        })
    };
    let figures = local.run_until(measuring).await.map_err(lost)?;
    let faults = std::mem::take(&mut hall.borrow_mut().faults);
    Ok((figures, faults))
}

/// The subject of all messages.
const SUBJECT: &str = "room";

/// One connection over WebSocket, subscribed.
async fn subscribe(url: &str) -> io::Result<Pipe> {
    let mut pipe = upgrade(url).await?;
    let mut out = Vec::new();
    let first = format!("SUB {SUBJECT} 1\r\nPING\r\n");
    put_text(&mut out, &[HELLO, first.as_bytes()].concat());
    pipe.write(&out).await?;
    // The server's PONG says that the subscription stands.
    let mut stream = Vec::new();
    loop {
        let taken = streamed(pipe.bytes(), |payload| stream.extend_from_slice(payload))?;
        pipe.take(taken);
        while let Some((said, length)) = find(&stream)? {
            let pong = said == Said::Pong;
            stream.drain(..length);
            if pong {
                return Ok(pipe);
            }
        }
        pipe.more().await?;
    }
}

/// One subscriber, until its connection ends with the run.
async fn follow(mut pipe: Pipe, hall: Rc<RefCell<Hall>>) {
    let mut position = 0;
    let (mut rest, mut out) = (Vec::new(), Vec::new());
    loop {
        let heard = poll_fn(|context| {
            pipe.poll_feed(context, |bytes| {
                let mut hall = hall.borrow_mut();
                let mut wrong = Ok(());
                let taken = streamed(bytes, |payload| {
                    let read = hear(payload, &mut rest, &mut out, &mut position, &mut hall);
                    if let Err(error) = read {
                        wrong = Err(error);
                    }
                })?;
                wrong.map(|()| taken)
            })
        });
        let mut heard = heard.await;
        if heard.is_ok() && !out.is_empty() {
            heard = pipe.write(&out).await;
            out.clear();
        }
        if let Err(error) = heard {
            return hall.borrow_mut().fault(format!("a subscriber: {error}"));
        }
    }
}

/// Takes the operations of a frame; what one leaves unfinished waits in `rest` for the next.
fn hear(
    payload: &[u8],
    rest: &mut Vec<u8>,
    out: &mut Vec<u8>,
    position: &mut u64,
    hall: &mut Hall,
) -> io::Result<()> {
    let whole;
    let bytes = if rest.is_empty() {
        payload
    } else {
        rest.extend_from_slice(payload);
        whole = std::mem::take(rest);
        &whole
    };
    let mut taken = 0;
    while let Some((said, length)) = find(&bytes[taken..])? {
        taken += length;
        match said {
            Said::Message { payload, .. } => {
                let number = payload.get(..DIGITS).unwrap_or_default();
                let number = number
                    .iter()
                    .fold(0, |sum, digit| sum * 10 + u64::from(digit & 15));
                hall.deliver(*position, number);
                *position = number;
            }
            Said::Ping => {
                put_text(out, b"PONG\r\n");
            }
            Said::Pong | Said::Noise => {}
            Said::Error(why) => return Err(refused(why)),
        }
    }
    rest.extend_from_slice(&bytes[taken..]);
    Ok(())
}

/// The one who publishes.
struct Publisher {
    pipe: Pipe,
    operation: Vec<u8>,
    number_at: usize,
    in_flight: u64,
    sent: u64,
}

impl Publisher {
    async fn open(address: &str, plan: &Plan) -> io::Result<Publisher> {
        let mut pipe = Pipe::connect(address).await?;
        pipe.write(HELLO).await?;
        let head = format!("PUB {SUBJECT} {}\r\n", plan.size.max(DIGITS));
        let text = Random::new(plan.seed).text(plan.size.saturating_sub(DIGITS));
        Ok(Publisher {
            pipe,
            number_at: head.len(),
            operation: format!("{head}{:0DIGITS$}{text}\r\n", 0).into_bytes(),
            in_flight: plan.in_flight.clamp(1, WAY as u64 / 2),
            sent: 0,
        })
    }

    /// Keeps the window full for this long, or until something fails.
    async fn until(&mut self, hall: &RefCell<Hall>, time: Duration) -> io::Result<()> {
        let until = tokio::time::Instant::now() + time;
        let moved = Rc::clone(&hall.borrow().moved);
        let mut out = Vec::new();
        while tokio::time::Instant::now() < until && hall.borrow().faults.is_empty() {
            let minimum = hall.borrow().minimum;
            while self.sent - minimum < self.in_flight {
                self.sent += 1;
                let base = out.len() + self.number_at;
                out.extend_from_slice(&self.operation);
                digits(&mut out[base..base + DIGITS], self.sent);
            }
            if !out.is_empty() {
                self.pipe.write(&out).await?;
                out.clear();
            }
            self.wait(&moved, until).await?;
        }
        Ok(())
    }

    /// Waits until everybody has everything.
    async fn finish(&mut self, hall: &RefCell<Hall>) -> io::Result<()> {
        let until = tokio::time::Instant::now() + PATIENCE;
        let moved = Rc::clone(&hall.borrow().moved);
        while hall.borrow().minimum < self.sent && hall.borrow().faults.is_empty() {
            if tokio::time::Instant::now() >= until {
                let (sent, minimum) = (self.sent, hall.borrow().minimum);
                let fault = format!("{sent} are sent, and one subscriber has {minimum}");
                hall.borrow_mut().fault(fault);
            }
            self.wait(&moved, until).await?;
        }
        Ok(())
    }

    /// Waits for subscribers or the time, and answers the server's pings.
    async fn wait(&mut self, moved: &Notify, until: tokio::time::Instant) -> io::Result<()> {
        tokio::select! {
            () = moved.notified() => return Ok(()),
            () = tokio::time::sleep_until(until) => return Ok(()),
            more = self.pipe.more() => more?,
        }
        while let Some((said, length)) = find(self.pipe.bytes())? {
            let ping = match said {
                Said::Error(why) => return Err(refused(why)),
                other => other == Said::Ping,
            };
            self.pipe.take(length);
            if ping {
                self.pipe.write(b"PONG\r\n").await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_counted_over_frames_that_cut_them() {
        let mut hall = Hall::new(1);
        let stream = b"PING\r\nMSG room 1 11\r\n000000001xx\r\nMSG room 1 11\r\n000000002xx\r\n";
        for cut in 1..stream.len() {
            hall = Hall::new(1);
            let (mut rest, mut out, mut position) = (Vec::new(), Vec::new(), 0);
            for part in [&stream[..cut], &stream[cut..]] {
                let heard = hear(part, &mut rest, &mut out, &mut position, &mut hall);
                heard.expect("legal");
            }
            assert_eq!((hall.deliveries, hall.minimum, position), (2, 2, 2));
            assert!(rest.is_empty() && hall.faults.is_empty());
        }
        hall.deliver(2, 4);
        assert_eq!(hall.faults, ["message 4 after 2"]);
    }

    #[test]
    fn everybody_has_a_message_when_the_last_one_got_it() {
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
