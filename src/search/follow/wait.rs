//! When an index is looked at again.
//!
//! Owns: the waiting. Promises: whatever a search asks for is looked at soon; what nobody asks for, together with what
//! comes within a moment. Must not: read a log.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use tokio::time::{sleep, sleep_until, timeout};

use super::{COMMIT_EVERY, COMMIT_PAUSE, Follower, REST_MIN, Work};

impl Follower {
    /// Waits until something has happened: in a log, a map, or a search.
    pub(super) async fn wait(&mut self, work: &Work) {
        let partitions = self.tables.search_source();
        let mut maps = partitions.watch();
        maps.mark_unchanged();
        let past = work.place.positions().into_iter();
        let past = past.map(|(id, at)| partitions.tail(id).past(at).boxed());
        let news = async {
            // Of a partition that has closed this is `false` at once, each time: then the map has the news. What nobody
            // asks for waits a moment, and is read together with what comes in that time.
            let has_more = select_all(past).await.0;
            sleep(if has_more { COMMIT_PAUSE } else { REST_MIN }).await;
        };
        if work.index.is_changed() && self.is_asked {
            // All that ask until then share a commit.
            sleep_until(work.committed + COMMIT_PAUSE).await;
            return;
        }
        let longest = match work.index.is_changed() {
            true => COMMIT_EVERY.saturating_sub(work.committed.elapsed()),
            false => COMMIT_EVERY,
        };
        let any = async {
            tokio::select! {
                () = news => {}
                _ = maps.changed() => {}
                _ = self.asked.changed() => self.asked.mark_changed(),
            }
        };
        let _ = timeout(longest.max(Duration::from_millis(1)), any).await;
    }
}
