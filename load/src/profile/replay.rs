//! `replay`: real chat through the server. One file is one timeline, one line one message.
//!
//! Owns: the plan of a replay: which writer has which file, the subscribers and their habits, when the server is
//! killed. Promises: a repeated replay of the same data changes nothing (all answers are duplicates); timelines that
//! hold something else are refused before anything is written. Must not: judge; that is `trial` and `tideline_history`.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use crate::client::generator::count;
use crate::client::rpc::{Client, Message};
use crate::exit::Stop;
use crate::irc::{Folder, Log};
use crate::profile::Profile;
use crate::recording::Recorded;
use crate::run::tally;
use crate::run::{Better, Run};
use crate::trial::{Outgoing, Source, Trial};

/// The user that all messages are sent as; message IDs are unique per sender, so it is part of what makes a repetition
/// one.
const USER: &str = "replay";

/// Arguments of `replay`; warm-up and seconds are not used: it ends when all is sent.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Replay {
    /// The logs
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) folder: Folder,
    /// Connections that write; the files are dealt out among them
    #[arg(long, default_value_t = 16, value_parser = count::<usize>)]
    pub(crate) connections: usize,
    /// Messages on the way per writing connection
    #[arg(long, default_value_t = 64, value_parser = count::<usize>)]
    pub(crate) in_flight: usize,
    /// Kill the started server (SIGKILL) and start it again so often while messages are sent
    #[arg(long, default_value_t = 0, requires = "binary")]
    pub(crate) kills: u32,
    #[command(flatten)]
    #[serde(flatten)]
    recorded: Recorded,
}

impl Profile for Replay {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let logs = Rc::new(self.folder.read()?);
        let replaced: u64 = logs.iter().map(|log| log.replaced).sum();
        run.figure("lines_not_utf8", replaced as f64, "1", Better::Neither);
        let timeline = |log: &Log| (self.folder.timeline(log), log.lines.len() as u64);
        let timelines: Vec<(String, u64)> = logs.iter().map(timeline).collect();
        preflight(&run.url, &timelines, &logs).await?;
        let source = |number: usize| {
            let files = (number..logs.len()).step_by(self.connections);
            Source {
                user: USER.to_owned(),
                in_flight: self.in_flight,
                pause: Duration::ZERO,
                messages: Box::new(in_turn(Rc::clone(&logs), files)),
            }
        };
        let sources = (0..self.connections).map(source).collect();
        Trial::run(run, timelines, sources, self.kills, &self.recorded).await
    }
}

/// Refuses timelines that hold something else than an earlier replay of the same lines.
async fn preflight(url: &str, timelines: &[(String, u64)], logs: &[Log]) -> Result<(), Stop> {
    let mut client = Client::open(url).await?;
    for ((name, length), log) in timelines.iter().zip(logs) {
        let Some(page) = tally::page(&mut client, name, 1, 100).await? else {
            continue;
        };
        let ours = |(index, message): (usize, &Message)| {
            message.sequence == index as u64 + 1 && message.message_id == log.message_id(index)
        };
        if !page.messages.iter().enumerate().all(ours) || page.head > *length {
            return Err(Stop::Occupied(format!(
                "timeline {name} already holds other data ({} messages): choose another --prefix, \
                 or an empty data directory",
                page.head
            )));
        }
    }
    Ok(())
}

/// The lines of some files, one of each in turn.
fn in_turn(
    logs: Rc<Vec<Log>>,
    files: impl Iterator<Item = usize> + Clone,
) -> impl Iterator<Item = Outgoing> {
    let lengths = files.clone().map(|file| logs[file].lines.len());
    let places = (0..lengths.max().unwrap_or(0))
        .flat_map(move |index| files.clone().map(move |file| (file, index)));
    places.filter_map(move |(file, index)| {
        let log = &logs[file];
        (index < log.lines.len()).then(|| Outgoing {
            timeline: file,
            id: log.message_id(index),
            entry: log.entry(index),
            expect_head: Some(index as u64),
        })
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
        let logs = Rc::new(vec![
            log("a", &["1", "2", "3"]),
            log("b", &[]),
            log("c", &["4"]),
        ]);
        let got: Vec<_> = in_turn(logs, 0..3).collect();
        let of = |file| -> Vec<_> { got.iter().filter(|one| one.timeline == file).collect() };
        let ids: Vec<&str> = of(0).iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["a:1", "a:2", "a:3"]);
        assert_eq!(of(0)[2].expect_head, Some(2));
        assert_eq!((of(1).len(), of(2).len()), (0, 1));
    }
}
