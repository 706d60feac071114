//! `answers`: answers that grow token by token, many at once, each shown to viewers while it is written. Does every
//! viewer get every token once, and how long does one take?
//!
//! Owns: how many write and read, the schedule of the tokens, the figures. Promises: each token of each answer is
//! checked at every viewer, at its writer and in the store, also while the server is killed; latency counts from the
//! scheduled time. Must not: use more than one thread.

mod book;
mod text;
mod viewer;
mod writer;

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use self::book::{Book, Lane, Ways};
use self::viewer::{Shown, Viewer, check};
use crate::client::generator::{count, rate};
use crate::client::rpc::Client;
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::run::{Better, Gaps, Phase, Run, tally};
use crate::trial::kill;

/// Seed of the schedules.
const GAPS: u64 = 1 << 50;

/// Arguments of `answers`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Answers {
    /// Answers that grow at once, each in a timeline of its own, written by a connection of its own
    #[arg(long, default_value_t = 100, value_parser = count::<u64>)]
    answers: u64,
    /// Tokens a second of each
    #[arg(long, default_value_t = 20.0, value_parser = rate)]
    rate: f64,
    /// Viewers of each, each on a connection of its own; 0 = nobody looks
    #[arg(long, default_value_t = 3)]
    viewers: u64,
    /// Tokens of a whole answer; then the next one begins
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    tokens: u64,
    /// Have one part of an answer on its way at a time, and make one of all tokens that fall due meanwhile, as
    /// Tideline's clients do; without it each token is a part, sent when it is due
    #[arg(long)]
    join: bool,
    /// One of so many parts is sent twice, as after a lost answer, and the message is read; 0 = none
    #[arg(long, default_value_t = 50)]
    repeats: u64,
    /// One of so many viewers loses its connection again and again and goes on where it was; 0 = none. Its latency does
    /// not count
    #[arg(long, default_value_t = 3)]
    cut: u64,
    /// How long parts may gather before they are pushed to a viewer, ms; 0 = not at all
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000))]
    window_ms: u64,
    /// Kill the server so often meanwhile; needs --binary
    #[arg(long, default_value_t = 0)]
    kills: u32,
}

impl Profile for Answers {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let viewers = self.answers * self.viewers;
        need_files(run, self.answers + viewers)?;
        let ways = Ways {
            length: self.tokens,
            repeats: self.repeats,
            is_joined: self.join,
            window_ms: self.window_ms,
        };
        let book = Book::new(run, self.answers, ways);
        let is_cut = |number: u64| {
            number
                .checked_rem(self.cut)
                .is_some_and(|rest| rest + 1 == self.cut)
        };
        let viewing = (0..viewers).map(|number| {
            let lane = (number / self.viewers) as usize;
            Viewer::new(&book, lane, number, is_cut(number)).run()
        });
        let writing = async {
            while book.following.get() < viewers {
                sleep(Duration::from_millis(5)).await;
            }
            let clocks = book.lanes.iter().map(|lane| self.keep_time(run, lane));
            let writers = book.lanes.iter().map(|lane| writer::run(&book, lane));
            let all = self.answers as f64 * self.rate * run.setup.seconds;
            let killing = kill(run, self.kills, all as u64, &book.acks);
            let measuring = async {
                run.measure().await;
                Ok::<(), Stop>(())
            };
            Box::pin(futures_util::future::try_join4(
                try_join_all(clocks),
                try_join_all(writers),
                killing,
                measuring,
            ))
            .await
        };
        let together = futures_util::future::try_join(try_join_all(viewing), writing);
        Box::pin(together).await?;
        if run.checks.faults() == 0 {
            self.read_back(&book).await?;
        }
        self.figures(&book, viewers);
        Ok(())
    }
}

impl Answers {
    /// Says what is due, until the run ends.
    async fn keep_time(&self, run: &Run, lane: &Lane) -> Result<(), Stop> {
        // Not all of them in the same moment.
        let part = lane.number as f64 / self.answers as f64 / self.rate;
        let pace = run.pace(self.rate, Gaps::Fixed, GAPS + lane.number as u64);
        let mut pace = pace.after(Duration::from_secs_f64(part));
        while run.phase() != Phase::Ending {
            tokio::select! {
                () = pace.wait() => {}
                () = run.ended() => {}
            }
            let now = Instant::now();
            while let Some(at) = pace.due(now) {
                lane.due.borrow_mut().push_back(at);
            }
            lane.news.notify_one();
        }
        lane.is_full.set(true);
        lane.news.notify_one();
        Ok(())
    }

    /// Each answer must be there as it was written.
    async fn read_back(&self, book: &Book) -> Result<(), Stop> {
        let (run, mut client) = (&book.run, Client::open(&book.run.url).await?);
        for lane in &book.lanes {
            let stored = tally::whole::<Shown>(&mut client, &lane.timeline).await?;
            let closed = lane.closed.borrow();
            let name = &lane.timeline;
            for (message, parts) in stored.messages.iter().zip(closed.iter()) {
                let is_whole =
                    message.parts == *parts && message.outcome.as_deref() == Some("done");
                let checked = check(lane, message).err();
                let odd =
                    checked.or_else(|| (!is_whole).then(|| "it is not as it was closed".into()));
                if let Some(odd) = odd {
                    let sequence = message.sequence;
                    run.checks
                        .fault(format_args!("{name}: {sequence}, read back: {odd}"));
                }
            }
            if stored.messages.len() != closed.len() {
                let (found, due) = (stored.messages.len(), closed.len());
                run.checks
                    .fault(format_args!("{name}: {found} answers are there, of {due}"));
            }
            let tokens = (1..=closed.len()).map(|answer| lane.written(answer as u64).1);
            run.checks.made("tokens read back", tokens.sum());
        }
        Ok(())
    }

    fn figures(&self, book: &Book, viewers: u64) {
        let run = &book.run;
        let (deliveries, bytes) = (book.deliveries.get(), book.bytes.get() as f64);
        run.rate("deliveries_per_second", deliveries);
        run.rate("tokens_per_second", book.acks.count());
        run.rate("parts_per_second", book.parts.get());
        let per = |name: &str, all: f64, count: u64, unit: &str| {
            if count > 0 {
                run.figure(name, all / count as f64, unit, Better::Lower);
            }
        };
        let each_second = bytes / run.window.length().as_secs_f64().max(0.001);
        per("bytes_per_viewer_and_second", each_second, viewers, "bytes");
        per("bytes_per_token_and_viewer", bytes, deliveries, "bytes");
        if let Some(used) = run.value("server_cpu_seconds") {
            per("server_cpu_per_delivery", used * 1e9, deliveries, "ns");
            per("server_cpu_per_token", used * 1e9, book.acks.count(), "ns");
        }
    }
}
