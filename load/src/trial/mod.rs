//! A trial: known messages through a server that is killed under them. What was sent, acknowledged, pushed and stored
//! must be one history. `replay` and `crash` are two of them.
//!
//! Owns: the writers, the subscribers, when the server is killed, the evidence. Promises: subscribers are there before
//! the first message; every message is accounted for. Must not: know where messages come from.

mod subscriber;
mod writer;

use std::cell::Cell;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, try_join_all, try_join4};
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use self::subscriber::Habit;
use crate::client::rpc::Client;
use crate::exit::Stop;
use crate::follower::Timelines;
use crate::outcome::recorder::Recorder;
use crate::random::Random;
use crate::recording::{Recorded, Recording};
use crate::run::tally;
use crate::run::tally::Page;
use crate::run::{Counts, Phase, Run};

/// Subscribers of each habit; together they follow every timeline.
const SUBSCRIBERS: usize = 4;
/// How long a server that is away is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// One message to append.
pub(crate) struct Outgoing {
    /// Index of its timeline.
    pub(crate) timeline: usize,
    /// Its message ID.
    pub(crate) id: String,
    pub(crate) entry: Value,
    /// Append only behind this head.
    pub(crate) expect_head: Option<u64>,
}

/// A connection that writes.
pub(crate) struct Source {
    pub(crate) user: String,
    /// Messages on the way at once.
    pub(crate) in_flight: usize,
    /// The pause from one message to the next.
    pub(crate) pause: Duration,
    pub(crate) messages: Box<dyn Iterator<Item = Outgoing>>,
}

pub(crate) struct Trial {
    run: Rc<Run>,
    timelines: Arc<Timelines>,
    /// How many messages each timeline gets, or about.
    lengths: Vec<u64>,
    /// How many of them are acknowledged.
    acknowledged: Vec<Cell<u64>>,
    acks: Rc<Recorder>,
    recording: Rc<Recording>,
    began: Instant,
}

impl Trial {
    fn new(run: &Rc<Run>, timelines: Vec<(String, u64)>, recording: Rc<Recording>) -> Trial {
        let (names, lengths): (Vec<String>, Vec<u64>) = timelines.into_iter().unzip();
        Trial {
            run: Rc::clone(run),
            acknowledged: lengths.iter().map(|_| Cell::new(0)).collect(),
            timelines: Timelines::new(names),
            lengths,
            acks: run.recorder("ack", Counts::Ended),
            recording,
            began: Instant::now(),
        }
    }

    /// Sends all messages, kills the server so often meanwhile, and checks all that can be seen of them.
    pub(crate) async fn run(
        run: &Rc<Run>,
        timelines: Vec<(String, u64)>,
        sources: Vec<Source>,
        kills: u32,
        recorded: &Recorded,
    ) -> Result<(), Stop> {
        let trial = Trial::new(run, timelines, Recording::new(recorded)?);
        let kinds = [Habit::FromTheStart, Habit::Midway, Habit::Cut];
        let listen =
            |number| subscriber::run(&trial, kinds[number / SUBSCRIBERS], number % SUBSCRIBERS);
        let listening = try_join_all((0..kinds.len() * SUBSCRIBERS).map(listen));
        let showing = run.pass(f64::INFINITY).map(Ok);
        let all = trial.lengths.iter().sum();
        let killing = kill(run, kills, all, &trial.acks);
        let together = try_join4(trial.write(sources), listening, killing, showing);
        Box::pin(together).await?;
        run.finish().await;
        trial.judge().await
    }

    async fn write(&self, sources: Vec<Source>) -> Result<(), Stop> {
        // The subscribers from the start are to be there before the first message.
        sleep(Duration::from_millis(300)).await;
        self.run.begin().await;
        let sources = sources.into_iter().enumerate();
        let writers = sources.map(|(number, source)| writer::run(self, number, source));
        try_join_all(writers).await?;
        // From here on `acknowledged` is how long each timeline is.
        self.run.end_early();
        Ok(())
    }

    /// Reads all timelines back, and judges what writers and subscribers recorded beside them.
    async fn judge(&self) -> Result<(), Stop> {
        let checks = &self.run.checks;
        let mut client = Client::open(&self.run.url).await?;
        for (index, name) in self.timelines.iter().enumerate() {
            let page: Option<Page> = tally::page(&mut client, name, 1, 1).await?;
            let epoch = self.timelines.epoch(index).zip(page.as_ref());
            if epoch.is_some_and(|(epoch, page)| epoch != page.epoch) {
                checks.fault(format_args!("{name}: its epoch changed"));
            }
        }
        let names = self.timelines.iter().cloned();
        self.recording.judge(&self.run, names).await
    }
}

/// Kills the server, each time somewhere in another part of `all` messages, and starts it again. `acks` has those that
/// are acknowledged; when the run ends no more will be.
pub(crate) async fn kill(run: &Run, kills: u32, all: u64, acks: &Recorder) -> Result<(), Stop> {
    let kills = u64::from(kills);
    let mut random = Random::new(run.seed);
    for kill in 0..kills {
        let at = (all * kill + random.below(all)) / kills;
        while run.phase() != Phase::Ending && acks.count() < at {
            sleep(Duration::from_millis(1)).await;
        }
        let server = run.server.take();
        let none = || Stop::Usage("only a server of --binary can be killed".into());
        let (launch, server) = server.ok_or_else(none)?;
        spawn_blocking(|| drop(server)).await?;
        let server = launch.start().await?;
        run.server.replace(Some((launch, server)));
        run.add("kills", 1);
    }
    Ok(())
}

/// Waits before the next attempt to connect, longer each time, or says that it has been long enough. `heard` is when
/// the server was last there: it took a connection, or did what it was asked for.
pub(crate) async fn wait(heard: Instant, why: &impl Display) -> Result<(), Stop> {
    let away = heard.elapsed();
    if away > PATIENCE {
        let what = format!("no server for {PATIENCE:?}: {why}");
        return Err(Stop::Unreachable(what));
    }
    let pause = away.clamp(Duration::from_millis(10), Duration::from_millis(500));
    sleep(pause).await;
    Ok(())
}
