//! A room on NATS: one publisher and its subscribers over the WebSocket listener, all on one thread.
//!
//! Owns: the closed loop of the load tool's `room`, spoken in NATS' language: at most so many messages have not reached
//! every subscriber. Promises: every subscriber gets every message once and in order, or it is a fault; reading a
//! delivery costs what it costs in `room`: frames from the same shared buffer, numbers compared, nothing copied. Must
//! not: measure Tideline.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tideline_load::exit::Stop;
use tideline_load::frame::{put_text, streamed, upgrade};
use tideline_load::pipe::Pipe;
use tideline_load::profile::{Profile, need_files};
use tideline_load::random::Random;
use tideline_load::run::{Phase, Run};
use tideline_load::setup::Setup;
use tideline_load::template::{DIGITS, NUMBER, Template};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::nats::{HELLO, PONG, Said, find};

/// Messages that may not have reached every subscriber are told apart by their numbers modulo this.
const WAY: usize = 1 << 12;
/// How long nothing may happen while something is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The subject of all messages.
const SUBJECT: &str = "room";

/// The load of a room.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Room {
    #[command(flatten)]
    #[serde(flatten)]
    setup: Setup,
    #[arg(long)]
    subscribers: usize,
    #[arg(long)]
    in_flight: u64,
    #[arg(long)]
    size: usize,
}

impl Profile for Room {
    const NAME: &'static str = "room";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.subscribers as u64)?;
        let hall = Rc::new(Hall::new(run, self.subscribers));
        let lost = |error: io::Error| Stop::Unreachable(format!("NATS: {error}"));
        for _ in 0..self.subscribers {
            let pipe = upgrade(&run.url).await.map_err(lost)?;
            let mut subscriber = Client::new(pipe, &hall);
            subscriber.say(&format!("SUB {SUBJECT} 1\r\nPING\r\n"));
            spawn_local(subscriber.follow());
        }
        let pipe = upgrade(&run.url).await.map_err(lost)?;
        let mut publisher = Client::new(pipe, &hall);
        while hall.ready.get() < self.subscribers && run.checks.faults() == 0 {
            publisher.wait(true).await.map_err(lost)?;
        }
        let publishing = async {
            let worked = self.publish(&mut publisher).await;
            // After an error nothing is left to measure.
            run.end_early();
            worked
        };
        let measuring = async {
            run.pass(self.setup.warm_up).await;
            run.begin().await;
            let before = hall.deliveries.get();
            run.pass(self.setup.seconds).await;
            let measured = hall.deliveries.get() - before;
            run.finish().await;
            run.rate("deliveries_per_second", measured);
        };
        let (worked, ()) = tokio::join!(publishing, measuring);
        worked.map_err(lost)
    }
}

impl Room {
    /// Keeps the window full until the run ends or something fails, then waits until all is delivered.
    async fn publish(&self, client: &mut Client) -> io::Result<()> {
        let hall = Rc::clone(&client.hall);
        let text = Random::new(hall.run.seed).text(self.size.saturating_sub(DIGITS));
        let size = text.len() + DIGITS;
        let operation = format!("PUB {SUBJECT} {size}\r\n{NUMBER}{text}\r\n");
        let (operation, mut sent) = (Template::framed(&operation), 0);
        let most = self.in_flight.clamp(1, WAY as u64 / 2);
        loop {
            let (minimum, is_ending) = (hall.minimum.get(), hall.run.phase() == Phase::Ending);
            if hall.run.checks.faults() > 0 || is_ending && minimum == sent {
                return Ok(());
            }
            while !is_ending && sent - minimum < most {
                sent += 1;
                operation.stamp(&mut client.out, &[sent]);
            }
            client.wait(is_ending).await?;
        }
    }
}

/// What all connections share.
struct Hall {
    run: Rc<Run>,
    subscribers: usize,
    /// How many are subscribed.
    ready: Cell<usize>,
    /// How many have got message n, at n modulo `WAY`.
    got: RefCell<Vec<usize>>,
    /// Every subscriber has everything up to here.
    minimum: Cell<u64>,
    deliveries: Cell<u64>,
    moved: Notify,
}

impl Hall {
    fn new(run: &Rc<Run>, subscribers: usize) -> Hall {
        Hall {
            run: Rc::clone(run),
            subscribers,
            ready: Cell::default(),
            got: RefCell::new(vec![0; WAY]),
            minimum: Cell::default(),
            deliveries: Cell::default(),
            moved: Notify::new(),
        }
    }

    fn fault(&self, what: &str) {
        self.run.checks.fault(what);
        self.moved.notify_one();
    }

