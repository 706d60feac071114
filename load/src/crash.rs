//! `crash`: a server that is killed again and again under writers and subscribers, and the check that nothing was lost.
//!
//! Owns: the rounds. Promises: the same seed gives the same kill times and messages (not the same interleaving); the
//! verdict covers every message of all rounds. Must not: be taken as a proof about power cuts: a killed process keeps
//! the page cache.

use std::iter::from_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::json;
use tokio::time::sleep;

use crate::exit::Stop;
use crate::judge::{Shared, Verdict};
use crate::process::Launch;
use crate::random::Random;
use crate::setup::pair;
use crate::subscriber::Habit::{Cut, FromTheStart, Midway};
use crate::trial;
use crate::writer::{self, Outgoing};

/// Connections that write, each to a timeline of its own and to those that all share.
const WRITERS: usize = 16;
const SHARED_TIMELINES: usize = 4;
/// Messages on the way per writer.
const IN_FLIGHT: usize = 8;
/// Mean pause per message of a writer: keeps the histories at a size that can be checked.
const PAUSE: Duration = Duration::from_millis(2);

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
    /// Shortest time between start and kill, ms
    #[arg(long, default_value_t = 200)]
    pub kill_after_ms_min: u64,
    /// Longest time between start and kill, ms
    #[arg(long, default_value_t = 2_000)]
    pub kill_after_ms_max: u64,
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

/// Runs all rounds and judges.
pub async fn run(args: Crash) -> Result<Verdict, Stop> {
    let (shortest, longest) = (args.kill_after_ms_min, args.kill_after_ms_max);
    if longest < shortest {
        let what = "the longest time is below the shortest";
        return Err(Stop::Usage(what.into()));
    }
    if std::fs::read_dir(&args.data).is_ok_and(|mut inside| inside.next().is_some()) {
        let what = format!(
            "{} is not empty: choose another --data",
            args.data.display()
        );
        return Err(Stop::Occupied(what));
    }
    let mut launch = Launch::on_free_port(&args.binary, &args.data)?;
    launch.environment = args.environment;
    let names = (0..SHARED_TIMELINES).map(|number| format!("crash/all/{number}"));
    let names = names.chain((0..WRITERS).map(|number| format!("crash/own/{number}")));
    let shared = Shared::new(launch.url(), names, ProgressBar::hidden());
    let seed = args.seed.unwrap_or_else(Random::fresh_seed);
    shared.verdict().seed = seed;
    let mut server = launch.start()?;
    // How long they get is open; joining in the hundreds is midway enough.
    let lengths = [300; SHARED_TIMELINES + WRITERS];
    let habits = [FromTheStart, Midway, Cut(u32::MAX), Cut(u32::MAX)];
    let listening = trial::listen(&shared, &habits, 1, &lengths);
    let stop = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|number| {
        let user = format!("writer-{number}");
        let random = Random::new(seed ^ ((number as u64 + 1) << 32));
        let own = SHARED_TIMELINES + number;
        let source = chatter(Arc::clone(&stop), user.clone(), own, random);
        let options = writer::Options {
            number,
            user,
            window: IN_FLIGHT,
        };
        (options, source)
    });
    let kills = async {
        let mut random = Random::new(seed);
        for _ in 0..args.rounds {
            let pause = random.between(shortest, longest + 1);
            sleep(Duration::from_millis(pause)).await;
            server = trial::kill(&shared, server).await?;
        }
        // After the last restart some more is written, then what is unanswered is repeated until it is answered.
        sleep(Duration::from_millis(shortest)).await;
        stop.store(true, Ordering::Release);
        Ok(Some(server))
    };
    trial::run(&shared, listening, writers, kills).await
}

/// Endless messages of different sizes until the run says stop.
fn chatter(
    stop: Arc<AtomicBool>,
    user: String,
    own: usize,
    mut random: Random,
) -> impl Iterator<Item = Option<Outgoing>> {
    let (mut made, mut burst_left, mut not_before) = (0, 0, Instant::now());
    from_fn(move || {
        if stop.load(Ordering::Acquire) {
            return None;
        }
        let now = Instant::now();
        if now < not_before {
            return Some(None);
        }
        made += 1;
        // In bursts, so that several are on the way when the server dies.
        if burst_left > 0 {
            burst_left -= 1;
        } else {
            burst_left = random.below(16) as u32;
            not_before = now + PAUSE * burst_left;
        }
        let timeline = match random.below(2) {
            0 => own,
            _ => random.below(SHARED_TIMELINES as u64) as usize,
        };
        // Mostly short, now and then above a page, so that frames of many sizes are torn.
        let is_long = random.below(50) == 0;
        let length = random.below(if is_long { 20_000 } else { 300 }) as usize;
        Some(Some(Outgoing {
            timeline,
            id: format!("{user}:{made}"),
            entry: json!({ "number": made, "text": random.text(length) }),
            expect_head: None,
        }))
    })
}
