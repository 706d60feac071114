//! Subscribers that are cut again and again and go on where they were.
//!
//! Owns: when they are cut. Promises: from the first subscription to the end each message comes once, in order, over
//! all connections of a subscriber; at the end it has come as far as was acknowledged; or it is a fault. Must not: know
//! who appends.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Mixed, SIZE};
use crate::audience::{self, Account, Member, Writers};
use crate::exit::Stop;
use crate::random::Random;
use crate::run::{Better, Counts, Phase, Run};

/// All subscribers of a run.
pub(super) struct Subscribers {
    account: Rc<Account>,
    living: Vec<JoinHandle<Member>>,
}

impl Subscribers {
    /// One for each list of timelines, all subscribed before the first message.
    pub(super) async fn open(
        run: &Rc<Run>,
        mixed: &Mixed,
        timelines: impl Iterator<Item = String>,
        follows: impl Iterator<Item = Vec<u64>>,
    ) -> Result<Subscribers, Stop> {
        let (writers, measured) = (Writers::Others, Some(Counts::Ended));
        let (account, members) = Account::new(run, writers, measured, SIZE, timelines, follows);
        let members = audience::open(&account, members).await?;
        // How many messages will come is not known.
        account.expect(|_| u64::MAX);
        let connected = run.gauge("subscribers");
        connected.set(members.len() as f64);
        let live = |(number, member): (u64, Member)| {
            let random = Random::new(run.seed_of((1 << 38) + number));
            let (mean, connected) = (mixed.cut_seconds, Rc::clone(&connected));
            member.live(async move |member| cut(member, mean, random, &connected).await)
        };
        let living = (0..).zip(members).map(live).collect();
        Ok(Subscribers { account, living })
    }

    /// Waits until each has as much as was acknowledged, and enters what they did.
    pub(super) async fn end(self, acked: &[u32]) -> Result<(), Stop> {
        let (run, counts) = (&self.account.run, &self.account.counts);
        self.account.expect(|timeline| acked[timeline].into());
        audience::end(&self.account, self.living).await?;
        let resumed = counts.resumed.get();
        let pushed = counts.deliveries.get() - resumed;
        run.checks.made("messages pushed in order", pushed);
        run.checks.made("messages resumed in order", resumed);
        for (name, count) in [("cuts", &counts.cuts), ("resumes", &counts.resumes)] {
            run.figure(name, count.get() as f64, "1", Better::Neither);
        }
        Ok(())
    }
}

/// A habit: loses its connection after `mean` seconds on average, if not 0, and comes back at once.
async fn cut(
    member: &mut Member,
    mean: f64,
    mut random: Random,
    connected: &Cell<f64>,
) -> io::Result<()> {
    if mean == 0.0 {
        return member.attend().await;
    }
    loop {
        let pause = Duration::from_secs_f64(mean * (0.5 + random.unit()));
        if let Ok(lost) = timeout(pause, member.attend()).await {
            return lost;
        }
        let Account { run, counts, .. } = &*member.account;
        let measuring = run.phase() == Phase::Measuring;
        counts.cuts.update(|cuts| cuts + u64::from(measuring));
        connected.update(|connected| connected - 1.0);
        // A reply need not have all that was missed: the rest comes live.
        member.connect(Some(1 + random.below(200))).await?;
        connected.update(|connected| connected + 1.0);
    }
}
