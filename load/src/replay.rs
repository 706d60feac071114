//! `replay`: real chat through the server. One file is one timeline, one line one message.
//!
//! Owns: the plan of a replay: who writes which file, who listens and how, when the server is killed. Promises: a
//! repeated replay of the same data changes nothing (all answers are duplicates); timelines that hold something else
//! are refused before anything is written. Must not: judge; that is `judge` and `history`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::exit::Stop;
use crate::history::digest;
use crate::irc::{self, Log};
use crate::judge::{Running, Verdict, all, joined, judge};
use crate::process::{Launch, killed_evenly};
use crate::rpc::Client;
use crate::scan;
use crate::subscriber::{self, Habit};
use crate::writer::{self, Outgoing, Shared, Source};

/// The user that all messages are sent as; message IDs are unique per sender, so it is part of what makes a repetition
/// one.
const USER: &str = "replay";

/// Arguments of `replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Replay {
    /// The folder with the logs
    pub dir: PathBuf,
    /// Which files of it: those whose names end so
    #[arg(long, default_value = ".raw.txt")]
    pub suffix: String,
    /// The server
    #[arg(long, default_value = "ws://127.0.0.1:7070/v1/connect")]
    pub url: String,
    /// Connections that write; the files are dealt out among them
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Connections per kind of subscriber (from the start, midway, cut); each kind follows every timeline
    #[arg(long, default_value_t = 4)]
    pub subscribers: usize,
    /// Messages on the way per writing connection
    #[arg(long, default_value_t = 64)]
    pub in_flight: usize,
    /// Put before each file's name to make the timeline's
    #[arg(long, default_value = "irc/")]
    pub prefix: String,
    /// Rest on the order of a connection alone, without `expect_head` on each message
    #[arg(long)]
    pub unconditional: bool,
    /// How often each cut subscriber is cut
    #[arg(long, default_value_t = 5)]
    pub cuts: u32,
    /// How long a server that is away is waited for, reconnecting with growing pauses
    #[arg(long, default_value_t = 60)]
    pub reconnect_seconds: u64,
    /// Start this server binary instead of using --url
    #[arg(long, requires = "data")]
    pub binary: Option<PathBuf>,
    /// Data directory of the server that is started
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Kill the started server (SIGKILL) and start it again so often, evenly over the replay
    #[arg(long, default_value_t = 0, requires = "binary")]
    pub kills: u32,
    /// Seed of the random times
    #[arg(long)]
    pub seed: Option<u64>,
    /// No progress bar
    #[arg(long)]
    pub quiet: bool,
    /// Write the result as JSON into this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What a replay found.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Lines in the files.
    pub lines: u64,
    /// Lines with bytes that were not UTF-8.
    pub lines_replaced: u64,
    /// From the first message to the last answer.
    pub seconds: f64,
    /// Times the server was killed.
    pub kills: u32,
    /// Seed of the random times.
    pub seed: u64,
    /// Everything else.
    pub verdict: Verdict,
}

impl Outcome {
    /// The line at the end of a run.
    #[must_use]
    pub fn summary(&self) -> String {
        let found = &self.verdict;
        format!(
            "{} timelines, {} lines, {}\n\
             {} lines with invalid UTF-8 replaced; {} messages pushed to subscribers over {} \
             resumes; {} kills, {} reconnects, {} refusals repeated, {} duplicates answered; \
             {:.1} s, {:.0} lines/s",
            found.timelines,
            self.lines,
            found.counts(),
            self.lines_replaced,
            found.received,
            found.resumes,
            self.kills,
            found.reconnects,
            found.refusals,
            found.duplicates_answered,
            self.seconds,
            self.lines as f64 / self.seconds.max(0.001),
        )
    }
}

