//! `storm`: many clients of shared timelines lose their connections at once, miss messages, and all come back at once.
//!
//! Owns: the order of events: everybody follows, the cut, what is missed, the return, one last message to all.
//! Promises: time counts from the first connect of the return until every client stands at every head; each message of
//! each reply and push is the next one and what was sent; who is not there at the end is a fault. Must not: help the
//! server by spreading the return: real clients would, and it must do without.

mod board;
mod client;

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::exit::Stop;
use crate::outcome::Better;
use crate::preload::Preload;
use crate::profile::{Profile, need_files};
use crate::run::Run;
use crate::setup::Setup;
use crate::template::MessageIds;
use board::Board;
use client::Client;

/// Messages that stand in each timeline before anybody comes.
const BEFORE: u64 = 2;

/// Arguments of `storm`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Storm {
    /// What every profile has; warm-up and seconds are not used: the storm is over when everybody has caught up
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Clients, each a connection
    #[arg(long, default_value_t = 5_000)]
    pub clients: usize,
    /// Timelines that the clients share
    #[arg(long, default_value_t = 1_000)]
    pub timelines: u64,
    /// Timelines that each client follows, chosen at random
    #[arg(long, default_value_t = 10)]
    pub per_client: u64,
    /// Messages that go to each timeline while the clients are away: each is behind by --per-client times this
    #[arg(long, default_value_t = 10)]
    pub behind: u64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// Handshakes that may be under way at a time, both before the cut and in the return
    #[arg(long, default_value_t = 5_000)]
    pub connecting: usize,
    /// Seconds that the clients are away, at least
    #[arg(long, default_value_t = 1.0)]
    pub away: f64,
}

impl Profile for Storm {
    const NAME: &'static str = "storm";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        need_files(run, self.clients as u64)?;
        let prefix = format!("storm-{}/", run.tag);
        self.append(run, &prefix, BEFORE).await?;
        let board = Board::new(run, &prefix, self.timelines, self.size);
        let board = Rc::new(board);
        let doors = Rc::new(Semaphore::new(self.connecting));
        board.heads_are(BEFORE);
        run.tell("everybody comes");
        let clients = (0..self.clients).map(|number| Client::new(&board, number, self.per_client));
        let clients = all(clients, |client| client.come(Rc::clone(&doors))).await?;
        // What went wrong so far would only be told again.
        let mut clients = if run.checks.faults() > 0 {
            return Ok(());
        } else {
            clients
        };
        run.tell("cut");
        clients.iter_mut().for_each(Client::cut);
        let away = Duration::try_from_secs_f64(self.away).unwrap_or_default();
        let back = Instant::now() + away;
        self.append(run, &prefix, self.behind).await?;
        board.heads_are(BEFORE + self.behind);
        tokio::time::sleep_until(back).await;
        run.tell("everybody comes back");
        run.begin().await;
        board.begin();
        let clients = all(clients, |client| client.come(Rc::clone(&doors))).await?;
        run.finish().await;
        self.tell(run, &board);
        run.tell("one more message to each timeline");
        board.heads_are(BEFORE + self.behind + 1);
        let sent = Instant::now();
        let sending = self.append(run, &prefix, 1);
        let (clients, sending) = tokio::join!(all(clients, Client::listen), sending);
        sending?;
        let took = sent.elapsed().as_secs_f64();
        run.figure("last_message_to_all", took, "s", Better::Lower);
        board.close(&clients?);
        Ok(())
    }
}

/// Does the same with all clients, each in a task of its own, and waits for the last.
async fn all<F: Future<Output = Client> + 'static>(
    clients: impl IntoIterator<Item = Client>,
    work: impl Fn(Client) -> F,
) -> Result<Vec<Client>, Stop> {
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| spawn_local(work(client)))
        .collect();
    let mut clients = Vec::with_capacity(tasks.len());
    for task in tasks {
        let client = task.await;
        clients.push(client.map_err(|error| Stop::Own(format!("a client's task: {error}")))?);
    }
    Ok(clients)
}

impl Storm {
    fn check(&self) -> Result<(), Stop> {
        let counts = [self.timelines, self.per_client, self.behind];
        if self.clients == 0 || self.connecting == 0 || counts.contains(&0) {
            return Err(Stop::Usage("a count of 0".into()));
        }
        if self.per_client > self.timelines {
            return Err(Stop::Usage(format!(
                "{} timelines of {} for each client",
                self.per_client, self.timelines
            )));
        }
        Ok(())
    }

    /// Appends so many messages to each timeline, and waits until they are acknowledged.
    async fn append(&self, run: &Run, prefix: &str, each: u64) -> Result<(), Stop> {
        let preload = Preload {
            messages: each * self.timelines,
            timelines: self.timelines,
            size: self.size,
            ids: MessageIds::None,
        };
        preload.fill(run, prefix).await
    }

    fn tell(&self, run: &Run, board: &Board) {
        let seconds = board.took().as_secs_f64();
        run.figure("all_caught_up", seconds, "s", Better::Lower);
        let per_second = |count: u64| count as f64 / seconds.max(0.001);
        let resumes = self.clients as u64 * self.per_client;
        let rate = per_second(resumes);
        run.figure("resumes_per_second", rate, "1/s", Better::Higher);
        let rate = per_second(resumes * self.behind);
        run.figure("deliveries_per_second", rate, "1/s", Better::Higher);
    }
}
