//! Streams of server-sent events: many read one stream, a few connections POST into it.
//!
//! Owns: both halves, for Tideline's own events, its door for Durable Streams, and a server of that protocol. Promises:
//! every reader gets every message once, and each poster's in order, or it is a fault; in the closed loop a poster
//! sends its next message when everybody has the one before. Must not: parse events: a message is found by its mark.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use clap::ValueEnum;
use serde::Serialize;
use tideline_load::client::http;
use tideline_load::client::pipe::{Pipe, Way};
use tideline_load::client::template::{DIGITS, NUMBER, Template};
use tideline_load::exit::Stop;
use tideline_load::outcome::recorder::{Counts, Recorder};
use tideline_load::profile::{Profile, need_files};
use tideline_load::random::Random;
use tideline_load::run::{Better, Gaps, Phase, Run};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::posts::{host, post};

/// Who is spoken to, and how.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
enum Wire {
    /// Tideline's own: JSON-RPC by POST, `/v1/events`.
    Native,
    /// Durable Streams at Tideline.
    Door,
    /// Durable Streams at a server whose paths are its streams.
    Streams,
}

/// The load.
#[derive(clap::Args, Serialize)]
pub(crate) struct Events {
    /// Readers, each on a connection of its own.
    #[arg(long)]
    subscribers: u64,
    /// Connections that POST, one message at a time each.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=99))]
    posters: u64,
    /// Open loop: so many messages a second.
    #[arg(long)]
    rate: Option<f64>,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    wire: Wire,
}

/// Begins a message; no text of the load has it otherwise.
const MARK: u8 = b'#';
/// A message's number is its poster's times this, and one of the poster's own, from 1.
const OWN: u64 = 10_000_000;

impl Wire {
    fn path(self, stream: &str) -> String {
        match self {
            Wire::Native => format!("/v1/events?timeline={stream}&after=0"),
            Wire::Door => format!("/v1/stream/{stream}?offset=-1&live=sse"),
            Wire::Streams => format!("/{stream}?offset=-1&live=sse"),
        }
    }

    /// A request that appends, with the place of the message's number.
    fn append(self, host: &str, stream: &str, text: &str) -> String {
        let text = format!("#{NUMBER}{text}");
        match self {
            Wire::Native => {
                let call = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"message.append","params":{{"timeline":"{stream}","entry":{{"text":"{text}"}}}}}}"#
                );
                post(host, "/v1/rpc", "application/json", &call)
            }
            Wire::Door => post(host, &format!("/v1/stream/{stream}"), "text/plain", &text),
            Wire::Streams => post(host, &format!("/{stream}"), "text/plain", &text),
        }
    }
}

impl Profile for Events {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.subscribers)?;
        let host = host(&run.url);
        let lost = |error| Stop::Unreachable(format!("{host}: {error}"));
        let stream = format!("events-{}", run.tag);
        let text = Random::new(run.seed).text(self.size.saturating_sub(DIGITS + 1));
        let append = self.wire.append(host, &stream, &text);
        let make = match self.wire {
            Wire::Native => {
                let call = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"timeline.create","params":{{"timeline":"{stream}"}}}}"#
                );
                post(host, "/v1/rpc", "application/json", &call)
            }
            Wire::Door | Wire::Streams => {
                let path = self.wire.path(&stream);
                let path = path.split('?').next().unwrap_or_default();
                post(host, path, "text/plain", "").replacen("POST", "PUT", 1)
            }
        };
        let mut pipe = Pipe::connect(host, Way::Plain).await.map_err(lost)?;
        let made = http::ask(&mut pipe, make.as_bytes(), |answer| answer.status).await;
        let made = made.map_err(lost)?;
        if !matches!(made, 200 | 201) {
            return Err(Stop::Own(format!("{stream} can't be made: status {made}")));
        }
        let hall = Rc::new(Hall {
            run: Rc::clone(run),
            subscribers: self.subscribers,
            is_closed_loop: self.rate.is_none(),
            shown: self
                .rate
                .map(|_| run.recorder("delivery", Counts::Scheduled)),
            ready: Cell::default(),
            deliveries: Cell::default(),
            posters: (0..self.posters).map(|_| Poster::default()).collect(),
            due: RefCell::default(),
            news: Notify::new(),
        });
        let before = run.used("resident_bytes");
        let path = self.wire.path(&stream);
        let follow =
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n");
        for _ in 0..self.subscribers {
            let pipe = Pipe::connect(host, Way::Plain).await.map_err(lost)?;
            spawn_local(Rc::clone(&hall).read(pipe, follow.clone().into_bytes()));
        }
        let is_ready = || hall.ready.get() == self.subscribers;
        run.wait_for("readers", is_ready).await;
        for number in 0..self.posters as usize {
            let pipe = Pipe::connect(host, Way::Plain).await.map_err(lost)?;
            spawn_local(Rc::clone(&hall).write(pipe, number, Template::new(append.as_str())));
        }
        if let Some(rate) = self.rate {
            spawn_local(Rc::clone(&hall).keep_time(rate));
        }
        run.pass(run.setup.warm_up).await;
        run.begin().await;
        let from = hall.deliveries.get();
        run.pass(run.setup.seconds).await;
        let measured = hall.deliveries.get() - from;
        run.finish().await;
        run.rate("deliveries_per_second", measured);
        run.rate("messages_per_second", measured / self.subscribers);
        if let (Some(before), Some(after)) = (before, run.used("resident_bytes")) {
            let each = (after - before) / self.subscribers as f64;
            run.figure("bytes_per_connection", each, "bytes", Better::Lower);
        }
        let is_delivered = || hall.sent() * self.subscribers == hall.deliveries.get();
        run.wait_for("deliveries", is_delivered).await;
        run.checks.made("events read", hall.deliveries.get());
        Ok(())
    }
}

