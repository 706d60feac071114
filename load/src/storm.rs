//! `storm`: many clients of shared timelines lose their connections at once, miss messages, and all come back at once.
//!
//! Owns: the order of events: everybody follows, the cut, what is missed, the return, one last message to all.
//! Promises: time counts from the first connect of the return until every client is at every head; each message of
//! each reply and push is the next one and what was sent; a client that is not there at the end is a fault. Must not:
//! help the server by spreading the return: real clients would, and it must do without.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use crate::exit::Stop;
use crate::follower::{Follower, Place};
use crate::ledger::{Intake, Ledger, Numbering};
use crate::outcome::Better;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::{Counts, Recorder};
use crate::run::Run;
use crate::setup::Setup;
use crate::tally::Tally;
use crate::template::timeline_name;

/// Messages of each timeline before anybody comes.
const BEFORE: u64 = 2;
/// A client that is not there within this is lost.
const PATIENCE: Duration = Duration::from_secs(60);

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
        let prefix = run.prefix(None, "storm");
        self.append(run, &prefix, BEFORE).await?;
        let (hall, clients) = self.hall(run, &prefix);
        hall.intake.ledger.expect(BEFORE);
        run.tell("everybody comes");
        let mut clients = all(clients, |client| Rc::clone(&hall).come(client)).await?;
        if hall.intake.ledger.failed() {
            hall.close(run, &clients);
            return Ok(());
        }
        run.tell("cut");
        clients.iter_mut().for_each(Follower::cut);
        let away = Duration::try_from_secs_f64(self.away).unwrap_or_default();
        let back = Instant::now() + away;
        self.append(run, &prefix, self.behind).await?;
        hall.intake.ledger.expect(self.behind);
        tokio::time::sleep_until(back).await;
        run.tell("everybody comes back");
        run.begin().await;
        hall.began.set(Instant::now());
        let clients = all(clients, |client| Rc::clone(&hall).come(client)).await?;
        run.finish().await;
        self.tell(run, hall.last.get() - hall.began.get());
        run.tell("one more message to each timeline");
        hall.intake.ledger.expect(1);
        let sent = Instant::now();
        let (clients, sending) = tokio::join!(
            all(clients, |client| Rc::clone(&hall).listen(client)),
            self.append(run, &prefix, 1)
        );
        sending?;
        let took = sent.elapsed().as_secs_f64();
        run.figure("last_message_to_all", took, "s", Better::Lower);
        hall.close(run, &clients?);
        Ok(())
    }
}

/// Does the same with all clients, each in a task of its own, and waits for the last.
async fn all<F: Future<Output = Follower> + 'static>(
    clients: Vec<Follower>,
    work: impl Fn(Follower) -> F,
) -> Result<Vec<Follower>, Stop> {
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| spawn_local(work(client)))
        .collect();
    let clients = join_all(tasks).await.into_iter().collect::<Result<_, _>>();
    clients.map_err(|error| Stop::Own(format!("a client's task: {error}")))
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
        let messages = each * self.timelines;
        let tally = Tally::new(prefix.to_owned(), self.timelines, messages);
        tally.fill(run, self.size, false).await
    }

    /// The clients, and what they share.
    fn hall(&self, run: &Rc<Run>, prefix: &str) -> (Rc<Hall>, Vec<Follower>) {
        let mut followers = vec![0; self.timelines as usize];
        let mut choose = |number: usize| {
            let mut random = Random::new(run.seed_of(number as u64));
            let chosen = random.some(self.per_client, self.timelines);
            chosen
                .iter()
                .for_each(|timeline| followers[*timeline as usize] += 1);
            chosen
        };
        let chosen: Vec<Vec<u64>> = (0..self.clients).map(&mut choose).collect();
        let names = (0..self.timelines).map(|number| timeline_name(prefix, number));
        let timelines = names.zip(followers);
        let ledger = Ledger::new(run, timelines, Numbering::Unknown, 1, self.size);
        let client = |chosen: Vec<u64>| {
            let numbers = chosen.into_iter().map(|number| number as usize);
            Follower::new(&ledger.timelines, numbers)
        };
        let clients = chosen.into_iter().map(client).collect();
        let recorder = |name| run.recorder(name, Counts::Ended);
        let now = Cell::new(Instant::now());
        let hall = Hall {
            url: run.url.clone(),
            doors: Semaphore::new(self.connecting),
            began: now.clone(),
            last: now,
            caught_up: recorder("caught_up"),
            connect: recorder("connect"),
            resume: recorder("resume"),
            // Every push and reply is compared.
            intake: Intake::new(&ledger, 0, run.window(), 1),
        };
        (Rc::new(hall), clients)
    }

    fn tell(&self, run: &Run, took: Duration) {
        let seconds = took.as_secs_f64();
        run.figure("all_caught_up", seconds, "s", Better::Lower);
        let per_second = |count: u64| count as f64 / seconds.max(0.001);
        let resumes = self.clients as u64 * self.per_client;
        let figure = |name, count| run.figure(name, per_second(count), "1/s", Better::Higher);
        figure("resumes_per_second", resumes);
        figure("deliveries_per_second", resumes * self.behind);
    }
}

