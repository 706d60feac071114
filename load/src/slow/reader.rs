//! One reader of `slow`: it reads all the time, stops until the server has closed it, or pauses again and again.
//!
//! Owns: a connection and its position. Promises: after any end it resumes from its position, and every message is
//! the one after the last. Must not: count as closed what it closed itself.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::board::Board;
use crate::checks::Follower;
use crate::frame::{Lean, close_code};
use crate::push;
use crate::request::{Answer, Subscribed, put_request};
use crate::run::Phase;

/// The server's code for who does not keep up.
const SLOW_CONSUMER: u16 = 4000;
/// Reading on, a stalled reader finds the end of its connection within this.
const READ_ON: Duration = Duration::from_secs(10);

/// When a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// All the time.
    Healthy,
    /// Not from when measuring begins until it is told.
    Stalled,
    /// With pauses of a third of the server's patience, which is this.
    Pausing(Duration),
}

/// A reader that is subscribed.
pub(super) struct Reader {
    board: Rc<Board>,
    number: usize,
    habit: Habit,
    receive_bytes: u32,
    socket: Lean,
    follower: Follower,
}

impl Reader {
    pub(super) async fn open(
        board: Rc<Board>,
        number: usize,
        habit: Habit,
        receive_bytes: u32,
    ) -> io::Result<Reader> {
        let url = &board.run.url;
        let socket = match habit {
            Habit::Healthy => Lean::open(url).await?,
            Habit::Stalled | Habit::Pausing(_) => Lean::open_narrow(url, receive_bytes).await?,
        };
        let mut reader = Reader {
            board,
            number,
            habit,
            receive_bytes,
            socket,
            follower: Follower::default(),
        };
        reader.subscribe().await?;
        reader.read().await?;
        Ok(reader)
    }

    /// Asks for what is behind the position; the answer is read like everything else.
    async fn subscribe(&mut self) -> io::Result<()> {
        let Board {
            timeline, epoch, ..
        } = &*self.board;
        let after = self.follower.position;
        let params = json!({ "timeline": timeline, "after": after, "epoch": epoch });
        let mut out = Vec::new();
        put_request(&mut out, 1, "subscribe", &params);
        self.socket.write(&out).await
    }

    /// A new connection that goes on from the position.
    async fn resume(&mut self) -> io::Result<()> {
        let url = &self.board.run.url;
        self.socket = match self.habit {
            Habit::Pausing(_) => Lean::open_narrow(url, self.receive_bytes).await?,
            Habit::Healthy | Habit::Stalled => Lean::open(url).await?,
        };
        self.subscribe().await
    }

    /// Reads once. Cancel-safe.
    async fn read(&mut self) -> io::Result<()> {
        let Reader {
            board,
            number,
            habit,
            socket,
            follower,
            ..
        } = self;
        let mut now = None;
        let read = socket.read(|text| {
            let now = *now.get_or_insert_with(Instant::now);
            let fresh = (*habit == Habit::Healthy).then_some(now);
            if let Err(fault) = take(board, *number, text, fresh, follower) {
                let text = String::from_utf8_lossy(text);
                let checks = &board.run.checks;
                checks.fault(format_args!("reader {number}: {fault}, with {text:.300}"));
            }
        });
        read.await
    }

    /// Lives by its habit, until it is aborted.
    pub(super) async fn live(mut self, mut stage: watch::Receiver<bool>) {
        let lived = match self.habit {
            Habit::Healthy => Ok(()),
            Habit::Stalled => self.stall(&mut stage).await,
            Habit::Pausing(patience) => self.pause(patience).await,
        };
        let ended = match lived {
            Ok(()) => self.read_on(None).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            let (run, number) = (&self.board.run, self.number);
            let position = self.follower.position;
            run.checks
                .fault(format_args!("reader {number} at {position}: {error}"));
            run.end_early();
        }
    }

    /// Reads until it has the message of this number, or for ever.
    async fn read_on(&mut self, to: Option<u64>) -> io::Result<()> {
        while to.is_none_or(|to| self.follower.position < to) {
            self.read().await?;
        }
        Ok(())
    }

    /// Reads for as long as the run warms up.
    async fn warm_up(&mut self) -> io::Result<()> {
        let run = Rc::clone(&self.board.run);
        while run.phase() == Phase::WarmingUp {
            // No message may come for long, and the phase changes by itself.
            if let Ok(read) = timeout(Duration::from_millis(20), self.read()).await {
                read?;
            }
        }
        Ok(())
    }

    /// Stops reading until it is told that the server has closed it, hears why, and resumes.
    async fn stall(&mut self, stage: &mut watch::Receiver<bool>) -> io::Result<()> {
        self.warm_up().await?;
        // Errors mean that the run is over.
        let _ = stage.wait_for(|woken| *woken).await;
        let board = Rc::clone(&self.board);
        match timeout(READ_ON, self.read_on(None)).await {
            Ok(Err(error)) => match close_code(&error) {
                Some(SLOW_CONSUMER) => board.ended(|ends| ends.told += 1),
                Some(_) => return Err(error),
                None => board.ended(|ends| ends.cut += 1),
            },
            // It reads on, on the same connection: that the server closed too few was told.
            Err(_) | Ok(Ok(())) => return Ok(()),
        }
        self.resume().await
    }

    /// Pauses again and again; what it missed comes when it reads again.
    async fn pause(&mut self, patience: Duration) -> io::Result<()> {
        self.warm_up().await?;
        let board = Rc::clone(&self.board);
        while board.run.phase() != Phase::Ending {
            let began = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(patience / 3) => {}
                () = board.run.ended() => {}
            }
            // What is not answered yet may never come, if the server refuses it.
            match self.read_on(Some(board.acked())).await {
                Ok(()) => board.ended(|ends| ends.pauses += 1),
                // On a machine that is too busy it overslept.
                Err(_) if began.elapsed() >= patience => {
                    board.ended(|ends| ends.pausing += 1);
                    self.resume().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A text came: the answer to a subscribe, or a push.
fn take(
    board: &Board,
    number: usize,
    text: &[u8],
    fresh: Option<Instant>,
    follower: &mut Follower,
) -> Result<(), String> {
    if let Some(answer) = Answer::read(text) {
        let subscribed: Subscribed = answer.result()?;
        if (subscribed.epoch.as_str(), subscribed.state.as_str()) != (&board.epoch, "ok") {
            return Err("a position that stands was refused".into());
        }
        for message in subscribed.messages {
            let sequence = message.sequence;
            follower.take(sequence)?;
            // What a resume brings was waited for by choice.
            board.delivered(number, sequence, sequence, None)?;
        }
        return Ok(());
    }
    match push::read(text) {
        Some(found) if found.in_order && found.timeline == board.timeline => {
            follower.take(found.first)?;
            follower.position = found.last;
            board.delivered(number, found.first, found.last, fresh)
        }
        _ => Err("not messages without hole".into()),
    }
}
