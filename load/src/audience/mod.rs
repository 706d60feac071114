//! An audience: members that follow timelines, some of which append, and one account of what was sent and what came.
//!
//! Owns: how members come, live by a habit, and end. Promises: what a member hears goes into the account; at the end
//! each has come as far as was acknowledged, or it is a fault. Must not: decide when a member is cut, or stops reading:
//! those are habits of profiles. All of it is on one thread.
//!
//! Use: `Account::new`, `open`, `Member::live` for each, `by_the_clock`, `end`.

mod account;
mod sent;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, timeout, timeout_at};

use crate::client::pace::Pace;
use crate::client::pipe::Way;
use crate::exit::{self, Stop};
use crate::follower::{Event, Follower, Place, Stage};
use crate::run::Phase;
pub(crate) use account::{Account, Writers};

/// A member that has not caught up within this is lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Messages may come until so long after the end.
const AT_END: Duration = Duration::from_secs(30);
/// After so long without any answer, none will come.
const SILENCE: Duration = Duration::from_secs(5);
/// Members read on for so long at the end: a message that comes then is one too many.
const LINGER: Duration = Duration::from_millis(50);
/// So many messages without an answer mean that the server does not keep up.
const UNANSWERED_MAX: u64 = 50_000;

/// One connection, and how far it is.
pub(crate) struct Member {
    pub(crate) account: Rc<Account>,
    pub(crate) follower: Follower,
    /// The latency of what it is pushed counts.
    pub(crate) timed: bool,
    pub(crate) way: Way,
    number: usize,
}

impl Member {
    /// Connects, in place of the connection it had, and subscribes from its positions, with at most so many messages in
    /// each reply.
    pub(crate) async fn connect(&mut self, limit: Option<u64>) -> io::Result<()> {
        let url = &self.account.run.url;
        self.follower.connect(url, self.way).await?;
        let places = 0..self.follower.places().len();
        places.for_each(|place| self.follower.join(place, limit));
        Ok(())
    }

    /// Reads once. Cancel-safe. At a cluster's nodes, one that only follows comes again where it is lost, or refused
    /// for now.
    async fn read(&mut self) -> io::Result<()> {
        let (account, timed, number) = (&self.account, self.timed, self.number);
        let (returns, refused) = (account.returns(), Cell::new(false));
        let hear = |event: Event<'_>| match event {
            Event::Draining if returns => Ok(()),
            Event::Refused(refusal) if returns && refusal.data.retry => {
                refused.set(true);
                Ok(())
            }
            event => account.hear(&event, timed),
        };
        let read = self.follower.read(hear, |what| account.fault(number, what));
        match read.await {
            Err(_) if returns => {}
            Ok(()) if refused.get() => {}
            read => return read,
        }
        self.follower.cut();
        account.run.add("reconnects", 1);
        self.connect(None).await
    }

    /// A habit: reads all the time, so that the server never waits for it, until the connection is lost; and sends what
    /// it is to append. Cancel-safe.
    pub(crate) async fn attend(&mut self) -> io::Result<()> {
        let account = Rc::clone(&self.account);
        let desk = &account.desks[self.number];
        let appends = self.follower.places().is_empty() || account.writers == Writers::Many;
        loop {
            self.follower.out().append(&mut desk.frames.borrow_mut());
            tokio::select! {
                biased;
                read = self.read() => read?,
                () = desk.news.notified(), if appends => {}
            }
        }
    }

    /// A habit: connects, subscribes, and catches up.
    pub(crate) async fn come(&mut self) -> io::Result<()> {
        self.connect(None).await?;
        self.catch_up().await
    }

    /// A habit: reads until it is subscribed and has all that is acknowledged, or something is wrong. Cancel-safe.
    pub(crate) async fn catch_up(&mut self) -> io::Result<()> {
        let account = Rc::clone(&self.account);
        let has = |place: &Place| place.position >= account.length(place.timeline);
        let behind = |place: &Place| place.stage != Stage::Live || !has(place);
        let reading = async {
            while account.run.checks.faults() == 0 && self.follower.places().iter().any(behind) {
                self.read().await?;
            }
            Ok(())
        };
        timeout(PATIENCE, reading).await?
    }

    /// Lives by a habit in a task of its own, until that ends or nothing more is to come. A connection that it loses is
    /// a fault.
    pub(crate) fn live(
        mut self,
        habit: impl AsyncFnOnce(&mut Member) -> io::Result<()> + 'static,
    ) -> JoinHandle<Member> {
        let mut over = self.account.over.subscribe();
        spawn_local(async move {
            let lived = tokio::select! {
                biased;
                lived = habit(&mut self) => lived,
                _ = over.changed() => self.finish(*over.borrow()).await,
            };
            if let Err(error) = lived {
                self.account.fault(self.number, error);
            }
            self
        })
    }

    /// Comes back if it was away, reads to the end, and a little longer.
    async fn finish(&mut self, until: Instant) -> io::Result<()> {
        let catching_up = async {
            let mut places = self.follower.places().iter();
            if places.any(|place| place.stage == Stage::Out) {
                self.connect(None).await?;
            }
            self.catch_up().await
        };
        timeout_at(until, catching_up).await??;
        let more = timeout(LINGER, self.attend()).await;
        more.unwrap_or(Ok(()))
    }
}

