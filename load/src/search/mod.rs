//! `search`: messages found by their words. How fast is an index made of what is there, how long does a search take
//! beside appends, and is a message found as soon as it was acknowledged?
//!
//! Owns: the order of it: real chat is stored, indexed, searched. Promises: each hit is looked at, and must have what
//! it was asked for; what was acknowledged is searched for at once. Must not: believe an answer that says it is behind.

mod mark;
mod query;

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use self::query::{Kind, Searches, Words};
use crate::client::generator::{Flow, count, rate};
use crate::client::pace::Gaps;
use crate::client::request::Session;
use crate::client::rpc::Client;
use crate::exit::{self, Stop};
use crate::irc::{Folder, Log};
use crate::profile::append::Appends;
use crate::profile::{Profile, need_files};
use crate::run::machine::used;
use crate::run::tally::{Tally, spread};
use crate::run::watch::metrics;
use crate::run::{Better, Counts, Run};

/// Messages of a batch.
const BATCH: usize = 100;
/// How long an index may take.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Arguments of `search`. The server must have `[search] messages`; one of `--binary` gets it.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Search {
    /// The logs, whose lines are the messages
    #[command(flatten)]
    #[serde(flatten)]
    folder: Folder,
    /// Messages that are stored before the first search: the lines, again and again, in other timelines
    #[arg(long, default_value_t = 100_000, value_parser = count::<u64>)]
    messages: u64,
    /// Searches a second: a fifth of each kind
    #[arg(long, default_value_t = 200.0, value_parser = rate)]
    rate: f64,
    /// Connections of each kind of search
    #[arg(long, default_value_t = 4, value_parser = count::<usize>)]
    connections: usize,
    /// Appends a second meanwhile; 0 = none
    #[arg(long, default_value_t = 1_000.0)]
    appends: f64,
    /// Messages a second with a word of their own, which is searched for as soon as they are acknowledged; 0 = none
    #[arg(long, default_value_t = 50.0)]
    marks: f64,
}

impl Profile for Search {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, 5 * self.connections as u64 + 64)?;
        let logs = spawn_blocking({
            let folder = self.folder.clone();
            move || folder.read()
        });
        let logs = logs.await??;
        self.fill(run, &logs).await?;
        self.build(run).await?;
        let lines: usize = logs.iter().map(|log| log.lines.len()).sum();
        let stored = |log: &'_ Log| self.share(0, lines as u64, log.lines.len());
        let stored = logs.iter().flat_map(|log| &log.lines[..stored(log)]);
        let words = Rc::new(Words::new(stored)?);
        let mut searching = Vec::new();
        for kind in Kind::ALL {
            let flow = Flow::by_clock(self.connections, self.rate / 5.0, Gaps::Exponential);
            let recorder = flow.recorder(run, kind.name());
            let open = Session::each(run, |lane| Searches::new(run, &words, kind, lane));
            searching.extend(flow.start(run, &[recorder], open).await?);
        }
        let marking = mark::Marks::new(run, self.marks, &words).map(|marks| marks.start());
        let mut appending = Vec::new();
        let acks = run.recorder("ack", Counts::Scheduled);
        if self.appends > 0.0 {
            let flow = Flow::by_clock(16, self.appends, Gaps::Fixed);
            let tally = Tally::new(run.prefix("beside"), 1_000, 0);
            let tally = Rc::new(tally.into());
            let open = Session::each(run, |lane| Appends::new(run, &tally, lane, 100, true));
            appending = flow.start(run, &[Rc::clone(&acks)], open).await?;
        }
        run.measure().await;
        let found: u64 = exit::all(searching)
            .await?
            .iter()
            .map(|one| one.ask.found)
            .sum();
        exit::all(appending).await?;
        if let Some(marking) = marking {
            marking.await??;
        }
        run.rate("hits_per_second", found);
        Ok(())
    }
}

