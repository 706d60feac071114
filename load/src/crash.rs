//! `crash`: a server that is killed again and again under writers and subscribers, and the check that nothing was lost.
//!
//! Owns: the rounds. Promises: the same seed gives the same kill times and messages (not the same interleaving); the
//! verdict covers every message of all rounds. Must not: be taken as a proof about power cuts: a killed process keeps
//! the page cache.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::task::spawn_blocking;

use crate::exit::Stop;
use crate::history::digest;
use crate::judge::{Running, Verdict, all, joined, judge};
use crate::process::{Launch, Server};
use crate::random::Random;
use crate::setup::pair;
use crate::subscriber::{self, Habit};
use crate::writer::{self, Outgoing, Shared, Source};

/// Arguments of `crash`.
#[derive(Clone, Debug, clap::Args)]
pub struct Crash {
    /// The server's binary
    #[arg(long)]
    pub binary: PathBuf,
    /// Its data directory; has to be new
    #[arg(long, default_value = "./data/crash")]
    pub data: PathBuf,
    /// How often it is killed
    #[arg(long, default_value_t = 20)]
    pub rounds: u32,
    /// Connections that write, each to a timeline of its own and to four that all share
    #[arg(long, default_value_t = 16)]
    pub writers: usize,
    /// Messages on the way per writer
    #[arg(long, default_value_t = 8)]
    pub in_flight: usize,
    /// Shortest time between start and kill, ms
    #[arg(long, default_value_t = 200)]
    pub kill_after_ms_min: u64,
    /// Longest time between start and kill, ms
    #[arg(long, default_value_t = 2_000)]
    pub kill_after_ms_max: u64,
    /// Mean pause per message of a writer, in microseconds: keeps the histories at a size that can be checked
    #[arg(long, default_value_t = 2_000)]
    pub pause_micros: u64,
    /// Environment of the server, NAME=VALUE
    #[arg(long = "env", value_parser = pair)]
    pub environment: Vec<(String, String)>,
    /// Seed of messages and kill times
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write the result as JSON into this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What a crash run found.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Times the server was killed.
    pub rounds: u32,
    /// Seed of messages and kill times.
    pub seed: u64,
    /// The longest time from a start to ready, ms.
    pub ready_ms_max: u64,
    /// Everything else.
    pub verdict: Verdict,
}

impl Outcome {
    /// The line at the end of a run.
    #[must_use]
    pub fn summary(&self) -> String {
        let found = &self.verdict;
        format!(
            "{} kills, {} timelines, {} messages, {}\n\
             {} reconnects, {} duplicates answered, {} messages pushed over {} resumes, \
             ready again within {} ms; seed {}",
            self.rounds,
            found.timelines,
            found.messages,
            found.counts(),
            found.reconnects,
            found.duplicates_answered,
            found.received,
            found.resumes,
            self.ready_ms_max,
            self.seed,
        )
    }
}

const SHARED_TIMELINES: usize = 4;

/// Runs all rounds and judges.
pub async fn run(args: Crash) -> Result<Outcome, Stop> {
    if args.writers == 0 || args.in_flight == 0 || args.kill_after_ms_max < args.kill_after_ms_min {
        return Err(Stop::Usage(
            "a count of 0, or the longest time below the shortest".into(),
        ));
    }
    if std::fs::read_dir(&args.data).is_ok_and(|mut inside| inside.next().is_some()) {
        let data = args.data.display();
        return Err(Stop::Occupied(format!(
            "{data} is not empty: choose another --data"
        )));
    }
    let seed = args.seed.unwrap_or_else(Random::fresh_seed);
    let mut launch = Launch::on_free_port(&args.binary, &args.data)?;
    launch.environment.clone_from(&args.environment);
    let timelines = (0..SHARED_TIMELINES)
        .map(|number| format!("crash/all/{number}"))
        .chain((0..args.writers).map(|number| format!("crash/own/{number}")));
    let shared = Shared::new(launch.url(), timelines, Duration::from_secs(60));
    let stop = Arc::new(AtomicBool::new(false));
    let mut server = start(&launch).await?;
    let mut ready_ms_max = 0;
    let writing = writers(&args, seed, &shared, &stop);
    let listening = subscribers(seed, &shared);
    let mut random = Random::new(seed);
    for _ in 0..args.rounds {
        let pause = random.between(args.kill_after_ms_min, args.kill_after_ms_max + 1);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.kill();
        let began = Instant::now();
        server = start(&launch).await?;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        ready_ms_max = ready_ms_max.max(took);
    }
    // After the last restart some more is written, then everything unanswered is repeated until it is answered.
    tokio::time::sleep(Duration::from_millis(args.kill_after_ms_min)).await;
    stop.store(true, Ordering::Release);
    let wrote = all(writing).await?;
    shared.written.store(true, Ordering::Release);
    let verdict = judge(&shared, wrote, all(listening).await?).await?;
    drop(server);
    Ok(Outcome {
        rounds: args.rounds,
        seed,
        ready_ms_max,
        verdict,
    })
}