/// All members come. The error: one has no connection. Another fault ends the run, which has a result.
pub(crate) async fn open(account: &Account, members: Vec<Member>) -> Result<Vec<Member>, Stop> {
    let come = async |mut member: Member| match member.come().await {
        Ok(()) => Ok(member),
        Err(error) => {
            let lost = format!("follower {}: {error}", member.number);
            Err(Stop::Unreachable(lost))
        }
    };
    let came = try_join_all(members.into_iter().map(come)).await;
    if account.run.checks.faults() > 0 {
        account.run.end_early();
        return Ok(came.unwrap_or_default());
    }
    came
}

/// All members do the same, each in a task of its own. Returns them when the last one is through.
pub(crate) async fn all(
    members: Vec<Member>,
    habit: impl AsyncFnOnce(&mut Member) -> io::Result<()> + Clone + 'static,
) -> Result<Vec<Member>, Stop> {
    let live = |member: Member| member.live(habit.clone());
    exit::all(members.into_iter().map(live).collect()).await
}

/// Waits until nothing is on its way any more, or something is wrong, or it takes too long; then ends all habits, and
/// enters what was checked, what is missing, and the rates. Returns how many deliveries belong to the measurement.
pub(crate) async fn end(account: &Account, living: Vec<JoinHandle<Member>>) -> Result<u64, Stop> {
    let (run, counts) = (&account.run, &account.counts);
    let complete = || account.unanswered() == 0 && counts.reached >= counts.acked;
    let mut until = Instant::now() + AT_END;
    run.checks.wait_for(complete).await;
    // What waits at the server is answered bit by bit: the rate was too high. What is lost is not.
    while account.by_clock && account.unanswered() > 0 && run.checks.faults() == 0 {
        let answered = counts.answered.get();
        // The error: there is more to wait for.
        let _ = timeout(SILENCE, run.checks.wait_for(complete)).await;
        if counts.answered.get() == answered {
            break;
        }
        run.invalid(format!(
            "the server does not keep up with the rate: answers came {AT_END:?} after the end"
        ));
        until = Instant::now() + AT_END;
    }
    account.over.send_replace(until);
    account.close(&exit::all(living).await?);
    if let Some(acks) = &account.acks {
        run.rate("appends_per_second", acks.count());
    }
    let delivered = counts.measured.get();
    run.rate("deliveries_per_second", delivered);
    Ok(delivered)
}

/// Lets `put` put a message whenever one is due, until the run ends. Ends a run that the server does not keep up with:
/// latency would be that of the queue here.
pub(crate) async fn by_the_clock(account: &Account, mut pace: Pace, mut put: impl FnMut(Instant)) {
    let run = &account.run;
    while run.phase() != Phase::Ending && run.checks.faults() == 0 {
        tokio::select! {
            () = pace.wait() => {}
            () = run.ended() => break,
        }
        let now = Instant::now();
        while let Some(scheduled) = pace.due(now) {
            put(scheduled);
        }
        if account.unanswered() > UNANSWERED_MAX {
            run.invalid(format!(
                "the server does not keep up with the rate: {UNANSWERED_MAX} messages without an answer"
            ));
            break;
        }
    }
    run.end_early();
}
