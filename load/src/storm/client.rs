//! One client of a storm: the timelines that it follows, how far it is in each, and its connection while it has one.
//!
//! Owns: positions and what may move them. Promises: every message, in a reply or a push, is the next one of its
//! timeline, of the epoch that stands, and has the entry that was sent; a resume is answered `ok`. Must not: connect
//! again by itself: one that is lost is a fault.

use std::borrow::Cow;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::board::Board;
use crate::checks::Follower;
use crate::frame::Lean;
use crate::random::Random;
use crate::request::put_request;
use crate::rpc::Refusal;

/// Who is not there within this is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the top.
pub(super) struct Client {
    board: Rc<Board>,
    pub(super) number: usize,
    places: Vec<Place>,
    socket: Option<Lean>,
}

/// One timeline of a client.
struct Place {
    timeline: u64,
    follower: Follower,
}

impl Client {
    pub(super) fn new(board: &Rc<Board>, number: usize, per_client: u64) -> Client {
        let mut random = Random::new(board.run.seed_of(number as u64));
        let mut places: Vec<Place> = Vec::new();
        while (places.len() as u64) < per_client {
            let timeline = random.below(board.timelines());
            if places.iter().all(|place| place.timeline != timeline) {
                let follower = Follower::default();
                places.push(Place { timeline, follower });
            }
        }
        Client {
            board: Rc::clone(board),
            number,
            places,
            socket: None,
        }
    }

    /// Gives the connection up, as a network does that is gone.
    pub(super) fn cut(&mut self) {
        self.socket = None;
    }

    /// Connects when a door is free, subscribes from its positions, and reads until it stands at every head.
    pub(super) async fn come(mut self, doors: Rc<Semaphore>) -> Client {
        let came = timeout(PATIENCE, self.try_come(&doors)).await;
        self.settle(came.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())));
        self
    }

    /// Reads on until it stands at every head.
    pub(super) async fn listen(mut self) -> Client {
        let heard = timeout(PATIENCE, self.read()).await;
        self.settle(heard.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())));
        self
    }

    async fn try_come(&mut self, doors: &Semaphore) -> io::Result<()> {
        let door = doors.acquire().await.map_err(io::Error::other)?;
        let from = Instant::now();
        let mut socket = Lean::open(&self.board.run.url).await?;
        drop(door);
        let connected = Instant::now();
        let mut out = Vec::new();
        for (number, place) in self.places.iter().enumerate() {
            let timeline = self.board.timeline(place.timeline);
            let (name, after) = (&timeline.name, place.follower.position);
            let params = match timeline.epoch() {
                Some(epoch) => json!({ "timeline": name, "after": after, "epoch": epoch }),
                None => json!({ "timeline": name, "after": after }),
            };
            put_request(&mut out, number as u64, "subscribe", &params);
        }
        socket.write(&out).await?;
        self.socket = Some(socket);
        self.read().await?;
        self.board.arrived(from, connected, Instant::now());
        Ok(())
    }

    async fn read(&mut self) -> io::Result<()> {
        let head = self.board.head();
        let Client {
            board,
            places,
            socket,
            ..
        } = self;
        let socket = socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut wrong = None;
        while places.iter().any(|place| place.follower.position < head) {
            let each = |text: &[u8]| {
                if let Err(fault) = take(board, places, text) {
                    wrong = Some(format!(
                        "{fault}, with {:.300}",
                        String::from_utf8_lossy(text)
                    ));
                }
            };
            socket.read(each).await?;
            if let Some(wrong) = wrong.take() {
                return Err(io::Error::other(wrong));
            }
        }
        Ok(())
    }

    fn settle(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            let number = self.number;
            self.socket = None;
            let checks = &self.board.run.checks;
            checks.fault(format_args!("client {number}: {error}"));
        }
    }

    /// Timelines in which it is not at the head.
    pub(super) fn missing(&self, board: &Board) -> Vec<String> {
        let away = |place: &&Place| place.follower.position != board.head();
        let tell = |place: &Place| {
            let name = &board.timeline(place.timeline).name;
            format!("{name} from {}", place.follower.position + 1)
        };
        self.places.iter().filter(away).map(tell).collect()
    }
}

/// A reply to a subscribe, or a push.
#[derive(Deserialize)]
struct Text<'a> {
    /// The place of the timeline; pushes have none.
    id: Option<usize>,
    #[serde(borrow)]
    result: Option<Carried<'a>>,
    #[serde(borrow)]
    params: Option<Carried<'a>>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Carried<'a> {
    #[serde(borrow)]
    timeline: Cow<'a, str>,
    #[serde(borrow)]
    epoch: Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    /// Only in replies.
    #[serde(borrow)]
    state: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    sequence: u64,
    #[serde(borrow)]
    entry: &'a RawValue,
}

