//! Rows that have expired.
//!
//! Owns: when they go out of an index, and when those are put in again of which some columns have expired. Promises:
//! what goes out does not show, and if it shows again, because rows live longer by then, the index is made anew. Must
//! not: hide them; each search leaves them out by itself.

use std::collections::BTreeSet;

use tideline_model::search::SearchIndex;
use tideline_table::{Table, key_values};

use super::{Follower, Halt, Work, blocking};

/// After one look for expired rows the next one comes, by the clock that they expire by.
const SWEEP_EVERY_MS: u64 = 60_000;
/// Rows that one look puts in again at most.
const RENEWED_MAX: usize = 100_000;

impl Follower {
    /// Takes out what has expired, if it is time for that.
    pub(super) async fn sweep(&mut self, mut work: Work) -> Result<Work, Halt> {
        let now_ms = self.tables.search_ms();
        if now_ms.abs_diff(self.swept_ms) < SWEEP_EVERY_MS {
            return Ok(work);
        }
        self.swept_ms = now_ms;
        if let Err(Halt::Tables(error)) = self.refresh().await {
            tracing::debug!(
                ?error,
                "the table of a search index is not known; asked again"
            );
            return Ok(work);
        }
        let mut indexes = self.table.search_indexes.iter();
        let Some(index) = indexes.find(|index| index.id == self.definition.id) else {
            return Ok(work);
        };
        let since_ms = since(&self.table, index, now_ms);
        let now = now_ms.cast_signed();
        if self.table.is_virtual() && tokio::task::block_in_place(|| work.index.has_expired(now))? {
            self.may_write(&mut work).await?;
            tokio::task::block_in_place(|| work.index.remove_expired(now))?;
        }
        if work.place.is_swept(since_ms) {
            return Err(Halt::Anew("its rows live longer by now".to_owned()));
        }
        if let Some(since_ms) = since_ms
            && tokio::task::block_in_place(|| work.index.has_older(since_ms))?
        {
            self.may_write(&mut work).await?;
            work = blocking(move || {
                work.index.remove_older(since_ms)?;
                Ok(work)
            })
            .await?;
            work.place.swept_ms = Some(since_ms);
        }
        let of_table = since_of(&self.table, self.table.options.time_to_live_s, now_ms);
        if let Some(since_ms) = of_table {
            let keys =
                tokio::task::block_in_place(|| work.index.partly_older(since_ms, RENEWED_MAX))?;
            let keys = keys.iter().map(|key| key_values(key));
            let keys: Result<BTreeSet<_>, _> = keys.collect();
            let keys = keys.map_err(|_| Halt::Anew("the key of a row is none".to_owned()))?;
            self.renew(&mut work, keys).await?;
        }
        Ok(work)
    }
}

/// Rows of an index show whose newest version is from this time on, ms since 1970; `None` = all.
pub(crate) fn since(table: &Table, index: &SearchIndex, now_ms: u64) -> Option<i64> {
    let lives = [table.options.time_to_live_s, index.time_to_live_s];
    let shortest_s = lives.into_iter().filter(|seconds| *seconds > 0).min();
    since_of(table, shortest_s.unwrap_or(-1), now_ms)
}

/// The same of columns that live for so many seconds; -1 = for ever.
fn since_of(table: &Table, seconds: i64, now_ms: u64) -> Option<i64> {
    let shortest_s = (seconds > 0).then_some(seconds);
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    // One that has lived for so long has ended.
    let of_life = |s: i64| {
        now_ms
            .saturating_sub(s.saturating_mul(1_000))
            .saturating_add(1)
    };
    let since_ms = shortest_s.map_or(i64::MIN, of_life);
    let since_ms = since_ms.max(table.options.expired_before_ms);
    (since_ms > i64::MIN).then_some(since_ms)
}
