//! The subscribers of a room: many connections on one thread, each a position.
//!
//! Owns: what each subscriber has, and the latency of each delivery. Promises: every push begins right behind the
//! subscriber's position, or it is a fault; one push in 64 is parsed whole and compared with what was sent. Must not:
//! cost much: it shares the machine with the server.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::Subject;
use super::board::{Board, WAY_MAX};
use crate::exit::Stop;
use crate::frame::{Lean, put_text};
use crate::push::{self, Messages, Push};
use crate::recorder::{Counts, Recorded, Recorder, Window};
use crate::rpc::{CallError, Incoming, decode, read, request};

/// Of so many pushes one is parsed whole.
const SAMPLE: u64 = 64;
/// So many connections are opened at a time.
const WAVE: usize = 64;

/// What a thread's subscribers heard.
pub(super) struct Heard {
    /// Latency of each measured delivery.
    pub(super) recorded: Recorded,
    /// Pushes that came.
    pub(super) pushes: u64,
    /// Of these parsed whole.
    pub(super) parsed: u64,
}

/// One thread of subscribers.
pub(super) struct Listener {
    pub(super) lane: usize,
    pub(super) subscribers: usize,
    pub(super) counts: Counts,
    pub(super) subject: Arc<Subject>,
    pub(super) board: Arc<Board>,
    /// Told when all are subscribed.
    pub(super) ready: oneshot::Sender<Result<(), Stop>>,
    /// Turns true at the end.
    pub(super) end: watch::Receiver<bool>,
}