/// Reads, sends, listens, scans, judges.
pub async fn run(args: Replay) -> Result<Outcome, Stop> {
    let logs = read(&args)?;
    let logs = Arc::new(logs);
    let seed = args.seed.unwrap_or_else(crate::random::Random::fresh_seed);
    let launch = launch(&args)?;
    let shared = Shared::new(
        launch
            .as_ref()
            .map_or_else(|| args.url.clone(), Launch::url),
        logs.iter()
            .map(|log| format!("{}{}", args.prefix, log.name)),
        Duration::from_secs(args.reconnect_seconds),
    );
    let server = match &launch {
        Some(launch) => Some(launch.start()?),
        None => None,
    };
    preflight(&shared, &logs).await?;
    let listening = subscribers(&args, seed, &shared, &logs);
    // Those from the start are to be there before the first message.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let lines: u64 = logs.iter().map(|log| log.lines.len() as u64).sum();
    let bar = tokio::spawn(show(Arc::clone(&shared), lines, args.quiet));
    let killer = launch.zip(server).map(|(launch, server)| {
        let acked = Arc::clone(&shared);
        let so_far = move || total(&acked);
        tokio::spawn(killed_evenly(launch, server, so_far, lines, args.kills))
    });
    let began = Instant::now();
    let wrote = write(&args, &shared, &logs).await;
    let seconds = began.elapsed().as_secs_f64();
    shared.written.store(true, Ordering::Release);
    bar.abort();
    let wrote = wrote?;
    // Held until the end: dropping it would stop the server.
    let _server = match killer {
        Some(task) => Some(joined(task).await?),
        None => None,
    };
    let saw = all(listening).await?;
    Ok(Outcome {
        lines,
        lines_replaced: logs.iter().map(|log| log.replaced).sum(),
        seconds,
        kills: args.kills,
        seed,
        verdict: judge(&shared, wrote, saw).await?,
    })
}

fn read(args: &Replay) -> Result<Vec<Log>, Stop> {
    let logs = irc::read_folder(&args.dir, &args.suffix)
        .map_err(|error| Stop::Own(format!("{}: {error}", args.dir.display())))?;
    if logs.is_empty() || args.connections == 0 || args.in_flight == 0 || args.subscribers == 0 {
        let (dir, suffix) = (args.dir.display(), &args.suffix);
        return Err(Stop::Usage(format!(
            "{dir}: no files *{suffix}, or a count of 0"
        )));
    }
    Ok(logs)
}

fn launch(args: &Replay) -> Result<Option<Launch>, Stop> {
    match (&args.binary, &args.data) {
        (Some(binary), Some(data)) => Launch::on_free_port(binary, data).map(Some),
        _ => Ok(None),
    }
}

/// Refuses timelines that hold something else than an earlier replay of the same lines.
async fn preflight(shared: &Shared, logs: &[Log]) -> Result<(), Stop> {
    let unreachable = |error| Stop::Unreachable(format!("before the start: {error}"));
    let mut client = Client::open(&shared.url).await.map_err(unreachable)?;
    for (name, log) in shared.timelines.iter().zip(logs) {
        if name.len() > 255 || message_id(log, log.lines.len()).len() > 64 {
            return Err(Stop::Usage(format!("{name}: the file's name is too long")));
        }
        let Some(page) = scan::page(&mut client, name, 1, 100)
            .await
            .map_err(unreachable)?
        else {
            continue;
        };
        let ours = |(index, message): (usize, &crate::rpc::Message)| {
            message.sequence == index as u64 + 1 && message.message_id == message_id(log, index)
        };
        let same = page.messages.iter().enumerate().all(ours);
        if !same || page.head > log.lines.len() as u64 {
            return Err(Stop::Occupied(format!(
                "timeline {name} already holds other data ({} messages): choose another --prefix, \
                 or an empty data directory",
                page.head
            )));
        }
    }
    Ok(())
}

fn message_id(log: &Log, index: usize) -> String {
    format!("{}:{}", log.name, index + 1)
}

/// Spawns the three kinds of subscribers, each over every timeline.
fn subscribers(
    args: &Replay,
    seed: u64,
    shared: &Arc<Shared>,
    logs: &Arc<Vec<Log>>,
) -> Vec<Running<subscriber::Outcome>> {
    let mut tasks = Vec::new();
    for habit in [Habit::FromTheStart, Habit::Midway, Habit::Cut] {
        for number in 0..args.subscribers {
            let follows: Vec<(usize, u64)> = (number..logs.len())
                .step_by(args.subscribers)
                .map(|index| (index, logs[index].lines.len() as u64))
                .collect();
            let options = subscriber::Options {
                name: format!("{habit:?}-{number}"),
                habit,
                follows,
                seed: seed ^ tasks.len() as u64,
                cuts: args.cuts,
                cut_after_ms: (50, 600),
                patience: Duration::from_secs(30),
            };
            let running = subscriber::run(Arc::clone(shared), options);
            tasks.push(tokio::spawn(running));
        }
    }
    tasks
}