/// What all connections share.
struct Hall {
    run: Rc<Run>,
    subscribers: u64,
    is_closed_loop: bool,
    shown: Option<Rc<Recorder>>,
    /// Readers that were answered.
    ready: Cell<u64>,
    deliveries: Cell<u64>,
    posters: Vec<Poster>,
    /// When messages that are not sent yet were due, in the open loop.
    due: RefCell<VecDeque<Instant>>,
    news: Notify,
}

#[derive(Default)]
struct Poster {
    /// When each message was due.
    due: RefCell<Vec<Instant>>,
    /// Readers that have the newest one.
    reached: Cell<u64>,
    news: Notify,
}

impl Hall {
    fn sent(&self) -> u64 {
        let posters = self.posters.iter();
        posters.map(|poster| poster.due.borrow().len() as u64).sum()
    }

    /// Says what is due, until the run ends.
    async fn keep_time(self: Rc<Hall>, rate: f64) {
        let mut pace = self.run.pace(rate, Gaps::Fixed, 0);
        while self.run.phase() != Phase::Ending {
            tokio::select! {
                () = pace.wait() => {}
                () = self.run.ended() => {}
            }
            while let Some(at) = pace.due(Instant::now()) {
                self.due.borrow_mut().push_back(at);
                self.news.notify_one();
            }
        }
    }

    /// When a poster's next message is due; `None` at the end.
    async fn next(&self) -> Option<Instant> {
        loop {
            if self.run.phase() == Phase::Ending {
                return None;
            }
            if self.is_closed_loop {
                return Some(Instant::now());
            }
            if let Some(at) = self.due.borrow_mut().pop_front() {
                return Some(at);
            }
            tokio::select! {
                () = self.news.notified() => {}
                () = self.run.ended() => {}
            }
        }
    }

    /// A poster, until the run ends.
    async fn write(self: Rc<Hall>, mut pipe: Pipe, number: usize, message: Template) {
        let poster = &self.posters[number];
        while let Some(due) = self.next().await {
            poster.due.borrow_mut().push(due);
            poster.reached.set(0);
            let own = poster.due.borrow().len() as u64;
            let mut request = Vec::new();
            message.stamp(&mut request, &[number as u64 * OWN + own]);
            // A refusal of JSON-RPC comes with status 200.
            let is_stored = http::ask(&mut pipe, &request, |answer| {
                answer.status < 300 && memchr::memmem::find(answer.body, b"\"error\"").is_none()
            });
            match is_stored.await {
                Ok(true) => {}
                Ok(false) => return self.run.fault("a message was refused"),
                Err(error) => return self.run.fault(&format!("a poster: {error}")),
            }
            while self.is_closed_loop && poster.reached.get() < self.subscribers {
                tokio::select! {
                    () = poster.news.notified() => {}
                    () = self.run.ended() => return,
                }
            }
        }
    }