/// A text came: moves the positions, or tells what is wrong with it.
fn take(board: &Board, places: &mut [Place], text: &[u8]) -> Result<(), String> {
    let text: Text = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let (carried, place) = match text {
        Text {
            error: Some(refusal),
            ..
        } => return Err(format!("refused: {} {}", refusal.code, refusal.data.reason)),
        Text {
            id: Some(id),
            result: Some(carried),
            ..
        } => {
            if carried.state.as_deref() != Some("ok") {
                return Err("a position that stands was refused".into());
            }
            (carried, places.get_mut(id))
        }
        Text {
            params: Some(carried),
            ..
        } => {
            let is_it =
                |place: &&mut Place| board.timeline(place.timeline).name == carried.timeline;
            let place = places.iter_mut().find(is_it);
            (carried, place)
        }
        _ => return Err("neither a reply nor a push of messages".into()),
    };
    let place = place.ok_or("of a timeline that it does not follow")?;
    let timeline = board.timeline(place.timeline);
    if timeline.name != carried.timeline || !timeline.stands(&carried.epoch) {
        return Err(format!("not {} in its epoch", timeline.name));
    }
    for message in &carried.messages {
        place.follower.take(message.sequence)?;
        if !same(message.entry, &board.entry) {
            return Err(format!("{} was not sent so", message.sequence));
        }
    }
    board.delivered(carried.messages.len() as u64);
    Ok(())
}

/// Whether an entry is what was sent, however it is written.
fn same(entry: &RawValue, sent: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    entry.get() == sent || parse(entry.get()) == parse(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use crate::setup;

    /// A client that has the first two messages of its only timeline.
    fn client() -> Client {
        let run = Run::new(&setup::plain(), "ws://x".into(), None);
        let board = Rc::new(Board::new(&run, "s/", 1, 8));
        assert!(board.timeline(0).stands("e1"));
        board.heads_are(4);
        let mut client = Client::new(&board, 0, 1);
        client.places[0].follower.position = 2;
        client
    }

    fn reply(client: &Client, sequences: &[u64], state: &str, epoch: &str) -> Value {
        let board = &client.board;
        let entry: Value = serde_json::from_str(&board.entry).expect("JSON");
        let one = |sequence: &u64| json!({ "sequence": sequence, "timestamp": 5, "message_id": "m", "entry": entry });
        let messages: Vec<Value> = sequences.iter().map(one).collect();
        json!({ "jsonrpc": "2.0", "id": 0, "result": { "timeline": board.timeline(0).name, "epoch": epoch, "floor": 1,
            "head": 4, "change_head": 0, "messages": messages, "more": false, "state": state } })
    }

    fn push(client: &Client, sequences: &[u64]) -> Value {
        let params = reply(client, sequences, "ok", "e1")["result"].take();
        json!({ "jsonrpc": "2.0", "method": "message", "params": params })
    }

    fn feed(client: &mut Client, text: &Value) -> Result<(), String> {
        let Client { board, places, .. } = client;
        take(board, places, text.to_string().as_bytes())
    }

    #[test]
    fn a_reply_and_a_push_lead_to_the_head() {
        let mut client = client();
        let text = reply(&client, &[3], "ok", "e1");
        assert_eq!(feed(&mut client, &text), Ok(()));
        assert_eq!(client.missing(&client.board).len(), 1);
        let text = push(&client, &[4]);
        assert_eq!(feed(&mut client, &text), Ok(()));
        assert!(client.missing(&client.board).is_empty());
    }

    #[test]
    fn a_planted_gap_repetition_state_epoch_or_entry_is_found() {
        let sequences: [&[u64]; 4] = [&[4], &[3, 5], &[2, 3], &[3, 3]];
        for sequences in sequences {
            let mut client = client();
            let text = reply(&client, sequences, "ok", "e1");
            assert!(feed(&mut client, &text).is_err(), "{sequences:?}");
            let text = push(&client, sequences);
            assert!(feed(&mut client, &text).is_err(), "{sequences:?}");
        }
        let mut client = client();
        for (state, epoch) in [("epoch_changed", "e1"), ("too_old", "e1"), ("ok", "e2")] {
            let text = reply(&client, &[3, 4], state, epoch);
            assert!(feed(&mut client, &text).is_err(), "{state} {epoch}");
        }
        let mut text = reply(&client, &[3, 4], "ok", "e1");
        text["result"]["messages"][1]["entry"] = json!({ "text": "other" });
        assert!(feed(&mut client, &text).is_err());
        let refused =
            json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": 503, "message": "m" } });
        assert!(feed(&mut client, &refused).is_err());
        assert!(
            feed(
                &mut client,
                &json!({ "jsonrpc": "2.0", "method": "draining" })
            )
            .is_err()
        );
    }

    #[test]
    fn a_client_that_is_not_at_the_head_is_a_fault_at_the_end() {
        let client = client();
        let board = Rc::clone(&client.board);
        board.close(&[client]);
        assert_eq!(board.run.checks.faults(), 1);
    }
}
