//! Where a connection finds what it shall send, and the clock that puts it there.
//!
//! Owns: what was put and is not sent yet. Promises: the connection reads all the time, so that the server never waits
//! for it; the clock never waits for answers, and ends a run that the server does not keep up with: the latency would
//! be that of the queue here. Must not: decide what is sent.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::{Intake, Ledger};
use crate::exit::Stop;
use crate::follower::Follower;
use crate::pace::Pace;
use crate::run::{Phase, Run};

/// So many messages without an answer mean that the server does not keep up.
const UNANSWERED_MAX: u64 = 50_000;

/// One connection's.
#[derive(Default)]
pub struct Desk {
    frames: RefCell<Vec<u8>>,
    news: Notify,
}

impl Desk {
    /// That of a connection of its own, which follows nothing and appends.
    ///
    /// # Errors
    ///
    /// There is no connection.
    pub async fn publisher(intake: &Rc<Intake>, run: &Rc<Run>) -> Result<Rc<Desk>, Stop> {
        let follower = Follower::new(&intake.ledger.timelines, []);
        let follower = intake.subscribed(follower, &run.url, None).await?;
        let desk: Rc<Desk> = Rc::default();
        spawn_local(Rc::clone(&desk).serve(follower, Rc::clone(intake), Rc::clone(run)));
        Ok(desk)
    }

    /// Sends one more message to a timeline, soon.
    pub fn put(&self, ledger: &Ledger, timeline: usize, scheduled: Instant) {
        ledger.put(timeline, scheduled, &mut self.frames.borrow_mut());
        self.news.notify_one();
    }

    /// Reads and sends for this connection until it is aborted. Losing the connection is a fault, and ends the run.
    pub async fn serve(self: Rc<Desk>, mut follower: Follower, intake: Rc<Intake>, run: Rc<Run>) {
        loop {
            follower.out().append(&mut self.frames.borrow_mut());
            let read = tokio::select! {
                read = intake.read(&mut follower) => read,
                () = self.news.notified() => Ok(()),
            };
            if let Err(error) = read {
                intake
                    .ledger
                    .fault(format!("a connection was lost: {error}"));
                return run.end_early();
            }
        }
    }
}

/// Lets `put` put a message whenever one is due, until the run ends.
pub async fn by_the_clock(
    run: &Run,
    ledger: &Ledger,
    mut pace: Pace,
    mut put: impl FnMut(Instant),
) {
    while run.phase() != Phase::Ending && !ledger.failed() {
        tokio::select! {
            () = pace.wait() => {}
            () = run.ended() => break,
        }
        let now = Instant::now();
        while let Some(scheduled) = pace.due(now) {
            put(scheduled);
        }
        if ledger.unanswered() > UNANSWERED_MAX {
            run.invalid(format!(
                "the server does not keep up with the rate: {UNANSWERED_MAX} messages without an answer"
            ));
            run.end_early();
        }
    }
    run.end_early();
    run.paced(&pace);
}
