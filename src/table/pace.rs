//! How much of a processor the costly reads of one caller take.
//!
//! Owns: what each caller's reads have taken lately. Promises: those of one caller run one after the other, and on
//! average take no more of a processor than they may; others' never wait for them here. Must not: know what is read, or
//! choose among callers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;

use crate::bounds::Holder;

/// See the top.
#[derive(Default)]
pub(super) struct Pace {
    callers: Mutex<HashMap<Holder, Arc<tokio::sync::Mutex<Account>>>>,
}

/// What one caller has taken.
#[derive(Debug, Default)]
struct Account {
    /// By then, at the average, it has taken no more than it might; `None` = it has taken nothing yet.
    even: Option<Instant>,
}

/// So much of a processor is taken at once by who took nothing before.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A caller's turn; as long as it is kept the caller has no other.
pub(super) struct Turn {
    account: OwnedMutexGuard<Account>,
    percent: u32,
}

impl Pace {
    /// Waits for a caller's turn, which comes in the order in which it was asked for. Cancel-safe.
    pub(super) async fn turn(&self, of: Holder, percent: u32) -> Turn {
        let account = self.account(of).lock_owned().await;
        let wait = account.wait(Instant::now(), percent);
        tokio::time::sleep(wait).await;
        Turn { account, percent }
    }

    fn account(&self, of: Holder) -> Arc<tokio::sync::Mutex<Account>> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = callers.get(&of) {
            return Arc::clone(account);
        }
        let now = Instant::now();
        callers.retain(|_, account| match account.try_lock() {
            Ok(account) => account.even.is_some_and(|even| even > now),
            Err(_) => true,
        });
        Arc::clone(callers.entry(of).or_default())
    }
}

impl Turn {
    /// The read has taken this long.
    pub(super) fn took(&mut self, time: Duration) {
        self.account.took(Instant::now(), time, self.percent);
    }
}

impl Account {
    /// For how long the next read has to wait.
    fn wait(&self, now: Instant, percent: u32) -> Duration {
        let even = self.even.unwrap_or(now);
        let ahead = even.saturating_duration_since(now);
        ahead.saturating_sub(at_average(AT_ONCE, percent))
    }

    fn took(&mut self, now: Instant, time: Duration, percent: u32) {
        let since = self.even.map_or(now, |even| even.max(now));
        self.even = Some(since + at_average(time, percent));
    }
}

/// The time in which so much of a processor is taken on average.
fn at_average(time: Duration, percent: u32) -> Duration {
    time * 100 / percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_all_that_may_be_taken_has_taken_its_percent() {
        let begin = Instant::now();
        let (mut account, mut now) = (Account::default(), begin);
        let read = Duration::from_millis(500);
        let mut taken = Duration::ZERO;
        while now < begin + Duration::from_secs(600) {
            now += account.wait(now, 5) + read;
            account.took(now, read, 5);
            taken += read;
        }
        let most = Duration::from_secs(600) / 20 + AT_ONCE + 2 * read;
        assert!((most - 3 * read..=most).contains(&taken), "{taken:?}");
        // A while later all that may be taken at once may be taken again.
        assert_eq!(
            account.wait(now + Duration::from_secs(60), 5),
            Duration::ZERO
        );
    }

    #[tokio::test]
    async fn one_caller_has_one_turn_and_keeps_nobody_else_from_theirs() {
        let pace = Pace::default();
        let mut first = pace.turn(Holder(1), 100).await;
        let mut second = Box::pin(pace.turn(Holder(1), 100));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(pace.turn(Holder(2), 100).await);
        first.took(Duration::from_millis(1));
        drop(first);
        drop(second.await);
        // Whoever owes nothing is forgotten when somebody new comes.
        tokio::time::sleep(Duration::from_millis(2)).await;
        drop(pace.turn(Holder(3), 100).await);
        assert_eq!(pace.callers.lock().unwrap().len(), 1);
    }
}
