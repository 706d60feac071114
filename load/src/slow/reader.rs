//! One reader of `slow`: it reads all the time, stops until the server has closed it, or pauses again and again.
//!
//! Owns: when it reads, and how its connections end. Promises: after any end it resumes from its position. Must not:
//! count as closed what it closed itself.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::exit::Stop;
use crate::follower::Follower;
use crate::frame::close_code;
use crate::ledger::Intake;
use crate::outcome::Better;
use crate::run::{Phase, Run};

/// The server's code for a reader that does not keep up.
const SLOW_CONSUMER: u16 = 4000;
/// Reading on, a stalled reader finds the end of its connection within this.
const READ_ON: Duration = Duration::from_secs(10);

/// When a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// All the time.
    Healthy,
    /// Not from when measuring begins until the stage says so.
    Stalled,
    /// With pauses of a third of the server's patience, which is this.
    Pausing(Duration),
}

/// How connections of readers that stopped ended.
#[derive(Default)]
pub(super) struct Ends {
    /// With 4000.
    told: Cell<u64>,
    /// Without a word: it read again after the server had given up its goodbye.
    cut: Cell<u64>,
    /// Pausing readers that overslept and were closed.
    pausing: Cell<u64>,
    /// Pauses after which a reader caught up.
    pauses: Cell<u64>,
}

impl Ends {
    /// Enters them.
    pub(super) fn tell(&self, run: &Run) {
        let figure = |name, count: &Cell<u64>| {
            run.figure(name, count.get() as f64, "1", Better::Neither);
        };
        figure("closed_with_4000", &self.told);
        figure("cut_without_goodbye", &self.cut);
        figure("pausing_closed", &self.pausing);
        figure("pauses", &self.pauses);
        let closed = self.told.get() + self.cut.get();
        run.checks
            .made("stalled readers closed and resumed", closed);
        run.checks.made("pauses caught up", self.pauses.get());
    }
}

fn one_more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// A reader that is subscribed.
pub(super) struct Reader {
    run: Rc<Run>,
    intake: Rc<Intake>,
    ends: Rc<Ends>,
    habit: Habit,
    receive_bytes: u32,
    follower: Follower,
}

impl Reader {
    pub(super) async fn open(
        run: &Rc<Run>,
        intake: &Rc<Intake>,
        ends: &Rc<Ends>,
        habit: Habit,
        receive_bytes: u32,
    ) -> Result<Reader, Stop> {
        let follower = Follower::new(&intake.ledger.timelines, [0]);
        let narrow = (habit != Habit::Healthy).then_some(receive_bytes);
        Ok(Reader {
            follower: intake.subscribed(follower, &run.url, narrow).await?,
            run: Rc::clone(run),
            intake: Rc::clone(intake),
            ends: Rc::clone(ends),
            habit,
            receive_bytes,
        })
    }

    fn position(&self) -> u64 {
        self.follower.places()[0].position
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
            let (habit, position) = (self.habit, self.position());
            let what = format!("a reader ({habit:?}) at {position}: {error}");
            self.intake.ledger.fault(what);
            self.run.end_early();
        }
    }

    /// A new connection that goes on from the position.
    async fn resume(&mut self) -> io::Result<()> {
        let narrow = matches!(self.habit, Habit::Pausing(_)).then_some(self.receive_bytes);
        self.follower.connect(&self.run.url, narrow).await?;
        self.follower.join_all();
        Ok(())
    }

    /// Reads until it has the message of this number, or for ever.
    async fn read_on(&mut self, to: Option<u64>) -> io::Result<()> {
        while to.is_none_or(|to| self.position() < to) {
            self.intake.read(&mut self.follower).await?;
        }
        Ok(())
    }

    /// Reads for as long as the run warms up.
    async fn warm_up(&mut self) -> io::Result<()> {
        while self.run.phase() == Phase::WarmingUp {
            // No message may come for long, and the phase changes by itself.
            let read = self.intake.read(&mut self.follower);
            if let Ok(read) = timeout(Duration::from_millis(20), read).await {
                read?;
            }
        }
        Ok(())
    }

    /// Stops reading until the server has closed it, hears why, and resumes.
    async fn stall(&mut self, stage: &mut watch::Receiver<bool>) -> io::Result<()> {
        self.warm_up().await?;
        // Errors mean that the run has ended.
        let _ = stage.wait_for(|woken| *woken).await;
        match timeout(READ_ON, self.read_on(None)).await {
            Ok(Err(error)) => match close_code(&error) {
                Some(SLOW_CONSUMER) => one_more(&self.ends.told),
                Some(_) => return Err(error),
                None => one_more(&self.ends.cut),
            },
            // It reads on, on the same connection: that the server closed too few is a fault already.
            Err(_) | Ok(Ok(())) => return Ok(()),
        }
        self.resume().await
    }

    /// Pauses again and again; what it missed comes when it reads again.
    async fn pause(&mut self, patience: Duration) -> io::Result<()> {
        self.warm_up().await?;
        while self.run.phase() != Phase::Ending {
            let began = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(patience / 3) => {}
                () = self.run.ended() => {}
            }
            // What is not answered yet may never come, if the server refuses it.
            match self.read_on(Some(self.intake.ledger.acked())).await {
                Ok(()) => one_more(&self.ends.pauses),
                // On a machine that is too busy it overslept.
                Err(_) if began.elapsed() >= patience => {
                    one_more(&self.ends.pausing);
                    self.resume().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