impl Listener {
    /// Starts the thread. It ends with `end`.
    pub(super) fn start(self) -> Result<JoinHandle<Heard>, Stop> {
        let own = |error: std::io::Error| Stop::Own(format!("a listeners' thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(own)?;
        std::thread::Builder::new()
            .name(format!("room-{}", self.lane))
            .spawn(move || runtime.block_on(LocalSet::new().run_until(self.listen())))
            .map_err(own)
    }

    async fn listen(self) -> Heard {
        let Listener {
            lane,
            subscribers,
            counts,
            subject,
            board,
            ready,
            mut end,
        } = self;
        let hall = Hall::new(lane, subscribers, Arc::clone(&subject), board, counts);
        let hall = Rc::new(RefCell::new(hall));
        match open(&subject, subscribers).await {
            Ok(sockets) => {
                for socket in sockets {
                    tokio::task::spawn_local(follow(socket, Rc::clone(&hall)));
                }
                // Errors mean that the publisher is gone, which `end` tells, too.
                let _ = ready.send(Ok(()));
                let _ = end.wait_for(|end| *end).await;
            }
            Err(stop) => {
                let _ = ready.send(Err(stop));
            }
        }
        hall.borrow().heard()
    }
}

async fn open(subject: &Subject, subscribers: usize) -> Result<Vec<Lean>, Stop> {
    let mut sockets = Vec::with_capacity(subscribers);
    while sockets.len() < subscribers {
        let wave = (subscribers - sockets.len()).min(WAVE);
        for opened in join_all((0..wave).map(|_| subscribe(subject))).await {
            sockets.push(opened.map_err(|error| Stop::Unreachable(error.to_string()))?);
        }
    }
    Ok(sockets)
}

#[derive(Deserialize)]
struct Subscribed {
    epoch: String,
    head: u64,
}

/// One connection, subscribed before the first message.
async fn subscribe(subject: &Subject) -> Result<Lean, CallError> {
    let lost = |error: std::io::Error| CallError::Lost(format!("a subscriber: {error}"));
    let mut socket = Lean::open(&subject.url).await.map_err(lost)?;
    let params = json!({ "timeline": subject.timeline, "after": 0, "epoch": subject.epoch });
    let mut frame = Vec::new();
    put_text(&mut frame, request(1, "subscribe", params)?.as_bytes());
    socket.write(&frame).await.map_err(lost)?;
    let mut reply = None;
    while reply.is_none() {
        let keep = |text: &[u8]| reply = Some(String::from_utf8_lossy(text).into_owned());
        socket.read(keep).await.map_err(lost)?;
    }
    match decode(&reply.unwrap_or_default())? {
        Incoming::Reply(_, result) => {
            let read: Subscribed = read(&result.map_err(CallError::Refused)?)?;
            if (read.head, &read.epoch) == (0, &subject.epoch) {
                return Ok(socket);
            }
            Err(CallError::Lost("a new timeline that is not empty".into()))
        }
        Incoming::Push(method, _) => Err(CallError::Lost(format!("{method} before the reply"))),
    }
}

/// One subscriber, until its connection ends.
async fn follow(mut socket: Lean, hall: Rc<RefCell<Hall>>) {
    let mut position = 0;
    loop {
        let mut now = None;
        let read = socket.read(|text| {
            let mut hall = hall.borrow_mut();
            let now = *now.get_or_insert_with(|| hall.look());
            hall.take(text, now, &mut position);
        });
        let read = read.await;
        let hall = hall.borrow();
        hall.publish();
        if let Err(error) = read {
            return hall.board.fault(format!(
                "a subscriber at {position} lost its connection: {error}"
            ));
        }
    }
}

/// What the thread's subscribers share.
struct Hall {
    lane: usize,
    subject: Arc<Subject>,
    board: Arc<Board>,
    window: Rc<Window>,
    recorder: Recorder,
    /// How many subscribers stand at position p, at p modulo `WAY_MAX`.
    standing: Vec<u32>,
    /// The lowest position where one stands.
    minimum: u64,
    deliveries: u64,
    pushes: u64,
    parsed: u64,
}

impl Hall {
    fn new(
        lane: usize,
        subscribers: usize,
        subject: Arc<Subject>,
        board: Arc<Board>,
        counts: Counts,
    ) -> Hall {
        let window = Rc::new(Window::default());
        let mut standing = vec![0; WAY_MAX as usize];
        standing[0] = u32::try_from(subscribers).unwrap_or(u32::MAX);
        Hall {
            lane,
            subject,
            board,
            recorder: Recorder::new("delivery", counts, Rc::clone(&window)),
            window,
            standing,
            minimum: 0,
            deliveries: 0,
            pushes: 0,
            parsed: 0,
        }
    }

    /// What time it is; also sees whether measuring began or ended.
    fn look(&self) -> Instant {
        let [began, ended] = self.board.window();
        if let Some(began) = began {
            self.window.begin(began);
        }
        if let Some(ended) = ended {
            self.window.end(ended);
        }
        Instant::now()
    }

    /// A text came for a subscriber.
    fn take(&mut self, text: &[u8], now: Instant, position: &mut u64) {
        self.pushes += 1;
        let fault = match push::read(text) {
            Push::Messages(messages)
                if messages.first == *position + 1
                    && messages.timeline == self.subject.timeline =>
            {
                let before = std::mem::replace(position, messages.last);
                let Messages { first, last, .. } = messages;
                self.step(before, first, last, now);
                if self.pushes.is_multiple_of(SAMPLE) {
                    self.parsed += 1;
                    self.subject.compare(text, first, last).err()
                } else {
                    None
                }
            }
            _ => Some("not what follows".to_owned()),
        };
        if let Some(fault) = fault {
            let text = String::from_utf8_lossy(text);
            self.board.fault(format!(
                "a subscriber at {position} got {text:.300}: {fault}"
            ));
        }
    }

    /// A subscriber goes from `before` to `last`.
    fn step(&mut self, before: u64, first: u64, last: u64, now: Instant) {
        let place = |position: u64| (position % WAY_MAX) as usize;
        self.standing[place(before)] -= 1;
        self.standing[place(last)] += 1;
        while self.standing[place(self.minimum)] == 0 {
            self.minimum += 1;
        }
        self.deliveries += last + 1 - first;
        // Messages that were sent together have one time: most pushes are one entry in the histogram.
        let mut number = first;
        while number <= last {
            let sent = self.board.stamped(number);
            let mut count = 1;
            while number + count <= last && self.board.stamped(number + count) == sent {
                count += 1;
            }
            let sent = self.board.instant(sent);
            self.recorder.record_many(sent, now, count);
            number += count;
        }
    }

    fn publish(&self) {
        self.board.reached(self.lane, self.minimum, self.deliveries);
    }

    fn heard(&self) -> Heard {
        self.look();
        Heard {
            recorded: self.recorder.recorded(),
            pushes: self.pushes,
            parsed: self.parsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::subject::message_id;

    fn hall(subscribers: usize) -> Hall {
        let subject = Subject::new("ws://x", "room", "e1", 4, 1);
        let board = Arc::new(Board::new(1));
        Hall::new(0, subscribers, Arc::new(subject), board, Counts::Ended)
    }

    fn push(subject: &Subject, first: u64, last: u64) -> String {
        let one = |k: u64| json!({ "sequence": k, "timestamp": 5, "message_id": message_id(k), "entry": subject.entry });
        let messages: Vec<_> = (first..=last).map(one).collect();
        json!({ "jsonrpc": "2.0", "method": "message", "params": {
            "timeline": "room", "epoch": "e1", "messages": messages, "head": last } })
        .to_string()
    }

    #[test]
    fn the_minimum_is_that_of_the_last_subscriber() {
        let mut hall = hall(2);
        let at = |hall: &Hall, micros| hall.board.instant(micros);
        hall.board.begin(at(&hall, 20));
        hall.board.end(at(&hall, 1_000_020));
        for number in 1..=3 {
            hall.board.stamp(number, 10);
        }
        hall.look();
        let (mut a, mut b) = (0, 0);
        let subject = Arc::clone(&hall.subject);
        let now = at(&hall, 15);
        hall.take(push(&subject, 1, 3).as_bytes(), now, &mut a);
        assert_eq!((a, hall.minimum), (3, 0));
        let now = at(&hall, 30);
        hall.take(push(&subject, 1, 1).as_bytes(), now, &mut b);
        assert_eq!((b, hall.minimum), (1, 1));
        hall.take(push(&subject, 2, 3).as_bytes(), now, &mut b);
        hall.publish();
        assert_eq!((hall.board.minimum(), hall.board.deliveries()), (3, 6));
        // What came before measuring began does not count.
        let recorded = hall.heard().recorded;
        assert_eq!((recorded.total.len(), recorded.total.max()), (3, 20));
        assert_eq!(recorded.series.count, [3]);
        assert!(!hall.board.failed());
    }

    #[test]
    fn a_gap_a_repetition_and_another_timeline_are_faults() {
        for (position, first, last) in [(0, 2, 2), (3, 3, 4), (3, 2, 3), (9, 1, 1)] {
            let mut hall = hall(1);
            let subject = Arc::clone(&hall.subject);
            let mut at = position;
            hall.take(
                push(&subject, first, last).as_bytes(),
                Instant::now(),
                &mut at,
            );
            assert!(hall.board.failed(), "{first}..={last} at {position}");
            assert_eq!(at, position);
        }
        let mut hall = hall(1);
        let text = push(&hall.subject, 1, 1).replace("room", "hall");
        hall.take(text.as_bytes(), Instant::now(), &mut 0);
        assert!(hall.board.failed());
    }

    #[test]
    fn a_parsed_push_must_be_what_was_sent() {
        let subject = Subject::new("ws://x", "room", "e1", 4, 1);
        let good = push(&subject, 3, 5);
        assert_eq!(subject.compare(good.as_bytes(), 3, 5), Ok(()));
        assert!(subject.compare(good.as_bytes(), 3, 6).is_err());
        let text = subject.entry["text"].as_str().expect("a text");
        for (from, to) in [("m-4", "m-5"), ("e1", "e2"), (text, "none")] {
            let bad = good.replacen(from, to, 1);
            assert!(subject.compare(bad.as_bytes(), 3, 5).is_err(), "{from}");
        }
    }
}
