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

use self::subscriber::{Habit, Saw};
use self::writer::Wrote;
use crate::client::rpc::Client;
use crate::exit::Stop;
use crate::follower::Timelines;
use crate::history::{self, History};
use crate::outcome::recorder::Recorder;
use crate::random::Random;
use crate::run::tally;
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
    began: Instant,
}

impl Trial {
    fn new(run: &Rc<Run>, timelines: Vec<(String, u64)>) -> Trial {
        let (names, lengths): (Vec<String>, Vec<u64>) = timelines.into_iter().unzip();
        Trial {
            run: Rc::clone(run),
            acknowledged: lengths.iter().map(|_| Cell::new(0)).collect(),
            timelines: Timelines::new(names),
            lengths,
            acks: run.recorder("ack", Counts::Ended),
            began: Instant::now(),
        }
    }

    /// Sends all messages, kills the server so often meanwhile, and checks all that can be seen of them.
    pub(crate) async fn run(
        run: &Rc<Run>,
        timelines: Vec<(String, u64)>,
        sources: Vec<Source>,
        kills: u32,
    ) -> Result<(), Stop> {
        let trial = Trial::new(run, timelines);
        let kinds = [Habit::FromTheStart, Habit::Midway, Habit::Cut];
        let listen =
            |number| subscriber::run(&trial, kinds[number / SUBSCRIBERS], number % SUBSCRIBERS);
        let listening = try_join_all((0..kinds.len() * SUBSCRIBERS).map(listen));
        let showing = run.pass(f64::INFINITY).map(Ok);
        let all = trial.lengths.iter().sum();
        let killing = kill(run, kills, all, &trial.acks);
        let together = try_join4(trial.write(sources), listening, killing, showing);
        let (wrote, saw, (), ()) = Box::pin(together).await?;
        run.finish().await;
        trial.judge(wrote, saw).await
    }

    async fn write(&self, sources: Vec<Source>) -> Result<Vec<Wrote>, Stop> {
        // The subscribers from the start are to be there before the first message.
        sleep(Duration::from_millis(300)).await;
        self.run.begin().await;
        let sources = sources.into_iter().enumerate();
        let writers = sources.map(|(number, source)| writer::run(self, number, source));
        let wrote = try_join_all(writers).await?;
        // From here on `acknowledged` is how long each timeline is.
        self.run.end_early();
        Ok(wrote)
    }

    /// Reads all timelines back, puts them beside what writers and subscribers recorded, and judges.
    async fn judge(&self, wrote: Vec<Wrote>, saw: Vec<Saw>) -> Result<(), Stop> {
        let checks = &self.run.checks;
        let mut client = Client::open(&self.run.url).await?;
        let mut histories = Vec::new();
        for (index, name) in self.timelines.iter().enumerate() {
            let scan = tally::whole(&mut client, name).await?;
            let epoch = self.timelines.epoch(index);
            if epoch.is_some_and(|epoch| epoch != scan.epoch) {
                checks.fault(format_args!("{name}: its epoch changed"));
            }
            histories.push(History {
                name: name.clone(),
                stored: scan.messages,
                head: scan.head,
                ..History::default()
            });
        }
        for (timeline, sent) in wrote.into_iter().flatten() {
            checks.made("messages acknowledged", 1);
            histories[timeline].sent.push(sent);
        }
        for (name, timelines) in saw {
            for (timeline, marks) in timelines {
                checks.made("messages pushed or resumed with", marks.len() as u64);
                histories[timeline].watched.push((name.clone(), marks));
            }
        }
        for history in &histories {
            checks.made("messages read back", history.stored.len() as u64);
            for (rule, what) in history::check(history) {
                checks.fault(format_args!("{rule:?}: {what}"));
            }
        }
        Ok(())
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
/// the server last did what it was asked for.
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