/// Runs the writers to their end.
async fn write(
    args: &Replay,
    shared: &Arc<Shared>,
    logs: &Arc<Vec<Log>>,
) -> Result<Vec<writer::Outcome>, Stop> {
    let mut tasks = Vec::new();
    for number in 0..args.connections {
        let source = Files {
            logs: Arc::clone(logs),
            open: (number..logs.len())
                .step_by(args.connections)
                .map(|index| (index, 0))
                .collect(),
            turn: 0,
            conditional: !args.unconditional,
        };
        let options = writer::Options {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            user: USER.to_owned(),
            window: args.in_flight,
        };
        tasks.push(tokio::spawn(writer::run(
            Arc::clone(shared),
            options,
            source,
        )));
    }
    all(tasks).await
}

/// The lines of some files, one of each in turn.
struct Files {
    logs: Arc<Vec<Log>>,
    /// File and next line.
    open: Vec<(usize, usize)>,
    turn: usize,
    conditional: bool,
}

impl Source for Files {
    fn next(&mut self) -> Option<Outgoing> {
        while !self.open.is_empty() {
            self.turn %= self.open.len();
            let (file, index) = self.open[self.turn];
            let log = &self.logs[file];
            let Some(line) = log.lines.get(index) else {
                self.open.swap_remove(self.turn);
                continue;
            };
            self.open[self.turn].1 += 1;
            self.turn += 1;
            let (id, (entry, digest)) = (message_id(log, index), entry(log, index, line)?);
            let expect_head = self.conditional.then_some(index as u64);
            return Some(Outgoing {
                timeline: file,
                id,
                entry,
                digest,
                expect_head,
            });
        }
        None
    }

    fn finished(&self) -> bool {
        self.open.is_empty()
    }
}

/// A line's entry and its digest. Strings always encode, so `None` does not happen.
fn entry(log: &Log, index: usize, line: &str) -> Option<(Box<RawValue>, u64)> {
    let parsed = irc::parse(line);
    let value = serde_json::to_value(&parsed).ok()?;
    let digest = digest(Some(USER), &message_id(log, index), Some(&value));
    Some((to_raw_value(&parsed).ok()?, digest))
}

async fn show(shared: Arc<Shared>, lines: u64, quiet: bool) {
    let bar = if quiet {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(lines)
    };
    // The template is a constant that parses; without it the plain bar does.
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} lines {per_sec} {eta}") {
        bar.set_style(style);
    }
    loop {
        bar.set_position(total(&shared));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Acknowledged messages of all timelines so far.
fn total(shared: &Shared) -> u64 {
    let one = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    shared.progress.iter().map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str, lines: &[&str]) -> Log {
        Log {
            name: name.into(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            replaced: 0,
        }
    }

    #[test]
    fn files_take_turns_and_keep_their_order() {
        let logs = Arc::new(vec![
            log("a", &["1", "2", "3"]),
            log("b", &[]),
            log("c", &["4"]),
        ]);
        let open = vec![(0, 0), (1, 0), (2, 0)];
        let mut files = Files {
            logs,
            open,
            turn: 0,
            conditional: true,
        };
        let mut got = Vec::new();
        while let Some(next) = files.next() {
            got.push((next.timeline, next.id, next.expect_head));
        }
        assert!(files.finished());
        let of = |file| -> Vec<_> { got.iter().filter(|(of, ..)| *of == file).collect() };
        let ids: Vec<&str> = of(0).iter().map(|(_, id, _)| id.as_str()).collect();
        assert_eq!(ids, ["a:1", "a:2", "a:3"]);
        assert_eq!(of(0)[2].2, Some(2));
        assert_eq!((of(1).len(), of(2).len()), (0, 1));
    }
}