    /// A subscriber whose position was `before` got message `number`.
    fn deliver(&self, before: u64, number: u64) {
        if number != before + 1 {
            return self.fault(&format!("message {number} after {before}"));
        }
        self.deliveries.set(self.deliveries.get() + 1);
        let got = &mut self.got.borrow_mut()[number as usize % WAY];
        *got += 1;
        if *got == self.subscribers {
            *got = 0;
            // Each gets them in order: one that has this message has all before it.
            self.minimum.set(number);
            self.moved.notify_one();
        }
    }
}

/// One connection.
struct Client {
    pipe: Pipe,
    out: Vec<u8>,
    hall: Rc<Hall>,
    heard: Heard,
}

/// What one connection has heard.
#[derive(Default)]
struct Heard {
    position: u64,
    /// An operation whose end the next frame brings.
    rest: Vec<u8>,
}

impl Client {
    fn new(pipe: Pipe, hall: &Rc<Hall>) -> Client {
        let (hall, heard) = (Rc::clone(hall), Heard::default());
        let mut out = Vec::new();
        put_text(&mut out, HELLO.as_bytes());
        Client {
            pipe,
            out,
            hall,
            heard,
        }
    }

    fn say(&mut self, operations: &str) {
        put_text(&mut self.out, operations.as_bytes());
    }

    /// Writes what there is to be written, and takes what comes. Cancel-safe.
    async fn exchange(&mut self) -> io::Result<()> {
        let Client {
            pipe,
            out,
            hall,
            heard,
        } = self;
        let exchanged = pipe.exchange(out, |bytes, out| {
            let mut wrong = Ok(());
            let taken = streamed(bytes, |payload| {
                let took = heard.take(payload, out, hall);
                wrong = std::mem::replace(&mut wrong, Ok(())).and(took);
            })?;
            wrong.map(|()| taken)
        });
        exchanged.await
    }

    /// A subscriber, until its connection ends with the run.
    async fn follow(mut self) {
        while let Err(error) = self.exchange().await.map_or_else(Err, |()| Ok(())) {
            return self.hall.fault(&format!("a subscriber: {error}"));
        }
    }

    /// Until something has moved; if it has to, nothing for long is a fault.
    async fn wait(&mut self, has_to: bool) -> io::Result<()> {
        let hall = Rc::clone(&self.hall);
        tokio::select! {
            () = hall.moved.notified() => {}
            () = hall.run.ended(), if !has_to => {}
            () = sleep(PATIENCE), if has_to => hall.fault("a subscriber got nothing for too long"),
            done = self.exchange() => done?,
        }
        Ok(())
    }
}

impl Heard {
    /// Takes the operations of a frame.
    fn take(&mut self, payload: &[u8], out: &mut Vec<u8>, hall: &Hall) -> io::Result<()> {
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
                Said::Message(_, payload) => {
                    let digits = payload.get(..DIGITS).unwrap_or_default();
                    let digit = |sum, digit: &u8| sum * 10 + u64::from(digit & 15);
                    let number = digits.iter().fold(0, digit);
                    hall.deliver(self.position, number);
                    self.position = number;
                }
                Said::Ping => drop(put_text(out, PONG)),
                Said::Pong => {
                    hall.ready.set(hall.ready.get() + 1);
                    hall.moved.notify_one();
                }
                Said::Noise => {}
            }
        }
        self.rest.extend_from_slice(&bytes[taken..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hall(subscribers: usize) -> Hall {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            setup: Setup,
        }
        let flags: Flags = clap::Parser::parse_from(["test", "--quiet"]);
        let run = Run::new(&flags.setup, "ws://nowhere".into(), None);
        Hall::new(&run, subscribers)
    }

    #[test]
    fn deliveries_are_counted_in_frames_that_cut_them() {
        let stream = b"PING\r\nMSG room 1 11\r\n000000001xx\r\nMSG room 1 11\r\n000000002xx\r\n";
        for cut in 1..stream.len() {
            let (hall, mut heard, mut out) = (hall(1), Heard::default(), Vec::new());
            for part in [&stream[..cut], &stream[cut..]] {
                heard.take(part, &mut out, &hall).expect("legal");
            }
            let seen = (hall.deliveries.get(), hall.minimum.get(), heard.position);
            assert_eq!(seen, (2, 2, 2));
            assert!(heard.rest.is_empty() && hall.run.checks.faults() == 0);
            assert!(!out.is_empty(), "the ping is answered");
            // A message that is lost is a fault.
            hall.deliver(2, 4);
            assert_eq!(hall.run.checks.faults(), 1);
        }
    }

    #[test]
    fn all_have_a_message_when_the_last_one_got_it() {
        let hall = hall(2);
        let seen = || (hall.minimum.get(), hall.deliveries.get());
        hall.deliver(0, 1);
        hall.deliver(1, 2);
        assert_eq!(seen(), (0, 2));
        hall.deliver(0, 1);
        assert_eq!(seen(), (1, 3));
        hall.deliver(1, 2);
        assert_eq!(seen(), (2, 4));
    }
}