impl Search {
    /// Stores the lines.
    async fn fill(&self, run: &Rc<Run>, logs: &[Log]) -> Result<(), Stop> {
        run.tell("storing messages");
        let lines: usize = logs.iter().map(|log| log.lines.len()).sum();
        if lines == 0 {
            return Err(Stop::Usage("the logs have no line".into()));
        }
        // A log in each copy is a timeline.
        let copies = self.messages.div_ceil(lines as u64);
        let (logs_count, prefix) = (logs.len() as u64, run.prefix("search"));
        let began = Instant::now();
        let all = copies * logs_count;
        spread(run, None, all, async |client, number| {
            let (copy, log) = (number / logs_count, &logs[(number % logs_count) as usize]);
            let share = self.share(copy, lines as u64, log.lines.len());
            let timeline = format!("{prefix}{copy}/{}", log.name);
            for batch in log.lines[..share].chunks(BATCH) {
                let one = |text: &String| json!({ "entry": { "text": text } });
                let messages: Vec<_> = batch.iter().map(one).collect();
                let params = json!({ "timeline": timeline, "messages": messages });
                let _: serde::de::IgnoredAny =
                    client.insist("message.append_batch", params).await?;
            }
            Ok(())
        })
        .await?;
        let stored: usize = (0..copies)
            .flat_map(|copy| logs.iter().map(move |log| (copy, log)))
            .map(|(copy, log)| self.share(copy, lines as u64, log.lines.len()))
            .sum();
        run.figure("stored", stored as f64, "1", Better::Neither);
        let each = stored as f64 / began.elapsed().as_secs_f64().max(0.001);
        run.figure("stored_per_second", each, "1/s", Better::Higher);
        Ok(())
    }

    /// How many lines of a log a copy has: all, but for the last one.
    fn share(&self, copy: u64, lines: u64, of: usize) -> usize {
        let left = self.messages - copy * lines;
        match left >= lines {
            true => of,
            false => (of as u64 * left / lines) as usize,
        }
    }

    /// Starts the server of `--binary` again, with an index to make of all that is there, as fast as it goes.
    async fn build(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let Some((mut launch, server)) = run.server.take() else {
            return self.is_on(run).await;
        };
        run.tell("indexing");
        spawn_blocking(|| drop(server)).await?;
        for (name, value) in [
            ("TIDELINE_SEARCH", "{messages=true}"),
            ("TIDELINE_SEARCH_BUILD_ROWS_PER_SECOND", "0"),
        ] {
            let is_set = launch.environment.iter().any(|(set, _)| set == name);
            if !is_set {
                launch.environment.push((name.to_owned(), value.to_owned()));
            }
        }
        let began = Instant::now();
        let server = launch.start().await?;
        let pid = server.0.id();
        let due = run.value("stored").unwrap_or_default();
        run.figure(
            "start_seconds",
            began.elapsed().as_secs_f64(),
            "s",
            Better::Lower,
        );
        loop {
            let now = metrics(&run.url).await.unwrap_or_default();
            let of = |name: &str| {
                let named = now
                    .iter()
                    .filter(|(of, _)| of.split('{').next() == Some(name));
                named.map(|(_, value)| value).sum::<f64>()
            };
            if of("tideline_search_rows_total") >= due
                && of("tideline_search_indexes_building") == 0.0
            {
                break;
            }
            if began.elapsed() > PATIENCE {
                return Err(Stop::Unreachable(format!("no index within {PATIENCE:?}")));
            }
            sleep(Duration::from_millis(20)).await;
        }
        let took = began.elapsed().as_secs_f64();
        run.figure("indexed_per_second", due / took, "1/s", Better::Higher);
        if let Some(cpu) = used(pid, "cpu_seconds") {
            run.figure(
                "index_cpu_per_message",
                cpu * 1e6 / due,
                "µs",
                Better::Lower,
            );
        }
        let bytes = size(&launch.data.join("search"));
        run.figure(
            "index_bytes_per_message",
            bytes as f64 / due,
            "bytes",
            Better::Lower,
        );
        run.server.replace(Some((launch, server)));
        Ok(())
    }

    /// Waits until the index of a server that was there has all.
    async fn is_on(&self, run: &Run) -> Result<(), Stop> {
        run.tell("waiting for the index");
        let began = Instant::now();
        let mut client = Client::open(&run.url).await?;
        loop {
            let params = json!({ "query": "is the index there", "limit": 1 });
            let found: query::Found = client.call("message.search", params).await?;
            if !found.behind {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(Stop::Unreachable(format!("no index within {PATIENCE:?}")));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Bytes of the files below a folder.
fn size(folder: &Path) -> u64 {
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |path: &Path| match path.is_dir() {
        true => size(path),
        false => path.metadata().map_or(0, |file| file.len()),
    };
    inside.map(|entry| of(&entry.path())).sum()
}