/// What all clients share.
struct Hall {
    url: String,
    doors: Semaphore,
    /// When the return began, and when the last client was there.
    began: Cell<Instant>,
    last: Cell<Instant>,
    /// From the first connect of all to a client's last head.
    caught_up: Rc<Recorder>,
    /// From a client's own connect to its open connection.
    connect: Rc<Recorder>,
    /// From a client's subscribes to its last head.
    resume: Rc<Recorder>,
    intake: Intake,
}

impl Hall {
    /// Connects when a door is free, subscribes from its positions, and reads until it is at every head.
    async fn come(self: Rc<Hall>, mut client: Follower) -> Follower {
        let came = timeout(PATIENCE, self.try_come(&mut client)).await;
        self.settle(
            &mut client,
            came.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        );
        client
    }

    /// Reads on until it is at every head.
    async fn listen(self: Rc<Hall>, mut client: Follower) -> Follower {
        let heard = timeout(PATIENCE, self.read(&mut client)).await;
        self.settle(
            &mut client,
            heard.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        );
        client
    }

    async fn try_come(&self, client: &mut Follower) -> io::Result<()> {
        let door = self.doors.acquire().await.map_err(io::Error::other)?;
        let from = Instant::now();
        client.connect(&self.url, None).await?;
        drop(door);
        let connected = Instant::now();
        client.join_all();
        self.read(client).await?;
        let now = Instant::now();
        self.last.set(now);
        self.connect.record(from, connected);
        self.resume.record(connected, now);
        self.caught_up.record(self.began.get(), now);
        Ok(())
    }

    async fn read(&self, client: &mut Follower) -> io::Result<()> {
        while self.away(client).next().is_some() {
            self.intake.read(client).await?;
            if self.intake.ledger.failed() {
                return Err(io::Error::other("gives up, as something is wrong"));
            }
        }
        Ok(())
    }

    /// A client that is lost stays so.
    fn settle(&self, client: &mut Follower, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            client.cut();
            self.intake.ledger.fault(format!("a client: {error}"));
        }
    }

    /// Where a client is not at the head.
    fn away(&self, client: &Follower) -> impl Iterator<Item = Place> {
        let ledger = &self.intake.ledger;
        let places = client.places().iter().copied();
        places.filter(|place| place.position != ledger.sent_to(place.timeline))
    }

    /// At the end: what each client lacks.
    fn close(&self, run: &Run, clients: &[Follower]) {
        let mut there = 0;
        for (number, client) in clients.iter().enumerate() {
            there += u64::from(self.away(client).next().is_none());
            for Place {
                timeline, position, ..
            } in self.away(client)
            {
                let name = &self.intake.ledger.timelines[timeline];
                let from = position + 1;
                run.checks
                    .fault(format_args!("client {number} lacks {name} from {from}"));
            }
        }
        run.checks.made("clients with everything", there);
        self.intake.ledger.close(&run.checks, &self.intake.counts());
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        storm: Storm,
    }

    #[test]
    fn a_client_that_is_not_at_the_head_is_a_fault_at_the_end() {
        let line = [
            "storm",
            "--clients",
            "1",
            "--timelines",
            "2",
            "--per-client",
            "2",
        ];
        let storm = Line::parse_from(line).storm;
        let run = Run::new(&storm.setup, "ws://nowhere".into(), None);
        let (hall, clients) = storm.hall(&run, "t");
        hall.close(&run, &clients);
        assert_eq!(run.checks.faults(), 0);
        hall.intake.ledger.expect(1);
        hall.close(&run, &clients);
        let faults = run.checks.checked().told;
        for number in 0..2 {
            let lacks = format!("client 0 lacks {} from 1", timeline_name("t", number));
            assert!(
                faults.iter().any(|fault| fault.contains(&lacks)),
                "{faults:?}"
            );
        }
    }
}
