//! `storm`: many clients of shared timelines lose their connections at once, miss messages, and all come back at once.
//!
//! Owns: the order of events: everybody follows, the cut, what is missed, the return, one last message to all.
//! Promises: time counts from the first connect of the return until every client is at every head; each message of
//! each reply and push is the next one and what was sent; a client that is not there at the end is a fault. Must not:
//! help the server by spreading the return: real clients would, and it must do without.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use crate::audience;
use crate::audience::{Account, Member, Writers};
use crate::client::generator::count;
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::tally::Tally;
use crate::run::{Better, Counts, Run};

/// Messages of each timeline before anybody comes.
const BEFORE: u64 = 2;
/// The clients are away for so long, at least.
const AWAY: Duration = Duration::from_secs(1);

/// Arguments of `storm`; warm-up and seconds are not used: it is over when everybody has caught up.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Storm {
    /// Clients, each a connection
    #[arg(long, default_value_t = 5_000, value_parser = count::<u64>)]
    clients: u64,
    /// Timelines that the clients share
    #[arg(long, default_value_t = 1_000)]
    timelines: u64,
    /// Timelines that each client follows, chosen at random
    #[arg(long, default_value_t = 10, value_parser = count::<u64>)]
    per_client: u64,
    /// Messages that go to each timeline while the clients are away: each is behind by --per-client times this
    #[arg(long, default_value_t = 10, value_parser = count::<u64>)]
    behind: u64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    size: usize,
}

impl Profile for Storm {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        if self.per_client > self.timelines {
            return Err(Stop::Usage("--per-client is more than --timelines".into()));
        }
        need_files(run, self.clients)?;
        let prefix = run.prefix("storm");
        self.append(run, &prefix, BEFORE).await?;
        let (account, clients) = self.audience(run, &prefix);
        account.expect(|_| BEFORE);
        run.tell("everybody comes");
        let mut clients = audience::all(clients, Member::come).await?;
        run.tell("cut");
        clients.iter_mut().for_each(|client| client.follower.cut());
        let back = Instant::now() + AWAY;
        self.append(run, &prefix, self.behind).await?;
        account.expect(|_| BEFORE + self.behind);
        sleep_until(back).await;
        run.tell("everybody comes back");
        let clients = self.come_back(run, clients).await?;
        run.tell("one more message to each timeline");
        account.expect(|_| BEFORE + self.behind + 1);
        let sent = Instant::now();
        let (clients, sending) = tokio::join!(
            audience::all(clients, Member::catch_up),
            self.append(run, &prefix, 1)
        );
        sending?;
        let took = sent.elapsed().as_secs_f64();
        run.figure("last_message_to_all", took, "s", Better::Lower);
        account.close(&clients?);
        Ok(())
    }
}

impl Storm {
    /// Appends so many messages to each timeline, and waits until they are acknowledged.
    async fn append(&self, run: &Run, prefix: &str, each: u64) -> Result<(), Stop> {
        let messages = each * self.timelines;
        let tally = Tally::new(prefix.to_owned(), self.timelines, messages);
        tally.fill(run, self.size, false).await
    }

    /// The clients, and the account of what they are to get.
    fn audience(&self, run: &Rc<Run>, prefix: &str) -> (Rc<Account>, Vec<Member>) {
        let choose = |client| {
            let mut random = Random::new(run.seed_of(client));
            random.some(self.per_client, self.timelines)
        };
        let follows = (0..self.clients).map(choose);
        Account::new(run, Writers::Others, None, self.size, prefix, follows)
    }

    /// All clients come back at once: that is what is measured.
    async fn come_back(&self, run: &Rc<Run>, clients: Vec<Member>) -> Result<Vec<Member>, Stop> {
        // From the first connect of all, from a client's own connect, and from its subscribes.
        let names = ["caught_up", "connect", "resume"];
        let [caught_up, connect, resume] = names.map(|name| run.recorder(name, Counts::Ended));
        run.begin().await;
        let began = Instant::now();
        let come = async move |client: &mut Member| {
            let from = Instant::now();
            client.connect(None).await?;
            let connected = Instant::now();
            client.catch_up().await?;
            let now = Instant::now();
            caught_up.record(began, now);
            connect.record(from, connected);
            resume.record(connected, now);
            Ok(())
        };
        let clients = audience::all(clients, come).await?;
        let seconds = began.elapsed().as_secs_f64();
        run.finish().await;
        run.figure("all_caught_up", seconds, "s", Better::Lower);
        let resumes = self.clients * self.per_client;
        run.rate("resumes_per_second", resumes);
        run.rate("deliveries_per_second", resumes * self.behind);
        Ok(clients)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::client::template::timeline_name;
    use crate::run::setup::plain;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        storm: Storm,
    }

    #[test]
    fn a_client_that_is_not_at_the_head_is_a_fault_at_the_end() {
        let line = "storm --clients 1 --timelines 2 --per-client 2".split(' ');
        let storm = Line::parse_from(line).storm;
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let (account, clients) = storm.audience(&run, "t");
        account.close(&clients);
        assert_eq!(run.checks.faults(), 0);
        account.expect(|_| 1);
        account.close(&clients);
        let faults = run.checks.checked().told;
        for number in 0..2 {
            let name = timeline_name("t", number);
            let lacks = format!("follower 0: {name} came as far as 0 of 1");
            assert!(faults.contains(&lacks), "{faults:?}");
        }
    }
}
