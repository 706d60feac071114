//! One user: a connection that is subscribed to its timelines, and sends when it is told to.
//!
//! Owns: the connection and its positions. Promises: it reads all the time, so that the server is never the one who
//! waits. Must not: decide what is sent.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::board::{Board, Follows};
use crate::checks::Follower;
use crate::frame::Lean;
use crate::request::{Answer, Subscribed, put_request};

/// Subscribes on the way at a time, below the server's limit of requests in flight.
const SUBSCRIBES_MAX: usize = 100;

/// Where a user finds what it shall send.
#[derive(Default)]
pub(super) struct Desk {
    frames: RefCell<Vec<u8>>,
    news: Notify,
}

impl Desk {
    /// Sends a message, soon.
    pub(super) fn append(&self, id: u64, params: &serde_json::Value) {
        put_request(&mut self.frames.borrow_mut(), id, "message.append", params);
        self.news.notify_one();
    }
}

/// A user that is subscribed.
pub(super) struct User {
    socket: Lean,
    follows: Follows,
}

impl User {
    /// Connects, and subscribes before the first message of any timeline.
    pub(super) async fn open(board: &Board, timelines: &[usize]) -> io::Result<User> {
        let mut socket = Lean::open(&board.run.url).await?;
        for part in timelines.chunks(SUBSCRIBES_MAX) {
            let mut out = Vec::new();
            for timeline in part {
                let params = json!({ "timeline": board.name(*timeline), "after": 0 });
                put_request(&mut out, *timeline as u64, "subscribe", &params);
            }
            socket.write(&out).await?;
            let (mut answers, mut failed) = (0, None);
            while answers < part.len() {
                let read = socket.read(|text| {
                    let answer = Answer::read(text);
                    let result = answer.as_ref().map(Answer::result::<Subscribed>);
                    match (answer, result) {
                        (Some(answer), Some(Ok(result))) => {
                            board.subscribed(answer.id as usize, &result.epoch, result.head);
                            answers += 1;
                        }
                        (_, Some(Err(why))) => failed = Some(why),
                        _ => failed = Some("a push before the first message".to_owned()),
                    }
                });
                read.await?;
                if let Some(why) = failed.take() {
                    return Err(io::Error::other(format!("subscribe: {why}")));
                }
            }
        }
        let follow = |timeline: &usize| (*timeline, Follower::default());
        let follows = timelines.iter().map(follow).collect();
        Ok(User { socket, follows })
    }

    /// Reads and sends until it is aborted. Losing the connection is a fault.
    pub(super) async fn live(self, desk: Rc<Desk>, board: Rc<Board>, number: usize) {
        let User {
            mut socket,
            mut follows,
        } = self;
        let mut out = Vec::new();
        loop {
            out.append(&mut desk.frames.borrow_mut());
            let mut now = None;
            let read = tokio::select! {
                read = socket.exchange(&mut out, |text| {
                    let now = *now.get_or_insert_with(Instant::now);
                    board.take(text, now, &mut follows);
                }) => read,
                () = desk.news.notified() => Ok(()),
            };
            if let Err(error) = read {
                let checks = &board.run.checks;
                checks.fault(format_args!("user {number} lost its connection: {error}"));
                return board.run.end_early();
            }
        }
    }
}
