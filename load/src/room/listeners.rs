//! The subscribers of a room: many connections on one thread.
//!
//! Owns: the thread, and how far the last of its subscribers is. Promises: all are subscribed before it says that it is
//! ready. Must not: cost much: it shares the machine with the server.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{oneshot, watch};
use tokio::task::{LocalSet, spawn_local};

use crate::exit::Stop;
use crate::follower::{Event, Follower};
use crate::ledger::{Counts, Intake, Ledger, WAY_MAX};
use crate::recorder::{self, Recorded, Recorder, Window};

/// Of so many pushes one is compared whole.
const SAMPLE: u64 = 64;

/// What a thread's subscribers heard.
pub(super) struct Heard {
    /// Latency of each measured delivery.
    pub(super) recorded: Recorded,
    pub(super) counts: Counts,
}

/// One thread of subscribers.
pub(super) struct Listeners {
    pub(super) url: String,
    pub(super) lane: usize,
    pub(super) subscribers: usize,
    pub(super) measured: recorder::Counts,
    pub(super) window: Arc<Window>,
    pub(super) ledger: Arc<Ledger>,
    /// Receives a value when all are subscribed.
    pub(super) ready: oneshot::Sender<Result<(), Stop>>,
    /// Turns true at the end.
    pub(super) end: watch::Receiver<bool>,
}

impl Listeners {
    /// Starts the thread. It ends with `end`.
    pub(super) fn start(self) -> Result<JoinHandle<Heard>, Stop> {
        let own = |error: io::Error| Stop::Own(format!("a listeners' thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(own)?;
        std::thread::Builder::new()
            .name(format!("room-{}", self.lane))
            .spawn(move || runtime.block_on(LocalSet::new().run_until(self.listen())))
            .map_err(own)
    }

    async fn listen(mut self) -> Heard {
        let delivery = Recorder::new("delivery", self.measured, Arc::clone(&self.window));
        let delivery = Rc::new(delivery);
        let intake = Intake::new(&self.ledger, self.lane, &self.window, SAMPLE);
        let hall = Rc::new(Hall {
            intake: intake.timing(Rc::clone(&delivery)),
            lane: self.lane,
            standing: RefCell::new(Standing::new(self.subscribers)),
        });
        let opened = self.open(&hall).await;
        let is_open = opened.is_ok();
        // Errors mean that the publisher is gone, which `end` tells, too.
        let _ = self.ready.send(opened);
        if is_open {
            let _ = self.end.wait_for(|end| *end).await;
        }
        Heard {
            recorded: delivery.recorded(),
            counts: hall.intake.counts(),
        }
    }

    async fn open(&self, hall: &Rc<Hall>) -> Result<(), Stop> {
        let timelines = &self.ledger.timelines;
        let followers = (0..self.subscribers).map(|_| Follower::new(timelines, [0]));
        let opened = hall.intake.all_subscribed(followers, &self.url).await?;
        for follower in opened {
            spawn_local(Rc::clone(hall).follow(follower));
        }
        Ok(())
    }
}

/// What the thread's subscribers share.
struct Hall {
    intake: Intake,
    lane: usize,
    standing: RefCell<Standing>,
}

impl Hall {
    /// One subscriber, until its connection ends.
    async fn follow(self: Rc<Hall>, mut follower: Follower) {
        loop {
            let read = follower.read(|event| {
                if let Event::Heard(heard) = &event
                    && heard.in_order
                {
                    self.standing.borrow_mut().step(heard.after, heard.last);
                }
                self.intake.hear(&event)
            });
            let read = read.await;
            self.intake.settle(&mut follower);
            let minimum = self.standing.borrow().minimum;
            self.intake.ledger.reached(self.lane, minimum);
            if let Err(error) = read {
                let what = format!("a subscriber lost its connection: {error}");
                return self.intake.ledger.fault(what);
            }
        }
    }
}

/// How far a thread's subscribers are.
struct Standing {
    /// How many are at position p, at p modulo `WAY_MAX`.
    at: Vec<u32>,
    /// The lowest position that one is at.
    minimum: u64,
}

impl Standing {
    fn new(subscribers: usize) -> Standing {
        let mut at = vec![0; WAY_MAX as usize];
        at[0] = u32::try_from(subscribers).unwrap_or(u32::MAX);
        Standing { at, minimum: 0 }
    }

    /// A subscriber goes from `before` to `last`.
    fn step(&mut self, before: u64, last: u64) {
        let place = |position: u64| (position % WAY_MAX) as usize;
        self.at[place(before)] -= 1;
        self.at[place(last)] += 1;
        while self.at[place(self.minimum)] == 0 {
            self.minimum += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_that_of_the_last_subscriber() {
        let mut standing = Standing::new(2);
        standing.step(0, 3);
        assert_eq!(standing.minimum, 0);
        standing.step(0, 1);
        assert_eq!(standing.minimum, 1);
        standing.step(1, 3);
        assert_eq!(standing.minimum, 3);
    }
}