/// Starts the server beside the run's other tasks.
async fn start(launch: &Launch) -> Result<Server, Stop> {
    let launch = launch.clone();
    joined(spawn_blocking(move || launch.start())).await
}

fn writers(
    args: &Crash,
    seed: u64,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> Vec<Running<writer::Outcome>> {
    (0..args.writers)
        .map(|number| {
            let options = writer::Options {
                number: u32::try_from(number).unwrap_or(u32::MAX),
                user: format!("writer-{number}"),
                window: args.in_flight,
            };
            let source = Chatter {
                stop: Arc::clone(stop),
                user: options.user.clone(),
                own: SHARED_TIMELINES + number,
                made: 0,
                random: Random::new(seed ^ ((number as u64 + 1) << 32)),
                pause: Duration::from_micros(args.pause_micros),
                not_before: Instant::now(),
                burst_left: 0,
            };
            tokio::spawn(writer::run(Arc::clone(shared), options, source))
        })
        .collect()
}

/// One of each habit over all timelines, and one more that is cut.
fn subscribers(seed: u64, shared: &Arc<Shared>) -> Vec<Running<subscriber::Outcome>> {
    [Habit::FromTheStart, Habit::Midway, Habit::Cut, Habit::Cut]
        .into_iter()
        .enumerate()
        .map(|(number, habit)| {
            let options = subscriber::Options {
                name: format!("{habit:?}-{number}"),
                habit,
                // How long they get is open; joining in the hundreds is midway enough.
                follows: (0..shared.timelines.len())
                    .map(|index| (index, 300))
                    .collect(),
                seed: seed ^ (number as u64 + 77),
                cuts: 1_000_000,
                cut_after_ms: (50, 600),
                patience: Duration::from_secs(10),
            };
            tokio::spawn(subscriber::run(Arc::clone(shared), options))
        })
        .collect()
}

/// Endless messages of different sizes until the run says stop.
struct Chatter {
    stop: Arc<AtomicBool>,
    user: String,
    own: usize,
    made: u64,
    random: Random,
    pause: Duration,
    not_before: Instant,
    burst_left: u64,
}

impl Source for Chatter {
    fn next(&mut self) -> Option<Outgoing> {
        if self.finished() || Instant::now() < self.not_before {
            return None;
        }
        self.made += 1;
        // In bursts, so that several are on the way when the server dies.
        self.burst_left = match self.burst_left.checked_sub(1) {
            Some(left) => left,
            None => {
                let burst = self.random.below(16);
                self.not_before = Instant::now() + self.pause * u32::try_from(burst).unwrap_or(1);
                burst
            }
        };
        let timeline = match self.random.below(2) {
            0 => self.own,
            _ => usize::try_from(self.random.below(SHARED_TIMELINES as u64)).unwrap_or(0),
        };
        let id = format!("{}:{}", self.user, self.made);
        // Mostly short, now and then above a page, so that frames of many sizes are torn.
        let bound = if self.random.below(50) == 0 {
            20_000
        } else {
            300
        };
        let length = usize::try_from(self.random.below(bound)).unwrap_or(0);
        let value = json!({ "number": self.made, "text": self.random.text(length) });
        let digest = digest(Some(&self.user), &id, Some(&value));
        let entry = to_raw_value(&value).ok()?;
        Some(Outgoing {
            timeline,
            id,
            entry,
            digest,
            expect_head: None,
        })
    }

    fn finished(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