    /// A reader, until its connection ends with the run.
    async fn read(self: Rc<Hall>, mut pipe: Pipe, mut out: Vec<u8>) {
        let (mut is_answered, mut places) = (false, vec![0; self.posters.len()]);
        loop {
            let exchanged = pipe.exchange(&mut out, |bytes, _| {
                if is_answered {
                    return Ok(self.take(bytes, &mut places));
                }
                let Some((answer, length)) = http::Answer::head(bytes)? else {
                    return Ok(0);
                };
                if answer.status != 200 {
                    self.run
                        .fault(&format!("a reader: status {}", answer.status));
                }
                is_answered = true;
                self.ready.update(|ready| ready + 1);
                Ok(length)
            });
            if let Err(error) = exchanged.await {
                return self.run.fault(&format!("a reader: {error}"));
            }
        }
    }

    /// Takes the messages in some bytes, and says how many bytes are done with. `places`: the reader's, by poster.
    fn take(&self, bytes: &[u8], places: &mut [u64]) -> usize {
        let (now, mut at) = (Instant::now(), 0);
        while let Some(found) = memchr::memchr(MARK, &bytes[at..]) {
            let start = at + found + 1;
            let Some(digits) = bytes.get(start..start + DIGITS) else {
                return start - 1;
            };
            let digit = |sum, digit: &u8| sum * 10 + u64::from(digit & 15);
            let number = digits.iter().fold(0, digit);
            self.deliver(number, places, now);
            at = start + DIGITS;
        }
        bytes.len()
    }

    /// A message has come to one more.
    fn deliver(&self, number: u64, places: &mut [u64], now: Instant) {
        let (of, own) = ((number / OWN) as usize, number % OWN);
        let due = self.posters.get(of).and_then(|poster| {
            let due = poster.due.borrow();
            due.get((own as usize).wrapping_sub(1)).copied()
        });
        let Some(due) = due.filter(|_| own == places[of] + 1) else {
            return self
                .run
                .fault(&format!("message {number}, which was not next"));
        };
        places[of] = own;
        self.deliveries.update(|count| count + 1);
        if let Some(shown) = &self.shown {
            shown.record(due, now);
        }
        let poster = &self.posters[of];
        if own == poster.due.borrow().len() as u64 {
            poster.reached.update(|reached| reached + 1);
            if poster.reached.get() == self.subscribers {
                poster.news.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tideline_load::run::setup::Setup;

    use super::*;

    fn hall() -> Hall {
        let setup = Setup::parse_from(["test", "--quiet"]);
        let hall = Hall {
            run: Run::new(&setup, "ws://nowhere".into(), None),
            subscribers: 1,
            is_closed_loop: true,
            shown: None,
            ready: Cell::default(),
            deliveries: Cell::default(),
            posters: vec![Poster::default(), Poster::default()],
            due: RefCell::default(),
            news: Notify::new(),
        };
        for poster in &hall.posters {
            poster.due.borrow_mut().extend([Instant::now(); 2]);
        }
        hall
    }

    #[test]
    fn messages_are_found_wherever_bytes_are_cut_and_what_is_not_next_is_a_fault() {
        let stream = b"event: data\ndata: #000000001xx#010000001x\n\ndata: #000000002x\n\n";
        for cut in 0..stream.len() {
            let (hall, mut places) = (hall(), vec![0; 2]);
            let taken = hall.take(&stream[..cut], &mut places);
            hall.take(&stream[taken..], &mut places);
            assert_eq!((hall.deliveries.get(), &places[..]), (3, &[2, 1][..]));
            assert_eq!(hall.run.checks.faults(), 0);
        }
        for odd in [
            "#000000002",
            "#000000001#000000001",
            "#010000003",
            "#020000001",
            "#000000000",
        ] {
            let hall = hall();
            hall.take(odd.as_bytes(), &mut [0; 2]);
            assert_eq!(hall.run.checks.faults(), 1, "{odd}");
        }
    }

    #[test]
    fn requests_are_those_of_each_protocol() {
        let native = Wire::Native.append("a:1", "s", "hi");
        assert!(native.starts_with(
            "POST /v1/rpc HTTP/1.1\r\nhost: a:1\r\ncontent-type: application/json\r\n"
        ));
        let door = Wire::Door.append("a:1", "s", "hi");
        assert!(door.starts_with("POST /v1/stream/s HTTP/1.1\r\nhost: a:1\r\ncontent-type: text/plain\r\ncontent-length: 12\r\n"));
        assert!(
            Wire::Streams
                .append("a:1", "s", "hi")
                .starts_with("POST /s HTTP/1.1\r\n")
        );
    }
}
