//! A trial: writers and subscribers on a server that is killed under them, and the verdict. `replay` and `crash` are
//! two of them.
//!
//! Owns: the order of things. Promises: subscribers are there before the first message; the verdict covers every
//! message. Must not: know where messages come from, or when the server is killed.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::{try_join, try_join_all};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::exit::Stop;
use crate::judge::{Saw, Shared, Verdict, joined, judge};
use crate::process::Server;
use crate::subscriber::{self, Habit};
use crate::writer::{self, Outgoing};

/// Spawns subscribers: so many of each habit, who share all timelines among them.
pub(crate) fn listen(
    shared: &Arc<Shared>,
    habits: &[Habit],
    of_each: usize,
    lengths: &[u64],
) -> Vec<JoinHandle<Result<Saw, Stop>>> {
    let seed = shared.verdict().seed;
    let mut listening = Vec::new();
    for habit in habits {
        for first in 0..of_each {
            let follows = lengths.iter().copied().enumerate();
            let follows = follows.skip(first).step_by(of_each).collect();
            let number = listening.len();
            listening.push(tokio::spawn(subscriber::run(
                Arc::clone(shared),
                format!("{habit:?}-{number}"),
                *habit,
                follows,
                seed ^ (number as u64 + 77),
            )));
        }
    }
    listening
}

/// Runs the writers to their end, while `kills` kills the server and starts it again, and judges what all of them saw.
pub(crate) async fn run<S>(
    shared: &Arc<Shared>,
    listening: Vec<JoinHandle<Result<Saw, Stop>>>,
    writers: impl Iterator<Item = (writer::Options, S)>,
    kills: impl Future<Output = Result<Option<Server>, Stop>>,
) -> Result<Verdict, Stop>
where
    S: Iterator<Item = Option<Outgoing>> + Send + 'static,
{
    // Those from the start are to be there before the first message.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let write = |(options, source)| tokio::spawn(writer::run(Arc::clone(shared), options, source));
    let writing: Vec<_> = writers.map(write).collect();
    let began = Instant::now();
    let writing = async {
        let wrote = try_join_all(writing.into_iter().map(joined)).await?;
        shared.verdict().seconds = began.elapsed().as_secs_f64();
        shared.written.store(true, Ordering::Release);
        Ok(wrote)
    };
    // The server lives until all is read back: dropping it stops it.
    let (wrote, _server) = try_join(writing, kills).await?;
    shared.bar.finish_and_clear();
    let saw = try_join_all(listening.into_iter().map(joined)).await?;
    judge(shared, wrote, saw).await
}

/// Kills the server and starts it again.
pub(crate) async fn kill(shared: &Shared, server: Server) -> Result<Server, Stop> {
    let began = Instant::now();
    let server = joined(spawn_blocking(move || server.again())).await?;
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut verdict = shared.verdict();
    verdict.kills += 1;
    verdict.ready_ms_max = verdict.ready_ms_max.max(took);
    Ok(server)
}
