//! `replay`: real chat through the server. One file is one timeline, one line one message.
//!
//! Owns: the plan of a replay: who writes which file, who listens and how, when the server is killed. Promises: a
//! repeated replay of the same data changes nothing (all answers are duplicates); timelines that hold something else
//! are refused before anything is written. Must not: judge; that is `judge` and `history`.

use std::collections::VecDeque;
use std::iter::from_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::time::sleep;

use crate::exit::Stop;
use crate::irc::{self, Log};
use crate::judge::{Shared, Verdict};
use crate::process::Launch;
use crate::random::Random;
use crate::rpc::{Client, Message};
use crate::scan;
use crate::subscriber::Habit::{Cut, FromTheStart, Midway};
use crate::trial;
use crate::writer::{self, Outgoing};

/// The user that all messages are sent as; message IDs are unique per sender, so it is part of what makes a repetition
/// one.
const USER: &str = "replay";
/// Connections per kind of subscriber; each kind follows every timeline.
const SUBSCRIBERS: usize = 4;
/// How often each subscriber is cut that is.
const CUTS: u32 = 5;

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
    /// Messages on the way per writing connection
    #[arg(long, default_value_t = 64)]
    pub in_flight: usize,
    /// Put before each file's name to make the timeline's
    #[arg(long, default_value = "irc/")]
    pub prefix: String,
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

/// Reads, sends, listens, reads back, judges.
pub async fn run(args: Replay) -> Result<Verdict, Stop> {
    let logs = Arc::new(read(&args)?);
    let lengths: Vec<u64> = logs.iter().map(|log| log.lines.len() as u64).collect();
    let lines = lengths.iter().sum();
    let launch = match (&args.binary, &args.data) {
        (Some(binary), Some(data)) => Some(Launch::on_free_port(binary, data)?),
        _ => None,
    };
    let url = launch
        .as_ref()
        .map_or_else(|| args.url.clone(), Launch::url);
    let names = logs
        .iter()
        .map(|log| format!("{}{}", args.prefix, log.name));
    let shared = Shared::new(url, names, bar(lines, args.quiet));
    shared.verdict().seed = args.seed.unwrap_or_else(Random::fresh_seed);
    shared.verdict().lines_replaced = logs.iter().map(|log| log.replaced).sum();
    let mut server = launch.as_ref().map(Launch::start).transpose()?;
    preflight(&shared, &logs).await?;
    let habits = [FromTheStart, Midway, Cut(CUTS)];
    let listening = trial::listen(&shared, &habits, SUBSCRIBERS, &lengths);
    let writers = (0..args.connections).map(|number| {
        let options = writer::Options {
            number,
            user: USER.to_owned(),
            window: args.in_flight,
        };
        let files = (number..logs.len()).step_by(args.connections).collect();
        (options, in_turn(Arc::clone(&logs), files).map(Some))
    });
    let kills = async {
        for kill in 1..=u64::from(args.kills) {
            let at = lines * kill / (u64::from(args.kills) + 1);
            while shared.bar.position() < at && !shared.written.load(Ordering::Acquire) {
                sleep(Duration::from_millis(1)).await;
            }
            if let Some(old) = server.take() {
                server = Some(trial::kill(&shared, old).await?);
            }
        }
        Ok(server)
    };
    trial::run(&shared, listening, writers, kills).await
}

fn read(args: &Replay) -> Result<Vec<Log>, Stop> {
    let (dir, suffix) = (args.dir.display(), &args.suffix);
    let logs = irc::read_folder(&args.dir, suffix);
    let logs = logs.map_err(|error| Stop::Own(format!("{dir}: {error}")))?;
    if logs.is_empty() || args.connections == 0 || args.in_flight == 0 {
        let what = format!("{dir}: no files *{suffix}, or a count of 0");
        return Err(Stop::Usage(what));
    }
    Ok(logs)
}

fn bar(lines: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    // The template is a constant that parses; without it the plain bar does.
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} lines {per_sec} {eta}");
    ProgressBar::new(lines).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Refuses timelines that hold something else than an earlier replay of the same lines.
async fn preflight(shared: &Shared, logs: &[Log]) -> Result<(), Stop> {
    let unreachable = |error| Stop::Unreachable(format!("before the start: {error}"));
    let mut client = Client::open(&shared.url).await.map_err(unreachable)?;
    for (name, log) in shared.timelines.iter().zip(logs) {
        if name.len() > 255 || message_id(log, log.lines.len()).len() > 64 {
            return Err(Stop::Usage(format!("{name}: the file's name is too long")));
        }
        let page = scan::page(&mut client, name, 1, 100).await;
        let Some(page) = page.map_err(unreachable)? else {
            continue;
        };
        let ours = |(index, message): (usize, &Message)| {
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

/// The lines of some files, one of each in turn.
fn in_turn(logs: Arc<Vec<Log>>, files: Vec<usize>) -> impl Iterator<Item = Outgoing> {
    // File and next line.
    let mut open: VecDeque<(usize, usize)> = files.into_iter().map(|file| (file, 0)).collect();
    from_fn(move || {
        loop {
            let (file, index) = open.pop_front()?;
            let log = &logs[file];
            if let Some(line) = log.lines.get(index) {
                open.push_back((file, index + 1));
                return Some(Outgoing {
                    timeline: file,
                    id: message_id(log, index),
                    entry: json!(irc::parse(line)),
                    expect_head: Some(index as u64),
                });
            }
        }
    })
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
        let got: Vec<_> = in_turn(logs, vec![0, 1, 2]).collect();
        let of = |file| -> Vec<_> { got.iter().filter(|one| one.timeline == file).collect() };
        let ids: Vec<&str> = of(0).iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["a:1", "a:2", "a:3"]);
        assert_eq!(of(0)[2].expect_head, Some(2));
        assert_eq!((of(1).len(), of(2).len()), (0, 1));
    }
}
