//! Questions over a link that may be slow, or lose them.
//!
//! Owns: when one is asked again. Promises: the first answer to any asking counts: on a slow link it is on its way, and
//! would come no sooner for being asked for again. Must not: know what is asked.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until, timeout};

/// What has no answer is asked again after this time, and then after twice the time of before …
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(450);
/// … but not after more than this.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// What was refused for the moment is asked again after this time.
const REFUSED_WAIT: Duration = Duration::from_millis(100);

/// Asks until there is an answer; an error says what came instead of it for so long. `longest` is the longest time
/// between two askings: what is small may be asked often.
pub(crate) async fn ask<T, A>(
    patience: Duration,
    longest: Duration,
    ask: impl Fn() -> A,
) -> Result<T, String>
where
    A: Future<Output = Result<T, String>>,
{
    let mut refused = "no answer".to_owned();
    let answered = timeout(patience, async {
        let (mut asked, mut wait) = (FuturesUnordered::new(), FIRST_WAIT);
        loop {
            asked.push(ask());
            let mut again = Instant::now() + wait;
            wait = longest.min(2 * wait);
            loop {
                tokio::select! {
                    Some(answer) = asked.next() => match answer {
                        Ok(answer) => return answer,
                        Err(why) => {
                            refused = why;
                            if asked.is_empty() {
                                again = again.min(Instant::now() + REFUSED_WAIT);
                                wait = FIRST_WAIT;
                            }
                        }
                    },
                    () = sleep_until(again) => break,
                }
            }
        }
    });
    let answered = answered.await;
    answered.map_err(|_| refused)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Asks what is answered after some time, or refused so often before.
    fn asked(
        answer_ms: Option<u64>,
        refusals: u32,
        longest: Duration,
    ) -> (Result<u32, String>, u32, u64) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (count, began) = (Cell::new(0), Instant::now());
            let answer = ask(Duration::from_secs(10), longest, || {
                count.set(count.get() + 1);
                let number = count.get();
                async move {
                    if number <= refusals {
                        return Err(format!("refused {number}"));
                    }
                    match answer_ms {
                        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                        None => std::future::pending().await,
                    }
                    Ok(number)
                }
            });
            let answer = answer.await;
            let ms = u64::try_from(began.elapsed().as_millis()).expect("some seconds");
            (answer, count.get(), ms)
        })
    }

    #[test]
    fn an_answer_that_takes_its_time_counts() {
        assert_eq!(asked(Some(20), 0, LONGEST_WAIT), (Ok(1), 1, 20));
        // Asked again at 450, 1,350 and 3,150 ms.
        assert_eq!(asked(Some(6_000), 0, LONGEST_WAIT), (Ok(1), 4, 6_000));
        assert_eq!(asked(Some(1_000), 0, FIRST_WAIT), (Ok(1), 3, 1_000));
    }

    #[test]
    fn what_is_refused_is_asked_again_soon_and_what_is_silent_in_the_end_not() {
        assert_eq!(asked(Some(5), 3, LONGEST_WAIT), (Ok(4), 4, 305));
        assert_eq!(
            asked(None, 0, LONGEST_WAIT),
            (Err("no answer".to_owned()), 5, 10_000)
        );
        let (answer, ..) = asked(None, u32::MAX, LONGEST_WAIT);
        assert!(answer.is_err_and(|why| why.starts_with("refused ")));
    }
}
